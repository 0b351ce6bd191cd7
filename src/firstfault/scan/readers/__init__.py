"""One module per structured format; each prints the facts it holds as text lines (docs/canonical-lines.md).

`detect_reader` picks by content. None means plain text, which the pattern engine scans as it is; `classify_text` says
what kind of plain text it looks like.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from typing import TYPE_CHECKING, cast

from firstfault.scan.readers.base import BEGINNING, HEAD_IS_ALL, NotEvidenceError, Reader
from firstfault.scan.readers.joint import JointAnalysis
from firstfault.scan.readers.text_kinds import classify_text, is_kernel_line

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "JointAnalysis",
    "NotEvidenceError",
    "Reader",
    "classify_text",
    "detect_reader",
    "detect_source",
    "is_kernel_line",
]

# (module, reader in it, bytes of which one must be in the head), the most specific first. The bytes spare plain logs,
# which are most sources by far, the import of the readers and their closer looks.
_CANDIDATES: tuple[tuple[str, str, tuple[bytes, ...]], ...] = (
    ("flight_recorder", "FLIGHT_RECORDER", (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")),
    ("journal", "JOURNAL_EXPORT", (b"__CURSOR=", b"__REALTIME_TIMESTAMP=", b"_BOOT_ID=")),
    ("containers", "CRI", (b" stdout P ", b" stderr P ")),
    ("containers", "DOCKER", (b'{"log":"',)),
    ("journal", "JOURNAL_JSON", (b'"__REALTIME_TIMESTAMP"',)),
    ("nccl_ras", "RAS_JSON", (b'"communicators',)),
    ("documents", "SECURITY_GROUPS", (b'"SecurityGroup',)),
    ("documents", "TERRAFORM", (b'"terraform_version"',)),
    ("documents", "FLIGHT_RECORDER", (b'"pg_config"', b'"profiling_name"')),
    ("documents", "TORCHRUN_ERROR", (b'"py_callstack"', b'"extraInfo"')),
    (
        "documents",
        "LOG_EXPORT",
        (b'"resultType"', b'"logEvents"', b'"resourceLogs"', b'"ingestionTime"', b'"logStreamName"'),
    ),
    ("documents", "LOG_QUERY", (b'"hits"', b'"textPayload"', b'"jsonPayload"', b'"@ptr"', b'"dmesg"')),
    (
        "documents",
        "KUBERNETES",
        (b'"apiVersion"', b'"involvedObject"', b'"containerStatuses"', b'"nodeInfo"', b'"lastTransitionTime"'),
    ),
    ("documents", "MODEL_CONFIG", (b'"model_type"', b'"architectures"')),
    (
        "monitoring",
        "MONITORING",
        (
            b"alert:",
            b"job_name:",
            b"scrape_configs:",
            b"kind:",
            b"name: NCCL_",
            b"name: TORCH_",
            b"name: DCGM_",
            b"dcgmExporter:",
            b"devicePlugin:",
        ),
    ),
    ("documents", "KUBERNETES_YAML", (b"apiVersion:", b"kind:", b"containerStatuses:", b"status:")),
    ("json_lines", "JSON_LINES", (b'{"', b"{\n", b"{\r\n")),
    ("terraform", "TERRAFORM_TEXT", (b"Terraform ", b"OpenTofu ", b"Plan:", b"No changes.")),
    (
        "nvidia_smi",
        "NVIDIA_SMI_QUERY",
        (b"NVSMI LOG", b"GPU 0", b"Product Name", b"GPU Recovery Action", b"Remapping Failure"),
    ),
    ("dcgmi", "DCGMI", (b"#Entity", b"NvLink Link Status")),
    ("nccl_ras", "RAS_TEXT", (b"Job summary", b"Communicators... (", b"Ranks     Ranks")),
    ("kubectl_text", "DESCRIBE", (b"Name:  ", b"Events:", b"Reason  ", b"nvidia.com/gpu:")),
    ("kubectl_text", "EVENTS", (b"LAST SEEN",)),
    ("kubectl_text", "TABLE", (b"\nNAME", b"/1  ", b"/2  ", b"/3  ", b"/4  ", b"/1 ", b"/2 ")),
)
# Those of documents in JSON: no log without a quotation mark need be searched for any of them.
_QUOTED = frozenset(hints for _, _, hints in _CANDIDATES if all(b'"' in hint for hint in hints))

# A first line of nothing but names, as in CSV: the lines of logs have colons, brackets or more words.
_NAMES_COLUMNS = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\"?sep=[,;\t]\"?\r?\n)?[\w@\"./() -]{2,80}(?:[,;\t][\w@\"./() -]{0,80}){0,200}\r?\n"
)

# The last byte of every pickle, also of the textual ones that have no head to know them by; no log ends like that.
_PICKLE_END = b"."


@cache
def _reader(module: str, name: str) -> Reader:
    return cast("Reader", getattr(importlib.import_module(f"{__name__}.{module}"), name))


def detect_reader(head: bytes) -> Reader | None:
    """Return the reader for a source that begins with these bytes, or None for plain text.

    Args:
        head: The first bytes of the source; 64 KiB, or the whole source if it is shorter.
    """
    # A source that goes on beyond its head shows at its beginning what it is; a short one may hold a document anywhere.
    # A Terraform plan stands behind what `terraform plan` refreshed, which may be a lot.
    beginning = head if len(head) < HEAD_IS_ALL else head[:BEGINNING]
    hinted = b"\n" + beginning  # so that a hint may be what a line begins with
    quoted = b'"' in hinted
    if head[-1:] == _PICKLE_END and (reader := _reader("flight_recorder", "FLIGHT_RECORDER")).detect(head):
        return reader
    if _NAMES_COLUMNS.match(head) and (reader := _reader("csv_export", "CSV_EXPORT")).detect(head):
        return reader
    for module, name, hints in _CANDIDATES:
        if not quoted and hints in _QUOTED:
            continue
        window = head if name == "TERRAFORM_TEXT" else hinted
        if any(hint in window for hint in hints) and (reader := _reader(module, name)).detect(head):
            return reader
    return None


def detect_source(head: bytes, path: Path | None = None) -> tuple[Reader | None, str]:
    """Return the reader for a source (None for plain text) and what the source is, for the report.

    Args:
        head: The first bytes of the source; 64 KiB, or the whole source if it is shorter.
        path: The plain file, where it is one: then its middle and its end are looked at too.
    """
    reader = detect_reader(head)
    if reader is not None or len(head) < HEAD_IS_ALL:
        return reader, reader.kind if reader is not None else classify_text(head[:BEGINNING])
    from firstfault.scan.readers import behind  # noqa: PLC0415 - small inputs do not need it

    if path is None:
        windows = behind.later_windows(head, None, len(head))
        reader = behind.reader_behind(head, windows, detect_reader, _reader)
    else:
        with path.open("rb") as file:
            windows = behind.later_windows(head, file, file.seek(0, 2))
            reader = behind.reader_behind(head, windows, detect_reader, _reader)
            if reader is None and behind.ends_in_document(windows):
                file.seek(0)
                reader = behind.reader_behind(file.read(behind.LONGEST_BANNER), windows, detect_reader, _reader)
    return reader, reader.kind if reader is not None else behind.kind_behind(head, windows)
