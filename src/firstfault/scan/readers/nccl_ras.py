"""The answer of NCCL's RAS service (`ncclras`, or `VERBOSE STATUS` sent to port 28028), as text and as JSON.

Two quirks of the JSON that 2.28.9 sends over the port: the first line is `OK`, and a comma is missing behind
`nvml_dev` of a missing rank.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from firstfault.model import TextLine
from firstfault.model.ranks import rank_text
from firstfault.scan.readers.base import plain_lines, read_document
from firstfault.scan.readers.facts import mapping, mappings, name_of, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["RasJsonReader", "RasTextReader"]

KIND = "nccl-ras"
MAX_DIGITS = 20
# ncclResult_t: by number in the JSON, in words in the text (NCCL 2.26.2, ras/client_support.cc), and as named here.
_ERRORS = {"1": "cuda", "2": "system", "3": "internal", "4": "argument", "5": "usage", "6": "remote"}
_NO_ERROR = frozenset({"", "0", "7"})  # 7: still under way
_ERROR_WORDS = (
    ("Unhandled CUDA error", "cuda"),
    ("System error", "system"),
    ("Internal error", "internal"),
    ("Invalid argument", "argument"),
    ("Invalid usage", "usage"),
    ("Remote process error", "remote"),
)
_MISSING_COMMA = re.compile(r'("nvml_dev"\s*:\s*-?\d+)(\s*)(?=")')


class RasJsonReader:
    """JSON of RAS, whole or with the quirks of the port."""

    kind = KIND

    def detect(self, head: bytes) -> bool:
        """Say whether the head has the names that only this document has together."""
        return b'"communicators' in head and (b'"nccl_version"' in head or b'"missing_ranks"' in head)

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield one line for each finding of each communicator, or `healthy`."""
        del joint
        data = read_document(stream, source_name)
        text = data.decode("utf-8", "replace")
        begin = max(text.find("{"), 0)
        try:
            value, _ = json.JSONDecoder().raw_decode(_MISSING_COMMA.sub(r"\1,\2", text[begin:]))
        except (ValueError, RecursionError):
            yield from plain_lines(data)
            return
        communicators = mappings(mapping({"": value}, "").get("communicators"))
        if (
            not all(_lists_ranks(communicator) for communicator in communicators) or not communicators
        ):  # nothing was seen, which is not the same as healthy
            yield from plain_lines(data)
            return
        findings = [line for communicator in communicators for line in _communicator(communicator)]
        for line in findings or [f"nccl-ras healthy communicators={len(communicators)}"]:
            yield TextLine(text=line)


def _lists_ranks(comm: dict[str, Any]) -> bool:
    """Whether a communicator names at least one rank, present or missing, by its number."""
    members = mappings(comm.get("ranks")) + mappings(comm.get("missing_ranks"))
    return any(_rank(item) >= 0 for item in members)


def _communicator(comm: dict[str, Any]) -> Iterator[str]:
    name = name_of(comm.get("hash")) or name_of(comm.get("comm_hash")) or "unknown"
    ranks = mappings(comm.get("ranks"))
    silent: list[int] = []
    left: list[int] = []
    for item in mappings(comm.get("missing_ranks")):
        flags = {**item, **mapping(item, "status")}
        told = [flags[key] for key in ("unresponsive", "considered_dead") if key in flags]
        # A rank that answers but is no member any more has finished with the communicator: no fault.
        (silent if any(told) or not told else left).append(_rank(item))
    if silent:
        yield f"nccl-ras missing ranks={rank_text(silent)} comm={name} size={name_of(comm.get('size')) or '?'}"
    if left:
        yield f"nccl-ras left ranks={rank_text(left)} comm={name}"
    failed: dict[str, set[int]] = {}
    for item in ranks:
        code = name_of(mapping(item, "status").get("async_error"))
        if code not in _NO_ERROR:
            failed.setdefault(_ERRORS.get(code, code), set()).add(_rank(item))
    yield from _async_errors(failed, name)
    starting = [_rank(item) for item in ranks if name_of(mapping(item, "status").get("init_state")) not in {"", "0"}]
    if starting:
        yield f"nccl-ras init-incomplete ranks={rank_text(starting)} comm={name}"
    operations = sorted({key for item in ranks for key in mapping(item, "collective_counts")})
    for operation in operations:
        counts = {_rank(item): mapping(item, "collective_counts").get(operation, 0) for item in ranks}
        numbers = {rank: count for rank, count in counts.items() if whole_number(count) is not None}
        if numbers and min(numbers.values()) != (high := max(numbers.values())):
            yield _mismatch(
                [rank for rank, count in numbers.items() if count < high],
                name,
                name_of(operation),
                min(numbers.values()),
                high,
            )


def _async_errors(failed: dict[str, set[int]], comm: str) -> Iterator[str]:
    """One line for each kind of error: what kind it is tells what to look at next."""
    for error, ranks in sorted(failed.items()):
        yield f"nccl-ras async-error ranks={rank_text(ranks)} comm={comm} error={error}"


def _mismatch(behind: list[int], comm: str, operation: str, low: int, high: int) -> str:
    return f"nccl-ras count-mismatch ranks={rank_text(behind)} comm={comm} op={operation} low={low} high={high}"


def _rank(item: dict[str, Any]) -> int:
    number = whole_number(item.get("rank", item.get("comm_rank")))
    return -1 if number is None else number


