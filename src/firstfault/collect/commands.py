"""The kubectl and aws commands that make a bundle, for people who run them by hand or let `--run` do it.

The commands are data with fixed argument lists; the printed script and `run_commands` come from the same builders.
Only `kubectl exec`, which fetches flight-recorder dumps out of running containers, is more than a read; it is marked.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from firstfault.collect.cloud import CloudSnapshot
from firstfault.collect.items import ITEMS
from firstfault.collect.live import MAX_PODS, containers, no_pods, pod_places, reachability_file
from firstfault.collect.names import check_namespace, is_object_name
from firstfault.collect.permissions import read_only
from firstfault.collect.pool import fetch_all
from firstfault.collect.programs import Programs
from firstfault.errors import InputError, UnsupportedError
from firstfault.model import Missing
from firstfault.model.files import refuse_special
from firstfault.model.redact import redact
from firstfault.model.safe_text import safe_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Command", "Target", "permissions", "run_commands", "script"]

SCRIPT = Path(__file__).with_name("bundle.sh")
PARALLEL = 4
_KLOG = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ [\w.-]+:\d+\]")
MOST_OF_STDERR = 500

FLIGHT_RECORDER = (
    "tar -cf - -C / $(ls -d /tmp/nccl_trace_rank_* ${TORCH_FR_DUMP_TEMP_FILE:-/nonexistent}* "
    "${TORCH_NCCL_DEBUG_INFO_TEMP_FILE:-/nonexistent}* ${XDG_CACHE_HOME:-$HOME/.cache}/torch/*trace_rank_* "
    "2>/dev/null | cut -c2-)"
)
"""Where PyTorch leaves flight-recorder dumps, by version: docs/sources.md."""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Which job: namespace ("" for the context's), label selector and kubeconfig context ("" for the current).

    Raises:
        UsageError: No cluster has a namespace of that name.
    """

    namespace: str = ""
    selector: str = ""
    context: str = ""

    def __post_init__(self) -> None:
        check_namespace(self.namespace, "--namespace")

    def kubectl(self, *arguments: str) -> tuple[str, ...]:
        """Return a kubectl command line for the context, with a bounded wait for the API server."""
        context = ("--context", self.context) if self.context else ()
        return ("kubectl", *context, "--request-timeout=20s", *arguments)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command and the file in the bundle that its output goes to.

    Attributes:
        optional: Failure says nothing is missing (a kind that is not installed, no previous container).
        binary: The output is not text, so it is not redacted.
    """

    file: str
    argv: tuple[str, ...]
    why: str
    optional: bool = False
    binary: bool = False


def list_commands(target: Target) -> list[Command]:
    """Return the commands that list Kubernetes objects."""
    commands = []
    for item in ITEMS:
        words = [word.format(namespace=target.namespace) for word in item.kubectl]
        if not target.namespace and "-n" in words:
            words = words[: words.index("-n")]
        if item.by_selector and target.selector:
            words += ["-l", target.selector]
        argv = target.kubectl("get", *words, "-o", "json")
        commands.append(Command(file=item.file, argv=argv, why=item.why, optional=item.optional))
    return commands


def pod_commands(target: Target, pod: str, container: str, *, previous: bool, running: bool) -> list[Command]:
    """Return the commands that fetch one container's logs and flight-recorder dumps."""
    where = ("-n", target.namespace) if target.namespace else ()
    logs = ("logs", *where, pod, "-c", container, "--timestamps")
    folder = f"logs/{pod}/{container}"
    commands = [Command(file=f"{folder}.log", argv=target.kubectl(*logs), why="what the rank said")]
    if previous:
        argv = target.kubectl(*logs, "--previous")
        commands.append(
            Command(file=f"{folder}.previous.log", argv=argv, why="what it said before the restart", optional=True)
        )
    if running:
        argv = target.kubectl("exec", *where, pod, "-c", container, "--", "sh", "-c", FLIGHT_RECORDER)
        why = "flight-recorder dumps vanish with the container (this is an exec, not a read)"
        commands.append(
            Command(file=f"flight-recorder/{pod}-{container}.tar", argv=argv, why=why, optional=True, binary=True)
        )
    return commands


def cloud_commands(region: str, instances: list[str], groups: list[str], subnets: list[str]) -> list[Command]:
    """Return the commands that read interfaces, groups and ACLs; only those whose ids are known."""
    aws = ("aws", "ec2", "--region", region, "--output", "json")
    ids = {
        "network-interfaces": ("--filters", f"Name=attachment.instance-id,Values={','.join(instances)}"),
        "security-groups": ("--group-ids", *groups),
        "network-acls": ("--filters", f"Name=association.subnet-id,Values={','.join(subnets)}"),
    }
    known = {"network-interfaces": instances, "security-groups": groups, "network-acls": subnets}
    why = "what the Pods' interfaces really obey"
    return [
        Command(file=f"{name}.json", argv=(*aws, f"describe-{name}", *words), why=why)
        for name, words in ids.items()
        if known[name]
    ]


def script(target: Target) -> str:
    """Return a POSIX shell script that makes the bundle folder; it stops at nothing, and each failure shows."""
    lists = [f"# {each.why}\n{shlex.join(each.argv)} > {each.file}" for each in list_commands(target)]
    values = {
        "KUBECTL": shlex.join(target.kubectl()),
        "LISTS": "\n".join(lists),
        "NAMESPACE": f"-n {shlex.quote(target.namespace)}" if target.namespace else "",
        "SELECTOR": f"-l {shlex.quote(target.selector)}" if target.selector else "",
        "FLIGHT_RECORDER": shlex.quote(FLIGHT_RECORDER),
    }
    text = SCRIPT.read_text(encoding="utf-8")
    return re.sub("@([A-Z_]+)@", lambda match: values[match[1]], text)


