"""A line in the kernel log that looks like a GPU fault, to test who watches for those. It cannot be taken out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firstfault.drills.injectors.base import Injector
from firstfault.errors import UnsupportedError, UsageError
from firstfault.model.drill import Change

__all__ = ["KernelLogLine"]

_KMSG = Path("/dev/kmsg")
_MARK = "(simulated by a firstfault drill)"
# Whoever acts on such lines: it would cordon the node or page somebody. `comm` has at most 15 characters.
_AGENTS = ("kubelet", "node-problem-de", "nvidia-dcgm", "nv-hostengine", "dcgm-exporter", "gpud", "eks-node-monito")


class KernelLogLine(Injector, frozen=True, kw_only=True, tag="kernel-log-line"):
    """Writes one line to the kernel log, marked as simulated.

    Attributes:
        text: The line, as the driver would print it.
    """

    text: str

    def describe(self, world: Any) -> Change:  # noqa: ARG002 - the same in every world
        """Show the line."""
        return Change(steps=[f"write to the kernel log, for good: {self.text} {_MARK}"])

    def leaves(self) -> list[str]:
        """The line stays until the kernel's ring buffer has turned over."""
        return [f"a line in the kernel log {_MARK}: {self.text}"]

    def prepare(self, world: Any) -> dict[str, Any]:  # noqa: ARG002
        """Refuse where somebody would act on the line.

        Raises:
            UsageError: A kubelet or an agent that watches GPUs runs on this machine.
        """
        if found := agents(Path("/proc")):
            raise UsageError(
                f"{found[0]} runs on this machine and may act on the line",
                "run this drill on a machine that is no node and has no agent",
            )
        return {"text": self.text}

    def inject(self, world: Any) -> None:  # noqa: ARG002
        """Write it with priority 3 (error), as the driver does."""
        try:
            with _KMSG.open("wb", buffering=0) as stream:
                stream.write(f"<3>{self.text} {_MARK}\n".encode())
        except OSError as error:
            raise UnsupportedError(f"{_KMSG}: {error.strerror}", "only root may write to the kernel log") from error

    @classmethod
    def undo(cls, world: Any, record: dict[str, Any]) -> None:
        """Nothing: a line of the kernel log cannot be taken out."""


def agents(proc: Path) -> list[str]:
    """Return the names of running processes that watch kernel logs for GPU faults."""
    names = []
    for path in proc.glob("[0-9]*/comm"):
        try:
            name = path.read_text().strip()
        except OSError:
            continue
        if name.startswith(_AGENTS):
            names.append(name)
    return names
