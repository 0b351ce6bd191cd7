"""Reads a pattern and says which literals a line must hold for it to match: the sieve before the real matching.

The dialect is that of the cards (no look-around, no back-references). The answer is a set of strings of which every
match contains at least one; None when no such set is selective enough. It may ask for less than the pattern does,
never for more. Where a pattern ignores case, so must who looks for its literals.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import heapify, heappop, heappush
from itertools import pairwise
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["certain_literals", "ignores_case", "required_literals", "shared_windows"]

SHORTEST = 4
# A single shorter literal makes the whole sieve a fifth slower, so anything else is preferred.
SWIFT = 6
SLOW = 50
LONGEST = 48
WINDOW = 8
MOST_SERVED = 64
NEVER = -100.0
MOST_LITERALS = 100
MOST_STRINGS = 64
# Members that a class may have to be spelled out: as a rule, and where all else leaves a pattern with short literals.
FEW_MEMBERS = 5
MANY_MEMBERS = 62
# Lines of healthy jobs are full of these: no use as a sieve.
HOPELESS = frozenset({"NCCL", "NCCL INFO ", " NCCL INFO ", "error", "rank", "rank ", "INFO", "info", "step", "loss"})
# Frequent enough that anything else is preferred.
EVERYDAY = (
    "NCCL WARN", "NCCL", "error", "failed", "failure", "timeout", "timed out", "warning", "hannel", "rank", "comm 0x",
    "container", "event", "node", "node", "pod", "xception", "onnect", "rocess", "device", "emory", "model", "torch",
    "running", "complete", "finished", "status", "found", "detected", "available", "nvidia", "expected", "missing",
    "xit ", "done", "message", "reason", "instance", "unable", "signal", "build", "initializ", "config", "labels",
)  # fmt: skip
_EVERYDAY_WORD = re.compile("|".join(map(re.escape, EVERYDAY)))
_NOT_ALPHANUMERIC = re.compile(r"[\W_]")


def ignores_case(regex: str) -> bool:
    """Whether a pattern switches case off for itself or a part of it."""
    return "(?i" in regex


def required_literals(regex: str, *, once: bool = False) -> frozenset[str] | None:
    """Return literals of which each match has at least one, or None when the pattern has no selective ones.

    Args:
        regex: The pattern.
        once: Only one line of many is wanted, so that frequent literals do as well.
    """
    best = _parsed(regex).best()
    if best is None or _is_slow(best):
        best = max(best or _NOTHING, _Parser(regex, MANY_MEMBERS).alternation().best() or _NOTHING, key=_worth)
    if best is None or len(best) > MOST_LITERALS:
        return None
    return best if all(_is_selective(literal, once=once) for literal in best) else None


def certain_literals(regex: str) -> tuple[str, ...]:
    """Return strings that each match holds, all of them, however short; the shortest first.

    They are no use for finding lines, but the shortest one tells a line of one XID from the lines of all others.
    """
    demands = {next(iter(demand)) for demand in _parsed(regex).demands if len(demand) == 1}
    return tuple(sorted(demands - {""}, key=lambda literal: (len(literal), literal)))


@lru_cache(maxsize=16)  # both questions are asked of a pattern, one after the other
def _parsed(regex: str) -> _Node:
    return _Parser(regex, FEW_MEMBERS).alternation()


def _is_selective(literal: str, *, once: bool) -> bool:
    if literal in HOPELESS:
        return once
    return len(literal) >= SHORTEST or (len(literal) == SHORTEST - 1 and not literal.isalnum())


def shared_windows(wanted: Iterable[str]) -> dict[str, str]:
    """Return for each literal a part of it to look for instead, chosen so that few and rare parts remain.

    A sieve is the faster the fewer strings it holds and the less its strings look like what stands in every log. So a
    literal is cut down to eight characters that others share and that everyday lines do not hold. The part that most
    literals have in common is taken first, then the one that most of the rest have in common, and so on (a greedy set
    cover); of parts that serve as many, the one of the rarest pairs of characters.
    """
    literals = sorted(set(wanted))
    holders: dict[str, list[str]] = defaultdict(list)
    for literal in literals:
        for window in set(_windows(literal)):
            holders[window].append(literal)
    heap = [
        (-_use(len(found)) - _oddity(window), window, len(found))
        for window, found in holders.items()
        if len(found) > 1 and window.lower() not in _everyday()
    ]
    heapify(heap)
    chosen: dict[str, str] = {}
    while heap:
        _, window, count = heappop(heap)
        left = [literal for literal in holders[window] if literal not in chosen]
        if len(left) == count:
            chosen.update(dict.fromkeys(left, window))
        elif len(left) > 1:  # some have been served by other parts since: its turn comes later
            heappush(heap, (-_use(len(left)) - _oddity(window), window, len(left)))
    for literal in literals:
        if literal not in chosen:
            own = [window for window in _windows(literal) if window.lower() not in _everyday()]
            chosen[literal] = min(own, key=lambda window: (-1 - _oddity(window), window), default=literal)
    return chosen


def _use(served: int) -> int:
    """What serving so many literals is worth: beyond some, a line that holds the part has too much looked for in it."""
    return min(served, MOST_SERVED)


def _oddity(window: str) -> float:
    """How unlike everyday lines a part is: from 0 for their most common pairs of characters to 0.5 for none of them."""
    information, most = _pairs()
    text = window.lower()
    return sum([information.get(pair, most) for pair in pairwise(text)]) / (2 * (len(text) - 1) * most)


@cache
def _pairs() -> tuple[dict[tuple[str, str], float], float]:
    """What each pair of characters of everyday lines tells, and what any other pair does."""
    text = _everyday()
    total = len(text) + 1
    return {pair: log(total / (count + 0.3)) for pair, count in Counter(pairwise(text)).items()}, log(total / 0.3)


def _windows(literal: str) -> list[str]:
    return [literal[start : start + WINDOW] for start in range(len(literal) - WINDOW + 1)]


@cache
def _everyday() -> str:
    return (Path(__file__).parent / "everyday.txt").read_text("utf-8").lower()


def _worth(literals: frozenset[str]) -> float:
    """How selective a set is: that of its weakest member, a little less for each further one."""
    return min(_rarity(literal) for literal in literals) - 0.1 * len(literals) - SLOW * _is_slow(literals)


def _is_slow(literals: frozenset[str]) -> bool:
    return min(map(len, literals)) < SWIFT


@lru_cache(maxsize=1 << 16)
def _rarity(literal: str) -> float:
    if not _is_selective(literal, once=False):
        return NEVER
    rest, words = _EVERYDAY_WORD.subn("", literal)
    odd = len(_NOT_ALPHANUMERIC.findall(rest))
    return min(12.0, len(rest) - odd / 2 + words)


@dataclass(frozen=True)
class _Node:
    """A parsed piece: all strings that it can be, if they are few; and the sets of which a match holds one each.

    Where it can be too many strings, `head` has those that it begins with, if they are few.
    """

    exact: frozenset[str] | None
    demands: tuple[frozenset[str], ...] = ()
    head: frozenset[str] | None = None

    def best(self) -> frozenset[str] | None:
        """The most selective set that it demands."""
        return max((*self.demands, *((self.exact,) if self.exact else ())), key=_worth, default=None)


_NOTHING = frozenset({""})
# Characters that stand for themselves, up to one that a quantifier may follow: read at once, not one by one.
_PLAIN = re.compile(r"[^\\^$.|?*+()\[\]{}]+(?![?*+{])")


class _Run:
    """The strings that the pieces read so far can be, side by side, and the sets that they demand."""

    def __init__(self) -> None:
        self.strings = _NOTHING
        self.whole = True
        self.head = _NOTHING
        self.demands: list[frozenset[str]] = []

    def add(self, strings: frozenset[str]) -> None:
        """Append a piece that is one of some strings."""
        if len(strings) > 1:
            self._demand()
        product = frozenset(left + right for left in self.strings for right in strings)
        if len(product) > MOST_STRINGS:
            self.cut()
            product = strings
        self.strings = product

    def cut(self) -> None:
        """A piece that can be anything follows."""
        if self.whole:
            self.head = self.strings
        self._demand()
        self.strings = _NOTHING
        self.whole = False

    def _demand(self) -> None:
        if "" not in self.strings:
            self.demands.append(frozenset(string[-LONGEST:] for string in self.strings))


class _Parser:
    """Recursive descent over the dialect.

    Args:
        regex: The pattern.
        most_members: Classes with more members than that can be anything.
    """

    def __init__(self, regex: str, most_members: int) -> None:
        self._text = regex
        self._most_members = most_members
        self._at = 0

    def _peek(self, length: int = 1) -> str:
        return self._text[self._at : self._at + length]

    def alternation(self) -> _Node:
        """Parse branches up to the end or a closing parenthesis."""
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        exact: frozenset[str] = frozenset()
        for branch in branches:
            if branch.exact is None or len(exact | branch.exact) > MOST_STRINGS:
                break
            exact |= branch.exact
        else:
            return _Node(exact)
        heads = [branch.head if branch.exact is None else branch.exact for branch in branches]
        head = None if None in heads else frozenset().union(*(found for found in heads if found))
        bests = [branch.best() for branch in branches]
        if any(best is None for best in bests):
            return _Node(None, (), head)
        return _Node(None, (frozenset().union(*(best for best in bests if best)),), head)

    def _sequence(self) -> _Node:
        run = _Run()
        while self._peek() not in ("", "|", ")"):
            if plain := _PLAIN.match(self._text, self._at):
                self._at = plain.end()
                run.add(frozenset({plain[0]}))
                continue
            atom = self._atom()
            least, most = self._quantifier()
            if atom.exact is None or most > 1:
                start = atom.head if atom.exact is None else atom.exact
                if least and start is not None:
                    run.add(start)
                run.cut()
                run.demands += atom.demands if least else ()
            else:
                run.add(atom.exact if least else atom.exact | _NOTHING)
        if run.whole and not run.demands:
            return _Node(run.strings)
        exact = run.strings if run.whole else None
        run.cut()
        return _Node(exact, tuple(run.demands), run.head)

    def _atom(self) -> _Node:
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            self._at += 2
            escaped = _escaped(self._text[self._at - 1])
            return _Node(None if escaped is None else frozenset({escaped}))
        self._at += 1
        if char in "^$":
            return _Node(_NOTHING)
        return _Node(None if char == "." else frozenset({char}))

    def _group(self) -> _Node:
        self._at += 1
        if self._peek() == "?":
            if self._peek(2) == "?:":
                self._at += 2
            elif self._peek(3) == "?P<":
                self._at = self._text.index(">", self._at) + 1
            else:  # inline flags such as (?i), alone or with a colon
                end = self._at
                while self._text[end] not in ":)":
                    end += 1
                self._at = end + 1
                if self._text[end] == ")":
                    return _Node(_NOTHING)
        inner = self.alternation()
        self._at += 1
        return inner

    def _class(self) -> _Node:
        end = self._at + 1
        if self._text[end] == "^":
            end += 1
        if self._text[end] == "]":
            end += 1
        while self._text[end] != "]":
            end += 2 if self._text[end] == "\\" else 1
        members = self._text[self._at + 1 : end]
        self._at = end + 1
        return _Node(_members(members, self._most_members))

    def _quantifier(self) -> tuple[int, int]:
        """Return (least, most) repetitions, each capped: 0 or 1, and 1 or 2 (which means many)."""
        char = self._peek()
        least, most = 1, 1
        if char and char in "?*+":
            self._at += 1
            least, most = int(char == "+"), 1 if char == "?" else 2
        elif char == "{" and self._peek(2)[1:].isdigit():
            end = self._text.index("}", self._at)
            low, _, _ = self._text[self._at + 1 : end].partition(",")
            least, most = min(int(low), 1), 2
            self._at = end + 1
        if self._peek() == "?" and (least, most) != (1, 1):
            self._at += 1
        return least, most


def _members(text: str, most: int) -> frozenset[str] | None:
    """The members of a plain class of at most `most` (`[Uu]`, `[6-9]`); None for any other."""
    if text.startswith("^") or "\\" in text:
        return None
    members: set[str] = set()
    rest = text
    while rest:
        if rest[1:2] == "-" and len(rest) > 2:
            members |= {chr(code) for code in range(ord(rest[0]), ord(rest[2]) + 1)}
            rest = rest[3:]
        else:
            members.add(rest[0])
            rest = rest[1:]
    return frozenset(members) if len(members) <= most else None


def _escaped(char: str) -> str | None:
    """What an escape stands for: nothing for a word boundary, None for a class, else a character."""
    if char in "bB":
        return ""
    return {"t": "\t", "n": "\n"}.get(char) if char.isalnum() else char
