"""How long an alert takes from the metric to a person: scrape, evaluation, and the routes of Alertmanager."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.helm import helm_releases
from firstfault.checks.inventory import Inventory
from firstfault.checks.located import Place, dig, place_of
from firstfault.checks.prometheus import parse_duration
from firstfault.checks.promql import gpu_alerts

__all__ = [
    "AlertmanagerTree",
    "Route",
    "alertmanager_trees",
    "critical_labels",
    "evaluation_interval",
    "scrape_interval",
]

_MATCHER = re.compile(r"\s*([\w.]+)\s*(=~|!~|!=|=)\s*\"?(.*?)\"?\s*$")
_STACK = "kube-prometheus-stack"
PROMETHEUS_DEFAULT_S = 60.0
OPERATOR_DEFAULT_S = 30.0
GROUP_WAIT_DEFAULT_S = 30.0


class Route(msgspec.Struct, frozen=True, eq=False):
    """The route on which an alert ends.

    Attributes:
        receiver: Name of its receiver.
        group_wait_s: Seconds until the first notification, inherited where the route does not set it.
        place: Line of the setting that decides: group_wait, else the route.
    """

    receiver: str
    group_wait_s: float
    place: Place


class AlertmanagerTree(msgspec.Struct, frozen=True, eq=False):
    """One configuration of Alertmanager.

    Attributes:
        body: Its mapping: `route`, `receivers`.
        path: File it stands in.
        subject: For findings.
        camel: The object AlertmanagerConfig of the operator, which spells settings in camel case.
    """

    body: Any
    path: str
    subject: str
    camel: bool = False

    def routes(self, labels: dict[str, Any]) -> list[Route]:
        """Return the routes on which an alert with these labels ends; `continue` makes several.

        A label called "*" stands for any others: a route that asks for labels that are not given then matches.
        """
        root = self.body.get("route")
        if not isinstance(root, dict):
            return []
        place = place_of(self.path, self.body, "route")
        return list(self._end(root, labels, "", GROUP_WAIT_DEFAULT_S, place))

    def _end(
        self, route: dict[str, Any], labels: dict[str, Any], receiver: str, wait: float, place: Place
    ) -> Iterator[Route]:
        key = "groupWait" if self.camel else "group_wait"
        receiver = str(route.get("receiver", receiver))
        own = parse_duration(route[key]) if key in route else None
        if own is not None:
            wait, place = own, place_of(self.path, route, key)
        matched = False
        children = route.get("routes")
        for index, child in enumerate(children if isinstance(children, list) else []):
            if isinstance(child, dict) and _matches(child, labels):
                matched = True
                inner = place if own is not None or key in route else place_of(self.path, children, index)
                yield from self._end(child, labels, receiver, wait, inner)
                if child.get("continue") is not True:
                    return
        if not matched:
            yield Route(receiver, wait, place)

    def receiver(self, name: str) -> dict[str, Any] | None:
        """Return a receiver by name, or None."""
        listed = self.body.get("receivers")
        for item in listed if isinstance(listed, list) else []:
            if isinstance(item, dict) and item.get("name") == name:
                return item
        return None

    def place_of_receiver(self, name: str) -> Place:
        """Return the line of a receiver, or of the list of them."""
        listed = self.body.get("receivers")
        for index, item in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(item, dict) and item.get("name") == name:
                return place_of(self.path, self.body, "receivers", index)
        return place_of(self.path, self.body, "route")


def _matches(route: dict[str, Any], labels: dict[str, Any]) -> bool:
    conditions: list[tuple[str, str, str]] = []
    for key, operator in (("match", "="), ("match_re", "=~")):
        section = route.get(key)
        conditions += (
            [(str(name), operator, str(value)) for name, value in section.items()] if isinstance(section, dict) else []
        )
    matchers = route.get("matchers")
    for item in matchers if isinstance(matchers, list) else []:
        if isinstance(item, dict):
            operator = str(item.get("matchType", "=~" if item.get("regex") else "="))
            conditions.append((str(item.get("name", "")), operator, str(item.get("value", ""))))
        else:
            for part in str(item).strip("{} ").split(","):
                if match := _MATCHER.match(part):
                    conditions.append((match[1], match[2], match[3]))
    return all(
        _holds(str(labels.get(name, "")), operator, value)
        or ("*" in labels and name not in labels and name != "alertname" and not operator.startswith("!"))
        for name, operator, value in conditions
    )


def _holds(actual: str, operator: str, wanted: str) -> bool:
    if operator in {"=", "!="}:
        return (actual == wanted) == (operator == "=")
    try:
        found = re.fullmatch(wanted, actual) is not None
    except re.error:
        found = False
    return found == (operator == "=~")


def alertmanager_trees(inventory: Inventory) -> list[AlertmanagerTree]:
    """Return every configuration of Alertmanager: files, Secrets and ConfigMaps, AlertmanagerConfig, Helm values."""

    def make() -> list[AlertmanagerTree]:
        found = [AlertmanagerTree(item.body, item.path, "alertmanager") for item in inventory.alertmanager_configs]
        found += [
            AlertmanagerTree(item.spec, item.path, item.subject, camel=True)
            for item in inventory.objects("AlertmanagerConfig")
        ]
        for document in inventory.documents:
            config = dig(document.body, "alertmanager", "config")
            if isinstance(config, dict):
                found.append(AlertmanagerTree(config, document.path, "alertmanager.config"))
        return found

    trees: list[AlertmanagerTree] = inventory.memo("alertmanager_trees", make)
    return trees


def critical_labels(inventory: Inventory) -> list[dict[str, Any]]:
    """Return the labels of the critical GPU alerts of the inputs; where there is none, those of any critical alert."""
    found = [
        {**alert.labels, "alertname": alert.name}
        for alert in gpu_alerts(inventory)
        if str(alert.labels.get("severity", "")).lower() == "critical"
    ]
    return found or [{"severity": "critical", "*": ""}]


def scrape_interval(inventory: Inventory, metric: str) -> float | None:
    """Return the seconds between scrapes of a metric's exporter as far as the inputs tell; None when they do not."""
    word = "dcgm" if metric.startswith("DCGM") else "kube-state" if metric.startswith("kube_") else ""
    found: list[float] = []
    for monitor in [*inventory.objects("ServiceMonitor"), *inventory.objects("PodMonitor")]:
        if word and word in f"{monitor.name} {monitor.spec}":
            endpoints = monitor.get("spec", "endpoints")
            for endpoint in endpoints if isinstance(endpoints, list) else []:
                own = parse_duration(endpoint.get("interval")) if isinstance(endpoint, dict) else None
                found += [own] if own is not None else []
    if found:
        return max(found)
    for config in inventory.prometheus_configs:
        common = parse_duration(dig(config.body, "global", "scrape_interval"))
        jobs = config.body.get("scrape_configs")
        for job in jobs if isinstance(jobs, list) else []:
            if isinstance(job, dict) and word and word in str(job.get("job_name", "")):
                own = parse_duration(job.get("scrape_interval"))
                found += [own] if own is not None else []
        return max(found) if found else PROMETHEUS_DEFAULT_S if common is None else common
    return _operator_setting(inventory, "scrapeInterval")


def evaluation_interval(inventory: Inventory) -> float | None:
    """Return the seconds between evaluations of rules as far as the inputs tell; None when they do not."""
    for config in inventory.prometheus_configs:
        found = parse_duration(dig(config.body, "global", "evaluation_interval"))
        return PROMETHEUS_DEFAULT_S if found is None else found
    return _operator_setting(inventory, "evaluationInterval")


def _operator_setting(inventory: Inventory, name: str) -> float | None:
    for item in inventory.objects("Prometheus"):
        found = parse_duration(item.spec.get(name))
        return OPERATOR_DEFAULT_S if found is None else found
    for release in helm_releases(inventory, _STACK):
        found = parse_duration(release.value(f"prometheus.prometheusSpec.{name}"))
        return OPERATOR_DEFAULT_S if found is None else found
    for document in inventory.documents:
        spec = dig(document.body, "prometheus", "prometheusSpec")
        if isinstance(spec, dict):
            found = parse_duration(spec.get(name))
            return OPERATOR_DEFAULT_S if found is None else found
    return None
