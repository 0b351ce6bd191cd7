"""CI jobs that run `terraform apply` must first judge the plan, in a step that can stop them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from firstfault.checks.inventory import Inventory
from firstfault.checks.located import dig
from firstfault.checks.outcome import Outcome, failed, passed
from firstfault.checks.prometheus import Document

_APPLY = re.compile(r"\b(?:terraform|tofu|terragrunt)\s+(?:-\S+\s+)*apply\b")
_GATE = re.compile(
    r"\b(?:firstfault\s+(?:audit|guard\s+lock)|conftest\s+test|opa\s+(?:eval|exec)|checkov|sentinel\s+apply"
    r"|trivy\s+config|terrascan)\b"
    r".*(?:plan\S*\.json|tfplan)",
)
_DEFUSED = re.compile(r"\|\|\s*(?:true|:|exit 0)")
_ACTION = re.compile(r"firstfault/(?:firstfault|audit)[\w./-]*@")


def check(inventory: Inventory) -> Iterator[Outcome]:
    """Judge every job of GitHub workflows and GitLab pipelines that applies."""
    for document in inventory.documents:
        jobs = document.body.get("jobs")
        if isinstance(jobs, dict):
            for name, job in jobs.items():
                steps = dig(job, "steps")
                if isinstance(steps, list):
                    texts = [_step_text(step) for step in steps]
                    yield from _judge(document, str(name), texts, ("jobs", str(name), "steps"))
        else:
            for name, job in document.body.items():
                script = dig(job, "script")
                if isinstance(script, list) and ".gitlab-ci" in document.path:
                    yield from _judge(document, str(name), [str(line) for line in script], (str(name), "script"))


def _step_text(step: Any) -> str:
    """Return a step's commands, or its action with its inputs; empty when it cannot fail the job."""
    if not isinstance(step, dict):
        return ""
    text = str(step.get("run", ""))
    if "uses" in step:
        text = f"{step['uses']} {step.get('with', '')}"
    gate = _GATE.search(text) or _ACTION.search(text)
    return "" if gate and step.get("continue-on-error") is True else text


def _judge(document: Document, name: str, texts: list[str], steps: tuple[str, ...]) -> Iterator[Outcome]:
    position = next((index for index, text in enumerate(texts) if _APPLY.search(text)), None)
    if position is None:
        return
    place = document.place(*steps, position)
    before = "\n".join([*texts[:position], texts[position].partition(" apply")[0]])
    if any(_can_stop(line) for line in before.replace("\\\n", " ").splitlines()):
        yield passed(place, name)
    else:
        yield failed(place, name, f"job {name} applies, and no step before that can refuse the plan")


def _can_stop(line: str) -> bool:
    if _ACTION.search(line):
        return "plan" in line
    return _GATE.search(line) is not None and _DEFUSED.search(line) is None
