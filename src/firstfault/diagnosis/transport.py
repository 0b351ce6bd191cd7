"""Which transports NCCL considered, which it took, and how one can tell (NVLink, shared memory, IB, EFA, socket)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model import Transport, TransportOption

if TYPE_CHECKING:
    from firstfault.diagnosis.cite import Citer
    from firstfault.diagnosis.facts import Facts

__all__ = ["explain_transport"]


def explain_transport(facts: Facts, cite: Citer) -> Transport | None:
    """Return the explanation, or None where no line of NCCL is there to explain."""
    if not facts.has("nccl.speaks", "transport.network", "transport.channel-net"):
        return None
    network = next(
        (item.fields["network"] for item in facts.signals.get("transport.network", ())),
        next((item.fields["network"] for item in facts.signals.get("transport.channel-net", ())), ""),
    )
    options = [_nvlink(facts, cite), _shm(facts, cite), _infiniband(facts, cite, network)]
    options += [_efa(facts, cite, network), _socket(facts, cite, network)]
    used = [option.name for option in options if option.used]
    return Transport(considered=options, chosen=", ".join(used) or None)


def _option(facts: Facts, cite: Citer, name: str, *, used: bool, why: str, signal: str) -> TransportOption:
    line = facts.first(signal) if signal else None
    return TransportOption(name=name, used=used, why=why, evidence=cite(line) if line else None)


def _nvlink(facts: Facts, cite: Citer) -> TransportOption:
    if facts.has("transport.channel-p2p"):
        return _option(
            facts, cite, "NVLink/P2P", used=True, why="channels go via P2P between GPUs of one node",
            signal="transport.channel-p2p",
        )  # fmt: skip
    for item in facts.signals.get("nccl.nodes", ()):
        if item.fields["local"] == "1":
            why = (
                f"nNodes {item.fields['nodes']} and localRanks 1: every rank is alone on its node, and NVLink does not "
                "leave a node; it leaves no line of its own"
            )
            return _option(facts, cite, "NVLink/P2P", used=False, why=why, signal="nccl.nodes")
    return _option(
        facts, cite, "NVLink/P2P", used=False, signal="",
        why="no channel goes via P2P; between nodes NVLink leaves no line, so its absence is argued, not read",
    )  # fmt: skip


def _shm(facts: Facts, cite: Citer) -> TransportOption:
    used = facts.has("transport.channel-shm")
    why = "channels go through shared memory of one node" if used else "no channel goes through shared memory"
    return _option(facts, cite, "SHM", used=used, why=why, signal="transport.channel-shm" if used else "")


def _infiniband(facts: Facts, cite: Citer, network: str) -> TransportOption:
    if network.startswith("IB"):
        gdr = any("gdr" in item.fields for item in facts.signals.get("transport.channel-net", ()))
        why = "NCCL chose its IB/RoCE transport" + (" with GPUDirect RDMA" if gdr else "")
        return _option(facts, cite, "IB/RDMA", used=True, why=why, signal="transport.network")
    if facts.has("transport.ib-disabled"):
        return _option(
            facts, cite, "IB/RDMA", used=False, why="switched off by NCCL_IB_DISABLE=1", signal="transport.ib-disabled"
        )
    if facts.has("transport.ib-absent"):
        return _option(
            facts, cite, "IB/RDMA", used=False, why="no IB device or verbs library", signal="transport.ib-absent"
        )
    return _option(facts, cite, "IB/RDMA", used=False, why="no line chooses it", signal="")


def _efa(facts: Facts, cite: Citer, network: str) -> TransportOption:
    name = "EFA/Libfabric"
    if "Libfabric" in network or "OFI" in network.upper():
        return _option(facts, cite, name, used=True, why="NCCL chose the OFI plugin", signal="transport.network")
    if facts.has("transport.ofi"):
        why = "the OFI plugin loaded, but NCCL did not choose it"
        return _option(facts, cite, name, used=False, why=why, signal="transport.ofi")
    if facts.has("transport.plugin-absent"):
        why = "no network plugin is installed (normal without EFA)"
        return _option(facts, cite, name, used=False, why=why, signal="transport.plugin-absent")
    return _option(facts, cite, name, used=False, why="no line of the OFI plugin", signal="")


def _socket(facts: Facts, cite: Citer, network: str) -> TransportOption:
    if network.startswith("Socket"):
        interface = facts.first("transport.socket-interface")
        over = f" over {interface.fields['interface']}" if interface else ""
        return _option(
            facts, cite, "TCP socket", used=True, why=f"NCCL chose TCP sockets{over}", signal="transport.network"
        )
    return _option(facts, cite, "TCP socket", used=False, why="another network was chosen, or none yet", signal="")
