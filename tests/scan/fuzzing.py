"""Breaks sources and reads them: whatever comes in, lines or an `InputError` come out, soon."""

from __future__ import annotations

import io
import json
import random
import re
from typing import TYPE_CHECKING, Any

import yaml

from firstfault.errors import InputError
from firstfault.scan.limits import Limits
from firstfault.scan.readers import JointAnalysis, classify_text, detect_reader
from firstfault.scan.sources import Source, open_sources

if TYPE_CHECKING:
    from collections.abc import Iterable

    from firstfault.model import TextLine

# Small limits, so that a bomb is found in milliseconds instead of gigabytes.
LIMITS = Limits(max_expanded_bytes=20_000_000, ratio_grace_bytes=2_000_000, max_spool_bytes=4_000_000, max_sources=500)
TOKENS = (
    b"\0", b"\xff", b"\x80\x02}", b"[" * 50, b"{" * 50, b'{"a":' * 30, b"null", b"-1", b"1e999", b"99999999999999999999",
    b'"', b"\\u0000", b"\\ud800", b"\n", b"\r\n", b"\n\n\n", b": ", b"  ", b"---\n", b"&a [*a,*a]", b"\x1b[31m", b"true",
    b"[]", b"{}", b'""', b"\xef\xbb\xbf", b"\xfe\xff", b"PK\x03\x04", b"\x1f\x8b\x08", b"_" * 300, b"0" * 5000, b"../",
)  # fmt: skip


# What may stand where a document has something else: every type, and values that trip who trusts them.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1 << 70, 1.5, float("inf"), float("nan"), "", "x", "a\nb", "\x00\ud800", "9" * 400, "-1", "NaN",
    [], {}, [None], [[]], [{}], {"": None}, {"name": []}, {"items": 3}, ["x", 1, None, {"a": []}],
)  # fmt: skip


def mutate_document(data: bytes, source: random.Random) -> bytes | None:
    """Return the document with values of other types in places, keys taken away and lists made longer; None if none."""
    documents = _documents(data)
    if documents is None:
        return None
    for _ in range(source.randint(1, 3)):
        places = [place for document in documents for place in _places(document)]
        if not places:
            break
        holder, key = source.choice(places)
        what = source.randrange(4)
        if what == 0 and isinstance(holder, dict):
            del holder[key]
        elif what == 1 and isinstance(holder, list):
            holder.extend(json.loads(json.dumps(holder)) * source.choice((1, 3)))
        else:
            holder[key] = json.loads(json.dumps(source.choice(VALUES)))
    written = "\n".join(json.dumps(document, indent=source.choice((None, 2)), default=str) for document in documents)
    if source.random() < 0.5 and not data.lstrip().startswith((b"{", b"[")):
        written = "\n---\n".join(yaml.safe_dump(document, width=10_000) for document in documents)
    return written.encode("utf-8", "surrogatepass")


def _documents(data: bytes) -> list[Any] | None:
    """The JSON or YAML documents that bytes hold, in a list."""
    try:
        text = data.decode()
        return [json.loads(text)] if text.lstrip().startswith(("{", "[")) else list(yaml.safe_load_all(text))
    except (UnicodeDecodeError, ValueError, yaml.YAMLError, RecursionError):
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) within a document."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    return [(value, key) for key, _ in items] + [place for _, inner in items for place in _places(inner)]


def mutate(data: bytes, source: random.Random, others: Iterable[bytes] = ()) -> bytes:
    """Return a broken copy: bits flipped, pieces cut, doubled, moved, replaced by awkward tokens or parts of others."""
    result = bytearray(data)
    pool = [*TOKENS, *others]
    for _ in range(source.randint(1, 6)):
        start = source.randint(0, len(result))
        end = min(len(result), start + source.choice((0, 1, 2, 8, 64, 1000)))
        what = source.randrange(6)
        if what == 0 and start < len(result):
            result[start] ^= 1 << source.randrange(8)
        elif what == 1:
            del result[start:end]
        elif what == 2:
            result[start:start] = result[start:end] * source.choice((1, 2, 50))
        elif what == 3:
            result[start:end] = source.choice(pool)
        elif what == 4:
            del result[start:]
        elif numbers := list(re.finditer(rb"\d+", result)):
            number = source.choice(numbers)
            result[number.start() : number.end()] = source.choice(
                (b"-1", b"0", b"4294967296", b"9" * 400, b"NaN", b'"x"')
            )
        del result[1_000_000:]
    return bytes(result)


def read_everything(data: bytes) -> list[TextLine]:
    """Read bytes as standard input would be read: archives, compression, detection, reader, joint findings.

    Raises:
        AssertionError: A line is not what a line must be.
    """
    lines: list[TextLine] = []
    joint = JointAnalysis()
    for item in open_sources(["-"], stdin=io.BytesIO(data), limits=LIMITS):
        if not isinstance(item, Source):
            assert str(item.error)
            continue
        try:
            head = item.head()
            reader = detect_reader(head)
            with item.open() as stream:
                if reader is None:
                    classify_text(head)
                    while stream.read(1 << 20):
                        pass
                else:
                    lines.extend(reader.read(stream, f"{item.name}_rank_0", joint=joint))
        except InputError:
            continue
    lines.extend(line for _, line in joint.finish())
    for line in lines:
        assert isinstance(line.text, str)
        assert line.text.strip()
        assert "\n" not in line.text
        assert line.line is None or line.line >= 1
        assert line.offset is None or line.offset >= 0
        assert line.time is None or 0 <= line.time < 1e11
    return lines
