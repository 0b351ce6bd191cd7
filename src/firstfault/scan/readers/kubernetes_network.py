"""Services with their endpoints, and NetworkPolicies.

Whether a Service has endpoints stands in other objects, often in another file; so Services are printed at the end,
when everything was read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.model import TextLine
from firstfault.scan.readers.facts import Context, items, mapping, mappings, name_of
from firstfault.scan.readers.joint import Payloads

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["analyse", "endpoint_slice", "endpoints", "network_policy", "service"]

KIND = "kubernetes-services"


def _key(metadata: dict[str, Any], name: Any = None) -> str:
    return f"{name_of(metadata.get('namespace')) or '-'}/{name_of(name or metadata.get('name'))}"


def _collect(context: Context, payload: dict[str, Any]) -> Iterator[TextLine]:
    """Keep a payload for the end; without anybody who asks at the end, print what it tells alone."""
    if context.joint is not None:
        context.joint.add(KIND, context.source_name, payload)
    else:
        yield from (line for _, line in analyse([(context.source_name, payload)]))


def service(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Keep a Service."""
    spec = mapping(value, "spec")
    line, offset = context.place('"clusterIP"')
    yield from _collect(
        context,
        {
            "service": _key(mapping(value, "metadata")),
            "clusterIP": name_of(spec.get("clusterIP")) or "unset",
            "publish": name_of(bool(spec.get("publishNotReadyAddresses"))),
            "at": (line, offset),
        },
    )


def endpoint_slice(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Keep the counts of an EndpointSlice under the name of its Service."""
    metadata = mapping(value, "metadata")
    name = mapping(metadata, "labels").get("kubernetes.io/service-name")
    if name:
        ready = [mapping(item, "conditions").get("ready") is not False for item in mappings(value.get("endpoints"))]
        yield from _collect(context, {"slice": _key(metadata, name), "ready": sum(ready), "not": ready.count(False)})


def endpoints(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Keep the counts of an Endpoints object."""
    subsets = mappings(value.get("subsets"))
    ready = sum(len(items(subset.get("addresses"))) for subset in subsets)
    pending = sum(len(items(subset.get("notReadyAddresses"))) for subset in subsets)
    yield from _collect(context, {"endpoints": _key(mapping(value, "metadata")), "ready": ready, "not": pending})


def analyse(payloads: Payloads) -> list[tuple[str, TextLine]]:
    """Print each Service with what the slices say; `?/?` if no slice of any Service is among the sources."""
    slices, mirrors = _counts(payloads, "slice"), _counts(payloads, "endpoints")
    counts = {**mirrors, **slices}
    lines = []
    for source, payload in payloads:
        if key := payload.get("service"):
            ready_text = "/".join(map(str, counts.get(key, (0, 0)))) if counts else "?/?"
            text = (
                f"service {key} clusterIP={payload['clusterIP']} publishNotReadyAddresses={payload['publish']} "
                f"endpoints={ready_text}"
            )
            line, offset = payload["at"]
            lines.append((source, TextLine(text=text, line=line, offset=offset)))
    return lines


def _counts(payloads: Payloads, kind: str) -> dict[str, tuple[int, int]]:
    """Return (ready, not ready) by Service; a Service has many slices, but one Endpoints object that mirrors them."""
    counts: dict[str, tuple[int, int]] = {}
    for _, payload in payloads:
        if key := payload.get(kind):
            ready, pending = counts.get(key, (0, 0))
            counts[key] = ready + payload["ready"], pending + payload["not"]
    return counts


def network_policy(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Print which Pods a NetworkPolicy is for and how many rules allow traffic in each direction."""
    spec = mapping(value, "spec")
    selector = mapping(spec, "podSelector", "matchLabels")
    labels = ",".join(f"{key}={name_of(item)}" for key, item in selector.items()) or "all"
    types = items(spec.get("policyTypes")) or ["Ingress", *(["Egress"] if "egress" in spec else [])]
    counts = "".join(f" {kind.lower()}={len(items(spec.get(kind.lower())))}" for kind in types if isinstance(kind, str))
    yield from context.print(
        f"networkpolicy {_key(mapping(value, 'metadata'))} pods={labels}{counts}", needle='"podSelector"'
    )
