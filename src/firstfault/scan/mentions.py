"""Tells a line that only mentions an error from one that reports it: a command that looks for it, a test, a remark.

`grep -q 'GPU has fallen off the bus' dmesg.txt` in the trace of a script, the pattern of a rule, the id of a test that
passed, the sample of text that a training prints: the words of a fault, and no fault. Real logs quote a lot, too
(`err="…"`, `RuntimeError('…')`, `message: '…'`), so that it is not the quote which decides but what stands before it.
Only lines on which a pattern was confirmed are looked at.
"""

from __future__ import annotations

import re

__all__ = ["MENTION", "is_mention"]

# What is left of the strength of a line that only mentions an error: too little for a verdict, less than any real line.
MENTION = 0.1
# Whoever mentions an error says so right before it; records of one line that are longer are for their readers.
LONGEST_HEAD = 400

# A quote that is still open where the error begins.
_OPEN = r"(?:[rbuf]{1,2})?(?P<quote>[\"'`])(?:\\.|(?!(?P=quote))[^\\])*\Z"
_QUOTES = ('"', "'", "`")

# Fields that hold somebody else's words, whoever writes the record: what a model is asked, answers or is trained on,
# and what a query or a command looks for.
_FOREIGN_TEXT = re.compile(
    r"(?:(?:^|[\s{,(\[])[\"']?(?:(?:text |training |random )?samples?(?: text)?|prompts?|questions?|instructions?"
    r"|completions?|generated(?:[ _]text)?|(?:input|output|prompt)[ _]text)[\"']?\s*(?:[:=]|->)\s*\[?"
    r"|\bquery[\"']?\s*[:=]\s*|\bCOMMAND=\S*grep [^\"']*|\ba0=\"\S*grep\" (?:a\d=\"-\S*\" )*a\d="
    r"|(?:\|[=~]|[=!]~|\b(?:LIKE|REGEXP))\s*\(?"
    r"|[\"']role[\"']\s*:\s*[\"'](?:user|assistant|system)[\"'][^{}]{0,200}[\"']content[\"']\s*:\s*)" + _OPEN,
    re.IGNORECASE,
)
# The rest are judged on lines that do not begin as the lines of a log do.
_LOOKS_FOR = (
    r"(?:^|[\s{,(\[])[\"']?(?:patterns?|reg_?exp?|[\w-]*[Rr]egex|expr(?:ession)?|matches|line_?match)[\"']?"
    r"\s*[:=]\s*\[?"
    r"|(?:^|\s)--?(?:e|pattern|reg-?exp?|grep|match|expr|prompt|title|description)[ =]"
)
_SOURCE_CODE = (
    r"\b(?:f?printf?|[Pp]rintln|puts|re\.\w+|MustCompile|startswith|endswith|contains|includes)\((?:[\w.]+, )?"
    r"|^[-+]?\s*(?:assert|if|elif|while)\b.{0,60}\s"
)
_PROSE = (
    r"\b(?:[Mm]atch(?:es|ing)?|[Hh]andles?|[Cc]ontains?|containing|has(?:_any|_all)?"
    r"|[Ll]ook(?:s|ing)? for|[Ss]earch(?:es|ing)? for"
    r"|[Ff]ilters?|[Ll]ast time it was|such as|e\.g\.|for example"
    r"|[Aa]lert(?:s|ing)? on|[Rr]etr(?:y|ies) on|[Ww]atch(?:es|ing)? for|and on)"
    r" (?:also |the |an? |error |message |line |string )*"
)
_QUOTED = tuple(re.compile(f"(?:{before}){_OPEN}") for before in (_LOOKS_FOR, _SOURCE_CODE, _PROSE))
# Code marks in prose, unless somebody says what befell them.
_CODE_MARK = re.compile(r"(?:^|[\s(])(?P<quote>`)[^`]*\Z")
_BEFELL = re.compile(
    r"\b(?:gets?|got|getting|sees?|saw|seeing|with|is|was|says?|said|shows?|prints?|errors?|message|throws?|raises?"
    r"|return(?:s|ed)?|fail\w*|crash\w*)[ :(]{1,3}`[^`]*\Z"
)
# A line that is code and nothing else is a paste, not prose.
_ALL_CODE = re.compile(r"\s*`[^`]+`\s*")
# Commands: of a shell's history, of `set -x`, behind a prompt, in a table of processes; behind a pipe.
_COMMAND = (
    r"^(?:\s*\d{1,6}\*? {1,2}|[$#%] |\+{1,5} |\S+@\S+[$#] ?|\w+ +\d+ +\d[ \d.:?]*)?\s*(?:sudo )?"
    r"(?:[efz]?grep\s|(?:rg|ack|awk|sed)\s+(?:-\S+\s+)*[\"'/]|(?:echo|printf|logger)\s+(?:-\S+\s+)*[\"'])"
    r"|^[^\"'`]*\|\s*(?:sudo )?(?:[efz]?grep\s|rg\s|awk\s|sed\s)"
    r"|^\s*(?:Regex|Exclude) +\$?\w+ "
)
# What grep found in documents and in source code.
_FOUND = (
    r"^[\w./-]+\.(?:md|rst|adoc|html?)[:-]\d+[:-]"
    r"|^[\w./-]+\.(?:py|go|cc?|cpp|hp?p?|cuh?|rs|java|tsx?|jsx?|ya?ml|sh|tf)[:-]\d+[:-](?=[\"'`#/]|[ \t]{2,}\S)"
)
_TEST_ID = r"(?:\.py::|\btest_)\w+(?:::\w+)?\[[^\]]*\Z|^\[ +(?:RUN|OK) +\] "
_CHANGE = r"^\s*(?:[-*] )?(?:[0-9a-f]{7,12} )?(?:fix|feat|docs|tests?|chore|refactor|perf)(?:\([\w./-]+\))?!?: "
# Who asks what "this" means shows what befell them.
_ADVICE = (
    r"\b(?:[Ii]f|[Ww]hen|[Ww]henever|[Ii]n case) (?:you|users?|one|someone) (?:ever |also |still )?"
    r"(?:sees?|gets?|finds?|hits?|notices?)\b"
    r"|\b[Ww]hat (?:does|do) (?!this\b|it\b|that\b|the (?:following|error|message)\b)"
    r"|^\s*[-*] (?:\[[ x]\] )?(?:[Aa]lert|[Rr]etry|[Pp]age) on "
    r"|\b[Ll]ike (?:in (?:January|February|March|April|May|June|July|August|September|October|November|December|20\d\d)"
    r"|last (?:time|week|month|year))\b|\b[Cc]ould (?:it|this|that) be\b"
)
# A remark in a chat about other cases, or about what did not happen.
_REMARK = (
    r"^\[?\d\d?:\d\d(?: ?[AaPp][Mm])?\]? <?@?[A-Za-z][\w. -]{0,30}(?:>|>?:) "
    r"(?:(?:no|nope|not)\b|.*\b(?:could|might|maybe|perhaps|like in|like the|like last|last (?:time|week|month|year)"
    r"|remember|similar|instead of|rather than|used to|no|not an?|never)\b)"
)
_WITHOUT_QUOTES = tuple(re.compile(each) for each in (_COMMAND, _FOUND, _TEST_ID, _CHANGE, _ADVICE, _REMARK))
# The error as a part of an expression that looks for it.
_EXPRESSION = re.compile(r"\.[*+](?![\w./\\])|\\[dsw][+*{]|\\[()]")
# Who says that there is none of it.
_NONE_OF_IT = re.compile(
    r"(?:^|[\s:\]])(?:[Nn]o|NO|[Zz]ero|0|[Ww]ithout(?: any)?|[Nn]ot any) "
    r"(?:new |more |further |known |such |recent )?\Z"
)
_IS_THERE = re.compile(
    r"[^.;,]{0,40}?\b(?:seen|found|detected|observed|reported|logged|so far|lines?|errors?|messages?|events?|entries"
    r"|in (?:the |this )?(?:logs?|dmesg|output|journal))\b"
)