_Run: TypeAlias = "Callable[[tuple[str, ...]], subprocess.CompletedProcess[bytes]]"


def run_commands(folder: Path, target: Target, run: _Run | None = None) -> list[Missing]:
    """Run the commands one by one into `folder`; return what they could not get.

    What they print is written as it is, for whoever packs the folder to redact; what they complain of is redacted here.

    Args:
        folder: Existing empty folder.
        target: Which job.
        run: Starts one command and returns its output, where it is not to be run as a program of this machine.

    Raises:
        UnsupportedError: kubectl is not there.
        InputError: The kubeconfig is a pipe.
    """
    with Programs() as programs:
        return _run_commands(folder, target, run or programs.run)


def _run_commands(folder: Path, target: Target, run: _Run) -> list[Missing]:
    missing: list[Missing] = []

    def execute(command: Command) -> bytes | None:
        done = run(command.argv)
        if done.returncode:
            if not command.optional:
                # Redacted as a whole: a token that was cut in two would not be known for one.
                said = redact(safe_text(_without_klog(done.stderr.decode(errors="replace")))).strip()
                reason = said[:MOST_OF_STDERR] or f"exit code {done.returncode}"
                missing.append(Missing(what=command.file, why=reason, command=shlex.join(command.argv)))
            return None
        if done.stdout:
            path = folder / command.file
            path.parent.mkdir(exist_ok=True)  # without parents: a folder that was deleted meanwhile stays so
            path.write_bytes(done.stdout)
        return done.stdout

    for name in filter(None, os.environ.get("KUBECONFIG", "").split(os.pathsep)):
        refuse_special(Path(name).expanduser(), "the KUBECONFIG of the environment, which kubectl reads many times")
    outputs = {command.file: execute(command) for command in list_commands(target)}
    pods = _items(outputs.get("pods.json"), "pods.json", missing)[:MAX_PODS]
    if not pods and outputs.get("pods.json"):
        missing += (
            [] if any(each.what == "pods.json" for each in missing) else [no_pods(target.namespace, target.selector)]
        )
    for name in ("logs", "flight-recorder") if pods else ():
        (folder / name).mkdir(exist_ok=True)
    fetch_all(execute, _all_pod_commands(target, pods), threads=PARALLEL)
    missing += _run_cloud(folder, execute, pods, _items(outputs.get("nodes.json"), "nodes.json", missing))
    return sorted(missing, key=lambda each: each.what)


def _without_klog(text: str) -> str:
    """Leave out what kubectl's own logger says of each try, where kubectl then says it in a sentence."""
    lines = [line for line in text.splitlines() if not _KLOG.match(line)]
    return "\n".join(lines) if any(line.strip() for line in lines) else text


def _items(output: bytes | None, file: str, missing: list[Missing]) -> list[dict[str, Any]]:
    """Return the objects of a list; an answer that is none, such as a login page, is one more thing that is missing."""
    if not output:
        return []
    try:
        answer = json.loads(output)
    except ValueError:
        answer = None
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        missing.append(Missing(what=file, why="kubectl answered something else than a list", command="kubectl version"))
        return []
    return [item for item in items if isinstance(item, dict) and isinstance(item.get("metadata"), dict)]


def _all_pod_commands(target: Target, pods: list[dict[str, Any]]) -> list[Command]:
    commands = []
    for pod in pods:
        if not is_object_name(str(pod["metadata"].get("name"))):  # it becomes a path and an argument
            continue
        running = (pod.get("status") or {}).get("phase") == "Running"
        for container, previous in containers(pod):
            name = pod["metadata"]["name"]
            commands += pod_commands(target, name, container, previous=previous, running=running)
    return commands


def _run_cloud(
    folder: Path,
    execute: Callable[[Command], bytes | None],
    pods: list[dict[str, Any]],
    nodes: list[dict[str, Any]],
) -> list[Missing]:
    places, region = pod_places(pods, nodes)
    instances = sorted({place.instance for place in places if place.instance})
    if not instances or not region:
        return []
    groups: list[str] = []
    subnets: list[str] = []
    answers: dict[str, list[dict[str, Any]]] = {}
    try:
        for key, index in (("NetworkInterfaces", 0), ("SecurityGroups", 1), ("NetworkAcls", 2)):
            commands = cloud_commands(region, instances, groups or ["?"], subnets or ["?"])
            output = execute(commands[index])
            if output is None:
                return []
            answers[key] = _answer(output, key)
            if key == "NetworkInterfaces":
                groups = sorted({g["GroupId"] for each in answers[key] for g in each.get("Groups", [])})
                subnets = sorted({each["SubnetId"] for each in answers[key]})
    except (UnsupportedError, InputError) as error:
        return [Missing(what="security groups of the Pods' interfaces", why=error.what, command="aws --version")]
    snapshot = CloudSnapshot(
        interfaces=answers["NetworkInterfaces"], groups=answers["SecurityGroups"], acls=answers["NetworkAcls"]
    )
    reachability_file(folder, snapshot, places, pods)
    return []


def _answer(output: bytes, key: str) -> list[dict[str, Any]]:
    try:
        found = json.loads(output)[key]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"aws answered something else than {key}", "run `aws ec2 describe-regions` by hand") from error
    return list(found)


def permissions() -> dict[str, Any]:
    """Return the Kubernetes role and the IAM policy that live triage and `collect --run` need, and nothing more."""
    actions = ["ec2:DescribeNetworkAcls", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups"]
    return read_only("firstfault-read", [*(item.rbac for item in ITEMS), ("", "pods/log")], actions)
