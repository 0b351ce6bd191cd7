"""Reads a pattern and says which literals a line must hold for it to match: the sieve before the real matching.

The dialect is that of the cards (no look-around, no back-references). The answer is a set of strings of which every
match contains at least one; None when no such set is selective enough. It may ask for less than the pattern does,
never for more. Where a pattern ignores case, so must who looks for its literals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["ignores_case", "required_literals", "shared_windows"]

SHORTEST = 4
LONGEST = 48
WINDOW = 8
MOST_LITERALS = 60
# Lines of healthy jobs are full of these: no use as a sieve.
HOPELESS = frozenset({"NCCL", "NCCL INFO ", " NCCL INFO ", "error", "rank", "rank ", "INFO", "info", "step", "loss"})
# Frequent enough that anything else is preferred.
EVERYDAY = (
    "NCCL WARN", "NCCL", "error", "failed", "failure", "timeout", "timed out", "warning", "hannel", "rank", "comm 0x",
    "container", "event", "node", "node", "pod", "xception", "onnect", "rocess", "device", "emory", "model", "torch",
    "running", "complete", "finished", "status", "found", "detected", "available", "nvidia", "expected", "missing",
    "xit ", "done", "message", "reason", "instance", "unable", "signal", "build", "initializ", "config", "labels",
)  # fmt: skip


def ignores_case(regex: str) -> bool:
    """Whether a pattern switches case off for itself or a part of it."""
    return "(?i" in regex


def required_literals(regex: str, *, once: bool = False) -> frozenset[str] | None:
    """Return literals of which each match has at least one, or None when the pattern has no selective ones.

    Args:
        regex: The pattern.
        once: Only one line of many is wanted, so that frequent literals do as well.
    """
    best = _Parser(regex).alternation().best()
    if best is None or len(best) > MOST_LITERALS:
        return None
    if any(len(literal) < SHORTEST or (literal in HOPELESS and not once) for literal in best):
        return None
    return best


def shared_windows(wanted: Iterable[str]) -> dict[str, str]:
    """Return for each literal a part of it to look for instead, chosen so that few different parts remain.

    A sieve is the faster the fewer strings it holds and the rarer they are, so a literal is cut down to the eight
    characters that most of the others share, as long as everyday lines do not hold them.
    """
    literals = list(wanted)
    shares = Counter(window for literal in literals for window in set(_windows(literal)))
    chosen: dict[str, str] = {}
    for literal in literals:
        rare = [window for window in _windows(literal) if window.lower() not in _everyday()]
        chosen[literal] = max(rare, key=lambda window: (shares[window], window)) if rare else literal
    return chosen


def _windows(literal: str) -> list[str]:
    return [literal[start : start + WINDOW] for start in range(len(literal) - WINDOW + 1)]


@cache
def _everyday() -> str:
    return (Path(__file__).parent / "everyday.txt").read_text("utf-8").lower()


def _worth(literals: frozenset[str]) -> float:
    """How selective a set is: that of its weakest member, a little less for each further one."""
    return min(_rarity(literal) for literal in literals) - 0.05 * len(literals)


def _rarity(literal: str) -> float:
    if len(literal) < SHORTEST or literal in HOPELESS:
        return 0.0
    for word in EVERYDAY:
        literal = literal.replace(word, "\0")
    return min(12.0, sum(1.0 if char.isalnum() else 0.5 for char in literal.replace("\0", "")) + literal.count("\0"))


@dataclass(frozen=True)
class _Node:
    """A parsed piece: the one string that it stands for, if it is plain; and the sets that it demands."""

    exact: str | None
    demands: tuple[frozenset[str], ...]

    def best(self) -> frozenset[str] | None:
        """The most selective set that it demands."""
        return max(self.demands, key=_worth, default=None)


class _Parser:
    """Recursive descent over the dialect."""

    def __init__(self, regex: str) -> None:
        self._text = regex
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
        bests = [branch.best() for branch in branches]
        if any(best is None for best in bests):
            return _Node(None, ())
        return _Node(None, (frozenset().union(*(best for best in bests if best)),))

    def _sequence(self) -> _Node:
        run = ""
        plain = True
        demands: list[frozenset[str]] = []

        def flush() -> None:
            nonlocal run
            if run:
                demands.append(frozenset({run[-LONGEST:]}))
            run = ""

        while self._peek() not in ("", "|", ")"):
            atom = self._atom()
            least, most = self._quantifier()
            if atom.exact is not None and least == most == 1:
                run += atom.exact
                continue
            plain = plain and atom.exact == ""
            if least >= 1 and atom.exact is not None:
                run += atom.exact
                flush()
            else:
                flush()
                if least >= 1:
                    demands += atom.demands
        whole = run if plain and not demands else None
        flush()
        return _Node(whole, tuple(demands))

    def _atom(self) -> _Node:
        char = self._peek()
        if char == "(":
            return self._group()
        if char == "[":
            return self._class()
        if char == "\\":
            self._at += 2
            return _Node(_escaped(self._text[self._at - 1]), ())
        self._at += 1
        return _Node({"^": "", "$": "", ".": None}.get(char, char), ())

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
                    return _Node("", ())
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
        return _Node(members if len(members) == 1 else None, ())

    def _quantifier(self) -> tuple[int, int]:
        """Return (least, most) repetitions; most is capped at 2, which means many."""
        char = self._peek()
        least, most = 1, 1
        if char in ("?", "*", "+") and char:
            self._at += 1
            least, most = (1, 2) if char == "+" else (0, 2)
        elif char == "{" and self._peek(2)[1:].isdigit():
            end = self._text.index("}", self._at)
            low, _, _ = self._text[self._at + 1 : end].partition(",")
            least, most = min(int(low), 1), 2
            self._at = end + 1
        if self._peek() == "?" and (least, most) != (1, 1):
            self._at += 1
        return least, most


def _escaped(char: str) -> str | None:
    """What an escape stands for: nothing for a word boundary, None for a class, else a character."""
    if char in "bB":
        return ""
    return {"t": "\t", "n": "\n"}.get(char) if char.isalnum() else char
