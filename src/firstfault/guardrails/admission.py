"""Admission policies from one description: Kyverno policies, and their native twins in CEL.

`library/<id>/policy.yaml` says what must hold for which Pods and what is filled in. From it come

- a ValidatingAdmissionPolicy with its binding, and a MutatingAdmissionPolicy where the API server has that kind;
- or a Kyverno policy whose validations are the same CEL expressions, and whose mutations are strategic merges.

Nothing that a Pod sets is overwritten: a variable that it names stays, and a container with `envFrom` is left alone,
because its variables cannot be seen here and `env` would win over them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
import yaml

from firstfault.errors import InputError
from firstfault.guardrails.context import context
from firstfault.guardrails.instances import has_efa
from firstfault.guardrails.options import Options, parse_version
from firstfault.guardrails.registry import LIBRARY_DIR, fill
from firstfault.guardrails.yamltext import dump

if TYPE_CHECKING:
    from firstfault.guardrails.spec import Guardrail

__all__ = [
    "CONDITIONS",
    "MATCHES",
    "OPT_OUT",
    "VARIABLES",
    "Default",
    "Mount",
    "Policy",
    "Validation",
    "admission",
    "load_policy",
]

# A Pod with this label is left alone by every policy of the tree.
OPT_OUT = "firstfault/guard"

Condition = Literal["", "pod-network", "host-network", "no-rdma", "efa"]
Match = Literal["gpu", "distributed", "several-gpus"]


class Validation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What must hold, as a CEL expression over `object` and `variables`, and what to tell when it does not."""

    expression: str
    message: str


