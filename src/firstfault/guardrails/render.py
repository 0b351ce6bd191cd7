"""Builds the files of a rendered tree from the guardrails that apply to a cluster."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from firstfault.errors import InputError
from firstfault.guardrails.budget import refuse_missed_budgets
from firstfault.guardrails.builders import BUILDERS
from firstfault.guardrails.context import context
from firstfault.guardrails.from_audit import Selection, select_from_audit
from firstfault.guardrails.options import FEATURES, Options
from firstfault.guardrails.registry import LIBRARY_DIR, fill, load_guardrails, load_tests, select
from firstfault.guardrails.rules import promtool_tests, rule_group
from firstfault.guardrails.spec import Guardrail
from firstfault.guardrails.yamltext import dump

__all__ = ["Rendered", "header", "render"]

RULES = "prometheus/rules"
TESTS = "prometheus/tests"


class Rendered(msgspec.Struct, frozen=True, kw_only=True):
    """A tree in memory.

    Attributes:
        files: Text by path, sorted by path.
        guardrails: What was rendered.
        selection: What an audit asked for, where one was given.
    """

    files: dict[str, str]
    guardrails: list[Guardrail]
    selection: Selection | None = None


def render(options: Options, only: list[str] | None = None, audit: Path | None = None) -> Rendered:
    """Build the tree for a cluster. The same options give the same bytes.

    Args:
        options: What the cluster has.
        only: Guardrail ids or checklist items; None takes everything that applies.
        audit: Report of an audit; only what it asks for is rendered.

    Raises:
        UsageError: A name in `only` does not exist, or a rule would miss the budget that it declares.
    """
    guardrails = load_guardrails(options)
    if only is not None:
        guardrails = select(guardrails, only)
    selection = None
    if audit is not None:
        selection = select_from_audit(audit, guardrails)
        guardrails = selection.guardrails
    refuse_missed_budgets(guardrails, options.intervals)
    files: dict[str, str] = {}
    components: dict[str, list[str]] = {}
    for guardrail in guardrails:
        _add_rules(guardrail, options, files, components)
        _add_templates(guardrail, options, files, components)
        for name in guardrail.builders:
            for path, component, text in BUILDERS[name](guardrail, options):
                _add(files, components, path, component, header(guardrail, comment_of(path)) + text)
    _add_namespace(options, files, components)
    _add_kustomizations(files, components)
    files["README.md"] = _readme(guardrails, options, components)
    return Rendered(files=dict(sorted(files.items())), guardrails=guardrails, selection=selection)


def comment_of(path: str) -> str:
    """Return what begins a comment line in a file of this name; empty when it has no comments."""
    return "" if path.endswith((".json", ".md")) else "# "


def header(guardrail: Guardrail, mark: str, serves: list[str] | None = None) -> str:
    """Return the comment that says which items of the checklist a file serves."""
    if not mark:
        return ""
    lines = [
        f"firstfault guard: {guardrail.id} - {guardrail.title}",
        f"Serves: {', '.join(serves or guardrail.serves)}",
    ]
    return "".join(f"{mark}{line}\n" for line in lines)


def _add(files: dict[str, str], components: dict[str, list[str]], path: str, component: str, text: str) -> None:
    if path in files:
        raise InputError(f"two guardrails write {path}", "give one of them another name in its guardrail.yaml")
    files[path] = text
    if component:
        relative = PurePosixPath(path).relative_to(PurePosixPath("components") / component)
        components.setdefault(component, []).append(str(relative))


def _add_rules(g: Guardrail, options: Options, files: dict[str, str], components: dict[str, list[str]]) -> None:
    if not g.alerts and not g.records:
        return
    group = rule_group(g, options)
    top = header(g, "# ")
    _add(files, components, f"{RULES}/{g.id}.yaml", "", top + dump({"groups": [group]}))
    tests = promtool_tests(g, load_tests(g.id, options), f"../rules/{g.id}.yaml")
    _add(files, components, f"{TESTS}/{g.id}.test.yaml", "", top + dump(tests))
    if "prometheus-operator" in options.features:
        name = "prometheus-rules"
        _add(files, components, f"components/{name}/{g.id}.yaml", name, top + dump(_custom_resource(g, group, options)))


def _custom_resource(g: Guardrail, group: dict[str, Any], options: Options) -> dict[str, Any]:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": f"firstfault-{g.id}",
            "namespace": options.namespace,
            "labels": {"app.kubernetes.io/part-of": "firstfault", **dict(options.rule_labels)},
        },
        "spec": {"groups": [group]},
    }


def _add_templates(g: Guardrail, options: Options, files: dict[str, str], components: dict[str, list[str]]) -> None:
    values = context(options)
    for output in g.files:
        source = LIBRARY_DIR / g.id / output.file
        text = fill(source.read_text(encoding="utf-8"), values, str(source))
        path = fill(output.to, values, str(source))
        if path.endswith(".json"):
            json.loads(text)  # a template that is no longer JSON after filling is a defect of the library
        _add(files, components, path, output.component, header(g, comment_of(path), output.serves) + text)


def _add_namespace(options: Options, files: dict[str, str], components: dict[str, list[str]]) -> None:
    """Add the namespace to a partial tree whose components need it."""
    namespace = next(g for g in load_guardrails(options) if g.id == "namespace")
    if components and "base" not in components:
        _add_templates(namespace, options, files, components)


def _add_kustomizations(files: dict[str, str], components: dict[str, list[str]]) -> None:
    for component, resources in sorted(components.items()):
        files[f"components/{component}/kustomization.yaml"] = dump(
            {
                "apiVersion": "kustomize.config.k8s.io/v1alpha1",
                "kind": "Component",
                "resources": sorted(resources),
            }
        )
    root: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        # Namespaces and definitions before what needs them, admission last.
        "sortOptions": {"order": "legacy"},
        "components": [f"components/{component}" for component in sorted(components)],
    }
    files["kustomization.yaml"] = dump(root)


def _readme(guardrails: list[Guardrail], options: Options, components: dict[str, list[str]]) -> str:
    have = ", ".join(FEATURES[name] for name in sorted(options.features)) or "nothing beyond Kubernetes"
    lines = [
        "# Guardrails",
        "",
        f"Rendered for profile `{options.profile}`, Kubernetes {options.kubernetes}, with {have}.",
        f"Admission mode: {options.mode}. Run `firstfault guard render` again to update this tree.",
        "",
        "    kubectl diff -k . ; kubectl apply -k .        # the components below",
        "    promtool test rules prometheus/tests/*.yaml   # every alert fires and stays quiet",
        "",
        "Components that `kubectl apply -k .` applies: " + (", ".join(sorted(components)) or "none") + ".",
        "What stands outside `components/` is for Helm, Terraform, Alertmanager or CI, and is never applied from here.",
        "",
    ]
    for g in guardrails:
        lines += [f"## {g.id}: {g.title}", "", f"Serves {', '.join(g.serves)}.", "", g.why.strip(), ""]
        lines += [f"- Needs: {need}" for need in g.needs]
        lines += [f"- Alert {a.alert}: within {a.budget_s:g} s" for a in g.alerts]
        lines += [""] if g.needs or g.alerts else []
    return "\n".join(lines).rstrip() + "\n"
