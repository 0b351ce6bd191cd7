"""What gives a file away that no run printed: the grammar of rule files, configuration, source code and binaries.

Data for `set_aside`. Each mark is something that stands at the beginning of a line of such a file; a log that quotes
one of them does not have the others of its kind.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = [
    "BINARY",
    "COMPILED_PYTHON",
    "LANGUAGES",
    "LOG_LINE",
    "SHORT_SOURCE",
    "STRUCTURED",
    "TITLED",
    "WEIGHTS",
    "WHOLLY",
    "Language",
    "Structured",
]

BINARY = (
    b"\x7fELF", b"\x89PNG\r\n", b"\xff\xd8\xff", b"%PDF-", b"MZ\x90\0", b"SQLite format 3\0", b"GGUF",
    b"\xca\xfe\xba\xbe", b"GIF87a", b"GIF89a", b"\0asm", b"wOFF", b"wOF2", b"!<arch>\n", b"\x93NUMPY",
    b"\x89HDF\r\n", b"PAR1\x15",
)  # fmt: skip
# A zip of PyTorch's own writer (it pads with a field of its own), or safetensors: a length, then the names in JSON.
WEIGHTS = re.compile(
    rb"\APK\x03\x04[\x00-\xff]{26}[\x21-\x7e]{1,200}/data\.pklFB|\A[\x00-\xff]{4}\0{4}\{[\"}]", re.DOTALL
)
COMPILED_PYTHON = re.compile(rb"\A[\x00-\xff]{2}\r\n[\x00-\x03]\0\0\0[\x00-\xff]{8}\xe3", re.DOTALL)

# What the lines of programs begin with: a time, a level, a rank, a process; or the end of a traceback.
LOG_LINE = re.compile(
    rb"(?m)^(?:> ?)?[ \t]{0,2}(?:"
    # times: ISO, syslog, clock, kernel, klog
    rb"\[?\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\d\d:\d\d:\d\d[.,\s]"
    rb"|\[ *\d+\.\d{3,6}\] |<\d>|[IWEF]\d{4} \d\d:\d\d:\d\d|time=\"|Thu "
    # levels, ranks, processes
    rb"|\[?(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|FATAL|TRACE)\]?[ :][ \t]*[\w\[(]"
    rb"|\[(?:rank|default)\d+\]:|\[\d+\]:? "
    rb"|[\w.-]+:\d+:\d+ \[\d+\] |\(\w+[ =]\S*pid=\d+|\S+ NCCL (?:INFO|WARN) |NCCL (?:INFO|WARN)|pod/"
    # how programs end
    rb"|Traceback \(most recent call last\)|(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt): |Segmentation fault|Killed"
    rb"|Aborted|panic: |terminate called|OOMKilled|CUDA error"
    rb"|(?:srun|slurmstepd|kubectl|Error from server|error|fatal|NVRM|Xid)\b[^\n]{0,40}: |[ \t]+at [\w.]+\("
    # shells, tables of kubectl and nvidia-smi
    rb"|\+ [\w./-]+ |[A-Z][A-Z_]+=\S+$|Warning  [A-Z]|Normal  [A-Z]|NAME +READY|Name: {2,}\S|\|[ \t]+\d+[ \t]+NVIDIA)"
)


class Structured(NamedTuple):
    """A format that is known by several marks, all of which must be there.

    Attributes:
        hint: A literal that every file of this format has: looked for first, because that is quick.
        marks: Expressions; most files hold no hint, so `re` compiles (and keeps) them when they are wanted.
    """

    hint: bytes
    kind: str
    why: str
    is_configuration: bool
    marks: tuple[bytes, ...]


def _format(hint: str, kind: str, why: str, *marks: str, is_configuration: bool = False) -> Structured:
    return Structured(hint.encode(), kind, why, is_configuration, tuple(f"(?m){mark}".encode() for mark in marks))


# The first line of a table names a column; it names none of messages.
_COLUMN = r"(?=(?i:[^\n]*?(?<![\w.])\"?%s\"?[ \t]*(?:[,;\t]|\r?\n)))"
_NO_MESSAGES = r"(?!(?i:[^\n]*(?<!\w)(?:message|line|log|content|_raw)\b))"
# No record of a log, no dump of a cluster.
_NO_RECORD = r"\A(?![\s\S]*\"(?:level|severity|time|timestamp|ts|error|status|involvedObject|containerStatuses)\"\s*:)"

STRUCTURED = (
    _format(
        "rule_files:",
        "prometheus-tests",
        "unit tests of alerting rules",
        r"^rule_files:",
        r"^tests:",
        r"^[ \t]*- ?\w+:|input_series:",
    ),
    _format(
        "expr:",
        "prometheus-rules",
        "alerting or recording rules",
        r"^[ \t]*(?:- )?(?:alert|record): ?\S",
        r"^[ \t]*(?:- )?expr: ?\S",
        r"^[ \t]*(?:- )?(?:groups|rules|spec|[\w.-]+): *$",
        is_configuration=True,
    ),
    _format(
        "scrape_configs:",
        "prometheus-config",
        "a configuration of Prometheus or of a collector",
        r"^[ \t]*scrape_configs: *$",
        r"^[ \t]*- job_name: ?\S",
        is_configuration=True,
    ),
    _format(
        "receivers:",
        "alertmanager-config",
        "a configuration of Alertmanager",
        r"^route: *$",
        r"^receivers: *$",
        is_configuration=True,
    ),
    _format(".PHONY:", "makefile", "a makefile", r"^\.PHONY: ?\w", r"^[\w./-]+:[^=\n]*\n\t"),
    _format(
        "id: ",
        "fault-card",
        "a card of the fault catalogue",
        r"^id: [a-z]+\.[\w.-]+ *$",
        r"^(?:signatures|what|title):",
        r"^[ \t]+(?:pattern|text):|^fix:",
    ),
    _format(
        "pattern: ",
        "fault-signals",
        "patterns of the fault catalogue",
        r"^(?:signals|rungs): *$",
        r"^[ \t]+- \{?id: ",
        r"\bpattern: ",
    ),
    _format(
        "origins:", "fault-signals", "codes of the fault catalogue", r"^named: *$", r"^origins: *$", r"^actions: *$"
    ),
    _format(
        "explains: ",
        "fault-signals",
        "rules of the fault catalogue",
        r"^causality: *$",
        r"^[ \t]+- \{?by: ",
        r"\bexplains: ",
    ),
    _format(
        "cause: ",
        "test-cases",
        "cases for a test, with what is expected of them",
        r"^- (?:name|id): ",
        r"^  cause: ?\S",
        r"^  (?:log|text|lines|files|sources?): ?",
    ),
    _format(
        '"cause"',
        "test-cases",
        "cases for a test, with what is expected of them",
        r"\A\{\"id\": ?\"",
        r"\"cause\": ?\"",
        r"\"files\": ?\{",
    ),
    _format("jobs:", "workflow", "a CI workflow", r"^jobs: *$", r"^[ \t]+(?:runs-on|uses|steps): ?"),
    _format(
        "{{",
        "helm-template",
        "a template of a Helm chart",
        r"\{\{-? *(?:if|include|range|with|define|toYaml|\.Values|- )",
        r"\{\{-? *end\b|\.Values\.",
        r"^[ \t]*[\w.-]+: ?",
        is_configuration=True,
    ),
    _format(
        '"rules"',
        "prometheus-rules",
        "alerting or recording rules (JSON)",
        _NO_RECORD + r"\s*\{",
        r"\"groups\"\s*:\s*\[",
        r"\"(?:alert|record)\"\s*:",
        r"\"expr\"\s*:",
        is_configuration=True,
    ),
    _format(
        '"pattern"',
        "log-rules",
        "rules that look for lines of a log (node-problem-detector)",
        r"\A\s*\{",
        r"\"plugin\"\s*:",
        r"\"rules\"\s*:\s*\[",
        r"\"(?:logPath|conditions|source)\"\s*:",
        r"\"pattern\"\s*:",
    ),
    _format(
        '"role"',
        "conversation",
        "messages to and from a language model",
        _NO_RECORD + r"\s*[\[{]",
        r"\"role\"\s*:\s*\"(?:user|assistant|system)\"",
        r"\"content\"\s*:",
    ),
    _format(
        "question",
        "data-set",
        "questions and answers (CSV)",
        r"\A(?:\xef\xbb\xbf)?(?:\w+,)*\"?question\"?,(?:\w+,)*\"?(?:answer|response|completion|output)",
        r"\A[^\n]*\n[^\n]+,",
    ),
    *(
        _format(
            hint,
            "alerts",
            "a list of alerts (CSV)",
            rf"\A(?:\xef\xbb\xbf)?{columns}[\w\" ,;\t.@-]+\r?\n",
            r"\A[^\n]*\n[^\n]*[,;\t]",
        )
        for hint, columns in (
            ("lert", _COLUMN % r"alert(?:[ _]?name)?"),
            ("everity", _COLUMN % "severity" + _COLUMN % "(?:state|status)" + _NO_MESSAGES),
            ("nnotations", _COLUMN % "annotations" + _COLUMN % "(?:state|status)" + _NO_MESSAGES),
        )
    ),
    _format(
        "Status:",
        "ticket",
        "a ticket that is closed",
        r"^Status: *(?i:closed|resolved|done|fixed)\b",
        r"^(?:Comments?|Resolution|Assignee|Reporter)\b[^\n]{0,40}:",
    ),
    _format('"panels"', "dashboard", "a Grafana dashboard", r"\"panels\"\s*:", r"\"(?:schemaVersion|templating)\"\s*:"),
    _format(
        "FROM ",
        "dockerfile",
        "a Dockerfile",
        r"^FROM \S+",
        r"^(?:RUN|COPY|ENTRYPOINT|CMD) ",
        r"^(?:ENV|WORKDIR|ARG|EXPOSE|USER|RUN|COPY) ",
        is_configuration=True,
    ),
    _format(
        " {",
        "terraform-source",
        "Terraform source",
        r"^(?:(?:resource|module|variable|data|provider|output) \"[^\"\n]+\"(?: \"[^\"\n]+\")?|terraform|locals) \{",
        r"^\}",
        r"^ +[\w.]+ += |^ +[\w-]+ (?:\"\w+\" )?\{",
        is_configuration=True,
    ),
    _format(
        "@@ -",
        "patch",
        "a patch of source code",
        r"^(?:diff --git a/|--- (?:a/|/dev/null))",
        r"^\+\+\+ (?:b/|/dev/null)",
        r"^@@ -\d+",
    ),
    _format(
        "#!", "shell-script", "a shell script", r"\A#!\s*/\S*\b(?:env +)?(?:ba|da|z|k)?sh\b", is_configuration=True
    ),
    _format("#!", "source-code", "a script", r"\A#!\s*/\S*\b(?:env +(?:-S +)?)?(?:python|perl|ruby|node|lua)[\d.]*"),
)


Language = tuple[bytes, str, bytes, int]


def _language(hint: str, name: str, wanted: int, *lines: str) -> Language:
    return hint.encode(), name, f"(?m)^(?:{'|'.join(lines)})".encode(), wanted


# (literal that is in every file, language, lines that only its source has, how many different ones there must be)
LANGUAGES = (
    _language(
        "import ", "Python", 3,
        r"import \w[\w., ]*$", r"from [\w.]+ import ", r"(?:async )?def \w+\(", r"class \w+[:(]", r"if __name__ == ",
        r"@[\w.]+\(?",
    ),
    _language(
        "\n#", "C or C++", 4,
        r"#include [<\"]", r"#(?:ifn?def|define|pragma|endif)\b", r"namespace \w+", r"\}[ ;]*$",
        r"(?:static|extern|struct|enum|typedef|template|class|using)\b[^\n]*[;{]$",
    ),
    _language(
        "package ", "Go", 4,
        r"package \w+$", r"import (?:\(|\")", r"func (?:\(\w+ \*?\w+\) )?\w+\(", r"type \w+ (?:struct|interface)",
        r"\)$", r"\}$",
    ),
    _language(
        "fn ", "Rust", 4,
        r"use \w+(?:::|;)", r"(?:pub )?(?:fn|struct|enum|mod|trait) \w+", r"impl\b", r"#\[\w+", r"\}$",
    ),
    _language(
        "\n}", "JavaScript", 4,
        r"import [^\n]* from ['\"]", r"export (?:default|const|function|class)", r"(?:const|let|var) \w+ =",
        r"function \w+\(", r"\}\)?;?$",
    ),
    _language(
        "package ", "Java", 4,
        r"package [\w.]+;", r"import [\w.*]+;", r"public (?:final |abstract )?(?:class|interface|enum) \w+", r"\}$",
    ),
    _language(
        "]\n", "TOML", 4,
        r"\[(?:project|build-system|tool\.[\w.-]+|package|dependencies)\]", r"\[\[?[\w.-]+\]\]?$",
        r"[\w-]+ = [\"\[\d{tf]",
    ),
)  # fmt: skip

_CLOSING = r"[\]})]+[;,)]*(?:[ \t]*(?:#|//).*)?$"
_PYTHON_LINE = (
    r"(?:import |from \S+ import |(?:async )?(?:def|class) \w|(?:if|elif|for|while|with|try|except|else|finally)\b.*:"
    r"|return\b|raise\b|pass$|del |assert |global |@\w|#|[rbf]?(?:\"{3}|'{3})"
    r"|[\w.\[\]\"', ]+(?:: ?[\w\[\], |.]+)? [-+*/|&@]?= \S"
    r"|[\w.]+\(.*[)(,\[{:\\]$|" + _CLOSING + ")"
)
_BRACED_LINE = (
    r"(?:[#}{*@]|//|/\*|\*/|[)\]\"]"
    r"|(?:package|import|use|using|namespace|public|private|protected|template|extern) ?\S"
    r"|.*(?:[;{,(]|\*/|//.*)$|[\w:*&<> ]+\([^)]*\)(?: const)?$|\w+:$)"
)


def _short(hint: str, name: str, wanted: int, code: str, *lines: str) -> tuple[bytes, str, str, int, str]:
    return hint.encode(), name, "|".join(lines), wanted, code


# Source code that is too short for the marks above: some marks of its language, and no line of output among those that
# are not indented.
# (literal that is in every file, language, marks, how many different ones, what each line that is not indented is)
SHORT_SOURCE = (
    _short(
        "import ", "Python", 2, _PYTHON_LINE,
        r"import \w[\w., ]*$", r"from [\w.]+ import ", r"(?:async )?def \w+\(", r"class \w+[:(]", r"if __name__ == ",
        r"[A-Z_]{3,} = ",
    ),
    _short(
        "#include ", "C or C++", 3, _BRACED_LINE,
        r"#include [<\"]", r"#(?:ifn?def|define|pragma|endif)\b", r"namespace \w+",
        r"(?:\w[\w:<>*& ]*) \**\w+\([^;\n]*\) ?\{", r"\}[ ;]*$",
    ),
    _short(
        "fn ", "Rust", 2, _BRACED_LINE,
        r"use \w+(?:::|;)", r"(?:pub )?(?:fn|struct|enum|mod|trait) \w+", r"impl\b", r"#\[\w+", r"\}$",
    ),
    _short(
        "\n}", "JavaScript, Go or Java", 3, _BRACED_LINE,
        r"import [^\n]* from ['\"]", r"export (?:default|const|function|class)", r"(?:const|let|var) \w+ =",
        r"(?:async )?function \w+\(", r"package [\w.]+;?$", r"import [\w.*]+;", r"import (?:\(|\")", r"func \w+\(",
        r"public (?:final )?class \w+", r"\}\)?;?$",
    ),
)  # fmt: skip

# What a text says it is, in its first words (of Markdown, its structure decides).
TITLED = re.compile(
    rb"\A(?:\xef\xbb\xbf)?[=\s]{0,6}(?i:(?:the )?(?:gpu |cluster |on-?call |incident |training ){0,2}"
    rb"(?:run-?book|play-?book|post-?mortem|faq|frequently asked|change ?log|release notes|troubleshooting guide))"
    rb"\b[^\n]{0,80}$",
    re.MULTILINE,
)
# Texts of which every line has its place: (what the first line looks like, what every line looks like, kind, why).
WHOLLY = (
    (
        re.compile(rb"commit [0-9a-f]{7,40}(?: \(.*\))?\r?\n(?:Merge: .*\n)?Author: "),
        re.compile(rb"(?:commit [0-9a-f]{7,40}\b|(?:Merge|Author|AuthorDate|Commit|CommitDate|Date): | {4}|\t)"),
        "history",
        "the history of a git repository",
    ),
)
