"""Names what kind of plain text a source looks like. A guess for the report; patterns hardly depend on it."""

from __future__ import annotations

import re

from firstfault.scan.document_marks import BINARY

__all__ = ["classify_text", "is_kernel_line"]

# Bytes below which nothing is called binary.
ENOUGH = 32
_CONTROLS = bytes([*range(9), *range(14, 27), *range(28, 32)])
# Beyond what is set aside unread: a pickle that may be a dump, and media.
BINARY_MAGIC = (*BINARY, b"\x80\x02}q", b"RIFF")

_TIME = rb"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S+)"
# (kind, literals of which one must be there, alternatives); the first kind that is found wins.
_KINDS: tuple[tuple[str, tuple[bytes, ...], re.Pattern[bytes]], ...] = tuple(
    (kind, hints, re.compile(b"|".join(alternatives), re.MULTILINE))
    for kind, hints, *alternatives in (
        (
            "cri-log",
            (b" stdout F ", b" stderr F ", b" stdout P ", b" stderr P "),
            rb"\A\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] ",
        ),
        (
            "terraform-plan",
            (b"Terraform ", b"OpenTofu ", b"Plan: "),
            rb"^(?:Terraform|OpenTofu) (?:used the selected providers|will perform the following actions)",
            rb"^Plan: \d+ to (?:add|import)",
        ),
        ("nvidia-smi-q", (b"NVSMI LOG",), rb"^={8,}NVSMI LOG={8,}"),
        (
            "nvidia-smi",
            (b"NVIDIA-SMI", b"No devices were found", b"device handle"),
            rb"^\| NVIDIA-SMI \d",
            rb"^NVIDIA-SMI has failed",
            rb"^No devices were found$",
            rb"^Unable to determine the device handle",
        ),
        ("kubectl-describe", (b"Name: ",), rb"\A(?:[$#][^\n]*\n|[ \t\r]*\n)*Name: {2,}\S"),
        (
            "kubectl-events",
            (b"LAST SEEN", b"Reason "),
            rb"^(?:NAMESPACE +)?LAST SEEN +(?:FIRST SEEN +COUNT +)?(?:NAME +KIND +SUBOBJECT +)?TYPE +REASON",
            rb"^ +Type +Reason +Age +From +Message",
        ),
        (
            "kubectl-table",
            (b"\nNAME",),
            rb"^(?:NAMESPACE +)?NAME +(?:READY|STATUS|DESIRED|TYPE +CLUSTER-IP|COMPLETIONS|CLASS|AGE|UP-TO-DATE)\b",
        ),
        (
            "nccl-ras",
            (b"CUDA runtime version", b"Job summary"),
            rb"^NCCL version \S+ compiled with CUDA[^\n]*\n(?:[^\n]*\n){0,4}?CUDA runtime version",
            rb"^Job summary\s*$",
        ),
        (
            "py-spy",
            (b"Process ", b"Thread "),
            rb"^Process \d+: [^\n]*\nPython v\d",
            rb'^Thread (?:0x)?[0-9A-Fa-f]+ \((?:active|idle)[^\n]*\): "',
        ),
        (
            "kernel",
            (b"] ", b"kernel: ", b"NVRM: "),
            rb"^(?:<\d+>)?\[ *\+?\d+\.\d{6}\] ",
            rb"^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\] ",
            rb"^" + _TIME + rb" \S+ kernel: ",
            rb"^kern +:\w+ +: \[",
            rb"^NVRM: ",
        ),
        ("journal", (b"]: ",), rb"^" + _TIME + rb" \S+ [\w.@-]+\[\d+\]: "),
    )
)


_KERNEL = next(pattern for kind, _, pattern in _KINDS if kind == "kernel")


def is_kernel_line(line: str) -> bool:
    """Say whether a single line is one of the kernel log, wherever it stands.

    Args:
        line: A line as it is in the source.
    """
    return _KERNEL.match(line[:400].encode("utf-8", "replace")) is not None


def classify_text(head: bytes) -> str:
    """Return the kind of plain text that a source with this beginning looks like; "log" if nothing special.

    Args:
        head: The first bytes of the source.
    """
    if head.startswith(BINARY_MAGIC):
        return "binary"
    hinted = b"\n" + head  # so that a hint may be what a line begins with
    for kind, hints, pattern in _KINDS:
        if any(hint in hinted for hint in hints) and pattern.search(head):
            return kind
    return "binary" if _looks_binary(head[:4096]) else "log"


def _looks_binary(sample: bytes) -> bool:
    """Say whether a sample has more control bytes than text would (zero bytes alone do not count: holes in logs)."""
    text = sample.replace(b"\0", b"")
    if len(text) < ENOUGH:
        return False
    control = len(text) - len(text.translate(None, _CONTROLS))
    return control > len(text) * 0.1