class Default(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A variable that GPU containers get when they do not set it themselves.

    Attributes:
        name: Name of the variable.
        value: Its value.
        condition: For which Pods; empty means all that match.
    """

    name: str
    value: str
    condition: Condition = ""


class Mount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An emptyDir that GPU containers get when nothing is mounted at the path.

    Attributes:
        path: Where it is mounted.
        volume: Name of the volume.
        medium: "Memory" or "".
    """

    path: str
    volume: str
    medium: str = ""


class Policy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One admission policy.

    Attributes:
        name: Name of the objects.
        match: What is validated. gpu: Pods with a container that asks for a GPU · several-gpus: for more than one GPU
            in one container · distributed: that also look like ranks of a distributed job.
        validations: What must hold.
        service_links_off: Set enableServiceLinks to false. The API server has filled in its default, true, before any
            policy sees the Pod, so an explicit true cannot be told from it.
        env: Variables to fill in.
        mount: A mount to fill in.
    """

    name: str
    match: Match
    validations: list[Validation] = []
    service_links_off: bool = False
    env: list[Default] = []
    mount: Mount | None = None

    @property
    def fills(self) -> Match:
        """For which Pods it fills in: a default that does no harm is given to every GPU Pod, whatever it looks like."""
        return "several-gpus" if self.match == "several-gpus" else "gpu"

    @property
    def mutates(self) -> bool:
        """Whether the policy fills anything in."""
        return self.service_links_off or bool(self.env) or self.mount is not None


_GPU = (
    "has(c.resources) && has(c.resources.limits) && "
    "c.resources.limits.exists(k, k == 'nvidia.com/gpu' || k.startsWith('nvidia.com/mig-'))"
)
_SEVERAL = (
    "has(c.resources) && has(c.resources.limits) && 'nvidia.com/gpu' in c.resources.limits && "
    "string(c.resources.limits['nvidia.com/gpu']).matches('^([2-9]|[1-9][0-9]+)$')"
)
_LAUNCHER_VARIABLES = "'MASTER_ADDR', 'WORLD_SIZE', 'NNODES', 'PET_NNODES', 'PET_RDZV_ENDPOINT'"
_JOB_LABELS = (
    "'training.kubeflow.org/job-name', 'jobset.sigs.k8s.io/jobset-name', 'leaderworkerset.sigs.k8s.io/name', "
    "'batch.kubernetes.io/job-completion-index'"
)
_DISTRIBUTED = (
    f"object.spec.containers.exists(c, {_GPU} && ("
    f"(has(c.env) && c.env.exists(e, e.name in [{_LAUNCHER_VARIABLES}])) || "
    "(has(c.command) && c.command.exists(w, w.contains('torchrun') || w.contains('torch.distributed'))) || "
    "(has(c.args) && c.args.exists(w, w.contains('torchrun') || w.contains('torch.distributed'))))) || "
    f"(object.spec.containers.exists(c, {_GPU}) && has(object.metadata.labels) && "
    f"object.metadata.labels.exists(k, k in [{_JOB_LABELS}]))"
)
MATCHES: dict[str, str] = {
    "gpu": f"object.spec.containers.exists(c, {_GPU})",
    "several-gpus": f"object.spec.containers.exists(c, {_SEVERAL})",
    "distributed": _DISTRIBUTED,
}
_NOT_OPTED_OUT = (
    f"!has(object.metadata.labels) || !('{OPT_OUT}' in object.metadata.labels) || "
    f"object.metadata.labels['{OPT_OUT}'] != 'off'"
)
_HOST_NETWORK = "has(object.spec.hostNetwork) && object.spec.hostNetwork"
_MULTUS = "has(object.metadata.annotations) && 'k8s.v1.cni.cncf.io/networks' in object.metadata.annotations"
_RDMA = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    "c.resources.limits.exists(k, k.contains('efa') || k.contains('rdma') || k.contains('infiniband')))"
)
_EFA = (
    "object.spec.containers.exists(c, has(c.resources) && has(c.resources.limits) && "
    "'vpc.amazonaws.com/efa' in c.resources.limits)"
)
_PINNED_TO_NO_EFA = (
    "has(object.spec.nodeSelector) && 'node.kubernetes.io/instance-type' in object.spec.nodeSelector && "
    "object.spec.nodeSelector['node.kubernetes.io/instance-type'].matches('^(g4dn|g5|g6|g6e|p3)[.][0-9x]*large$') && "
    "!(object.spec.nodeSelector['node.kubernetes.io/instance-type'] in variables.efaTypes)"
)

VARIABLES: dict[str, str] = {
    "gpuContainers": f"object.spec.containers.filter(c, {_GPU})",
    "hostNetwork": _HOST_NETWORK,
    "podNetwork": f"!({_HOST_NETWORK}) && !({_MULTUS})",
    "rdma": _RDMA,
    "efa": _EFA,
}
# condition -> CEL. `noFabric` is what is known of the cluster's instance types.
CONDITIONS: dict[str, str] = {
    "": "true",
    "pod-network": "variables.podNetwork",
    "host-network": "variables.hostNetwork",
    "no-rdma": "!variables.rdma && variables.noFabric",
    "efa": "variables.efa",
}


def load_policy(guardrail: str, options: Options) -> Policy:
    """Read `library/<guardrail>/policy.yaml`.

    Raises:
        InputError: It is not a policy; the message names the field.
    """
    path = LIBRARY_DIR / guardrail / "policy.yaml"
    text = fill(path.read_text(encoding="utf-8"), context(options), str(path))
    try:
        return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), Policy)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not a policy: {error}") from error


def variables(options: Options) -> dict[str, str]:
    """Return the CEL variables of native policies, in the order in which they depend on each other."""
    efa_types = ", ".join(f"'{name}'" for name in options.efa_types)
    known = options.instance_types and not any(map(has_efa, options.instance_types))
    return {
        **VARIABLES,
        "efaTypes": f"[{efa_types}]",
        "noFabric": "true" if known else _PINNED_TO_NO_EFA,
    }


def admission(guardrail: Guardrail, options: Options) -> list[tuple[str, str, str]]:
    """Build the policy files of a guardrail (a builder of `builders.BUILDERS`)."""
    policy = load_policy(guardrail.id, options)
    files = []
    if "kyverno-policies" in options.derived:
        from firstfault.guardrails.kyverno import kyverno_policies  # noqa: PLC0415 - the two twins share this module

        documents = kyverno_policies(policy, guardrail, options)
        files.append((f"components/kyverno-policies/{guardrail.id}.yaml", "kyverno-policies", dump(*documents)))
    if "native-policies" in options.derived:
        documents = native_policies(policy, guardrail, options)
        if documents:
            files.append((f"components/native-policies/{guardrail.id}.yaml", "native-policies", dump(*documents)))
    return files


def native_policies(policy: Policy, guardrail: Guardrail, options: Options) -> list[dict[str, Any]]:
    """Return the native policies and their bindings."""
    documents: list[dict[str, Any]] = []
    if policy.validations:
        documents += [_validating(policy, guardrail, options), _validating_binding(policy, options)]
    if policy.mutates and options.native_mutation and options.mode == "enforce":
        documents += [_mutating(policy, guardrail, options), _mutating_binding(policy, options)]
    return documents


def metadata(policy: Policy, guardrail: Guardrail) -> dict[str, Any]:
    """Return the metadata that every policy object of a guardrail carries."""
    return {
        "name": policy.name,
        "labels": {"app.kubernetes.io/part-of": "firstfault"},
        "annotations": {"firstfault/serves": ", ".join(guardrail.serves), "firstfault/title": guardrail.title},
    }


def _match_constraints(options: Options) -> dict[str, Any]:
    return {
        "namespaceSelector": {
            "matchExpressions": [
                {
                    "key": "kubernetes.io/metadata.name",
                    "operator": "NotIn",
                    "values": list(options.exclude_namespaces),
                }
            ]
        },
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        ],
    }


def _match_conditions(match: Match) -> list[dict[str, str]]:
    return [
        {"name": match, "expression": MATCHES[match]},
        {"name": "not-opted-out", "expression": _NOT_OPTED_OUT},
    ]


def _named(expressions: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "expression": expression} for name, expression in expressions.items()]


def _validating(policy: Policy, guardrail: Guardrail, options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata(policy, guardrail),
        "spec": {
            # A policy that cannot be evaluated must not stop Pods from being created.
            "failurePolicy": "Ignore",
            "matchConstraints": _match_constraints(options),
            "matchConditions": _match_conditions(policy.match),
            "variables": _named(variables(options)),
            "validations": [
                {"expression": v.expression.strip(), "message": v.message.strip()} for v in policy.validations
            ],
        },
    }


def _validating_binding(policy: Policy, options: Options) -> dict[str, Any]:
    actions = ["Deny", "Audit"] if options.mode == "enforce" else ["Warn", "Audit"]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": policy.name, "labels": {"app.kubernetes.io/part-of": "firstfault"}},
        "spec": {"policyName": policy.name, "validationActions": actions},
    }


def _mutating_version(options: Options) -> str:
    version = "v1" if parse_version(options.kubernetes) >= (1, 36) else "v1beta1"
    return f"admissionregistration.k8s.io/{version}"


def _mutating(policy: Policy, guardrail: Guardrail, options: Options) -> dict[str, Any]:
    named = variables(options)
    mutations = []
    if policy.service_links_off:
        mutations.append("Object{spec: Object.spec{enableServiceLinks: false}}")
    if policy.env:
        named["defaults"] = _defaults(policy)
        mutations.append(_ENV_MUTATION)
    if policy.mount:
        mutations.append(_mount_mutation(policy.mount))
    return {
        "apiVersion": _mutating_version(options),
        "kind": "MutatingAdmissionPolicy",
        "metadata": metadata(policy, guardrail),
        "spec": {
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": _match_constraints(options),
            "matchConditions": _match_conditions(policy.fills),
            "variables": _named(named),
            "mutations": [
                {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
                for expression in mutations
            ],
        },
    }


def _mutating_binding(policy: Policy, options: Options) -> dict[str, Any]:
    return {
        "apiVersion": _mutating_version(options),
        "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": policy.name, "labels": {"app.kubernetes.io/part-of": "firstfault"}},
        "spec": {"policyName": policy.name},
    }


_ENV_MUTATION = (
    "Object{spec: Object.spec{containers: "
    "variables.gpuContainers.filter(c, !has(c.envFrom) || size(c.envFrom) == 0)"
    ".map(c, Object.spec.containers{name: c.name, env: variables.defaults"
    ".filter(d, !has(c.env) || !c.env.exists(e, e.name == d['name']))"
    ".map(d, Object.spec.containers.env{name: d['name'], value: d['value']})})}}"
)


def _defaults(policy: Policy) -> str:
    """Return a CEL list of {name, value}, the conditional ones behind their condition."""
    groups: dict[str, list[Default]] = {}
    for default in policy.env:
        groups.setdefault(default.condition, []).append(default)
    parts = []
    for condition, defaults in groups.items():
        listed = ", ".join(f"{{'name': '{d.name}', 'value': '{d.value}'}}" for d in defaults)
        parts.append(f"[{listed}]" if not condition else f"({CONDITIONS[condition]} ? [{listed}] : [])")
    return " + ".join(parts)


def _mount_mutation(mount: Mount) -> str:
    without = f"!has(c.volumeMounts) || !c.volumeMounts.exists(m, m.mountPath == '{mount.path}')"
    medium = f"medium: '{mount.medium}'" if mount.medium else ""
    return (
        f"Object{{spec: Object.spec{{containers: variables.gpuContainers.filter(c, {without})"
        f".map(c, Object.spec.containers{{name: c.name, volumeMounts: [Object.spec.containers.volumeMounts{{"
        f"name: '{mount.volume}', mountPath: '{mount.path}'}}]}}), "
        f"volumes: variables.gpuContainers.exists(c, {without}) ? [Object.spec.volumes{{name: '{mount.volume}', "
        f"emptyDir: Object.spec.volumes.emptyDir{{{medium}}}}}] : []}}}}"
    )
