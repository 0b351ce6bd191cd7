"""Flight-recorder dumps of PyTorch: one file per rank, a pickle or JSON, schema 2.1 to 2.10 and the bare list of 2.2.

This module reads one dump into plain data; `flight_analysis` compares those of all ranks.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from firstfault.errors import InputError
from firstfault.model import TextLine
from firstfault.scan.readers.base import NotEvidenceError, read_document
from firstfault.scan.readers.facts import Context, items, mapping, mappings, name_of, whole_number
from firstfault.scan.readers.flight_analysis import Dump, Entry, Group, analyse_dumps
from firstfault.scan.readers.pickle_code import is_pickle, loaded_objects
from firstfault.scan.readers.safe_pickle import load_plain
from firstfault.scan.readers.times import parse_time
from firstfault.scan.streams import PatientReader, RewoundRaw

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis, Payloads

__all__ = ["FlightRecorderReader", "analyse", "dump_facts", "is_dump"]

KIND = "flight-recorder"
_RANK_IN_NAME = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|bin|dump|txt|gz|zst))*$")
# Entry fields that only a flight recorder writes, whatever the version.
_MARKS = frozenset({"profiling_name", "record_id"})
# Names of which a pickled dump has one near its beginning.
_NAMES = (b"profiling_name", b"pg_config", b"entries")
HEAD_BYTES = 64 * 1024
MAX_ENTRIES = 200_000
MAX_DIMENSIONS = 64


class FlightRecorderReader:
    """A pickled dump. JSON dumps are found by the reader of JSON documents, which uses `dump_facts` too."""

    kind = KIND

    def detect(self, head: bytes) -> bool:
        """Say whether the head is of a pickle; only reading tells what is in it."""
        return is_pickle(head)

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield what the dump says about its own rank.

        Raises:
            NotEvidenceError: It is something else than a dump: a checkpoint, pickled settings.
            InputError: A dump that holds anything but plain data, or is damaged; any pickle that was made to run code.
        """
        head = stream.read(HEAD_BYTES)
        if not any(name in head for name in _NAMES):
            _refuse_attack(head, source_name)
            raise NotEvidenceError(source_name, "pickle", "a pickle, but no flight-recorder dump; not loaded")
        whole = PatientReader(RewoundRaw(source_name, head, stream))
        value = load_plain(read_document(whole, source_name), source_name)
        if not is_dump(value):
            raise NotEvidenceError(source_name, "pickle", "a pickle of plain data, but no flight-recorder dump")
        entries = value["entries"] if isinstance(value, dict) else value
        if entries and not mappings(entries):  # such as lists of lists of lists, which would unfold without end
            raise InputError(f"{source_name}: none of the dump's entries is an operation", "write the dump again")
        yield from dump_facts(value, Context(None, 0, 0, source_name, joint))


def _refuse_attack(head: bytes, source_name: str) -> None:
    """Refuse a pickle that names what no checkpoint has a use for, whatever it pretends to be.

    Raises:
        InputError: Names it.
    """
    for loaded in loaded_objects(head):
        if loaded.is_hostile:
            raise InputError(
                f"{source_name}: the pickle wants to {loaded} at byte {loaded.position}, which could run code; refused",
                "nothing of it was executed here; do not load it anywhere, and find out where it comes from",
            )


def is_dump(value: Any) -> bool:
    """Say whether a decoded value is a dump: a mapping with entries, or the bare list of torch 2.2."""
    if isinstance(value, dict):
        entries = value.get("entries")
        return isinstance(entries, list) and ("pg_config" in value or "version" in value or _are_entries(entries))
    return isinstance(value, list) and _are_entries(value)


def _are_entries(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], dict) and value[0].keys() >= _MARKS


def dump_facts(value: Any, context: Context) -> Iterator[TextLine]:
    """Yield a line about the dump and one about the first operation of each group that did not finish."""
    dump = parse_dump(value, context.source_name)
    rank = "?" if dump.rank is None else dump.rank
    yield TextLine(
        text=f"flight-recorder dump rank={rank} version={dump.version} entries={len(dump.entries)}", rank=dump.rank
    )
    seen: set[str] = set()
    for entry in dump.entries:
        if entry.done or entry.group in seen:
            continue
        seen.add(entry.group)
        yield TextLine(
            text=f"flight-recorder pending rank={rank} pg={entry.group} seq={entry.seq} op={entry.op} "
            f"state={entry.state} frame={entry.frame or 'unknown'}",
            rank=dump.rank,
            time=entry.created,
        )
    if context.joint is not None:
        context.joint.add(KIND, context.source_name, dump)
    else:
        yield from (line for _, line in analyse_dumps([(context.source_name, dump)]))


