"""How much of untrusted input we are willing to read, and the counters that enforce it."""

from __future__ import annotations

import msgspec

from firstfault.errors import LimitError

__all__ = ["DEFAULT_LIMITS", "Budget", "Limits"]

MIB = 1024 * 1024
GIB = 1024 * MIB


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on untrusted input. The defaults suit a support bundle of a large cluster.

    Attributes:
        max_sources: Files and members of archives in one call.
        max_folder_depth: Folders within folders.
        max_archive_depth: Archives and compressed files within each other.
        max_expanded_bytes: Bytes that all archives, compressed files and standard input may yield together. Plain files
            are not counted: they are on disk already.
        max_ratio: Expanded bytes for each compressed byte, looked at once `ratio_grace_bytes` have been expanded.
            Logs compress 10 to 100 times, a run of zeros more than 1,000 times.
        ratio_grace_bytes: Bytes that may be expanded before the ratio counts.
        max_spool_bytes: Size of an archive that must be copied to a temporary file (a zip within an archive or a pipe).
        max_name_bytes: Length of one source name.
        max_document_bytes: Size of one structured document (JSON, YAML, pickle) that has to be in memory as a whole.
    """

    max_sources: int = 100_000
    max_folder_depth: int = 64
    max_archive_depth: int = 5
    max_expanded_bytes: int = 64 * GIB
    max_ratio: int = 300
    ratio_grace_bytes: int = 128 * MIB
    max_spool_bytes: int = 4 * GIB
    max_name_bytes: int = 4096
    max_document_bytes: int = 256 * MIB


DEFAULT_LIMITS = Limits()


class Budget:
    """What one call of `open_sources` has used up of its limits.

    Args:
        limits: The limits to enforce.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.sources = 0
        self.expanded = 0
        self.exhausted = False
        """Whether a limit on the whole call was hit, so that going on is pointless."""

    def count_source(self, name: str) -> None:
        """Count one more source.

        Raises:
            LimitError: One too many, or its name is too long.
        """
        self.sources += 1
        if self.sources > self.limits.max_sources:
            self.exhausted = True
            raise LimitError(
                f"more than {self.limits.max_sources:,} files; stopped before {shorten(name)}",
                "give the folder of one incident, or fewer archives",
            )
        if len(name.encode("utf-8", "surrogateescape")) > self.limits.max_name_bytes:
            raise LimitError(
                f"{shorten(name)}: a name longer than {self.limits.max_name_bytes:,} bytes",
                "rename it, or give its content on standard input",
            )

    def check_depth(self, name: str, depth: int) -> None:
        """Refuse archives that are nested too deep.

        Raises:
            LimitError: They are.
        """
        if depth > self.limits.max_archive_depth:
            raise LimitError(
                f"{shorten(name)}: archives nested more than {self.limits.max_archive_depth} deep",
                "unpack the outer one and give what is in it",
            )

    def count_expanded(self, name: str, count: int) -> None:
        """Count bytes that came out of an archive, a compressed file or a pipe.

        Raises:
            LimitError: The total is too large.
        """
        self.expanded += count
        if self.expanded > self.limits.max_expanded_bytes:
            self.exhausted = True
            raise LimitError(
                f"{shorten(name)}: archives and streams yield more than {self.limits.max_expanded_bytes:,} bytes",
                "unpack the part that matters and give that",
            )

    def check_ratio(self, name: str, expanded: int, compressed: int) -> None:
        """Refuse a stream that expands like an archive bomb.

        Raises:
            LimitError: It does.
        """
        limits = self.limits
        if expanded > limits.ratio_grace_bytes and expanded > limits.max_ratio * max(compressed, 1):
            raise LimitError(
                f"{shorten(name)}: {compressed:,} compressed bytes expand to more than {expanded:,}, "
                f"over {limits.max_ratio} times as many; that is what an archive bomb does",
                "if you trust the file, unpack it yourself and give the result",
            )


def shorten(name: str, width: int = 200) -> str:
    """Return a name that fits into a message."""
    return name if len(name) <= width else f"{name[: width // 2]}…{name[-width // 2 :]}"
