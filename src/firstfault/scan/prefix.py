"""Reads what log shippers, launchers and libraries put before a message: rank, time, stream.

`parse_prefix` peels one prefix after the other from the front of a line, in whatever order they stand, and returns
where the message begins. It never guesses: a part that is not known keeps its empty value. Nothing here knows faults.
"""

from __future__ import annotations

import re
from calendar import timegm
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Prefix", "parse_prefix", "rank_from_name"]

_MONTHS = {
    name: number + 1
    for number, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
}
_LONGEST_PREFIX = 400
# A byte order mark, and the zero bytes that a crash leaves in a log, stand before a prefix as blanks do.
_BLANK = " \t\ufeff\0"


@dataclass(slots=True)
class Prefix:
    """What the front of a line says.

    Attributes:
        start: Where the message begins in the line.
        rank: Global rank; a launcher's local rank only where nothing better is known (`local` tells).
        local: `rank` is a local rank.
        time: Seconds, on the clock that `clock` names (see `Observation`).
        stream: Who wrote it: Pod/container, host:pid, actor; "" if unknown.
    """

    start: int = 0
    rank: int | None = None
    local: bool = False
    time: float | None = None
    clock: str = ""
    stream: str = ""


def parse_prefix(line: str) -> Prefix:
    """Peel all known prefixes from a line."""
    prefix = Prefix()
    head = line[:_LONGEST_PREFIX]
    position = 0
    for _ in range(8):
        while position < len(head) and head[position] in _BLANK:
            position += 1
        if position >= len(head):
            break
        taken = _peel(head, position, prefix)
        if not taken:
            break
        position = taken
    prefix.start = position
    return prefix


def _peel(head: str, position: int, prefix: Prefix) -> int:
    for pattern, handle in _by_first_character(head[position]):
        if (found := pattern.match(head, position)) and handle(found, prefix) is not False:
            return found.end()
    return 0


def _set_rank(found: re.Match[str], prefix: Prefix) -> None:
    if prefix.rank is None or prefix.local:
        prefix.rank, prefix.local = int(found["rank"]), False


def _set_local_rank(found: re.Match[str], prefix: Prefix) -> None:
    if prefix.rank is None:
        prefix.rank, prefix.local = int(found["rank"]), True


def _set_slurm_rank(found: re.Match[str], prefix: Prefix) -> bool | None:
    if prefix.rank is not None or found.start():
        return False
    prefix.rank, prefix.local = int(found["rank"]), False
    return None


def _set_stream(found: re.Match[str], prefix: Prefix) -> None:
    prefix.stream = f"{prefix.stream}/{found['stream']}" if prefix.stream else found["stream"]
    if (rank := found.groupdict().get("rank")) is not None:
        _set_rank(found, prefix)
        prefix.rank = int(rank)


def _set_nccl(found: re.Match[str], prefix: Prefix) -> None:
    # A process may hold several ranks, one for each device: the device belongs to the stream.
    _set_date(found, prefix)
    prefix.stream = f"{found['host']}:{found['pid']}[{found['device']}]"


def _set_date(found: re.Match[str], prefix: Prefix) -> None:
    part = found.groupdict()
    if part.get("year") is None or (prefix.time is not None and not prefix.clock):
        return
    seconds = _seconds(int(part["year"]), part)
    if seconds is None:
        return
    prefix.time = seconds + _fraction(part.get("f")) - _zone(part.get("zone"))
    prefix.clock = ""


def _set_yearless(found: re.Match[str], prefix: Prefix) -> None:
    if prefix.time is not None:
        return
    part = found.groupdict()
    # 1972 is a leap year: 29 February exists.
    seconds = _seconds(1972, part)
    if seconds is None:
        return
    prefix.time = seconds + _fraction(part.get("f"))
    prefix.clock = "yearless"
    if part.get("host") and not prefix.stream:
        prefix.stream = part["host"]


def _set_uptime(found: re.Match[str], prefix: Prefix) -> None:
    if prefix.time is None:
        prefix.time, prefix.clock = float(found["uptime"]), "uptime"


def _set_record_date(found: re.Match[str], prefix: Prefix) -> bool:
    """Take the time of a JSON record among lines of text; the record stays the message."""
    _set_date(found, prefix)
    return False


def _skip(_found: re.Match[str], _prefix: Prefix) -> None:
    return


@lru_cache(maxsize=64)
def _midnight(year: int, month: int, day: int) -> int | None:
    try:
        return timegm((year, month, day, 0, 0, 0))
    except ValueError:  # 31 February: no date after all
        return None


def _seconds(year: int, part: dict[str, str]) -> int | None:
    """Seconds since the epoch of the date and clock in a match; None where it is no date."""
    month = part["month"]
    number = _MONTHS.get(month) or (int(month) if month.isdigit() else 0)
    midnight = _midnight(year, number, int(part["day"])) if 1 <= number <= 12 else None
    return None if midnight is None else midnight + int(part["h"]) * 3600 + int(part["m"]) * 60 + int(part["s"])


