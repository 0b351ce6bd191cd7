"""Takes tokens, keys and account ids out of text before it leaves the machine.

Precise on purpose: an NCCL line, a commit id or a communicator pointer must come out as it went in, because a report
that hides its evidence proves nothing. So bare hexadecimal and base64 runs stay; a value goes when its own shape
(`AKIA…`, `hf_…`, a JWT) or the name before it (`password=`) says that it is secret.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["redact", "redact_lines"]

# What a value may consist of when it stands behind its name, in shell, YAML, JSON or a URL query.
_VALUE = r"""[^\s"'`,;&<>\[\]{}()]"""
# Up to three blanks or line ends; more where a column is filled up, as `kubectl describe` does.
_ASSIGN = r"""\\?["']?\s{0,3}(?:=|:|=>)(?:[ \t]{4,40}|\s{0,3})\\?["']?"""
# What a program was told to be, to have or to show is no secret: a type, or that there is none.
_NO_VALUE = r"(?!(?i:none|null|nil|true|false|yes|not?|set|unset|empty|str|string|bytes|text)\b)"
_KEY_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
_KEY_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"
_GUARDED_NAMES = (
    "password|passwd|passphrase|client[-_]?secret|(?:secret|api|account|storage|shared|signing|encryption)[-_]?key"
    "|(?:access|auth|refresh|private)[-_]?token"
)
_ENV_NAMES = "TOKEN|SECRET|PASSWORD|PASSWD|_PASS|_PWD|APIKEY|ACCESSKEY|_KEY|CREDENTIALS?|CONNECTION_STRING|_DSN"
# Flags that take a secret. Tokens of a vocabulary (`--eos-token`, `--max-token`) are none.
_FLAGS = (
    r"(?:[\w-]{0,40}[-_])?(?:password|passwd|passphrase|secret|credentials?|(?:secret|api|access|private|account)[-_]?key)"
    r"|(?:(?:hf|hub|api|auth|access|bearer|session|refresh|login|user|git|github|gitlab|registry|ngc|wandb|join|oauth)[-_])?"
    r"token"
)
_ACCOUNT_NAMES = r"aws[_-]?account(?:[_-]?id)?|account[_ -]?id|owner[_-]?id|user[_-]?id|owner"


class _Rule(NamedTuple):
    """One kind of secret.

    Attributes:
        what: Stands in its place, in angle brackets.
        hints: Lower-case literals, one of which must be in the text for the pattern to be tried at all.
        pattern: Group 1, if any, stays in front; group 2, if any, stays behind. Every repetition is bounded, or over
            one class that its successor is not in, so that a search takes linear time.
    """

    what: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _rule(what: str, hints: str, *pattern: str) -> _Rule:
    return _Rule(what, tuple(hints.split()), re.compile("".join(pattern)))


_RULES: tuple[_Rule, ...] = (
    _rule("private-key", "private", _KEY_BEGIN, rf"[\s\S]*?(?:{_KEY_END}|\Z)"),
    _rule("aws-key-id", "akia asia abia acca", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    _rule(
        "aws-unique-id",
        "aroa aida agpa anpa anva aipa apka",
        r"\b(?:AROA|AIDA|AGPA|ANPA|ANVA|AIPA|APKA)[A-Z0-9]{16,17}\b",
    ),
    _rule(
        "aws-secret",
        "secret token",
        r"((?i:aws_?)?(?i:secret_?access_?key|session_?token|security_?token)",
        rf"{_ASSIGN}){_VALUE}{{16,}}",
    ),
    _rule("aws-signature", "x-amz-", rf"(X-Amz-(?:Signature|Credential|Security-Token)=){_VALUE}+"),
    _rule("jwt", "eyj", r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}"),
    _rule("eks-token", "k8s-aws-v1", r"\bk8s-aws-v1\.[\w-]{16,}"),
    _rule("hf-token", "hf_ api_org_", r"\b(?:hf|api_org)_[A-Za-z0-9]{24,}\b"),
    _rule(
        "github-token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{22,})",
    ),
    _rule("gitlab-token", "glpat- gldt- glrt- glcbt- glptt-", r"\bgl(?:pat|dt|rt|cbt|ptt)-[\w-]{18,}"),
    _rule("slack-token", "xox", r"\bxox[abeoprs]-[\w-]{10,}"),
    _rule("slack-webhook", "hooks.slack.com", r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/]+"),
    _rule(
        "api-key",
        "sk- nvapi- aiza npm_",
        r"\b(?:sk-(?:ant-|proj-|svcacct-|or-)?(?=[\w-]{0,60}\d)[\w-]{20,}|nvapi-[\w-]{20,}|AIza[\w-]{35}",
        r"|npm_[A-Za-z0-9]{36})",
    ),
    _rule("wandb-key", "wandb", rf"((?i:wandb[_ .-]?(?:login|api[_-]?key)){_ASSIGN})[0-9a-fA-F]{{40}}\b"),
    _rule("wandb-key", "wandb", r"(\bwandb login(?: --relogin)? )[0-9a-fA-F]{40}\b"),
    _rule("wandb-key", "wandb_v", r"\bwandb_v\d_\w{20,}"),
    _rule(
        "authorization",
        "authorization",
        rf"((?i:authorization){_ASSIGN}(?i:bearer|basic|token|digest) )[^\s\"'<,]{{6,}}",
    ),
    _rule("authorization", "aws4-hmac", rf"((?i:authorization){_ASSIGN}AWS4-HMAC-SHA256 )[^\"'<\n]{{6,}}"),
    _rule("bearer", "bearer", r"(\b[Bb]earer )(?=[\w.~+/-]{0,200}\d)[\w.~+/-]{16,}=*"),
    _rule(
        "url-password", "://", r"(://[^\s:/@\"'<>]{0,200}:)[^\s/@\"'<>]+(@)",
    ),
    _rule("url-token", "://", r"(\bhttps?://)[^\s:/@\"'<>.]{16,}(@)"),
    _rule("join-token", "--token", r"(--token[ =])[a-z0-9]{6}\.[a-z0-9]{16}\b"),
    _rule(
        "password",
        "pass secret key token",
        rf"(\b(?i:[\w.-]{{0,40}}(?:{_GUARDED_NAMES})){_ASSIGN}){_NO_VALUE}{_VALUE}{{3,}}",
    ),
    # An argument of a command: in the same word, in the next of a list (JSON, YAML), or behind a blank; there, words of
    # a sentence are not taken for it.
    _rule(
        "secret",
        "--",
        rf"(--(?i:{_FLAGS})(?:=[\"']?|\\?[\"'],\s{{0,200}}\\?[\"']|[\"']?\s{{1,200}}- [\"']?",
        r"|[ \t]{1,3}[\"']?(?![a-z]+\b)))",
        rf"(?!-|\d{{1,6}}\b){_NO_VALUE}{_VALUE}{{3,}}",
    ),
    _rule("secret", "curl", r"(\s(?:-u|--user)[ =]{1,2}[\"']?[^\s:\"'<]{1,100}:)(?!<|\d+\b)[^\s\"']+"),
    _rule("cookie", "cookie", r"(\b(?i:cookie): )(?=[\w.-]{1,80}=)[^\s\"'<][^\"'\n]*"),
    _rule("api-key", "_live_ _test_", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _rule(
        "secret",
        "token secret passw key",
        rf"(\b[A-Z0-9_]{{0,40}}(?:TOKEN|SECRET|PASSWORD|PASSWD|APIKEY|API_KEY){_ASSIGN})",
        rf"(?=[A-Za-z_.+/=-]{{0,60}}\d){_VALUE}{{12,}}",
    ),
    # The environment of a container, as objects of Kubernetes write it: name, then value. In JSON; in JSON within a
    # string of JSON, as in the annotation of `kubectl apply`; in YAML.
    _rule(
        "secret",
        "token secret pass pwd key credential _string _dsn",
        rf"(\"name\":\s{{0,3}}\"[\w.-]{{0,60}}(?i:{_ENV_NAMES})\",\s{{0,200}}\"value\":\s{{0,3}}\")(?!<)(?:[^\"\\\n]|\\.)+",
    ),
    _rule(
        "secret",
        "token secret pass pwd key credential _string _dsn",
        rf"(\\\"name\\\":\s{{0,3}}\\\"[\w.-]{{0,60}}(?i:{_ENV_NAMES})\\\",\s{{0,200}}\\\"value\\\":\s{{0,3}}\\\")",
        r"(?!<)(?:[^\"\\\n]|\\\\(?:\\[\"\\]|[^\"\\\n]))+",
    ),
    _rule(
        "secret",
        "token secret pass pwd key credential _string _dsn",
        rf"(\bname[\"']?: {{0,3}}[\"']?\w{{0,60}}(?i:{_ENV_NAMES})[\"']?,?\s{{1,200}}[\"']?value[\"']?: {{0,3}}[\"']?)",
        r"(?!<)[^\s\"'][^\"'\n]*",
    ),
    _rule(
        "credential-data",
        "client- token",
        r"(\b(?:client-key-data|client-certificate-data|token): )[A-Za-z0-9+/_.=-]{32,}",
    ),
    _rule("account", "arn:", r"(\barn:aws[\w-]{0,12}:[\w-]{0,40}:[\w-]{0,30}:)\d{12}(:)"),
    _rule("account", ".dkr.ecr", r"()\b\d{12}(\.dkr\.ecr(?:-fips)?\.[\w-]{2,30}\.amazonaws\.com)"),
    _rule("account", "account owner user", rf"(\b(?i:{_ACCOUNT_NAMES}){_ASSIGN})\d{{12}}\b"),
    _rule("account", "account", r"(\b(?i:account) )\d{12}\b"),
)  # fmt: skip


def redact(text: str) -> str:
    """Return the text with secrets replaced by `<what it was>`; doing it twice changes nothing more."""
    lowered = text.lower()
    for rule in _RULES:
        if any(hint in lowered for hint in rule.hints):
            before = r"\1" if rule.pattern.groups else ""
            after = r"\2" if rule.pattern.groups > 1 else ""
            text = rule.pattern.sub(f"{before}<{rule.what}>{after}", text)
    return text


_BEGIN, _END = re.compile(_KEY_BEGIN), re.compile(_KEY_END)
MAX_KEY_LINES = 200


def redact_lines(lines: Iterable[str]) -> Iterator[str]:
    """Redact a stream of lines; a private key that spans several lines goes as a whole.

    Args:
        lines: Lines with or without their endings. A key without an end stops hiding lines after 200 of them.
    """
    hidden = 0
    for line in lines:
        if hidden:
            end = _END.search(line)
            hidden = 0 if end else hidden - 1
            if end and (rest := line[end.end() :]).strip():
                yield redact(rest)
            continue
        begin = _BEGIN.search(line)
        if begin is not None and _END.search(line, begin.end()) is None:
            hidden = MAX_KEY_LINES
        yield redact(line) + ("\n" if hidden and line.endswith("\n") else "")
