"""The shape of one fault card. The YAML files under `cards/` are decoded into these structs, strictly."""

from __future__ import annotations

import msgspec

from firstfault.model import Role

__all__ = ["Card", "Link", "MistakenFor", "Sample", "Signature"]


class Sample(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line that a signature must match, as the program prints it.

    Attributes:
        text: The line, prefixes included where they are typical.
        program: The program that prints it ("PyTorch", "NCCL", "kubelet", ...).
        versions: Versions that print it this way ("2.4+", "<=2.23", "all").
        source: Where the text is known from: file of the program's source, document, or "measured" with what ran.
            Empty when it is only recalled; such samples do not count as cited.
    """

    text: str
    program: str
    versions: str = "all"
    source: str = ""


class Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A pattern that points at the cause of its card, and how.

    The pattern is searched (not anchored) in one line, in a dialect that Hyperscan and Python's `re` share: no
    look-around, no back-references. Named groups `(?P<name>…)` are captured with `re` on the lines that matched.

    Attributes:
        id: Unique within the card, kebab-case.
        pattern: Regular expression over one line.
        ignore_case: Match without regard to case.
        unless: `re` pattern (any dialect) that, found in the same line, vetoes the match.
        role: root: this line is the fault itself (unless something earlier explains it) · consequence: an aftermath of
            this cause, too weak to name it alone · context: goes with the cause, says nothing alone · exonerating:
            speaks against the cause.
        strength: 0 to 1. Of a hundred real incidents that contain this line and no stronger root line, in how many is
            this cause the first fault? 0.95 and more only for lines that no other fault prints.
        rung: The rung of the ladder on which a rank that printed this line has stopped; "" if it says nothing of it.
        kinds: Source kinds on which it counts (empty: all), e.g. ["kernel"] for lines of the kernel log.
        samples: Lines that must match; one for each version whose text differs.
        negatives: Similar lines that must not match (a healthy line, another cause's line).
    """

    id: str
    pattern: str
    role: Role
    samples: list[Sample]
    strength: float = 0.5
    ignore_case: bool = False
    unless: str = ""
    rung: str = ""
    kinds: list[str] = []
    negatives: list[str] = []


class MistakenFor(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause that looks alike, and what tells the two apart."""

    cause: str
    tell_apart: str


class Link(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The drills, checks or alerts that belong to a card, or the reason why there are none."""

    ids: list[str] = []
    none_because: str = ""


class Card(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything known about one fault.

    Attributes:
        id: `layer.subject.detail`; the file is `cards/<layer>/<id>.yaml`.
        title: What is wrong, in one line, as one engineer says it to another.
        what: What happens and why; a short paragraph or two.
        aliases: Other ids accepted for the same cause.
        variant_of: The broader cause that a report names instead, so that cause ids stay few and stable; this card then
            gives the verdict its title, fix and commands. Empty for a cause of its own.
        explains: Cause ids, or globs such as `network.nccl.*`, whose root lines are consequences when this cause is
            seen in the same incident and not later than they are.
        mistaken_for: Causes that look alike.
        signatures: What it looks like.
        confirm: Commands or observations that confirm it, most telling first.
        fix: What ends this incident.
        prevention: What stops the next one.
        drill: Drills that rehearse it.
        check: Audit checks that would have prevented it.
        alert: Guardrail rules that would have noticed it.
        detection_budget_s: Seconds within which somebody should know; None when `alert` has none.
        references: Documents and issue threads.
    """

    id: str
    title: str
    what: str
    signatures: list[Signature]
    fix: list[str]
    confirm: list[str]
    aliases: list[str] = []
    variant_of: str = ""
    explains: list[str] = []
    mistaken_for: list[MistakenFor] = []
    prevention: list[str] = []
    drill: Link = Link()
    check: Link = Link()
    alert: Link = Link()
    detection_budget_s: float | None = None
    references: list[str] = []

    @property
    def layer(self) -> str:
        """The layer where a person must act: the first part of the id."""
        return self.id.split(".", 1)[0]

    @property
    def cause(self) -> str:
        """The cause id that a report names: the broader cause for a variant, else the card's own id."""
        return self.variant_of or self.id