_TEXT_HEAD = re.compile(rb"(?m)^(?:Job summary\s*$|Communicators\.\.\. \(|\s*Group +Comms +Nodes +Ranks)")
_ROW = re.compile(
    r"^\s*\d+ +(?P<comms>\d{1,9}) +\d+ +\d+(?:-\d+)? +(?P<ranks>\d+) +\d+ +(?P<status>[A-Z]+) +(?P<errors>[A-Z]+)\s*$"
)
_SECTION = re.compile(r"^\s*#\d+-\d+ \((?P<comm>[0-9a-f:]+)\) (?P<what>[A-Z]+)")
_MISSING = re.compile(r"^\s*The missing ranks?: (?P<ranks>[\d, -]+)$")
_RANK = re.compile(r"^\s*Rank (?P<rank>\d{1,9})(?P<what>| has [^-]*?| reported [^-]*?) -- ")
_OPERATION = re.compile(r"Communicator ranks have different (\w+) operation counts")
_LAUNCHED = re.compile(r"(?:launched up to operation (\d{1,18})\b|not launched any operations)")
_DEAD = re.compile(r"^\s*(\d{1,9}) job process(?:es)? (?:is|are) considered dead")
_JOB_MISSING = re.compile(r"^\s*Missing communicator data from (\d{1,9}) job process")


class RasTextReader:
    """The text of RAS. All lines are handed on; what they say together follows as findings."""

    kind = KIND

    def detect(self, head: bytes) -> bool:
        """Say whether the head holds the table of communicators or the job summary."""
        return _TEXT_HEAD.search(head) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the lines, then the findings."""
        del joint
        summary = _TextSummary()
        for line in plain_lines(read_document(stream, source_name)):
            yield line
            summary.add(line.text)
        for text in summary.findings():
            yield TextLine(text=text)


class _TextSummary:
    """Gathers findings over the lines of one or more answers."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str, str]] = []
        self._comm, self._what, self._operation = "job", "", ""
        self._count = 0
        self._missing: dict[str, set[int]] = {}
        self._failed: dict[str, dict[str, set[int]]] = {}
        self._starting: dict[str, set[int]] = {}
        self._counts: dict[tuple[str, str], dict[int, list[int]]] = {}
        self._dead = 0

    def add(self, text: str) -> None:
        """Take one line."""
        if (row := _ROW.match(text)) is not None:
            # A communicator of which only missing ranks know shows up as one of no ranks at all.
            if row["ranks"] != "0":
                self._rows.append((int(row["comms"]), row["status"], row["errors"]))
        elif (section := _SECTION.match(text)) is not None:
            self._comm, self._what, self._operation = section["comm"], section["what"], ""
        elif (missing := _MISSING.match(text)) is not None:
            self._missing.setdefault(self._comm, set()).update(_numbers(missing["ranks"]))
        elif (dead := _DEAD.match(text) or _JOB_MISSING.match(text)) is not None:
            self._dead = max(self._dead, int(dead[1]))
        elif (operation := _OPERATION.search(text)) is not None:
            self._operation = operation[1]
        else:
            self._add_rank(text)

    def _add_rank(self, text: str) -> None:
        """Take a line about ranks: how far they launched, what they reported, in which state they are."""
        launched = _LAUNCHED.search(text)
        if launched is not None:
            self._count = int(launched[1] or 0)
            self._counts.setdefault((self._comm, self._operation), {}).setdefault(self._count, [])
        rank = _RANK.match(text)
        if rank is None:
            return
        number = int(rank["rank"])
        if self._what == "INCOMPLETE":
            self._missing.setdefault(self._comm, set()).add(number)
        elif "reported" in rank["what"] and "in progress" not in rank["what"]:
            error = next((error for words, error in _ERROR_WORDS if words in rank["what"]), "unknown")
            self._failed.setdefault(self._comm, {}).setdefault(error, set()).add(number)
        elif "status INIT" in rank["what"]:
            self._starting.setdefault(self._comm, set()).add(number)
        elif self._operation:
            self._counts[self._comm, self._operation].setdefault(self._count, []).append(number)

    def findings(self) -> Iterator[str]:
        """Yield the findings of all lines."""
        for comm, failed in sorted(self._failed.items()):
            yield from _async_errors(failed, comm)
        for what, found in (("missing", self._missing), ("init-incomplete", self._starting)):
            for comm, ranks in sorted(found.items()):
                yield f"nccl-ras {what} ranks={rank_text(ranks)} comm={comm}"
        for (comm, operation), counts in sorted(self._counts.items()):
            if len(counts) > 1:
                behind = [rank for count, ranks in counts.items() if count < max(counts) for rank in ranks]
                yield _mismatch(behind, comm, operation, min(counts), max(counts))
        if self._dead:
            yield f"nccl-ras missing processes={self._dead}"
        if any(status == "INIT" for _, status, _ in self._rows) and not self._starting:
            yield "nccl-ras init-incomplete ranks=none comm=unknown"
        if (
            self._rows
            and all(row[1:] == ("RUNNING", "OK") for row in self._rows)
            and not self._counts
            and not self._dead
        ):
            yield f"nccl-ras healthy communicators={sum(row[0] for row in self._rows)}"


def _numbers(text: str) -> set[int]:
    """Return the ranks of `1, 3-5`; ranges are cut at a million so that no text can fill the memory."""
    ranks: set[int] = set()
    for part in text.replace(" ", "").split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and len(part) < MAX_DIGITS:
            ranks.update(range(int(low), min(int(high) if high.isdecimal() else int(low), int(low) + 1_000_000) + 1))
    return ranks


RAS_JSON = RasJsonReader()
RAS_TEXT = RasTextReader()
