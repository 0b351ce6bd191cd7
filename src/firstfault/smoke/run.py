"""One rank's smoke run: rung after rung, and the verdict on the first that fails."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis import triage
from firstfault.model import Evidence, Role, Transport, Verdict
from firstfault.model.smoke import RungName, RungResult, SmokeReport
from firstfault.smoke.child import climb_backend
from firstfault.smoke.exchange import Exchange, exchange
from firstfault.smoke.floors import bandwidth_floor, expected_transport, transport_matches
from firstfault.smoke.interfaces import interface_problem
from firstfault.smoke.presence import Presence

if TYPE_CHECKING:
    from firstfault.model import TriageReport
    from firstfault.smoke.options import Options
    from firstfault.smoke.presence import Loss

__all__ = ["run_smoke"]

_SURE = 0.95
"""Confidence of a verdict that a probe measured itself."""


class _Run:
    """Collects rungs while they are climbed."""

    def __init__(self, options: Options, logs: Path) -> None:
        self.options = options
        self.logs = logs
        self.host = socket.gethostname()
        self.started = time.monotonic()
        self.rungs: list[RungResult] = []
        self.lines: list[str] = []
        self.cause: str | None = None
        self.sign: float | None = None
        self.presence = Presence({})

    def add(self, rung: RungName, ok: bool | None, started: float, why: str, peer: str = "") -> None:
        seconds = round(time.monotonic() - started, 3)
        self.rungs.append(RungResult(rung=rung, ok=ok, seconds=seconds, why=why, peer=peer))

    @property
    def failed(self) -> bool:
        return any(rung.ok is False for rung in self.rungs)


def run_smoke(options: Options, logs: Path) -> SmokeReport:
    """Climb the rungs; stop at the first that fails.

    Args:
        options: Who this rank is and how long each rung may take.
        logs: Existing folder; the probes' results and the backend's output are written there, for triage and people.
    """
    run = _Run(options, logs)
    bus, report = None, None
    result = None
    why = ""
    try:
        if _name(run) and _interface(run) and _tcp(run):
            if options.preflight and options.backend == "nccl" and not Path("/dev/nvidiactl").exists():
                run.add("store", None, time.monotonic(), "preflight without a visible GPU: NCCL cannot be entered here")
            else:
                bus, report = _backend(run)
        result = _result(run, bus, report)
    except BaseException as error:
        why = f"it could not go on: {error}" if isinstance(error, Exception) else "it was interrupted"
        raise
    finally:
        failed = next((rung for rung in run.rungs if rung.ok is False), None)
        cause = result.verdict.cause if result and result.verdict else ""
        if failed:
            why = f"rung {failed.rung} failed: {failed.why}"
        run.presence.close(ok=result is not None and not run.failed, cause=cause, why=why)
    return result


# -- rungs -------------------------------------------------------------------------------------------------------------


def _name(run: _Run) -> bool:
    """Resolve the master's name; a resolver that hangs counts as one that fails."""
    name, limit = run.options.master[0], run.options.limits.name
    started = time.monotonic()
    found: list[str] = []
    problem: list[str] = []

    def resolve() -> None:
        try:
            found.extend(sorted({str(each[4][0]) for each in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}))
        except OSError as error:
            problem.append(str(error))
        except UnicodeError as error:  # the name never reaches a resolver
            problem.append(_impossible_label(name) or str(error))

    deadline = started + run.options.limits.wait
    while True:
        problem.clear()
        thread = threading.Thread(target=resolve, daemon=True)
        thread.start()
        thread.join(limit)
        # A headless Service has no address before the master's Pod has one: a name may come late, but a resolver that
        # answers "no such name" is not waited for longer than its rung, unless the caller waits for peers anyway.
        if found or time.monotonic() - started >= min(limit, deadline - started):
            break
        time.sleep(0.25)
    if found:
        run.add("name", True, started, f"{name} is {', '.join(found)}", name)
        return True
    why = problem[0] if problem else f"no answer within {limit:g} s"
    # As the resolver said it: "no such name" (-2) and "no answer for now" (-3) have other fixes.
    said = f"socket.gaierror: {why}: {name}" if why.startswith("[Errno") else f"DNS resolution failed for {name}: {why}"
    run.lines.append(said)
    run.add("name", False, started, f"{name} does not resolve: {why}", name)
    run.cause, run.sign = "network.dns.unresolved", started
    return False


