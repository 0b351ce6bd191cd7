"""The two engines: the same candidates on every sample, and none that `re` would miss."""

from __future__ import annotations

import random
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan import engine as engine_module
from firstfault.scan.engine import HyperscanEngine, ReEngine
from firstfault.scan.literals import SWIFT, certain_literals, required_literals
from firstfault.scan.patterns import build_patterns
from firstfault.scan.prefix import parse_prefix

PATTERNS = build_patterns(load_catalogue())


def some_lines() -> list[str]:
    """A sample and a negative of every signature, one line each, and a random few hundred of the others."""
    catalogue = load_catalogue()
    owners = [signature for card in catalogue.cards.values() for signature in card.signatures] + catalogue.signals
    first, other = set(), set()
    for owner in owners:
        for texts in ([sample.text for sample in owner.samples], owner.negatives):
            lines = [line for text in texts for line in text.splitlines() if line.strip()]
            first |= set(lines[:1])
            other |= set(lines[1:])
    rest = sorted(other - first)
    chosen = random.sample(sorted(first), min(len(first), 300)) + random.sample(rest, min(len(rest), 120))
    return sorted(set(chosen))


def truth(lines: list[str]) -> set[tuple[str, str]]:
    """What Python's `re` finds, pattern by pattern and line by line."""
    found = set()
    for line in lines:
        message = line[parse_prefix(line).start :]
        found |= {(pattern.key, line) for pattern in PATTERNS if pattern.confirm(line, message)}
    return found


def confirmed(engine, lines: list[str], piece: int) -> set[tuple[str, str]]:
    """What an engine finds in all lines at once, after confirmation. Patterns with `first_only` may report fewer."""
    chunk = "\n".join(lines).encode() + b"\n"
    found = set()
    for start, _, index in engine.find(chunk, piece):
        line = chunk[start : chunk.find(b"\n", start)].decode()
        if PATTERNS[index].confirm(line):
            found.add((PATTERNS[index].key, line))
    return found


def test_the_engines_find_what_re_finds(monkeypatch):
    """Differential: each engine gives the same matches as `re` line by line, however often such lines come."""
    pytest.importorskip("hyperscan")
    lines = some_lines()
    # Lines that differ in digits only, before and behind each: what is kept of one must not decide on the next.
    lines = sorted({*lines, *(with_other_digits(line) for line in lines)})
    random.shuffle(lines)
    expected = truth(lines)
    once = {pattern.key for pattern in PATTERNS if pattern.first_only}
    for engine, common in (
        (HyperscanEngine(PATTERNS), 1),
        (HyperscanEngine(PATTERNS), 2),
        (HyperscanEngine(PATTERNS), 1 << 30),
        (ReEngine(PATTERNS), 0),
    ):
        monkeypatch.setattr(engine_module, "COMMON", common)
        found = confirmed(engine, lines, piece=64)
        assert {item for item in expected - found if item[0] not in once} == set()
        assert found - expected == set()


def with_other_digits(line: str) -> str:
    """The line with each digit replaced by a random one."""
    return "".join(random.choice("0123456789") if char in "0123456789" else char for char in line)


def test_a_pattern_for_whatever_numbers_matches_where_the_pattern_does():
    """And does so on the line with zeros for all digits, which stands for all lines of a shape."""
    for pattern in PATTERNS:
        assert pattern.whatever_numbers
    for line in some_lines():
        shape = re.sub("[0-9]", "0", line)
        message = line[parse_prefix(line).start :]
        for pattern in PATTERNS:
            if pattern.confirm(line, message):
                assert pattern.whatever_numbers.search(shape), (pattern.key, line)


def test_the_sieve_lets_every_match_through():
    """No sample is lost for want of a literal."""
    supersets = {pattern.key: pattern.superset for pattern in PATTERNS}
    for card in load_catalogue().cards.values():
        for signature in card.signatures:
            literals = required_literals(supersets[f"{card.id}/{signature.id}"])
            for sample in signature.samples if literals else ():
                assert any(literal.lower() in sample.text.lower() for literal in literals), (card.id, signature.id)


@pytest.mark.parametrize(
    ("regex", "literals"),
    [
        ("NCCL WARN .*went away", {"went away"}),
        ("first|second", {"first", "second"}),
        ("abc|bcdefg", None),
        (r"ab+c?defgh", {"defgh", "cdefgh"}),
        (r"(?P<x>abcdef|ghijkl)yz", {"abcdefyz", "ghijklyz"}),
        (r"[a-z]lit\.eral\d+", {"lit.eral"}),
        (r"num{3}berless", {"berless"}),
        (r"(?:long )?short(?:er|est)", {"shorter", "shortest", "long shorter", "long shortest"}),
        (r"[Uu]nknown", {"Unknown", "unknown"}),
        (r"\d+\s+9[6-8]%\s", {"96%", "97%", "98%"}),
        (r"\d+ \w+", None),
        ("(?i)Some Words", {"Some Words"}),
    ],
)
def test_required_literals(regex, literals):
    """The sieve asks only for what each match surely holds, and gives up where that is too common."""
    assert required_literals(regex) == (frozenset(literals) if literals else None)


