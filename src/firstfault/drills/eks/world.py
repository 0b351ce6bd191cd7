"""A real cluster as the phase machine needs it: security groups in EC2, ranks as Pods, logs through the API server."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import msgspec

from firstfault.act.cluster import RUN_LABEL, Cluster
from firstfault.act.ec2 import Ec2
from firstfault.act.terraform import Child, Terraform
from firstfault.collect.kube import KubeError
from firstfault.collect.reachability import (
    Interface,
    SecurityGroupRule,
    parse_security_group,
    reachable,
)
from firstfault.drills.eks.expected import expected_destroys
from firstfault.drills.eks.manifests import APP_LABEL, manifests
from firstfault.drills.eks.rules import is_rule, rules_with_permissions
from firstfault.drills.eks.safety import (
    affected_by,
    check_consent,
    check_credentials,
    check_foreign,
    check_lifeline,
    without_rules,
)
from firstfault.drills.injectors.security_groups import change_of
from firstfault.drills.journal import Journal, read_events
from firstfault.drills.world import RankExit, Snapshot
from firstfault.errors import InputError, UsageError
from firstfault.model.drill import Change, ProbeResult
from firstfault.model.securitygroups import plan_change

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firstfault.drills.eks.options import EksOptions
    from firstfault.drills.jobs import Process
    from firstfault.drills.topology import Topology

__all__ = ["Eks"]

_POLL_S = 1.0
_GONE_S = 60.0
_CONTROLLERS = ("cert-manager", "gpu-operator", "aws-load-balancer-controller")
_API = {
    "configmaps": "/api/v1",
    "services": "/api/v1",
    "pods": "/api/v1",
    "events": "/api/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
}


class Eks:
    """One cluster, for one run.

    Args:
        topology: Names of the groups, their rules by toggle, and the paths to probe.
        options: The cluster and the target.
        journal: The journal of the run; its folder's name gives the run's id.

    Attributes:
        cluster: The API server.
        ec2: The account.
    """

    kind = "eks"
    ends_faults = False

    def __init__(self, topology: Topology, options: EksOptions, *, journal: Journal) -> None:
        self.topology = topology
        self.options = options
        self.journal = journal
        self.run = journal.folder.name.rpartition("-")[2]
        self.temporary = Path("/tmp")  # noqa: S108 - in the Pod
        self.cluster = Cluster(options.context, self.run)
        self.ec2 = Ec2(options.region)
        self._ids: dict[str, str] | None = dict(options.groups) or None
        self._job: list[Process] = []
        self._ended: set[int] = set()
        self._logs: Path | None = None
        self._next_poll = 0.0
        self._permissions: list[tuple[str, str, SecurityGroupRule, dict[str, Any]]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Close the connections; `close` has ended the job before."""
        self.cluster.__exit__(*exc)
        self.ec2.close()

    # -- names ----------------------------------------------------------------------------------------------------

    @property
    def object_name(self) -> str:
        """Name of the objects of this run."""
        return f"firstfault-{self.run}"

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels that all Pods of this run bear, and no others."""
        return {APP_LABEL: self.run}

    def path(self, plural: str, name: str = "") -> str:
        """Return the API path of a collection, or of one object, in the drill's namespace."""
        return f"{_API[plural]}/namespaces/{self.options.namespace}/{plural}" + (f"/{name}" if name else "")

    def journaled(self, event: str) -> list[dict[str, Any]]:
        """Return the events of that name in this run's journal."""
        return [each for each in read_events(self.journal.folder) if each.get("event") == event]

    # -- terraform and groups -------------------------------------------------------------------------------------

    def terraform(self) -> Terraform:
        """Return the root module; its children's ids are on the disk before they are waited for."""
        if not self.options.terraform_dir:
            raise UsageError("no Terraform folder is named", "give --terraform-dir, or use --injector ec2")

        def on_child(what: str, child: Child) -> None:
            self.journal.append("terraform-child", sync=True, what=what, pid=child.pid, started=child.started)

        return Terraform(
            Path(self.options.terraform_dir),
            var_files=self.options.var_files,
            on_child=on_child,
            private=self.journal.folder / "private",
        )

    def expected_destroys(self, before: dict[str, bool], after: dict[str, bool]) -> list[str]:
        """Return the addresses that these variables take away, from the configuration."""
        return expected_destroys(Path(self.options.terraform_dir), self.options.var_files, before, after)

    @property
    def group_ids(self) -> dict[str, str]:
        """Security-group id by the topology's name for it."""
        if self._ids is None:
            with self.terraform() as terraform:
                outputs = terraform.outputs()
            names = [group.name for group in self.topology.groups]
            missing = [f"{name}_security_group_id" for name in names if f"{name}_security_group_id" not in outputs]
            if missing:
                raise InputError(
                    f"{self.options.terraform_dir}: the root module has no output {', '.join(missing)}",
                    "add it, or give the ids with --group node=sg-… --group aux=sg-…",
                )
            self._ids = {name: str(outputs[f"{name}_security_group_id"]) for name in names}
        return self._ids

    def _described(self) -> list[dict[str, Any]]:
        return self.ec2.groups(list(self.group_ids.values()))

    def rules_moved_by(self, toggles: dict[str, bool]) -> list[tuple[str, str, SecurityGroupRule, dict[str, Any]]]:
        """Return (group id, direction, rule, permission) of the real rules that these toggles take away.

        Once worked out for a run it stays the same: during the fault the rules are not there to be seen.

        Raises:
            InputError: A rule of the topology is not in the real group.
        """
        if self._permissions is not None:
            return self._permissions
        described = {each["GroupId"]: each for each in self._described()}
        plan = plan_change(self.topology.groups, self.topology.groups_with(toggles))
        found: list[tuple[str, str, SecurityGroupRule, dict[str, Any]]] = []
        for name, rule in plan.destroy:
            group_id = self.group_ids[name]
            plane = self.control_plane(described)
            side = rules_with_permissions(described[group_id], rule.direction)
            real = next((each for each in side if is_rule(each[0], rule, group_id, plane)), None)
            if real is None:
                raise InputError(
                    f"security group {group_id} has no {rule.direction} rule {rule.port_text} for {rule.peer} "
                    f"({rule.title}), so this drill cannot take it away",
                    "compare the topology with `aws ec2 describe-security-group-rules`",
                )
            found.append((group_id, rule.direction, *real))
        self._permissions = found
        return found

    def control_plane(self, described: dict[str, dict[str, Any]]) -> str | None:
        """Return the group from which the API server speaks to the kubelets, as the node group's rules name it."""
        for group in described.values():
            for rule in parse_security_group(group).ingress:
                if rule.group and rule.group not in described and rule.covers("tcp", 10250):
                    return rule.group
        return None

    def describe_rules(self, toggles: dict[str, bool]) -> Change:
        """Return the rules that the toggles move, as the topology describes them."""
        return change_of(plan_change(self.topology.groups, self.topology.groups_with(toggles)))

    def check_restorable(self) -> None:
        """Refuse when the credentials lapse too early or may not authorize rules again (asked by dry run).

        Raises:
            UsageError: They lapse before the deadline.
            Ec2Error: They may not restore.
        """
        check_credentials(self.ec2.credentials_expire(), self.options.max_duration_s)
        probe = {"IpProtocol": "tcp", "FromPort": 1025, "ToPort": 1025, "IpRanges": [{"CidrIp": "192.0.2.1/32"}]}
        for group in self.group_ids.values():
            self.ec2.authorize(group, "ingress", [probe], dry_run=True)

    # -- the world ------------------------------------------------------------------------------------------------

    def open(self) -> dict[str, Any]:
        """Check consent, take the lock; change nothing else.

        Raises:
            UsageError: The groups do not allow drills, or another drill holds the namespace.
        """
        if self.options.max_duration_s <= 0:
            raise UsageError("a drill on a cluster needs a limit", "give --max-duration, for example 15m")
        if self.options.injector != "networkpolicy":
            check_consent(self._described())
        lock = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "firstfault-drill-lock"}}
        self.journal.append("locking", sync=True, namespace=self.options.namespace)
        try:
            self.cluster.create(self.path("configmaps"), {**lock, "data": {"run": self.run}})
        except KubeError as error:
            if error.status != 409:
                raise
            raise UsageError(
                f"another drill holds the namespace {self.options.namespace} (ConfigMap firstfault-drill-lock)",
                "wait for it, or `firstfault drill recover` where it was started",
            ) from error
        return {
            "options": msgspec.to_builtins(self.options),
            "groups": self.group_ids if self.options.injector != "networkpolicy" else {},
            "topology": msgspec.to_builtins(self.topology),
        }

    def check_target(self, toggles: dict[str, bool]) -> None:
        """Work out blast radius and lifeline of the change, journal them, refuse what must not be.

        Raises:
            UsageError: Foreign workloads would be cut, or the lifeline would be lost.
        """
        interfaces = self.ec2.interfaces_of(list(self.group_ids.values()))
        nodes = list(self.cluster.items("/api/v1/nodes"))
        pods = list(self.cluster.items("/api/v1/pods"))
        affected = affected_by(
            interfaces, nodes, pods, run=self.run, accept=self.options.accept, run_label=RUN_LABEL
        )  # fmt: skip
        self.journal.append("blast-radius", affected=affected)
        check_foreign(affected)
        ids = sorted({group["GroupId"] for each in interfaces for group in each.get("Groups", [])})
        groups = [parse_security_group(each) for each in self.ec2.groups(ids)]
        gone: dict[str, list[tuple[str, SecurityGroupRule]]] = {}
        for group_id, direction, rule, _ in self.rules_moved_by(toggles):
            gone.setdefault(group_id, []).append((direction, rule))
        described = {each["GroupId"]: each for each in self._described()}
        check_lifeline(interfaces, without_rules(groups, gone), self.control_plane(described))

    def close(self) -> list[str]:
        """Delete what this run created; return what is still there."""
        self.end_job()
        left = []
        for plural in ("pods", "services", "networkpolicies", "configmaps"):
            for each in self.cluster.items(self.path(plural), labels=f"{RUN_LABEL}={self.run}"):
                name = each["metadata"]["name"]
                if not self.cluster.delete(self.path(plural, name)):
                    left.append(f"{plural}/{name} in namespace {self.options.namespace}")
        return left

    def snapshot(self) -> Snapshot:
        """Count the rules of the groups as EC2 has them, and look at the controllers that live by webhooks."""
        firewall: dict[str, dict[str, int]] = {}
        rules: list[str] = []
        if self.options.injector != "networkpolicy":
            described = {each["GroupId"]: each for each in self._described()}
            for name, group_id in self.group_ids.items():
                group = parse_security_group(described[group_id])
                firewall[name] = {"ingress": len(group.ingress), "egress": len(group.egress)}
                rules += [f"{name} ingress {rule}" for rule in group.ingress]
                rules += [f"{name} egress {rule}" for rule in group.egress]
        else:
            policies = self.cluster.items(self.path("networkpolicies"))
            rules = [json.dumps(each["spec"], sort_keys=True) for each in policies]
        digest = hashlib.sha256("\n".join(sorted(rules)).encode()).hexdigest()
        return Snapshot(firewall=firewall, refused={}, digest=digest, observed={"controllers": self._controllers()})

    def _controllers(self) -> dict[str, str]:
        """Say how each controller with a webhook is: running and restarts, or not installed."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in _CONTROLLERS}
        for pod in self.cluster.items("/api/v1/pods"):
            meta = pod["metadata"]
            for name in _CONTROLLERS:
                if name in (meta.get("namespace"), (meta.get("labels") or {}).get("app.kubernetes.io/name")):
                    found[name].append(pod)
        return {name: _controller_state(pods) for name, pods in found.items()}

    def probe(self, *, patient: bool = False) -> list[ProbeResult]:  # noqa: ARG002 - nothing is waited for
        """Answer from the groups' rules, without a packet, whether each path of the topology is open."""
        if self.options.injector == "networkpolicy":
            return []
        described = {each["GroupId"]: each for each in self._described()}
        groups = {group_id: parse_security_group(data) for group_id, data in described.items()}
        plane = self.control_plane(described)
        interfaces = self.ec2.interfaces_of(list(self.group_ids.values()))
        ends = [
            Interface(
                address=data["PrivateIpAddress"],
                eni=data["NetworkInterfaceId"],
                subnet=data["SubnetId"],
                groups=frozenset(group["GroupId"] for group in data.get("Groups", [])) & frozenset(groups),
            )
            for data in interfaces[:2]
        ]
        if len(ends) < 2:
            return []
        nodes = [node.name for node in self.topology.nodes if node.groups]
        places = dict(zip(nodes, ends, strict=False))
        everything = SecurityGroupRule(protocol="-1", ports=None, cidr="0.0.0.0/0")
        if plane:
            groups[plane] = parse_security_group({"GroupId": plane})
            groups[plane] = msgspec.structs.replace(groups[plane], egress=(everything,))
            for node in self.topology.nodes:
                if not node.groups:
                    places[node.name] = Interface(
                        address="203.0.113.1", eni="control plane", subnet=ends[0].subnet, groups=frozenset({plane})
                    )
        results = []
        for probe in self.topology.probes:
            if probe.source not in places or probe.target not in places:
                continue
            started = time.monotonic()
            answer = reachable(
                places[probe.source], places[probe.target], probe.port, groups=groups, acls=[], protocol=probe.protocol
            )
            if answer.state == "unknown":
                continue
            results.append(
                ProbeResult(
                    id=probe.id,
                    source=probe.source,
                    target=probe.target,
                    protocol=probe.protocol,
                    port=probe.port,
                    title=probe.title,
                    result=answer.state,
                    reachable=answer.state == "open",
                    seconds=round(time.monotonic() - started, 6),
                )
            )
        return results

    # -- the job --------------------------------------------------------------------------------------------------

    def start(self, job: Sequence[Process], logs: Path) -> None:
        """Create the job's objects.

        Raises:
            UsageError: Something of one of their names is there already; it is not touched.
        """
        logs.mkdir(parents=True, exist_ok=True)
        self._job, self._logs, self._ended = list(job), logs, set()
        for process in job:
            (logs / process.log).touch()
        for plural, body in manifests(job, self.options, self.run):
            try:
                self.cluster.create(self.path(plural), body)
            except KubeError as error:
                if error.status != 409:
                    raise
                name = body["metadata"]["name"]
                raise UsageError(
                    f"{plural}/{name} exists already in namespace {self.options.namespace} and is not this drill's",
                    "use another namespace with --namespace",
                ) from error

    def poll(self, seconds: float) -> RankExit | None:
        """Ask the API server, at most once a second, whether a Pod has ended."""
        if (wait := self._next_poll - time.monotonic()) > 0:
            time.sleep(min(seconds, wait))
            return None
        self._next_poll = time.monotonic() + _POLL_S
        try:
            pods = list(self.cluster.items(self.path("pods"), labels=f"{APP_LABEL}={self.run}"))
        except KubeError as error:
            if error.status in (401, 403):
                raise
            # The API server may be away for a moment; the deadline bounds how long that is borne.
            self.journal.append("api-unreachable", error=error.what)
            return None
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        for process in self._job:
            pod = by_name.get(process.host)
            if process.rank in self._ended or pod is None:
                continue
            if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
                self._ended.add(process.rank)
                self._save_log(process)
                self._next_poll = 0.0  # the other ranks may have ended as well
                return RankExit(process.rank, _exit_code(pod), time.time())
        return None

    def _save_log(self, process: Process) -> None:
        assert self._logs is not None
        try:
            content = self.cluster.log(self.options.namespace, process.host, "rank", timestamps=False)
        except KubeError as error:
            self.journal.append("log-missing", rank=process.rank, error=error.what)
            return
        (self._logs / process.log).write_bytes(content)

    def examine(self, logs: Path, *, stuck_s: float) -> None:
        """Nothing more than `end_job` collects."""

    def end_job(self) -> None:
        """Save the logs of what still runs and the objects of a job that never ran, then delete the job."""
        if not self._job:
            return
        unfinished = [process for process in self._job if process.rank not in self._ended]
        for process in unfinished:
            self._save_log(process)
        if unfinished and self._logs is not None:
            for plural in ("pods", "events"):
                objects = list(self.cluster.items(self.path(plural)))
                (self._logs / f"{plural}.json").write_text(json.dumps({"kind": "List", "items": objects}, indent=1))
        names = [("pods", process.host) for process in self._job]
        names += [("services", self._job[0].env["MASTER_ADDR"]), ("configmaps", self.object_name)]
        for plural, name in names:
            self.cluster.delete(self.path(plural, name))
        self._await_gone([self.path(plural, name) for plural, name in names])
        self._job = []

    def _await_gone(self, paths: list[str]) -> None:
        deadline = time.monotonic() + _GONE_S
        while paths and time.monotonic() < deadline:
            paths = [path for path in paths if self._is_ours(path)]
            if paths:
                time.sleep(_POLL_S)

    def _is_ours(self, path: str) -> bool:
        found = self.cluster.get(path)
        return found is not None and (found["metadata"].get("labels") or {}).get(RUN_LABEL) == self.run


def _controller_state(pods: list[dict[str, Any]]) -> str:
    if not pods:
        return "not installed"
    phases = {(pod.get("status") or {}).get("phase") for pod in pods}
    restarts = sum(
        int(each.get("restartCount", 0))
        for pod in pods
        for each in (pod.get("status") or {}).get("containerStatuses") or []
    )
    return f"{'running' if phases == {'Running'} else '/'.join(sorted(map(str, phases)))}, {restarts} restarts"


def _exit_code(pod: dict[str, Any]) -> int:
    for each in pod["status"].get("containerStatuses") or []:
        if ended := (each.get("state") or {}).get("terminated"):
            return int(ended.get("exitCode", 1))
    return 0 if pod["status"]["phase"] == "Succeeded" else 1
