"""What a cluster has and how often it looks: the options of `guard render` and `guard budget`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from firstfault.errors import UsageError
from firstfault.guardrails.instances import EFA_INTERFACES, GPU_TYPES, family, has_efa

if TYPE_CHECKING:
    from firstfault.guardrails.spec import When

__all__ = [
    "FEATURES",
    "KUBERNETES_VERSIONS",
    "Intervals",
    "Mode",
    "Options",
    "Profile",
    "Source",
    "applies",
    "parse_version",
]

Profile = Literal["eks-managed", "eks-auto", "self-managed"]
Mode = Literal["audit", "enforce"]

FEATURES: dict[str, str] = {
    "kyverno": "Kyverno (admission policies)",
    "prometheus-operator": "the Prometheus Operator (PrometheusRule, PodMonitor, ServiceMonitor)",
    "karpenter": "Karpenter",
    "argocd": "Argo CD",
    "flux": "Flux",
    "gpu-operator": "the NVIDIA GPU Operator",
    "mutating-admission-policy": "MutatingAdmissionPolicy switched on by hand (beta in 1.34 and 1.35)",
}
# The versions whose schemas the tests validate against; others in between and after are accepted.
KUBERNETES_VERSIONS = ("1.30", "1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
_OLDEST = (1, 28)
# Three minor versions a year: what is further away is a slip.
_NEVER = (1, 60)
_ROLES = ("terraform_role", "load_balancer_role", "break_glass_role", "node_role")
_DAY_S = 86_400
_DNS_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_ROLE = (r"[\w+=,.@/*?-]+", "the role's name as IAM allows it: letters, digits and +=,.@_-/ (* and ? match)")
# What each name may consist of: each ends in YAML, Terraform, JSON or PromQL.
_FORMS: dict[str, tuple[str, str]] = {
    "namespace": (_DNS_LABEL, "a DNS label: lower-case letters, digits and -"),
    "exclude_namespaces": (_DNS_LABEL, "DNS labels: lower-case letters, digits and -"),
    "cluster": (r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", "the name as EKS allows it: letters, digits, - and _"),
    "evidence_bucket": (r"[A-Za-z0-9][A-Za-z0-9.-]{1,62}", "the bucket's name: letters, digits, . and -"),
    "smoke_image": (r"[\w][\w./:@-]*", "an image reference, such as registry.example.com/smoke:0.1"),
    "instance_types": (r"[a-z0-9-]+\.[a-z0-9-]+", "EC2 instance types, such as p5.48xlarge"),
    "git_repo": (
        r"|(?:https?|ssh|git)://[\w.@:~-]+/[\w./~+@-]+|[\w.-]+@[\w.-]+:[\w./~+-]+",
        "the repository's address, such as https://github.com/org/repo or git@github.com:org/repo.git",
    ),
    "git_path": (r"[\w./@+-]+", "a folder inside the repository"),
    "terraform_role": _ROLE,
    "load_balancer_role": _ROLE,
    "break_glass_role": _ROLE,
    "node_role": _ROLE,
    "iteration_slo_s": (r"\d+(?:\.\d+)?", "seconds, such as 1.5"),
}


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """How often one exporter looks, and how often it is asked.

    Attributes:
        scrape_s: Prometheus' scrape interval for it.
        collect_s: Its own collection interval; 0 for those that look when asked or that watch.
        why: Where the two numbers are set.
    """

    scrape_s: float
    collect_s: float = 0
    why: str = ""


def _default_sources() -> dict[str, Source]:
    return {
        "kube-state-metrics": Source(scrape_s=10, why="watches the API server; helm-values/kube-state-metrics.yaml"),
        "dcgm-exporter": Source(scrape_s=5, collect_s=5, why="helm-values/dcgm-exporter.yaml"),
        "node-exporter": Source(scrape_s=10, why="reads when asked; helm-values/node-exporter.yaml"),
        "node-problem-detector": Source(
            scrape_s=5, collect_s=1, why="follows /dev/kmsg; components/node-problem-detector"
        ),
        "smoke": Source(scrape_s=10, why="components/smoke: PodMonitor"),
        "training": Source(scrape_s=10, why="the training program's own metrics"),
        "apiserver": Source(scrape_s=15, why="kube-prometheus-stack's kubeApiServer.serviceMonitor.interval"),
        "kyverno": Source(scrape_s=15, why="Kyverno's metrics service"),
        "karpenter": Source(scrape_s=10, why="Karpenter's ServiceMonitor"),
        "gitops": Source(scrape_s=15, why="metrics of Argo CD or Flux"),
        "prometheus": Source(scrape_s=0, why="Prometheus' own state (`up`, ALERTS)"),
    }


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster's intervals, in seconds.

    Attributes:
        evaluation_s: Evaluation interval of the rule groups.
        scrape_timeout_s: How long a scrape may take before the target counts as down.
        group_wait_s: How long Alertmanager waits before it sends the first notification of a group.
        group_interval_s: How long it waits before it sends news of a group that it has notified already: the wait of
            every later alert of the same group, which is easily forgotten.
        sources: Exporters by name.
    """

    evaluation_s: float = 5
    scrape_timeout_s: float = 5
    group_wait_s: float = 0
    group_interval_s: float = 10
    sources: dict[str, Source] = msgspec.field(default_factory=_default_sources)

    def __post_init__(self) -> None:
        """Refuse intervals that nothing can have.

        Raises:
            UsageError: Rules cannot be evaluated every 0 s.
        """
        if self.evaluation_s <= 0:
            raise UsageError(
                f"rules cannot be evaluated every {self.evaluation_s:g} s", "give --evaluation, such as 15s"
            )

    def with_source(self, name: str, *, scrape_s: float | None = None, collect_s: float | None = None) -> Intervals:
        """Return a copy with other numbers for one exporter.

        Raises:
            UsageError: There is no exporter of that name, or its scrape interval is 0.
        """
        if name not in self.sources:
            raise UsageError(f"no metrics source is called {name!r}", f"one of: {', '.join(self.sources)}")
        if scrape_s is not None and scrape_s <= 0:
            raise UsageError(f"nothing is scraped every {scrape_s:g} s ({name})", "give its interval, such as 10s")
        old = self.sources[name]
        new = Source(
            scrape_s=old.scrape_s if scrape_s is None else scrape_s,
            collect_s=old.collect_s if collect_s is None else collect_s,
            why=old.why,
        )
        return msgspec.structs.replace(self, sources={**self.sources, name: new})


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the rendered tree is for.

    Attributes:
        profile: Who owns the nodes and the driver.
        kubernetes: Minor version of the API server, such as "1.33".
        features: What the cluster has (keys of `FEATURES`).
        instance_types: GPU instance types of the cluster; empty when not known.
        mode: audit: admission policies report · enforce: they refuse.
        namespace: Where firstfault's own objects go.
        gpu_node_label: Label key and value that every GPU node carries; None takes the profile's.
        exclude_namespaces: Namespaces that admission policies leave alone.
        smoke_period_s: How often the smoke test runs.
        smoke_image: Image of the smoke test.
        cluster: Name of the cluster (Terraform tags, S3 prefix).
        evidence_bucket: S3 bucket for evidence.
        git_repo: Repository that holds the ClusterPolicy; empty when there is none yet.
        git_path: Folder in it.
        terraform_role: Name (with path) of the role that applies Terraform.
        load_balancer_role: Role of the AWS Load Balancer Controller, which edits node groups.
        break_glass_role: Role for emergencies.
        node_role: Role of the nodes, under which the VPC CNI attaches interfaces; may have wildcards.
        iteration_slo_s: A training iteration slower than this counts against the objective.
        rule_labels: Labels by which the Prometheus Operator selects rules and monitors.
        intervals: How often everything looks.
    """

    profile: Profile = "eks-managed"
    kubernetes: str = "1.33"
    features: frozenset[str] = frozenset()
    instance_types: tuple[str, ...] = ()
    mode: Mode = "audit"
    namespace: str = "firstfault"
    gpu_node_label: tuple[str, str] | None = None
    exclude_namespaces: tuple[str, ...] = ("kube-system", "gpu-operator", "kyverno")
    smoke_period_s: int = 1800
    smoke_image: str = "registry.example.com/firstfault-smoke:0.1"
    cluster: str = "CLUSTER"
    evidence_bucket: str = "EVIDENCE-BUCKET"
    git_repo: str = ""
    git_path: str = "./clusterpolicy"
    terraform_role: str = "terraform"
    load_balancer_role: str = "aws-load-balancer-controller"
    break_glass_role: str = "break-glass"
    node_role: str = "*-eks-node-group-*"
    iteration_slo_s: str = "1.0"
    rule_labels: tuple[tuple[str, str], ...] = (("release", "kube-prometheus-stack"),)
    intervals: Intervals = msgspec.field(default_factory=Intervals)

    def __post_init__(self) -> None:
        """Refuse what cannot be.

        Raises:
            UsageError: Unknown profile, feature or version, or features that exclude each other.
        """
        if self.profile not in get_args(Profile):
            raise UsageError(f"no profile is called {self.profile!r}", f"one of: {', '.join(get_args(Profile))}")
        if unknown := self.features - FEATURES.keys():
            raise UsageError(f"unknown feature {min(unknown)!r}", f"any of: {', '.join(FEATURES)}")
        if {"argocd", "flux"} <= self.features:
            raise UsageError("argocd and flux were both given", "name the one that owns the ClusterPolicy")
        if self.profile == "eks-auto" and "gpu-operator" in self.features:
            raise UsageError(
                "on EKS Auto Mode the driver and the device plugin are the platform's; a GPU Operator of your own "
                "conflicts with them (B12)",
                "drop gpu-operator from --with, or use another profile",
            )
        if not 60 <= self.smoke_period_s <= 7200 or self.smoke_period_s % 60:
            raise UsageError(
                f"a smoke period of {self.smoke_period_s} s cannot be scheduled",
                "give whole minutes between 1m and 2h; the default is 30m",
            )
        if (self.smoke_period_s > 3600 and self.smoke_period_s != 7200) or 60 % min(self.smoke_period_s // 60, 60):
            raise UsageError(
                f"a smoke period of {self.smoke_period_s} s does not divide the hour",
                "use 5m, 10m, 15m, 20m, 30m, 1h or 2h",
            )
        if parse_version(self.kubernetes) >= _NEVER:
            raise UsageError(
                f"there is no Kubernetes {self.kubernetes}",
                f"the rendered files were checked against {KUBERNETES_VERSIONS[0]} to {KUBERNETES_VERSIONS[-1]}",
            )
        if parse_version(self.kubernetes) < _OLDEST:
            raise UsageError(
                f"Kubernetes {self.kubernetes} is older than {_OLDEST[0]}.{_OLDEST[1]}",
                "the rendered manifests were never checked against it: upgrade first",
            )

        self._refuse_names()

    def doubts(self) -> list[str]:
        """Return what was given and is not known here, one sentence each: newer than this version, or a slip."""
        found = []
        newest = parse_version(KUBERNETES_VERSIONS[-1])
        if parse_version(self.kubernetes) > newest:
            found.append(
                f"Kubernetes {self.kubernetes} is newer than what the rendered files were checked against "
                f"({KUBERNETES_VERSIONS[0]} to {KUBERNETES_VERSIONS[-1]}); it may refuse what it no longer serves"
            )
        for name in self.instance_types:
            if name not in GPU_TYPES:
                near = ", ".join(sorted(each for each in GPU_TYPES if family(each) == family(name)))
                known = near or ", ".join(sorted({family(each) for each in GPU_TYPES})) + " families"
                found.append(f"no GPU instance type {name} is known, so it counts as one without EFA; known: {known}")
        return found

    def _refuse_names(self) -> None:
        """Refuse names that would end in files which Kubernetes, AWS or a shell reads otherwise than meant.

        Raises:
            UsageError: A name has characters that its place does not allow.
        """
        for option, (pattern, form) in _FORMS.items():
            value = getattr(self, option)
            for text in value if isinstance(value, tuple) else (value,):
                if not re.fullmatch(pattern, text):
                    shown = option.removesuffix("_s").replace("_", "-")
                    raise UsageError(f"--{shown} {text!r} cannot be used", f"give {form}")
        for option in _ROLES:
            parts = re.split(r"[*?]", getattr(self, option))
            # Whom the name matches is excepted from the deny: `*` would except everybody.
            if len(parts) > 1 and not any(len(p) >= 3 and sum(map(str.isalnum, p)) >= 2 for p in parts):
                raise UsageError(
                    f"--{option.replace('_', '-')} {getattr(self, option)!r} matches nearly every role, and so would "
                    "except them all from the guard",
                    "name the role, or keep at least three characters of its name between wildcards",
                )
        if not 0 < float(self.iteration_slo_s) < _DAY_S:
            raise UsageError(f"--iteration-slo {self.iteration_slo_s!r} cannot be used", "give seconds, such as 1.5")
        for text in filter(None, self.gpu_node_label or ()):
            if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9./_-]*[A-Za-z0-9])?", text):
                raise UsageError(f"--gpu-node-label: {text!r} is no label", "give KEY=VALUE as kubectl shows it")

    @property
    def gpu_label(self) -> tuple[str, str]:
        """Key and value of the label that every GPU node carries.

        EKS Auto Mode runs no GPU feature discovery, so its nodes lack `nvidia.com/gpu.present`.
        """
        if self.gpu_node_label:
            return self.gpu_node_label
        if self.profile == "eks-auto":
            return ("eks.amazonaws.com/instance-gpu-manufacturer", "nvidia")
        return ("nvidia.com/gpu.present", "true")

    @property
    def derived(self) -> frozenset[str]:
        """Features and what follows from them, for `When`.

        Policies are rendered for one engine only: Kyverno where it is, else the API server's own (from 1.30).
        """
        native = "kyverno" not in self.features and parse_version(self.kubernetes) >= (1, 30)
        extra = {
            "kyverno-policies": "kyverno" in self.features,
            "native-policies": native,
            "enforce": self.mode == "enforce",
            "aws": self.profile != "self-managed",
            "auto-mode": self.profile == "eks-auto",
        }
        return self.features | {name for name, holds in extra.items() if holds}

    @property
    def efa_types(self) -> tuple[str, ...]:
        """EFA types among the cluster's instance types; all that are known when the cluster's are not given."""
        return tuple(sorted(filter(has_efa, self.instance_types or EFA_INTERFACES)))

    @property
    def native_mutation(self) -> bool:
        """Whether the API server has MutatingAdmissionPolicy: from 1.36, or switched on in 1.34 and 1.35."""
        version = parse_version(self.kubernetes)
        return version >= (1, 36) or (version >= (1, 34) and "mutating-admission-policy" in self.features)


def parse_version(text: str) -> tuple[int, int]:
    """Return (major, minor) of "1.33", "v1.33.2" or "1.33+".

    Raises:
        UsageError: Not a version.
    """
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:[.+-].*)?\+?", text)
    if not match:
        raise UsageError(f"{text!r} is not a Kubernetes version", "give it as 1.33")
    return int(match[1]), int(match[2])


def applies(when: When, options: Options) -> bool:
    """Whether every condition of `when` holds for the cluster."""
    types = options.instance_types
    if when.efa is not None and types and not any(has_efa(t) is when.efa for t in types):
        return False
    return (
        set(when.with_) <= options.derived
        and (not when.any_of or bool(set(when.any_of) & options.derived))
        and not set(when.without) & options.derived
        and (not when.profiles or options.profile in when.profiles)
        and _version_fits(when.kubernetes, options)
    )


def _version_fits(bounds: str, options: Options) -> bool:
    version = parse_version(options.kubernetes)
    for bound in filter(None, bounds.split(",")):
        limit = parse_version(bound.lstrip("<>="))
        if not (version >= limit if bound.startswith(">=") else version < limit):
            return False
    return True
