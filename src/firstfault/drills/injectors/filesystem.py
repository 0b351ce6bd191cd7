"""Too little room: a small file system where a job writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from firstfault.drills.injectors.base import Injector
from firstfault.model.drill import Change

__all__ = ["SmallFileSystem"]


class _Mounts(Protocol):
    """What this needs of a world: mounts in its nodes."""

    net: Any
    temporary: Path


class SmallFileSystem(Injector, frozen=True, kw_only=True, tag="small-file-system"):
    """Lays a small, empty memory file system over a folder of a node.

    Attributes:
        node: The node.
        bytes: Its size.
        path: The folder; "": where the job keeps its temporary files.
    """

    node: str
    bytes: int
    path: str = ""

    def describe(self, world: _Mounts) -> Change:
        """Name the folder and the size."""
        return Change(steps=[f"leave {self.bytes:,} bytes in {self.path or world.temporary} on {self.node}"])

    def prepare(self, world: _Mounts) -> dict[str, Any]:
        """Record where it will be."""
        return {"node": self.node, "path": self.path or str(world.temporary)}

    def inject(self, world: _Mounts) -> None:
        """Mount it; only the node sees it."""
        world.net.mount_tmpfs(self.node, self.path or str(world.temporary), self.bytes)

    @classmethod
    def undo(cls, world: _Mounts, record: dict[str, Any]) -> None:
        """Unmount it."""
        world.net.unmount(record["node"], record["path"])
