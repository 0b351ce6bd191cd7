"""Tables of dcgmi that say only together with their headings what they mean.

`dcgmi dmon`: a column of XIDs becomes what the exporter's metric would say. `dcgmi nvlink --link-status`: a row of
letters becomes the number of links that are up and down.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO

from firstfault.model import TextLine
from firstfault.scan.readers.base import iter_lines, plain_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.scan.readers.joint import JointAnalysis

__all__ = ["DCGMI"]

_HEAD = re.compile(rb"(?m)^#Entity +\S|^\|  NvLink Link Status ")
_ROW = re.compile(r"^GPU (\d+) +(\S.*)$")
_DEVICE = re.compile(r"^ +(?:gpuId|physicalId) (\d+):$")
_LINKS = re.compile(r"^ +[UDX_](?: [UDX_])*$")
_XID = "XIDER"


class DcgmiReader:
    """`dcgmi dmon` and `dcgmi nvlink --link-status`."""

    kind = "dcgmi"

    def detect(self, head: bytes) -> bool:
        """Say whether one of the headings is there."""
        return _HEAD.search(head) is not None

    def read(self, stream: BinaryIO, source_name: str, joint: JointAnalysis | None = None) -> Iterator[TextLine]:
        """Yield the lines, and a fact for each XID that is not 0 and each device with links."""
        del source_name, joint
        column, device = -1, ""
        for raw in iter_lines(stream):
            yield from plain_line(raw)
            text = raw.data.decode("utf-8", "replace").rstrip()
            fact = ""
            if text.startswith("#Entity"):
                names = text.split()[1:]
                column = names.index(_XID) if _XID in names else -1
            elif (row := _ROW.match(text)) and 0 <= column < len(values := row[2].split()):
                if values[column].isdigit() and values[column].strip("0"):
                    fact = f'DCGM_FI_DEV_XID_ERRORS{{gpu="{row[1]}"}} {values[column]}'
            elif owner := _DEVICE.match(text):
                device = owner[1]
            elif device and _LINKS.match(text):
                fact = f"nvlink device={device} up={text.count('U')} down={text.count('D')}"
            if fact:
                yield TextLine(text=fact, line=raw.number, offset=raw.offset)


DCGMI = DcgmiReader()