def _fraction(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


def _zone(zone: str | None) -> float:
    if not zone or zone in "Zz":
        return 0.0
    sign = -1 if zone[0] == "-" else 1
    digits = zone[1:].replace(":", "")
    return sign * (int(digits[:2]) * 3600 + int(digits[2:4] or 0) * 60)


_CLOCK = r"(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)(?:[.,](?P<f>\d+))?"
_ISO = r"(?P<year>(?:19|20)\d\d)[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]" + _CLOCK + r" ?(?P<zone>Z|[+-]\d\d:?\d\d)?"
_DIGITS = "0123456789"

# (characters it can begin with or "" for any, pattern, what to do with it); first match wins, so specific ones first.
_PREFIXES: tuple[tuple[str, re.Pattern[str], Callable[[re.Match[str], Prefix], bool | None]], ...] = (
    ("[", re.compile(r"\[pod/(?P<stream>[^\]\s]+)\] "), _set_stream),
    ("[", re.compile(r"\[[Rr]ank:?\s?(?P<rank>\d+)\]:?(?=[\s\[])"), _set_rank),
    ("[", re.compile(r"\[(?:PG [^\]]*?)[Rr]ank (?P<rank>\d+)\]"), _set_rank),
    ("[", re.compile(r"\[1,(?P<rank>\d+)\]<(?:stdout|stderr)>:"), _set_rank),
    ("[", re.compile(r"\[(?:default|[A-Za-z_]\w*?)(?P<rank>\d+)\]: ?"), _set_local_rank),
    ("[", re.compile(rf"\[{_ISO}\](?: (?=\S))?"), _set_date),
    ("[", re.compile(r"\[\w{3} (?P<month>\w{3}) +(?P<day>\d+) " + _CLOCK + r" (?P<year>\d{4})\] ?"), _set_date),
    ("[", re.compile(r"\[\s*(?P<uptime>\d+\.\d{3,9})\](?:\[[^\]]*\])? ?"), _set_uptime),
    # torch: [E816 01:45:40.183009389 ProcessGroupNCCL.cpp:607]; month and day run together, month without a zero
    (
        "[",
        re.compile(r"\[[IWEF](?P<month>\d{1,2})(?P<day>\d\d) " + _CLOCK + r" [\w.]+:\d+\] ?"),
        _set_yearless,
    ),
    ("[", re.compile(r"\[[IWEF] [\w.]+:\d+\] ?"), _skip),
    ("[", re.compile(r"\[(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\] ?"), _skip),
    ("[", re.compile(r"\[[\w./-]+\.(?:py|cpp|cc|go):\d+(?::\w+)?\] ?"), _skip),
    ("[", re.compile(r"\[c10d[^\]]*\] ?"), _skip),
    (
        "(",
        re.compile(r"\((?P<stream>[\w.-]+(?:\[rank=(?P<rank>\d+)\])?(?: rank=\d+)? pid=\d+(?:, ip=[\w.:]+)?)\) ?"),
        _set_stream,
    ),
    ("(", re.compile(r"\((?P<stream>pid=\d+(?:, ip=[\w.:]+)?)\) ?"), _set_stream),
    # glog/klog: E0819 11:10:07.301912   13973 client_config.go:667]
    (
        "IWEF",
        re.compile(r"[IWEF](?P<month>\d\d)(?P<day>\d\d) " + _CLOCK + r"\s+\d+ [\w./-]+:\d+\] ?"),
        _set_yearless,
    ),
    # vLLM: INFO 11-01 03:20:11 [core.py:632]
    (
        "DIWEC",
        re.compile(
            r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<month>\d\d)-(?P<day>\d\d) "
            + _CLOCK
            + r"(?: \[?[\w./]+:\d+\])? ?"
        ),
        _set_yearless,
    ),
    # CRI: the text behind the tag may be indented
    (_DIGITS, re.compile(rf"{_ISO} (?:stdout|stderr) [FP](?: |$)"), _set_date),
    ("t", re.compile(rf'time="{_ISO}" (?:level=\w+ )?(?:msg=)?"?'), _set_date),
    (
        _DIGITS,
        re.compile(
            rf"{_ISO}(?: (?:stdout|stderr) [FP])?(?: - \d+)?(?: ?- [\w.]+)?"
            r"(?: -? ?\[?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\]?)?(?: - | (?=\S)|: |$)"
        ),
        _set_date,
    ),
    (
        _DIGITS,
        re.compile(r"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4}) " + _CLOCK + r"(?: - \w+ - [\w.]+ - )? ?"),
        _set_date,
    ),
    (
        "",
        re.compile(
            r"(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) " + _CLOCK + r" (?P<host>[\w.-]+) [\w./-]+(?:\[\d+\])?: ?"
        ),
        _set_yearless,
    ),
    (
        "{",
        re.compile(rf'\{{(?:"[^"]{{1,40}}":"[^"]{{0,80}}",){{0,3}}"(?:time|ts|timestamp)":"{_ISO}"'),
        _set_record_date,
    ),
    # A quotation in a report
    (">", re.compile(r">(?: >)* (?=[^>])"), _skip),
    # NCCL: host:pid:tid [dev]
    ("", re.compile(r"(?P<host>[\w.-]+):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] (?=NCCL |\S+:\d+ |\S+ NCCL )"), _set_nccl),
    # srun --label: "3: text"; pdsh: "10.0.3.177: text"
    (_DIGITS, re.compile(r"(?P<rank>\d{1,6}): (?=\S)"), _set_slurm_rank),
    (_DIGITS, re.compile(r"(?P<stream>\d+\.\d+\.\d+\.\d+): (?=\S)"), _set_stream),
)


@cache
def _by_first_character(
    character: str,
) -> tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Prefix], bool | None]], ...]:
    """The prefixes that can begin with a character, in order."""
    return tuple((pattern, handle) for starts, pattern, handle in _PREFIXES if not starts or character in starts)


_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.=]?(\d+)(?!\d)", re.IGNORECASE)


def rank_from_name(name: str) -> int | None:
    """Return the rank that a file name gives away (`rank-3.log`, `nccl_trace_rank_3`): the last resort."""
    found = _RANK_IN_NAME.findall(name.rsplit("/", 1)[-1].rsplit("!", 1)[-1])
    return int(found[-1]) if found else None