def is_mention(line: str, message: int, start: int, end: int) -> bool:
    """Say whether a line only mentions what a pattern found on it.

    Args:
        line: The whole line.
        message: Where its message begins, behind what programs put before it (0: it begins as no line of a log does).
        start: Where the pattern's match begins.
        end: Where it ends.
    """
    if start > LONGEST_HEAD:
        return False
    head = line[:start]
    if _NONE_OF_IT.search(head) and _IS_THERE.match(line, end):
        return True
    message = message if line[:message].strip() else 0
    if any(quote in head for quote in _QUOTES):
        if _closes(_FOREIGN_TEXT.search(head), line, start, end):
            return True
        if not message and (
            any(_closes(each.search(head), line, start, end) for each in _QUOTED)
            or (
                _closes(_CODE_MARK.search(head), line, start, end)
                and not _BEFELL.search(head)
                and not _ALL_CODE.fullmatch(line)
            )
        ):
            return True
    if message:
        return False
    text = line[: end + LONGEST_HEAD]
    if line.startswith("*"):  # in bold or italics: the mark that closes is no part of an expression
        text = text.rstrip().rstrip("*")
    return any(each.search(head) for each in _WITHOUT_QUOTES) or _EXPRESSION.search(text) is not None


def _closes(opened: re.Match[str] | None, line: str, start: int, end: int) -> bool:
    """Say whether the quote that is open before the error closes behind it."""
    return opened is not None and line.find(opened["quote"], start) >= end - 1
