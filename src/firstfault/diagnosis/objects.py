"""Which object of the cluster a line is about, so that the good word of one Pod or node excuses no other."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from firstfault.diagnosis.facts import Facts
    from firstfault.model import Observation

__all__ = ["Excuses", "Named", "about", "are_different", "is_later", "not_well"]


class Named(NamedTuple):
    """An object of the cluster; namespace "" is one that the line does not tell."""

    kind: str
    namespace: str
    name: str


# The heads of canonical lines (docs/canonical-lines.md), kube-scheduler's sentence, and what programs log of a Pod.
_HEAD = re.compile(
    r"event \S+ \S+ (?P<kind>[\w-]+)/(?P<space>[^/\s]*)/(?P<name>[^:\s]+):"
    r"|condition (?P<kind2>[\w-]+)/(?:(?P<space2>[^/\s]+)/)?(?P<name2>\S+) "
    r"|(?:pod|pod-spec) (?P<space3>[^/\s]+)/(?P<name3>\S+) "
    r"|(?:container|env) (?P<space4>[^/\s]+)/(?P<name4>[^/\s]+)/"
    r"|node (?P<node>\S+) (?:allocatable|resource|kubelet|unschedulable)\b|taint node/(?P<node2>\S+) "
)
_HEADS = ("event ", "condition ", "pod", "container ", "env ", "node ", "taint ")
_NODE = re.compile(r"\bNode (?P<name>[\w.-]+) status is now: ")
_ASSIGNED = re.compile(r"Successfully assigned (?P<space>[\w.-]+)/(?P<name>[\w.-]+) to ")
_LOGGED = re.compile(r'\bpod="(?P<space>[\w.-]+)/(?P<name>[\w.-]+)"')
# A row of `kubectl get events` that was pasted without its header.
_ROW = re.compile(r"\s(?:Normal|Warning)\s+\w+\s+pod/(?P<name>[\w.-]+)\s")
# So many equal good words count.
MOST_ALIKE = 2
_UNKNOWN = frozenset({"", "-", "unknown"})
# Events of a Pod that is still starting.
_ON_ITS_WAY = ("pod.scheduled", "pod.pulling", "pod.pulled", "pod.started")


def about(item: Observation) -> Named | None:
    """The Pod, node or other object that a line is about; None when it names none."""
    return _about(item.text)


@lru_cache(maxsize=4096)
def _about(text: str) -> Named | None:
    if text.startswith(_HEADS) and (found := _HEAD.match(text)):
        node = found["node"] or found["node2"]
        kind = found["kind"] or found["kind2"] or ("node" if node else "pod")
        name = found["name"] or found["name2"] or found["name3"] or found["name4"] or node
        named = _named(kind, found["space"] or found["space2"] or found["space3"] or found["space4"] or "", name)
        if named is not None:
            return named
    if "assigned " in text and (found := _ASSIGNED.search(text)):
        return _named("pod", found["space"], found["name"])
    if 'pod="' in text and (found := _LOGGED.search(text)):
        return _named("pod", found["space"], found["name"])
    if " status is now: " in text and (found := _NODE.search(text)):
        return _named("node", "", found["name"])
    if " pod/" in text and (found := _ROW.search(text)):
        return _named("pod", "", found["name"])
    return None


def _named(kind: str, namespace: str, name: str) -> Named | None:
    if kind in _UNKNOWN or name in _UNKNOWN:
        return None
    return Named(kind.lower(), "" if namespace in _UNKNOWN else namespace, name)


def not_well(facts: Facts) -> dict[Named, Observation]:
    """Pods that are neither running and ready, nor done, nor on their way, each with its last word."""
    well, moving = _by_name(facts, "pod.running", "pod.ready"), _by_name(facts, *_ON_ITS_WAY)
    found = {}
    for line in facts.signals.get("pod.not-well", ()):
        if named := about(line):
            good = [each for each in well.get(named.name, ()) if is_later(each, line)]
            good += moving.get(named.name, ()) if " phase=Pending " in line.text else ()
            if all(are_different(each, line) for each in good):
                found[named] = line
    return found


def _by_name(facts: Facts, *signals: str) -> dict[str, list[Observation]]:
    found: dict[str, list[Observation]] = {}
    for signal in signals:
        for line in facts.signals.get(signal, ()):
            if named := about(line):
                found.setdefault(named.name, []).append(line)
    return found


def are_different(one: Observation, other: Observation) -> bool:
    """Whether two lines are surely about two objects of one kind."""
    first, second = about(one), about(other)
    if first is None or second is None or first.kind != second.kind:
        return False
    both = first.namespace and second.namespace
    return first.name != second.name or bool(both and first.namespace != second.namespace)


class Excuses:
    """The exonerating lines of one cause, and which of its lines each may excuse.

    A good word excuses no other object, and of the same object only what came before it.

    Args:
        lines: The exonerating lines.
    """

    def __init__(self, lines: list[Observation]) -> None:
        self._general = [line for line in lines if about(line) is None]
        self._named: dict[str, dict[str, list[Observation]]] = {}
        for line in lines:
            if named := about(line):
                self._named.setdefault(named.kind, {}).setdefault(named.name, []).append(line)
        self._heard: dict[tuple[str, str], dict[int, float]] = {}

    def hear(self, fault: Observation) -> bool:
        """Note what speaks for a line of a fault; say whether anything does."""
        found = [*self._general, *self._of_named(fault)]
        for line in found:
            self._heard.setdefault((line.source, line.signature), {})[id(line)] = line.strength
        return bool(found)

    def doubt(self) -> float:
        """Return 0 to 1: what is left of the fault, by all that was noted. The same words count twice at most."""
        left = 1.0
        for strengths in self._heard.values():
            for strength in list(strengths.values())[:MOST_ALIKE]:
                left *= 1 - strength
        return left

    def _of_named(self, fault: Observation) -> list[Observation]:
        named = about(fault)
        found: list[Observation] = []
        for kind, by_name in self._named.items():
            if named is None or named.kind != kind:
                for lines in islice(by_name.values(), MOST_ALIKE):
                    found += lines[:MOST_ALIKE]
            else:
                found += [
                    line
                    for line in by_name.get(named.name, ())
                    if not are_different(line, fault) and is_later(line, fault)
                ]
        return found


def is_later(good: Observation, fault: Observation) -> bool:
    """Whether one line is later than another, or nothing tells."""
    if good.time is not None and fault.time is not None and good.clock == fault.clock:
        return good.time >= fault.time
    if good.source == fault.source and good.order is not None and fault.order is not None:
        return good.order > fault.order
    return True
