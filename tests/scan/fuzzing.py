"""Breaks sources and reads them: whatever comes in, lines or an `InputError` come out, soon."""

from __future__ import annotations

import io
import random
import re
from typing import TYPE_CHECKING

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
