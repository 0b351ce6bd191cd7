"""Formats that begin behind something else: a banner, warnings of a tool, the end of an older log.

A large source shows at its beginning what it is, as a rule. Where that is plain text, a few windows further on are
looked at, which costs the same for any size. Only where most lines there are of one format is it read as that: a log
that quotes a record or a table stays a log.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from firstfault.scan.readers.base import HEAD_IS_ALL
from firstfault.scan.readers.text_kinds import classify_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from firstfault.scan.readers.base import Reader

__all__ = ["LONGEST_BANNER", "ends_in_document", "kind_behind", "later_windows", "reader_behind"]

WINDOW = 4 * 1024
# Share of the lines of a window that must be of the format.
MOST = 0.5
MOST_STARTS = 8
LONGEST_BANNER = 1024 * 1024
"""Bytes in which a document is sought where a source ends like one."""

_PREFIX = rb"(?:\[pod/[^\]\s]{1,300}\] )?(?:\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) )?"
# Formats of which each line is a record: (reader, what its lines begin with, a literal that they have).
_RECORDS: tuple[tuple[tuple[str, str], re.Pattern[bytes], bytes], ...] = (
    (("containers", "DOCKER"), re.compile(rb'\{"log":"'), b'{"log":"'),
    (("journal", "JOURNAL_JSON"), re.compile(rb'\{[^\n]*"__REALTIME_TIMESTAMP"'), b'"__REALTIME_TIMESTAMP"'),
    (("json_lines", "JSON_LINES"), re.compile(_PREFIX + rb'\{"'), b'{"'),
    (
        ("containers", "CRI"),
        re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) std(?:out|err) [FP] "),
        b" std",
    ),
)
# Where a document may begin, and what the lines of each kind look like from there on.
_STARTS = re.compile(
    rb"(?m)^(?=[{\[]\s*[\"{\[]|apiVersion: |kind: |(?:NAMESPACE +)?LAST SEEN |(?:NAMESPACE +)?NAME +[A-Z]"
    rb"|Name: {2,}\S|=+NVSMI LOG)"
)
# Cheaper than _STARTS where there is none, which is nearly always.
_LINE_HINT = re.compile(rb"\n(?:[{]|\[[\s{\"\[]|apiVersion: |kind: |NAME|Name:  )")
_HINTS = (b"LAST SEEN ", b"NVSMI LOG")
_JSON_ROW = re.compile(rb"[ \t{}\[\]\",]|$")
_ROWS = {
    "kubectl-events": re.compile(rb"(?:\S+ +)?(?:\d+[smhd]|<\w+>)\S*(?: \([^)]*\))? +\S"),
    "kubectl-table": re.compile(rb"(?:\S+ +){1,2}\d+/\d+ |\S+ +(?:Ready|NotReady)\b"),
    "kubectl-describe": re.compile(rb"\s|[A-Z][\w ]*:|$"),
    "nvidia-smi-q": re.compile(rb"\s|GPU [0-9A-F]|$"),
}
_ANY_ROW = re.compile(
    rb"[ \t{}\[\]\",\n]|(?:- )*[\"']?[\w./-]+[\"']?:(?: |\r?$)|- |---|[A-Z][\w ]*:|GPU |(?:\S+ +)?(?:\d+[smhd]|<\w+>)"
    rb"|(?:\S+ +){1,2}\d+/\d+ |\S+ +(?:Ready|NotReady)\b",
    re.MULTILINE,
)
_YAML_ROW = re.compile(rb"\s*(?:- )*[\"']?[\w./-]+[\"']?:(?: |$)|\s*- |\s|---")


def later_windows(head: bytes, file: BinaryIO | None, size: int) -> list[bytes]:
    """Return windows of whole lines: the end of the head, the middle and the end of the file.

    Args:
        head: The first 64 KiB of the source.
        file: The source, if it can be read anywhere.
        size: Its bytes.
    """
    windows = [head[-WINDOW:]]
    if file is not None and size > len(head) + 2 * WINDOW:
        for at in ((len(head) + size) // 2, size - WINDOW):
            file.seek(at)
            windows.append(file.read(WINDOW))
    return [window[window.find(b"\n") + 1 :] for window in windows]


def ends_in_document(windows: Sequence[bytes]) -> bool:
    """Say whether a source ends like a document: in its rows, or in the middle of one line that fills the window."""
    last = windows[-1]
    return len(windows) > 1 and (b"\n" not in last.rstrip() or _share(last, _ANY_ROW) > MOST)


def _share(window: bytes, row: re.Pattern[bytes]) -> float:
    """Return the share of the whole lines that begin as a row does."""
    lines = window.split(b"\n")[:-1]
    return sum(row.match(line) is not None for line in lines) / len(lines) if lines else 0.0


def _most(windows: Sequence[bytes], holds: Callable[[bytes], bool]) -> bool:
    """Say whether something holds for more than half of the windows."""
    return 2 * sum(map(holds, windows)) > len(windows)


def reader_behind(
    head: bytes,
    windows: Sequence[bytes],
    detect: Callable[[bytes], Reader | None],
    load: Callable[[str, str], Reader],
) -> Reader | None:
    """Return the reader for what comes behind the beginning of a large source, or None for plain text.

    Args:
        head: The first 64 KiB.
        windows: As `later_windows` returned them.
        detect: Says what a source is that begins with these bytes.
        load: Returns a reader by module and name.
    """
    if len(head) < HEAD_IS_ALL:
        return None
    for name, row, hint in _RECORDS:
        if not _most(windows, lambda window, hint=hint: hint in window):  # type: ignore[misc]
            continue
        if _most(windows, lambda window, row=row: _share(window, row) >= MOST):  # type: ignore[misc]
            # Without lines that the runtime cut, the prefix alone is no reason to read slowly.
            needed = name != ("containers", "CRI") or any(b" P " in window for window in windows)
            return load(*name) if needed else None
    # The last whole line of the head is of the document, or there is none; it may be all on one line.
    end = head.rfind(b"\n") + 1
    last = head[end:] if len(head) - end > WINDOW else head[head.rfind(b"\n", 0, max(end - 1, 0)) + 1 :]
    if not _ANY_ROW.match(last) or not (_LINE_HINT.search(head) or any(hint in head for hint in _HINTS)):
        return None
    for _, start in zip(range(MOST_STARTS), _STARTS.finditer(head), strict=False):
        rest = head[start.start() :]
        reader = detect(rest)
        if reader is not None and _goes_on(rest, reader.kind):
            return reader
    return None


def _goes_on(rest: bytes, kind: str) -> bool:
    """Say whether what follows the beginning of a document is more of it, to the end of the head."""
    if rest[:1] in b"{[":
        return _share(rest + b"\n", _JSON_ROW) == 1.0
    row = _ROWS.get(kind) or (_YAML_ROW if kind in {"kubernetes", "monitoring"} else None)
    return row is not None and _share(rest[-WINDOW:], row) > MOST


def kind_behind(head: bytes, windows: Sequence[bytes]) -> str:
    """Return what kind of plain text a source is, by most of its windows where its beginning is nothing special.

    Args:
        head: The first bytes of the source.
        windows: As `later_windows` returned them.
    """
    first = classify_text(head[:8192])
    if first != "log" or len(head) < HEAD_IS_ALL:
        return first
    kinds: list[str] = []
    for window in windows:
        kinds.append(classify_text(window))
        if 2 * kinds.count("log") >= len(windows):
            return first  # as most logs
    return next((kind for kind in ("kernel", "journal", "cri-log") if 2 * kinds.count(kind) > len(kinds)), first)
