"""Faults of name resolution: a name that is missing, wrong, or answered too late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from firstfault.drills.injectors.base import Injector
from firstfault.drills.nameserver import Misanswer
from firstfault.model.drill import Change

if TYPE_CHECKING:
    from firstfault.drills.nameserver import NameServer

__all__ = ["DnsAnswer"]


class _Names(Protocol):
    """What this needs of a world: its name server."""

    dns: NameServer


class DnsAnswer(Injector, frozen=True, kw_only=True, tag="dns-answer"):
    """Lets the name server answer a name wrongly. Without any further field: that there is no such name.

    Attributes:
        name: The name.
        address: The wrong address that it gives.
        delay_s: How late it gives the right one, in seconds.
    """

    name: str
    address: str = ""
    delay_s: float | None = None

    def describe(self, world: _Names) -> Change:  # noqa: ARG002 - the same in every world
        """Say what the answer will be."""
        if self.delay_s is not None:
            return Change(steps=[f"answer {self.name} {self.delay_s:g} s late"])
        return Change(steps=[f"answer {self.name} with {self.address or 'NXDOMAIN'}"])

    def prepare(self, world: _Names) -> dict[str, Any]:  # noqa: ARG002
        """Record the name."""
        return {"name": self.name}

    def inject(self, world: _Names) -> None:
        """Tell the name server."""
        world.dns.set(self.name, Misanswer(address=self.address, delay_s=self.delay_s))

    @classmethod
    def undo(cls, world: _Names, record: dict[str, Any]) -> None:
        """Let it answer rightly again."""
        world.dns.set(record["name"], None)
