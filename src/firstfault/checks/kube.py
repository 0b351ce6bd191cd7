"""Kubernetes objects as checks see them: any kind, known or not, and the Pods that they would create."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from firstfault.checks.located import ABSENT, LocatedDict, Place, dig, place_of

__all__ = ["Container", "KubeObject", "PodView", "pods_of"]

# Their patterns look like Pod specs, but describe Pods of others.
_NOT_WORKLOADS = frozenset(
    {
        "kyverno.io",
        "policies.kyverno.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "templates.gatekeeper.sh",
    }
)
_GPU_PREFIXES = ("nvidia.com/gpu", "nvidia.com/mig-")
# No node has more: a longer number is a mistake, and Python declines to read very long ones.
_MAX_DIGITS = 9
EFA_RESOURCE = "vpc.amazonaws.com/efa"


class KubeObject(msgspec.Struct, frozen=True, eq=False):
    """One object of a manifest.

    Attributes:
        body: The whole object, with lines.
        path: File it was read from.
    """

    body: LocatedDict
    path: str

    @property
    def api_version(self) -> str:
        """`group/version`, or `v1`."""
        return str(self.body.get("apiVersion", ""))

    @property
    def group(self) -> str:
        """API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def kind(self) -> str:
        """Kind, as written."""
        return str(self.body.get("kind", ""))

    @property
    def name(self) -> str:
        """`metadata.name`, or the generateName prefix, or empty."""
        return _text(dig(self.body, "metadata", "name")) or _text(dig(self.body, "metadata", "generateName"))

    @property
    def namespace(self) -> str:
        """`metadata.namespace`; empty where the manifest leaves it to the one who applies it."""
        return _text(dig(self.body, "metadata", "namespace"))

    @property
    def labels(self) -> dict[str, Any]:
        """`metadata.labels`."""
        return _mapping(dig(self.body, "metadata", "labels"))

    @property
    def annotations(self) -> dict[str, Any]:
        """`metadata.annotations`."""
        return _mapping(dig(self.body, "metadata", "annotations"))

    @property
    def spec(self) -> dict[str, Any]:
        """`spec`; empty where the object has none."""
        return _mapping(self.body.get("spec"))

    @property
    def subject(self) -> str:
        """`Kind/namespace/name`, without the namespace where none is written."""
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)

    def get(self, *steps: str | int) -> Any:
        """Return the value at `steps`, or ABSENT."""
        return dig(self.body, *steps)

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps`, or of its nearest ancestor that exists."""
        return place_of(self.path, self.body, *steps)


class Container(msgspec.Struct, frozen=True, eq=False):
    """One container of a Pod.

    Attributes:
        body: The container's mapping.
        pod: The Pod it belongs to.
        steps: Where it stands below the owner's body.
        init: True for init containers.
    """

    body: LocatedDict
    pod: PodView
    steps: tuple[str | int, ...]
    init: bool = False

    @property
    def name(self) -> str:
        """Container name, or empty."""
        return _text(self.body.get("name"))

    @property
    def image(self) -> str:
        """Image reference, or empty."""
        return _text(self.body.get("image"))

    @property
    def subject(self) -> str:
        """Subject of the owner with `#container`."""
        return f"{self.pod.owner.subject}#{self.name}"

    @property
    def words(self) -> list[str]:
        """`command` and `args` as one list of words, in the order in which they reach the process."""
        return [str(word) for key in ("command", "args") for word in _sequence(self.body.get(key)) if word is not None]

    def env(self, name: str) -> Any:
        """Return the literal value of an environment variable, ABSENT, or the `valueFrom` mapping.

        The last entry of a name wins, as in Kubernetes.
        """
        found: Any = ABSENT
        for entry in _sequence(self.body.get("env")):
            if isinstance(entry, dict) and entry.get("name") == name:
                found = entry.get("value", entry.get("valueFrom", ""))
                found = "" if found is None else found
        return found

    def resource(self, name: str, kind: str = "limits") -> Any:
        """Return a resource quantity as written (`limits` or `requests`), or ABSENT."""
        return dig(self.body, "resources", kind, name)

    @property
    def gpus(self) -> int:
        """GPUs (or MIG slices) asked for: limits, else requests; 0 when none or when the number is not literal."""
        for kind in ("limits", "requests"):
            amounts = _mapping(dig(self.body, "resources", kind))
            count = sum(_count(value) for key, value in amounts.items() if str(key).startswith(_GPU_PREFIXES))
            if count:
                return count
        return 0

    @property
    def efa(self) -> int:
        """EFA interfaces asked for."""
        return max(_count(self.resource(EFA_RESOURCE)), _count(self.resource(EFA_RESOURCE, "requests")))

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps` below the container."""
        return place_of(self.pod.owner.path, self.body, *steps)


class PodView(msgspec.Struct, frozen=True, eq=False):
    """A Pod, or the template of Pods that some object will create.

    Attributes:
        owner: The object in whose manifest it stands.
        spec: The Pod spec.
        metadata: Metadata of the Pod or template; an empty mapping where there is none.
        steps: Where the spec stands below the owner's body.
    """

    owner: KubeObject
    spec: LocatedDict
    metadata: dict[str, Any]
    steps: tuple[str | int, ...]

    @property
    def subject(self) -> str:
        """Subject of the owner; with the path of the template where the owner has several (`Master`, `Worker`)."""
        inner = [str(step) for step in self.steps if step not in {"spec", "template"}]
        return f"{self.owner.subject}#{'.'.join(inner)}" if inner else self.owner.subject

    @property
    def labels(self) -> dict[str, Any]:
        """Labels of the Pod."""
        return _mapping(self.metadata.get("labels"))

    @property
    def containers(self) -> list[Container]:
        """Containers that run side by side (init containers are in `init_containers`)."""
        return list(self._containers("containers"))

    @property
    def init_containers(self) -> list[Container]:
        """Init containers."""
        return list(self._containers("initContainers"))

    @property
    def gpus(self) -> int:
        """GPUs that one such Pod asks for."""
        return sum(container.gpus for container in self.containers)

    @property
    def efa(self) -> int:
        """EFA interfaces that one such Pod asks for."""
        return sum(container.efa for container in self.containers)

    def get(self, *steps: str | int) -> Any:
        """Return the value at `steps` below the Pod spec, or ABSENT."""
        return dig(self.spec, *steps)

    def place(self, *steps: str | int) -> Place:
        """Return the line of the value at `steps` below the Pod spec."""
        return place_of(self.owner.path, self.spec, *steps)

    def _containers(self, key: str) -> Iterator[Container]:
        for index, body in enumerate(_sequence(self.spec.get(key))):
            if isinstance(body, LocatedDict):
                yield Container(body, self, (*self.steps, key, index), key == "initContainers")


def pods_of(owner: KubeObject) -> Iterator[PodView]:
    """Yield every Pod spec inside an object of any kind: a mapping with a list of containers is one."""
    if owner.group not in _NOT_WORKLOADS:
        yield from _pods(owner, owner.body, (), {})


def _pods(owner: KubeObject, value: Any, steps: tuple[str | int, ...], parent: dict[str, Any]) -> Iterator[PodView]:
    if isinstance(value, LocatedDict):
        containers = value.get("containers")
        if isinstance(containers, list) and any(isinstance(item, dict) and "name" in item for item in containers):
            yield PodView(owner, value, _mapping(parent.get("metadata")), steps)
            return
        for key, item in value.items():
            if isinstance(item, (dict, list)):
                yield from _pods(owner, item, (*steps, str(key)), value)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)):
                yield from _pods(owner, item, (*steps, index), {})


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return str(value) if isinstance(value, (str, int, float)) else ""


def _count(value: Any) -> int:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) <= _MAX_DIGITS else 0
