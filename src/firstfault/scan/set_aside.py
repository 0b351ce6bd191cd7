"""Tells files that no run printed (rule files, documentation, source code) from output: their text is no evidence.

A folder that somebody hands over often is a repository: logs, and beside them alerting rules, runbooks and tests that
quote the very messages that the catalogue looks for. What a file is, is told from its content. In doubt it is read: a
page with lines of a log in it is taken for the paste of somebody who needs help, unless it clearly explains them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from firstfault.errors import InputError
from firstfault.model import SetAside
from firstfault.scan.document_marks import (
    BINARY,
    COMPILED_PYTHON,
    LANGUAGES,
    LOG_LINE,
    SHORT_SOURCE,
    STRUCTURED,
    TITLED,
    WEIGHTS,
    WHOLLY,
)
from firstfault.scan.sources import HEAD_BYTES, Source, SourceProblem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from firstfault.model import Observation
    from firstfault.scan.document_marks import Language, Structured

__all__ = ["Document", "document_in", "is_of_configuration", "sift"]

# What a configuration file is evidence of: that nobody would notice, which is judged from such files, a switch that
# takes the rules between nodes away, and what it sets.
_CONFIGURATION_CAUSES = ("observability.", "infra.securitygroup.recommended-rules-off")
_CONFIGURATION_SIGNALS = tuple(
    f"signal/{name}" for name in ("monitoring.", "health.alert", "health.scrape", "clusterpolicy.", "nccl.debug")
)
TAIL_BYTES = 32 * 1024
MOST_LINES = 4000
BEGINNING, MOSTLY = 2048, 0.4
# A document shows within so many bytes what it may be.
HINTED = 12 * 1024


class Document(NamedTuple):
    """What a file is, instead of output.

    Attributes:
        kind: Short name for the report.
        why: What gives it away.
        is_configuration: Whether it is read for the causes that are judged from configuration.
    """

    kind: str
    why: str
    is_configuration: bool = False


def sift(
    sources: Iterable[Source | SourceProblem], aside: list[SetAside], configuration: dict[str, str]
) -> Iterator[Source | SourceProblem]:
    """Yield what is to be read; put the rest into the two collections.

    Args:
        sources: What there is.
        aside: Takes what is not read: documents, and links, sockets and the like, which are left out on purpose.
        configuration: Takes name and kind of the sources that are read as configuration only.
    """
    for source in sources:
        if isinstance(source, SourceProblem):
            if source.level == "skipped":
                aside.append(SetAside(name=source.name, kind="left out", why=source.error.what))
            else:
                yield source
            continue
        try:
            document = document_in(source.head())
            if document is not None and source.path is not None:
                document = document_in(_with_end(source, source.path))
        except (InputError, OSError):
            document = None  # whoever reads it says what is wrong
        if document is None:
            yield source
        elif document.is_configuration:
            configuration[source.name] = document.kind
            aside.append(SetAside(name=source.name, kind=document.kind, why=f"{document.why}; read as configuration"))
            yield source
        else:
            aside.append(SetAside(name=source.name, kind=document.kind, why=document.why))


def is_of_configuration(item: Observation) -> bool:
    """Say whether a line of a configuration file counts."""
    return item.cause.startswith(_CONFIGURATION_CAUSES) or item.signature.startswith(_CONFIGURATION_SIGNALS)


def _with_end(source: Source, path: Path) -> bytes:
    """Return the beginning of a file, and of a large one its end too: a job may print its script before it runs."""
    head = source.head()
    if len(head) < HEAD_BYTES:
        return head
    with path.open("rb") as file:
        file.seek(max(file.seek(0, 2) - TAIL_BYTES, HEAD_BYTES))
        return head + b"\n" + file.read(TAIL_BYTES)


# With a blank line before it and none of its kind behind it, unlike the comments of scripts and of programs' output.
_HEADING = re.compile(rb"(?:\A|\n[ \t]*\r?\n)#{1,6} [^\n]*\w[^\n]*\r?\n(?!#)")
_TABLE = re.compile(rb"(?m)^\|[ :]*-{3,}|^[^\n|]+\|[ :]*-{3,}")
_LINK = re.compile(rb"\]\((?!data:)[^)\s]{1,300}\)")
# Programs print headings and tables too, but no code marks, emphasis or links.
_MARKUP = re.compile(
    rb"(?m)^[ \t]*(?:```|~~~)|\]\([^)\s]{1,300}\)|\*\*\w[^*\n]*\*\*"
    rb"|(?<![`\w])`[^`\n]+`(?!`)|^\|[ :]*-{3,}"
)
_FENCE = re.compile(rb"(?m)^[ \t]*(?:```|~~~)")
_DIRECTIVE = re.compile(rb"(?m)^\.\. (?:code-block|toctree|note|image|literalinclude|contents|_\w+):")
# The headings of issue templates and of what people write who ask for help.
_ASKS = re.compile(
    rb"(?im)^#{1,6} [^\n]*(?:describe the (?:bug|issue)|your current environment|to reproduce|steps to|reproduction|"
    rb"expected (?:behaviou?r|result)|actual (?:behaviou?r|result)|what happened|bug (?:report|description)|"
    rb"relevant log|error (?:message|log)|stack ?trace|\xf0\x9f\x90\x9b)|^(?:\*\*)?(?:describe the bug|what happened)"
)
# Where a page quotes lines of a log, these headings too say that it is about one incident.
_TELLS = re.compile(
    rb"(?im)^#{1,6} +(?:full |relevant |my |our |the )?(?:logs?|output|environment|versions?|setup|question|problem|"
    rb"what (?:i|we) (?:tried|see|did)|symptoms?|timeline|incident|post-?mortem)\b[^\n]{0,20}$"
)
# Whoever tells what befell them says "I", or asks; documentation says "I" only in the questions that it answers.
_PERSON = re.compile(
    rb"(?i:\b(?:do|does|can|should|could|may|must|shall|will|would|am) )?\bI(?:['\xe2][^ ]{1,5})? [a-z]"
    rb"|(?i:\bwe (?:are seeing|see|saw|get|got|observed?|noticed|encountered|hit)\b)"
    rb"|(?i:\bany (?:idea|help|suggestion|clue)s?\b)"
    rb"|\xe6\x88\x91|\xe8\xaf\xb7\xe9\x97\xae|\xe7\xa7\x81"
)
_QUESTION = re.compile(rb"(?i:(?:do|does|can|should|could|may|must|shall|will|would|am) I)")
_PAGE_HINTS = (b"```", b"~~~", b"](", b"**", b"`", b"|-", b"| -", b"\n.. ")
_PAGE_BEGINS = (b"#", b"<!--", b"---\n", b"[![", b"<p", b"<h1", b"<div", b"![")
SMALL_SHARE, TINY_SHARE = 0.15, 0.05
LONG_RUN = 4
# Source code that is longer has marks enough.
SHORT, LONG_LINE = 8 * 1024, 400
# A runbook treats several errors, a report one.
ENTRIES = 2
_SYMPTOM = re.compile(rb"(?im)^[#*\s-]{0,6}(?:symptoms?|problem)\b[^\n:]{0,40}:")
_ACTION = re.compile(
    rb"(?im)^[#*\s-]{0,6}(?:actions?|fix|resolution|remedy|solution|mitigation|what to do|steps)\b[^\n:]{0,40}:"
)
SURE_MARKS = 3
# A page that explains has at least so many headings, and next to no line of a log outside its code.
CLEARLY_HEADED, LOOSE_LOGS, HALF = 4, 2, 0.5
FEW_WORDS = 3


_EXPLANATION = Document("documentation", "a page of documentation (Markdown)")
_TOLD = Document("documentation", "a text that explains: a runbook, a list of changes, the report of an incident")


def document_in(sample: bytes) -> Document | None:
    """Return what a file is that no run printed, or None for output, and for everything that may be output.

    Args:
        sample: The file, or its beginning and its end.
    """
    if (binary := _binary(sample)) is not None:
        return binary
    # Most logs are known for one here, at the least cost.
    beginning = sample[:BEGINNING]
    if len(LOG_LINE.findall(beginning)) > MOSTLY * beginning.count(b"\n"):
        return None
    if (told := _told(sample)) is not None:
        return told
    hinted = sample[:HINTED]
    languages = [each for each in LANGUAGES if each[0] in hinted]
    formats = [each for each in STRUCTURED if each.hint in hinted]
    short = [each for each in SHORT_SOURCE if each[0] in hinted] if len(sample) < SHORT else []
    if not languages and not formats and not short and not any(hint in hinted for hint in _PAGE_HINTS):
        return None
    lines = sample.count(b"\n") - sample.count(b"\n\n") + 1
    logs = len(LOG_LINE.findall(sample))
    if logs > SMALL_SHARE * lines:
        return _EXPLANATION if logs < HALF * lines and _explains(sample) else None
    return (
        _page(sample, lines, logs)
        or _code(sample, languages, logs)
        or _short_code(sample, short, logs)
        or _structured(sample, formats, lines, logs)
    )


def _binary(sample: bytes) -> Document | None:
    if WEIGHTS.match(sample):
        return Document("checkpoint", "a checkpoint of a model, not text")
    if sample.startswith(BINARY) or COMPILED_PYTHON.match(sample):
        return Document("binary", "a binary file, not text")
    return None


def _told(sample: bytes) -> Document | None:
    """Know a text by its title, by the parts that each of its entries has, or by lines that all are of its kind."""
    explains = TITLED.match(sample) or _has_entries(sample[:HINTED])
    if explains and _longest_run(sample) < LONG_RUN and not _ASKS.search(sample):
        return _TOLD
    for first, each, kind, why in WHOLLY:
        if first.match(sample) and all(not line.strip() or each.match(line) for line in sample.splitlines()):
            return Document(kind, why)
    return None


def _has_entries(text: bytes) -> bool:
    """Say whether a text treats several errors one after the other: what is seen, and what to do."""
    if b"ymptom" not in text and b"roblem" not in text:
        return False
    return len(_SYMPTOM.findall(text)) >= ENTRIES and len(_ACTION.findall(text)) >= ENTRIES


def _short_code(sample: bytes, languages: Sequence[tuple[bytes, str, str, int, str]], logs: int) -> Document | None:
    """Know source code by some marks where no line could be output."""
    if logs or not languages:
        return None
    lines = [line.rstrip() for line in sample.decode("utf-8", "replace").splitlines()]
    outer = [line for line in lines if line and not line[0].isspace()]
    if any(len(line) > LONG_LINE for line in outer):
        return None
    for _, language, mark, wanted, code in languages:
        if len({found[0] for line in outer if (found := re.match(mark, line))}) >= wanted and all(
            re.match(code, line) for line in outer
        ):
            return Document("source-code", f"source code ({language})")
    return None


def _code(sample: bytes, languages: Sequence[Language], logs: int) -> Document | None:
    for _, language, mark, wanted in languages if not logs else ():  # a job may print its own script
        if len({match[0] for match in re.finditer(mark, sample)}) >= wanted:
            return Document("source-code", f"source code ({language})")
    return None


def _structured(sample: bytes, formats: Sequence[Structured], lines: int, logs: int) -> Document | None:
    for each in formats:
        sure = len(each.marks) >= SURE_MARKS or logs <= TINY_SHARE * lines
        if sure and all(re.search(mark, sample) for mark in each.marks):
            return Document(each.kind, each.why, each.is_configuration)
    return None


def _page(sample: bytes, lines: int, logs: int) -> Document | None:
    """Tell documentation from the page of somebody who pastes a log with some words around it."""
    if _DIRECTIVE.search(sample) and logs <= TINY_SHARE * lines:
        return Document("documentation", "a page of documentation (reStructuredText)")
    headings = len(_HEADING.findall(sample)) if _begins_like_page(sample) else 0
    if not headings or not _MARKUP.search(sample):
        return None
    prose = _without_fences(sample)
    structure = min(headings, 3) + 2 * bool(_TABLE.search(prose)) + (len(_LINK.findall(prose)) >= 2)
    if structure < 2 + bool(logs) or _ASKS.search(prose) or (logs and _TELLS.search(prose)):
        return None
    if logs > TINY_SHARE * lines and _longest_run(sample) >= LONG_RUN and not _explains(sample):
        return None
    return _EXPLANATION


def _begins_like_page(sample: bytes) -> bool:
    return sample.lstrip(b"\xef\xbb\xbf \r\n").startswith(_PAGE_BEGINS)


def _explains(sample: bytes) -> bool:
    """Say whether a page quotes logs in order to explain them, however many lines of them follow each other.

    Such a page has several headings, keeps what it quotes in code, says more about it than it quotes, and speaks of
    nobody's own case.
    """
    if not _begins_like_page(sample):
        return False
    parts = _FENCE.split(sample)
    prose = b"".join(parts[::2])
    if len(_HEADING.findall(prose)) < CLEARLY_HEADED or len(LOG_LINE.findall(prose)) > LOOSE_LOGS:
        return False
    quoted = sum(len(part) for part in parts[1::2] if LOG_LINE.search(part))
    told = sum(len(line) for line in prose.split(b"\n") if line.count(b" ") >= FEW_WORDS and line[:1] not in b"#|<[")
    if told < quoted or _ASKS.search(prose) or _TELLS.search(prose):
        return False
    return all(_QUESTION.match(each[0]) for each in _PERSON.finditer(prose))


def _without_fences(sample: bytes) -> bytes:
    """Return the page without what stands between code fences, where headings are comments."""
    parts = _FENCE.split(sample)
    return b"".join(parts[::2])


def _longest_run(sample: bytes) -> int:
    """Return how many lines of a log follow each other at most."""
    longest = run = 0
    for line in sample.split(b"\n")[:MOST_LINES]:
        run = run + 1 if LOG_LINE.match(line) else 0
        longest = max(longest, run)
    return longest
