"""The two engines: the same candidates on every sample, and none that `re` would miss."""

from __future__ import annotations

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan.engine import HyperscanEngine, ReEngine, required_literal
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
    for end, index in engine.find(chunk):
        start = chunk.rfind(b"\n", 0, max(end - 1, 0)) + 1
        line = chunk[start : chunk.find(b"\n", max(end - 1, start))].decode()
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
    ("regex", "literal"),
    [
        ("NCCL WARN .*failed", "NCCL WARN "),
        ("a|bcd", ""),
        (r"ab+c?def", "def"),
        (r"x(?:abc|def)yz", "yz"),
        (r"[abc]lit\.eral\d+", "lit.eral"),
        (r"num{3}ber", "ber"),
    ],
)
def test_required_literal_is_in_every_match(regex, literal):
    """The prefilter only demands what each match surely holds."""
    assert required_literal(regex) == literal