def analyse(payloads: Payloads) -> list[tuple[str, TextLine]]:
    """Compare the dumps of all ranks (see `flight_analysis`)."""
    return analyse_dumps(payloads)


def parse_dump(value: Any, source_name: str) -> Dump:
    """Return a dump of any version as plain data.

    Args:
        value: The decoded pickle or JSON.
        source_name: The rank is told from its end, as torch names its files `…_rank_N`.
    """
    top = value if isinstance(value, dict) else {}
    match = _RANK_IN_NAME.search(source_name)
    rank = whole_number(top.get("rank"))
    if rank is None and match:
        rank = int(match[1][:9])
    raw = mappings(top.get("entries") if top else value)
    groups = {name_of(str(name)): _group(config) for name, config in mapping(top, "pg_config").items()}
    return Dump(
        rank=rank,
        version=name_of(top.get("version")) or "2.2-list",
        groups=groups,
        entries=[_entry(item, groups) for item in raw[-MAX_ENTRIES:]],
        last_enqueued={
            str(key): _int(mapping({"": status}, "").get("last_enqueued_collective"), -1)
            for key, status in mapping(top, "pg_status").items()
        },
    )


def _group(config: Any) -> Group:
    config = config if isinstance(config, dict) else {}
    ranks = config.get("ranks")
    if isinstance(ranks, str) and len(ranks) < 1_000_000:
        try:
            ranks = ast.literal_eval(ranks)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            ranks = []
    members = [rank for rank in map(whole_number, items(ranks)) if rank is not None]
    return Group(desc=name_of(config.get("desc")), members=members)


def _entry(item: dict[str, Any], groups: dict[str, Group]) -> Entry:
    names = items(
        list(item["process_group"]) if isinstance(item.get("process_group"), tuple) else item.get("process_group")
    )
    name = name_of(names[0]) if names else name_of(item.get("pg_id"))
    if name not in groups and len(groups) == 1:
        name = next(iter(groups))  # gloo names its only group differently in the two places
    description = name_of(names[1]) if len(names) > 1 else ""
    operation = name_of(item.get("profiling_name"))
    backend, _, op = operation.rpartition(":")
    state = name_of(item.get("state")) or "unknown"
    peer_to_peer = bool(item.get("is_p2p")) or op.startswith(("send ", "recv "))
    sequence = (
        item.get("p2p_seq_id")
        if peer_to_peer and "p2p_seq_id" in item
        else item.get("collective_seq_id", item.get("seq_id"))
    )
    return Entry(
        group=name or description or "default_pg",
        group_id=name_of(item.get("pg_id")),
        seq=_int(sequence, -1),
        op=op or operation,
        peer_to_peer=peer_to_peer,
        state=state,
        # gloo leaves the state at "scheduled"; an entry is retired there once its work is over.
        done=state == "completed" or (backend == "gloo" and item.get("retired") is True),
        tells_start=backend != "gloo",
        input_sizes=_sizes(item.get("input_sizes")),
        input_types=tuple(name_of(kind) for kind in items(item.get("input_dtypes"))),
        created=parse_time(item.get("time_created_ns")),
        frame=_user_frame(item.get("frames")),
    )


def _sizes(value: Any) -> tuple[int, ...]:
    """Return the number of elements of each tensor: that is what must agree, the shape need not."""
    counts = []
    for shape in items(value):
        count = 1
        for extent in items(list(shape) if isinstance(shape, tuple) else shape)[:MAX_DIMENSIONS]:
            count *= whole_number(extent) or 1
        counts.append(count)
    return tuple(counts)


def _user_frame(frames: Any) -> str:
    """Return `file:line function` of the innermost frame that is not torch's own."""
    for frame in mappings(frames):
        file = name_of(frame.get("filename"))
        if file and "/torch/" not in file and not file.endswith("c10d_logger.py"):
            return f"{file}:{name_of(frame.get('line'))} {name_of(frame.get('name'))}"
    return ""


def _int(value: Any, default: int) -> int:
    if isinstance(value, bool):
        return default
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return default


FLIGHT_RECORDER = FlightRecorderReader()
