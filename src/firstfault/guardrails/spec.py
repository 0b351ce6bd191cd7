"""The shape of a guardrail. `library/<id>/guardrail.yaml` is decoded into these structs, strictly.

A guardrail is data: what it serves, what it installs, and how long it needs to notice. Adding one is adding a folder.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "AlertRule",
    "Guardrail",
    "Latency",
    "OtherPath",
    "OutputFile",
    "RecordRule",
    "Scenario",
    "Severity",
    "Term",
    "When",
]

Severity = Literal["critical", "warning", "info", "none"]
Basis = Literal["configured", "documented", "assumed"]


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where something applies; every condition that is given must hold.

    Attributes:
        with_: Features that the cluster must have ("kyverno", "karpenter", ...).
        any_of: Features of which the cluster must have at least one.
        without: Features that the cluster must not have.
        profiles: Cluster profiles; empty means all.
        kubernetes: Comma-separated bounds on the Kubernetes version, such as ">=1.30,<1.36".
        efa: True: only where one of the instance types has EFA. False: only where one has none.
    """

    with_: list[str] = msgspec.field(default_factory=list, name="with")
    any_of: list[str] = []
    without: list[str] = []
    profiles: list[str] = []
    kubernetes: str = ""
    efa: bool | None = None


class Term(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One share of a detection latency, at its worst.

    Attributes:
        seconds: How long at most.
        what: What happens during that time.
        basis: configured: an interval that the rendered files set · documented: a default of another program ·
            assumed: our estimate, to be measured on the cluster.
    """

    seconds: float
    what: str
    basis: Basis = "documented"


class Latency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What lies between a fault and the evaluation of a rule; `budget` adds the intervals of Prometheus.

    Attributes:
        source: The exporter whose samples the rule reads; names a row of `Intervals.sources`.
        event: From the fault until the source can see it (a node status period, a CronJob's period, a back-off).
        window: How much of a range selector must fill before the rule can be true.
    """

    source: str
    event: Term | None = None
    window: Term | None = None


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One alerting rule.

    Attributes:
        alert: Name, unique in the library.
        expr: PromQL.
        for_s: Seconds that the expression must hold.
        severity: critical wakes somebody · warning is looked at in working hours · info is kept · none is a heartbeat.
        cause: Cause id to start from; may use `{{ $labels.x }}`.
        summary: One line that names the thing and what is wrong with it.
        description: What it means and what to do first.
        budget_s: Seconds within which this rule promises to notice; rendering refuses it when its own sum is larger.
        latency: What comes before the rule.
        scenarios: Scenarios (C1 to C7) which this rule notices.
        when: Where the rule is rendered.
        equivalent_mutants: Mutations of the expression (see tests/guardrails/mutation.py) which change nothing that a
            test could see, each with the reason.
    """

    alert: str
    expr: str
    severity: Severity
    cause: str
    summary: str
    description: str
    budget_s: float
    latency: Latency
    for_s: float = 0
    scenarios: list[str] = []
    when: When = When()
    equivalent_mutants: dict[str, str] = {}


class RecordRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One recording rule, evaluated before the alerts of its guardrail and in the same pass.

    Attributes:
        record: Name of the series.
        expr: PromQL.
        labels: Labels added to it.
        equivalent_mutants: As in `AlertRule`.
    """

    record: str
    expr: str
    labels: dict[str, str] = {}
    equivalent_mutants: dict[str, str] = {}


class OutputFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the rendered tree.

    Attributes:
        file: Template beside `guardrail.yaml`.
        to: Path in the tree.
        component: The Kustomize component which lists it as a resource; empty for files that are not applied.
        serves: Checklist items, where they differ from the guardrail's.
        when: Where the file is rendered.
    """

    file: str
    to: str
    component: str = ""
    serves: list[str] = []
    when: When = When()


class Guardrail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One guardrail: what would have noticed or prevented a fault.

    Attributes:
        id: Kebab-case, the name of its folder.
        title: What it does, in one line.
        serves: Items of the checklist (B1 to B15, C1 to C7).
        layer: infra, driver, network, workload or observability.
        causes: Cause ids that it notices or prevents.
        why: Why it is the way it is; goes into the rendered tree's README.
        checks: Audit checks that pass once it is applied.
        when: Where it is rendered at all.
        interval_s: Evaluation interval of its rule group; None takes the tree's.
        records: Recording rules.
        alerts: Alerting rules; their tests stand in `test.yaml` beside this file.
        files: Templates.
        builders: Names of functions in `builders` that write files which no template can.
        needs: What has to be there for it to work, that the tree itself does not bring.
        sources: Where the facts are from.
    """

    id: str
    title: str
    serves: list[str]
    layer: str
    why: str
    causes: list[str] = []
    checks: list[str] = []
    when: When = When()
    interval_s: float | None = None
    records: list[RecordRule] = []
    alerts: list[AlertRule] = []
    files: list[OutputFile] = []
    builders: list[str] = []
    needs: list[str] = []
    sources: list[str] = []


class OtherPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to notice a scenario that is not an alerting rule: admission, or an agent.

    Attributes:
        path: What notices, in words.
        kind: admission: refused or corrected before it starts · agent: a program on the node or in the cluster.
        terms: Its latency.
        guardrail: The guardrail which brings it; it counts only where that one is rendered.
        release: False: not in this release.
        partial: It covers only one way in which the scenario comes about, so it does not decide the scenario's budget.
        note: What it covers, and what it does not.
    """

    path: str
    kind: Literal["admission", "agent"]
    terms: list[Term] = []
    guardrail: str = ""
    release: bool = True
    partial: bool = False
    note: str = ""


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the scenarios C1 to C7.

    Attributes:
        id: "C1" to "C7".
        title: What goes wrong.
        estimate: How long noticing takes by the checklist's own estimate, in its words.
        goal_s: Seconds within which somebody should know.
        paths: Ways to notice that are not alerting rules.
    """

    id: str
    title: str
    estimate: str
    goal_s: float
    paths: list[OtherPath] = []
