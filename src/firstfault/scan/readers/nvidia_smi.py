"""`nvidia-smi -q`: counters and states that say whether a GPU can be trusted. All lines are handed on as well."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from firstfault.model import TextLine
from firstfault.scan.readers.base import BEGINNING, HEAD_IS_ALL, iter_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["NvidiaSmiQueryReader"]

_HEAD = re.compile(
    rb"(?m)^={8,}NVSMI LOG={8,}|^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]\s*$"
    rb"|^ +(?:Product Name|GPU Recovery Action|Remapping Failure Occurred) +: "
)
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_FIELD = re.compile(r"^( *)(\S.*?)(?: +: ?(.*))?$")
MAX_DIGITS = 20
# A longer line is none of nvidia-smi's, and would only cost time.
MAX_LINE = 500
NOTHING = frozenset({"", "N/A", "[N/A]", "Requested functionality has been deprecated"})


class NvidiaSmiQueryReader:
    """Prints, for each GPU, the facts that decide about draining, resetting or replacing it."""

    kind = "nvidia-smi-q"

    def detect(self, head: bytes) -> bool:
        """Say whether the head is of `nvidia-smi -q`, or a piece of it."""
        return _HEAD.search(head if len(head) < HEAD_IS_ALL else head[:BEGINNING]) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield lines and facts."""
        del source_name, joint
        gpu = _Gpu("unknown")
        for number, offset, data in iter_lines(stream):
            text = data.decode("utf-8", "replace").rstrip()
            if (match := _GPU.match(text)) is not None:
                yield from gpu.facts()
                gpu = _Gpu(match[1])
            else:
                gpu.add(text, number, offset)
            if text.strip():
                yield TextLine(text=text, line=number, offset=offset)
        yield from gpu.facts()


class _Gpu:
    """The fields of one GPU by their path, e.g. `Remapped Rows/Pending`."""

    def __init__(self, bus: str) -> None:
        self.bus = bus
        self._path: list[tuple[int, str]] = []
        self._fields: dict[str, str] = {}
        self._places: dict[str, tuple[int, int]] = {}

    def add(self, text: str, number: int, offset: int) -> None:
        """Take a line; its indentation says what it belongs to."""
        field = _FIELD.match(text) if len(text) < MAX_LINE else None
        if field is None:
            return
        indent = len(field[1])
        while self._path and self._path[-1][0] >= indent:
            self._path.pop()
        path = "/".join([name for _, name in self._path] + [field[2]])
        if field[3] is None:
            self._path.append((indent, field[2]))
        elif field[3] not in NOTHING:
            self._fields[path] = field[3]
            self._places[path] = (number, offset)

    def facts(self) -> Iterator[TextLine]:
        """Yield what is known; a fact of which no part is known is left out."""
        for name, parts in _FACTS:
            values: list[str] = []
            place: tuple[int | None, int | None] = (None, None)
            for label, pattern in parts.items():
                found = [key for key in self._fields if pattern.fullmatch(key)]
                if found:
                    values.append(f"{label}={_combine([self._fields[key] for key in found])}")
                    place = self._places[found[0]]
            if values:
                yield TextLine(text=f"gpu {self.bus} {name}{' '.join(values)}", line=place[0], offset=place[1])


def _combine(values: list[str]) -> str:
    """Return the sum of counters, or the first of several texts, without blanks."""
    if all(value.isdecimal() and len(value) < MAX_DIGITS for value in values):
        return str(sum(map(int, values)))
    return values[0].replace(" ", "-")


_VOLATILE, _AGGREGATE = r"(?i:ecc errors)/Volatile/", r"(?i:ecc errors)/Aggregate/"
_REASONS = r"Clocks (?:Throttle|Event) Reasons/(?:HW Slowdown/)?"
# (name of the fact, {label of a part: patterns of its paths}); older drivers call some of them otherwise.
_TABLE: tuple[tuple[str, dict[str, tuple[str, ...]]], ...] = (
    (
        "",
        {"product": ("Product Name",), "persistence": ("Persistence Mode",), "ecc": ("(?i:ecc mode)/Current",)},
    ),
    (
        "ecc ",
        {
            "volatile.uncorrectable": (f"{_VOLATILE}[SD]RAM Uncorrectable.*", f"{_VOLATILE}Double Bit/Total"),
            "volatile.correctable": (f"{_VOLATILE}[SD]RAM Correctable", f"{_VOLATILE}Single Bit/Total"),
            "aggregate.uncorrectable": (f"{_AGGREGATE}[SD]RAM Uncorrectable.*", f"{_AGGREGATE}Double Bit/Total"),
            "aggregate.correctable": (f"{_AGGREGATE}[SD]RAM Correctable", f"{_AGGREGATE}Single Bit/Total"),
            "sram.threshold.exceeded": (f"{_AGGREGATE}SRAM Threshold Exceeded",),
        },
    ),
    (
        "remapped-rows ",
        {
            "correctable": ("Remapped Rows/Correctable Error",),
            "uncorrectable": ("Remapped Rows/Uncorrectable Error",),
            "pending": ("Remapped Rows/Pending",),
            "failure": ("Remapping Failure Occurred",),
        },
    ),
    (
        "retired-pages ",
        {
            "double-bit": ("Retired Pages/Double Bit ECC",),
            "pending": ("Retired Pages/Pending(?: Page (?:Blacklist|Retirement))?",),
        },
    ),
    ("", {"recovery-action": ("GPU Recovery Action",)}),
    (
        "reset ",
        {
            "required": ("GPU Reset Status/Reset Required",),
            "drain-first": ("GPU Reset Status/Drain and Reset Recommended",),
        },
    ),
    ("fabric ", {"state": ("Fabric/State",), "status": ("Fabric/Status",)}),
    ("mig ", {"current": ("MIG Mode/Current",), "pending": ("MIG Mode/Pending",)}),
    (
        "slowdown ",
        {
            "hw": (f"{_REASONS}HW Slowdown",),
            "hw-thermal": (f"{_REASONS}HW Thermal Slowdown",),
            "power-brake": (f"{_REASONS}HW Power Brake Slowdown",),
            "sw-thermal": (f"{_REASONS}SW Thermal Slowdown",),
        },
    ),
    (
        "pcie ",
        {
            "generation": ("PCIe Generation/Current",),
            "generation.max": ("PCIe Generation/Max",),
            "width": ("Link Width/Current",),
            "width.max": ("Link Width/Max",),
        },
    ),
)
_FACTS = tuple(
    (name, {label: re.compile(f"(?:.*/)?(?:{'|'.join(patterns)})") for label, patterns in parts.items()})
    for name, parts in _TABLE
)


NVIDIA_SMI_QUERY = NvidiaSmiQueryReader()