def _impossible_label(name: str) -> str:
    """Return which label no name can have: an empty one (`train..svc`), one of more than 63 characters; "" for none."""
    for label in name.removesuffix(".").split("."):
        if not label:
            return "one of its labels is empty; is a variable unset where the name is put together?"
        if len(label) > 63:
            return f"its label {label!r} has {len(label)} characters, and 63 are the most"
    return ""


def _interface(run: _Run) -> bool:
    started = time.monotonic()
    one_host = run.options.master[0] in ("localhost", "127.0.0.1", "::1") or run.options.world_size == 1
    found = interface_problem(run.options.backend, os.environ, one_host=one_host)
    if found is None:
        return True
    run.cause, why = found
    run.lines.append(why)
    run.sign = started
    run.add("tcp", False, started, why)
    return False


def _tcp(run: _Run) -> bool:
    options = run.options
    if options.world_size == 1:
        return True
    started = time.monotonic()
    host, port = options.master
    master = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        found = exchange(options, run.host)
    except OSError as error:
        run.cause, run.sign = "network.c10d.port-in-use", started
        run.lines.append(f"cannot listen on port {options.master[1]}: {error}")
        run.add("tcp", False, started, f"cannot listen on {master}: {error.strerror}", master)
        return False
    run.presence = Presence(found.held)
    run.sign = found.first_sign or started
    run.lines += [each.line(run.host) for each in (found.to_master, *found.to_peers) if each]
    return _judge(run, found, started, master)


def _judge(run: _Run, found: Exchange, started: float, master: str) -> bool:
    """Name what the probes show."""
    options = run.options
    if found.to_master is not None and found.to_master.state != "open":
        state = found.to_master.state
        run.cause = "network.c10d.refused" if state == "refused" else "network.c10d.unreachable"
        words = {
            "dropped": f"no answer within {options.limits.tcp:g} s: packets are dropped",
            "refused": f"refused for {options.limits.wait:g} s: nobody listens there, or a firewall rejects",
            "unreachable": "no route, or a firewall that says so",
        }
        run.add("tcp", False, started, f"master port: {words[state]}", master)
        return False
    if not found.joined:  # this rank itself would be among them
        run.cause = "network.c10d.store-lost"
        why = "rank 0 gave no list of the ranks: it ended before all had come, or something else listens on its port"
        run.lines.append(why)
        run.add("tcp", False, started, why, master)
        return False
    blocked = [each for each in found.to_peers if each.state != "open"]
    if blocked:
        run.cause = "network.nccl.bootstrap-unreachable" if options.backend == "nccl" else "network.gloo.unreachable"
        listed = ", ".join(f"{each.peer}:{each.port} {each.state}" for each in blocked)
        why = f"the master port is open, the ports that {options.backend} uses are not: {listed}"
        run.add("tcp", False, started, why, blocked[0].peer)
        return False
    missing = sorted(set(range(options.world_size)) - set(found.joined))
    if missing:
        run.cause = "network.c10d.missing-ranks"
        listed = ", ".join(map(str, missing[:16])) + (" …" if len(missing) > 16 else "")
        why = f"{len(found.joined)}/{options.world_size} ranks came within {options.limits.wait:g} s; missing: {listed}"
        run.lines.append(why)
        run.add("tcp", False, started, why, master)
        return False
    run.add(
        "tcp", True, started, f"{options.world_size} ranks reach each other on the master port and on others", master
    )
    return True


