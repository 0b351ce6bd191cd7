"""The two engines: the same candidates on every sample, and none that `re` would miss."""

from __future__ import annotations

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan.engine import HyperscanEngine, ReEngine
from firstfault.scan.literals import required_literals
from firstfault.scan.patterns import build_patterns
from firstfault.scan.prefix import parse_prefix

PATTERNS = build_patterns(load_catalogue())


def every_sample() -> list[str]:
    """Samples and negatives of all cards and signals, one line each."""
    catalogue = load_catalogue()
    owners = [signature for card in catalogue.cards.values() for signature in card.signatures] + catalogue.signals
    texts = [text for owner in owners for text in (*(sample.text for sample in owner.samples), *owner.negatives)]
    return sorted({line for text in texts for line in text.splitlines() if line.strip()})


def truth(lines: list[str]) -> set[tuple[str, str]]:
    """What Python's `re` finds, pattern by pattern and line by line."""
    found = set()
    for line in lines:
        message = line[parse_prefix(line).start :]
        found |= {(pattern.key, line) for pattern in PATTERNS if pattern.confirm(message, line)}
    return found


def confirmed(engine, lines: list[str]) -> set[tuple[str, str]]:
    """What an engine finds in all lines at once, after confirmation. Patterns with `first_only` may report fewer."""
    chunk = "\n".join(lines).encode() + b"\n"
    found = set()
    for start, _, index in engine.find(chunk, 64):
        line = chunk[start : chunk.find(b"\n", start)].decode()
        if PATTERNS[index].confirm(line[parse_prefix(line).start :], line):
            found.add((PATTERNS[index].key, line))
    return found


@pytest.mark.parametrize("engine_class", [HyperscanEngine, ReEngine])
def test_an_engine_finds_what_re_finds(engine_class):
    """Differential: over all samples and negatives, each engine gives the same matches as `re` line by line."""
    if engine_class is HyperscanEngine:
        pytest.importorskip("hyperscan")
    lines = every_sample()
    once = {pattern.key for pattern in PATTERNS if pattern.first_only}
    found = confirmed(engine_class(PATTERNS), lines)
    expected = truth(lines)
    assert {item for item in expected - found if item[0] not in once} == set()
    assert found - expected == set()
    assert once & {key for key, _ in expected} == once & {key for key, _ in found}


@pytest.mark.parametrize(
    ("regex", "literals"),
    [
        ("NCCL WARN .*went away", {"went away"}),
        ("first|second", {"first", "second"}),
        ("abc|bcdefg", None),
        (r"ab+c?defgh", {"defgh"}),
        (r"(?P<x>abcdef|ghijkl)yz", {"abcdef", "ghijkl"}),
        (r"[abc]lit\.eral\d+", {"lit.eral"}),
        (r"num{3}berless", {"berless"}),
        (r"(?:long prefix )?short(?:er|est)", {"short"}),
        (r"\d+ \w+", None),
        ("(?i)Some Words", {"Some Words"}),
    ],
)
def test_required_literals(regex, literals):
    """The sieve asks only for what each match surely holds, and gives up where that is too common."""
    assert required_literals(regex) == (frozenset(literals) if literals else None)


def test_every_sample_passes_the_sieve():
    """No line that a pattern matches is lost for want of a literal."""
    lines = every_sample()
    for pattern in PATTERNS:
        literals = required_literals(pattern.superset, once=pattern.first_only)
        if literals is not None:
            lost = [line for line in lines if pattern.compiled.search(line) and not held(line, literals)]
            assert lost == [], pattern.key


def held(line: str, literals: frozenset[str]) -> bool:
    """Whether a line holds one of the literals."""
    return any(literal.lower() in line.lower() for literal in literals)
