"""Which addresses the ranks advertised to one another, and whether another machine can reach them at all.

NCCL says at its start which interface it took. A bridge of the container engine, loopback or a link-local address works
on one machine and leaves a job of several machines waiting in the bootstrap, often without any warning.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.diagnosis.derived import derived
from firstfault.model import Observation

if TYPE_CHECKING:
    from firstfault.diagnosis.facts import Facts

__all__ = ["INTERFACE_RULES", "unfinished_inits"]

# Interfaces whose addresses mean something on their own machine only.
_LOCAL = re.compile(
    r"(?:lo|docker\w*|virbr\d\S*|br-\w+|cni\w*|flannel\S*|veth\w*|tunl\d*|cali\w+|kube-ipvs\d|kube-bridge|nodelocaldns"
    r"|lxcbr\d*|lxdbr\d*|podman\w*|cilium_\w+|vxlan\S*|weave|dummy\d*|sit\d|ip6tnl\d)$"
)
# Overlays that reach other machines, if those are members too.
_OVERLAY = re.compile(r"(?:tailscale|wg|zt|utun|tun|nebula)\w*$")
_LOCAL_ADDRESS = re.compile(r"\[?(?:127\.|169\.254\.|fe80:|::1\b)")
_CAUSE = "network.nccl.interface"
_HOST = re.compile(r"(?P<host>.+):\d+(?:\[|$)")


def unfinished_inits(facts: Facts) -> list[Observation]:
    """Communicators whose init began and was not completed in the same source."""
    complete = {(item.source, item.fields["comm"]) for item in facts.signals.get("nccl.init-complete", ())}
    return [
        item
        for item in facts.signals.get("nccl.init-start", ())
        if (item.source, item.fields["comm"]) not in complete and "parent" not in item.text
    ]


def _unreachable_address(facts: Facts) -> list[Observation]:
    """Init never ends, and a rank told its peers an address that they cannot reach, or that two machines share."""
    using = facts.signals.get("nccl.bootstrap-using", [])
    if not using or not unfinished_inits(facts):
        return []
    names: dict[str, str] = {}
    holders: dict[str, set[str]] = {}
    for item in using:
        host = _host(item)
        names[host] = item.fields["interface"]
        if item.stream:  # else nothing says whose line it is
            holders.setdefault(item.fields["address"].partition("<")[0], set()).add(host)
    several = len(names) > 1
    mixed = several and any(not _OVERLAY.match(name) for name in names.values())
    for item in using:
        name, address = item.fields["interface"], item.fields["address"]
        if _LOCAL.match(name) or _LOCAL_ADDRESS.match(address) or (mixed and _OVERLAY.match(name)):
            return [derived(item, _CAUSE, "address-of-one-machine", 0.85 if several else 0.45)]
    for item in using:
        shared = holders.get(item.fields["address"].partition("<")[0], set())
        if len(shared) > 1:
            return [derived(item, _CAUSE, "same-address-twice", 0.8, hosts=", ".join(sorted(shared)))]
    return []


def _host(item: Observation) -> str:
    found = _HOST.match(item.stream)
    return found["host"] if found else item.stream or item.source


def _first_collective_never_ended(facts: Facts) -> list[Observation]:
    """No communicator came up before the first collective timed out, and NCCL took an interface of one machine only."""
    first = any(
        item.cause == "workload.collective.timeout" and item.fields.get("seq") in {None, "", "1"}
        for item in facts.faults
        if "op" in item.fields
    )
    if not first or facts.signals.get("nccl.init-complete"):
        return []
    for item in facts.signals.get("nccl.bootstrap-using", ()):
        name, address = item.fields["interface"], item.fields["address"]
        if name != "lo" and (_LOCAL.match(name) or _LOCAL_ADDRESS.match(address)):
            return [derived(item, _CAUSE, "first-collective-over-it", 0.6)]
    return []


INTERFACE_RULES = (_unreachable_address, _first_collective_never_ended)
