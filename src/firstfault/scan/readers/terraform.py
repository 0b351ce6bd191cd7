"""Terraform and OpenTofu plans, as text and as `terraform show -json` prints them.

Plans hold secrets: of the values only those of security-group rules and boolean variables are printed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, BinaryIO

from firstfault.model import TextLine
from firstfault.model.safe_text import strip_ansi
from firstfault.scan.readers.base import iter_lines
from firstfault.scan.readers.facts import Context, items, mapping, mappings, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["TerraformTextReader", "is_terraform", "plan_facts", "stream_facts"]

RULE_TYPES = frozenset({
    "aws_security_group_rule", "aws_vpc_security_group_ingress_rule", "aws_vpc_security_group_egress_rule",
})  # fmt: skip
QUIET = frozenset({"no-op", "read"})


def is_terraform(value: dict[str, Any]) -> bool:
    """Say whether a document is a plan or a state of `terraform show -json`."""
    return "terraform_version" in value and (
        "resource_changes" in value or "planned_values" in value or "values" in value
    )


def plan_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield each change, each drift, boolean variables and the summary of a plan."""
    counts = {"create": 0, "update": 0, "delete": 0}
    for change in mappings(value.get("resource_changes")):
        actions = [text_of(action) for action in items(mapping(change, "change").get("actions"))]
        if not actions or QUIET.issuperset(actions):
            continue
        for action in actions:
            if action in counts:
                counts[action] += 1
        address = text_of(change.get("address"))
        yield from context.print(
            f"terraform-plan {address} actions={','.join(actions)}{_rule(change)}", needle=_json_string(address)
        )
    for drift in mappings(value.get("resource_drift")):
        actions = [text_of(action) for action in items(mapping(drift, "change").get("actions"))]
        address = text_of(drift.get("address"))
        yield from context.print(f"terraform-drift {address} actions={','.join(actions)}", needle=_json_string(address))
    for name, variable in mapping(value, "variables").items():
        if isinstance(setting := mapping({"": variable}, "").get("value"), bool):
            yield from context.print(f"terraform-variable {name}={text_of(setting)}", needle=f'"{name}"')
    if "resource_changes" in value:
        yield from context.print(_summary(counts["create"], counts["update"], counts["delete"]))


def stream_facts(value: dict[str, Any]) -> str | None:
    """Return the fact of one line of `terraform plan -json` or `apply -json`, or None."""
    if value.get("type") == "planned_change":
        change = mapping(value, "change")
        address = text_of(mapping(change, "resource").get("addr"))
        return f"terraform-plan {address} actions={text_of(change.get('action'))}"
    changes = mapping(value, "changes")
    if value.get("type") == "change_summary" and changes.get("operation") == "plan":
        add, change_count, remove = (text_of(changes.get(key)) or "0" for key in ("add", "change", "remove"))
        return _summary(add, change_count, remove)
    return None


def _summary(add: Any, change: Any, destroy: Any) -> str:
    return f"terraform-plan summary add={add} change={change} destroy={destroy}"


def _json_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _rule(change: dict[str, Any]) -> str:
    """Return ` rule=<direction> <protocol> <ports> <peer>` for a security-group rule."""
    kind = text_of(change.get("type"))
    if kind not in RULE_TYPES:
        return ""
    values = mapping(change, "change", "before") or mapping(change, "change", "after")
    direction = text_of(values.get("type")) or ("egress" if "egress" in kind else "ingress")
    protocol = text_of(values.get("protocol") or values.get("ip_protocol")) or "?"
    low, high = text_of(values.get("from_port")), text_of(values.get("to_port"))
    ports = "all" if protocol == "-1" or not low else low if low == high else f"{low}-{high}"
    cidrs = [text_of(item) for item in items(values.get("cidr_blocks"))]
    peer = (
        "self"
        if values.get("self") is True
        else ",".join(cidrs)
        or text_of(
            values.get("cidr_ipv4")
            or values.get("source_security_group_id")
            or values.get("referenced_security_group_id")
        )
    )
    return f" rule={direction} {'all' if protocol == '-1' else protocol} {ports} {peer or '?'}"


_CHANGE = re.compile(
    r"^\s*# (?P<address>\S.{0,500}?) (?:is tainted, so )?"
    r"(?P<verb>will be created|will be destroyed|will be updated in-place|must be replaced|will be replaced)"
)
_ACTIONS = {
    "will be created": "create",
    "will be destroyed": "delete",
    "will be updated in-place": "update",
    "must be replaced": "delete,create",
    "will be replaced": "delete,create",
}
_PLAN = re.compile(r"^\s*Plan: (?:\d+ to import, )?(\d+) to add, (\d+) to change, (\d+) to destroy")
_NO_CHANGES = re.compile(r"^\s*No changes\. ")
_HEAD = re.compile(
    rb"(?m)^(?:\x1b\[[\d;]*m)*"
    rb"(?:(?:Terraform|OpenTofu) (?:used the selected providers|will perform the following actions)"
    rb"|(?:\x1b\[[\d;]*m)*Plan:(?:\x1b\[[\d;]*m)* \d+ to (?:add|import)"
    rb"|(?:\x1b\[[\d;]*m)*No changes\.(?:\x1b\[[\d;]*m)* (?:Your infrastructure|Infrastructure is))"
)


class TerraformTextReader:
    """What `terraform plan` and `apply` print for people. All lines are handed on; changes also as facts."""

    kind = "terraform-plan"

    def detect(self, head: bytes) -> bool:
        """Say whether the head holds one of the sentences that only a plan has."""
        return _HEAD.search(head) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield lines and facts."""
        del source_name, joint
        for number, offset, data in iter_lines(stream):
            text = strip_ansi(data.decode("utf-8", "replace"))
            fact = _text_fact(text)
            for line in (text, fact):
                if line.strip():
                    yield TextLine(text=line, line=number, offset=offset)


def _text_fact(text: str) -> str:
    if (match := _CHANGE.match(text)) is not None:
        return f"terraform-plan {match['address']} actions={_ACTIONS[match['verb']]}"
    if (match := _PLAN.match(text)) is not None:
        return _summary(*match.groups())
    return _summary(0, 0, 0) if _NO_CHANGES.match(text) else ""


TERRAFORM_TEXT = TerraformTextReader()