def test_the_shipped_patterns_keep_the_sieve_fast():
    """One string of five characters or less makes reading a fifth slower, for every pattern (see CONTRIBUTING)."""
    slow = {
        pattern.key: sorted(found)
        for pattern in PATTERNS
        if not pattern.first_only and (found := required_literals(pattern.superset)) and min(map(len, found)) < SWIFT
    }
    assert not slow, "give each branch six characters in a row that stand as they are: see how-to-add-a-fault-card"


@pytest.mark.parametrize(
    ("regex", "literals"),
    [
        (r"Xid \((?:PCI:)?(?P<pci>[01.]+)\)", {f"Xid ({rest}" for rest in ("0", "1", ".", "PCI:0", "PCI:1", "PCI:.")}),
        (r"[A-D]Err:? ", {f"{first}Err{rest}" for first in "ABCD" for rest in (" ", ": ")}),
    ],
)
def test_short_literals_are_made_longer(regex, literals):
    """Where a pattern has only a short literal, the classes beside it are spelled out."""
    assert required_literals(regex) == frozenset(literals)


@pytest.mark.parametrize(
    ("regex", "strings"),
    [
        (r"Xid \((?:PCI:)?[0-9a-f:.]+\): (?:\d+, .*previous Xid )?(?P<xid>48)(?:[^0-9]|$)", {"Xid (", "): ", "48"}),
        ("one.*two \\d(?:or )?\\d three", {"one", "two ", " three"}),
        ("this one|or that one", set()),
    ],
)
def test_what_each_match_holds(regex, strings):
    """All of it, however short; what is optional, or one of several branches, is not in it."""
    found = set(certain_literals(regex))
    assert strings <= found if strings else not found
    assert all(other not in found for other in ("or ", "PCI:", "previous Xid "))


def test_the_line_of_one_xid_is_no_candidate_for_most_others():
    """Each code has its pattern, and all begin alike: a storm of XIDs must not try each of them on each line."""
    pytest.importorskip("hyperscan")
    line = b"NVRM: Xid (PCI:0000:19:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"
    found = {PATTERNS[index].key for _, _, index in HyperscanEngine(PATTERNS).find(line)}
    assert "driver.gpu.fallen-off/xid-79" in found
    assert "driver.xid.48/kernel-line" not in found
    assert "driver.ecc.uncorrectable/xid-48" not in found


@pytest.mark.parametrize("make", [HyperscanEngine, ReEngine])
def test_blanks_at_the_end_of_a_line_hide_nothing(make):
    """Colours leave blanks there; they are taken off before a pattern is confirmed, also of the lines that come often."""
    if make is HyperscanEngine:
        pytest.importorskip("hyperscan")
    engine = make(PATTERNS)
    chunk = b"".join(b"[rank%d]: AssertionError   \n" % (n % 10) for n in range(40))
    found = [start for start, _, index in engine.find(chunk) if "traceback-final-line" in PATTERNS[index].key]
    assert len(found) == 40


def test_a_match_that_begins_at_the_end_of_a_line_belongs_to_the_next():
    """White space at the beginning of a pattern takes the line feed in."""
    (index,) = (n for n, row in enumerate(PATTERNS) if row.key == "signal/health.service-active")
    line = next(
        sample.text.splitlines()[0]
        for signal in load_catalogue().signals
        if signal.id == "health.service-active"
        for sample in signal.samples
    )
    chunk = f"other words\n{line}\n".encode()
    assert [start for start, _, found in ReEngine(PATTERNS).find(chunk) if found == index] == [12]


def test_the_output_of_a_healthy_job_seldom_meets_the_sieve():
    """One everyday string among the literals makes all reading several times slower: each hit costs Python's time."""
    pytest.importorskip("hyperscan")
    benchmark = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "throughput.py"))
    chunk = benchmark["block"](300_000, 1)
    engine = HyperscanEngine(PATTERNS)
    hits = engine._scan("every", engine._every.database, chunk)
    worst = Counter(row for _, row in hits).most_common(1)
    assert len(hits) < chunk.count(b"\n") / 50, [engine._every.leads[row] for row, _ in worst]