def _backend(run: _Run) -> tuple[float | None, TriageReport]:
    """Climb the backend's rungs in a child, then read what it said."""
    options = run.options
    log = run.logs / f"rank-{options.rank}.log"
    started = time.monotonic()
    outcome = climb_backend(options, log, run.presence)
    run.rungs += outcome.rungs
    if outcome.loss is not None:
        _lost(run, outcome.loss)
    report = triage([run.logs])
    if run.failed:
        run.sign = started
        return outcome.bus, report
    started = time.monotonic()
    floor = bandwidth_floor(options) if options.world_size > 1 else None  # alone, nothing goes over a bus
    if floor is not None and outcome.bus is not None and outcome.bus < floor:
        why = f"{outcome.bus / 1e9:.2f} GB/s bus bandwidth, below the floor of {floor / 1e9:.2f} GB/s"
        run.rungs[-1] = msgspec.structs.replace(run.rungs[-1], ok=False, why=why)
        run.cause, run.sign = "network.link.degraded", started
        run.lines.append(why)
    if not run.failed:
        _transport(run, report.transport)
    return outcome.bus, report


def _lost(run: _Run, loss: Loss) -> None:
    """Name what the loss of a peer means to this rank."""
    run.lines.append(loss.why)
    if not loss.vanished:
        run.cause = loss.cause if loss.cause in load_catalogue().cards else None
    else:
        run.cause = "network.c10d.store-lost" if loss.rank == 0 else "network.c10d.missing-ranks"


def _transport(run: _Run, transport: Transport | None) -> None:
    started = time.monotonic()
    expected = expected_transport(run.options)
    chosen = transport.chosen if transport else None
    if expected is None or expected == "any" or run.options.backend != "nccl":
        run.add("transport", None, started, f"chosen: {chosen or 'not known'}; none is prescribed")
    elif chosen is None:
        run.add("transport", None, started, "NCCL's log does not say which transport it chose")
    elif transport_matches(expected, chosen):
        run.add("transport", True, started, f"chosen: {chosen}")
    else:
        run.cause, run.sign = "network.efa.silent-fallback", started
        why = f"{expected} was expected and NCCL chose {chosen}: it works, only slower"
        run.lines.append(why)
        run.add("transport", False, started, why)


# -- the result --------------------------------------------------------------------------------------------------------


def _result(run: _Run, bus: float | None, report: TriageReport | None) -> SmokeReport:
    now = time.monotonic()
    if run.lines:
        (run.logs / "probes.txt").write_text("".join(f"{line}\n" for line in run.lines), encoding="utf-8")
    verdict = _verdict(run, report) if run.failed else None
    status: Literal["ok", "fault", "unknown"] = "ok" if not run.failed else "fault" if verdict else "unknown"
    transport = report.transport if report else None
    options = run.options
    return SmokeReport(
        status=status,
        rank=options.rank,
        world_size=options.world_size,
        host=run.host,
        backend=options.backend,
        seconds=round(now - run.started, 3),
        diagnosis_seconds=round(now - run.sign, 3) if run.failed and run.sign is not None else None,
        rungs=run.rungs,
        verdict=verdict,
        transport=transport,
        bus_bandwidth=bus,
        bandwidth_floor=bandwidth_floor(options),
        chosen=transport.chosen if transport else None,
        expected=expected_transport(options),
        logs=str(run.logs),
    )


def _verdict(run: _Run, report: TriageReport | None) -> Verdict | None:
    """Return the probes' own verdict where they measured the cause, else triage's on the backend's output."""
    failed = next(rung for rung in run.rungs if rung.ok is False)
    if run.cause is None:
        return report.verdict if report else None
    card = load_catalogue().resolve(run.cause)
    text = run.lines or [failed.why]
    wanted = [line for line in text if " open " not in line] or text
    return Verdict(
        cause=card.id,
        layer=card.layer,
        title=card.title,
        confidence=_SURE,
        summary=f"{card.title}. Rung {failed.rung} failed: {failed.why}.",
        evidence=[
            Evidence(source="probes.txt", text=line, role=Role.ROOT, line=text.index(line) + 1, rank=run.options.rank)
            for line in wanted
        ],
        next_steps=list(card.confirm),
        fix=list(card.fix),
        prevention=list(card.prevention),
    )
