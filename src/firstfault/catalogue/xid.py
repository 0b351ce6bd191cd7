"""Expands the table of XID codes (xid.yaml) into one card `driver.xid.N` each. Used by the loader and by diagnosis.

All codes share one line grammar and differ in a few words, so they are rows of a table instead of files. Codes whose
fault has a name of its own (79: `driver.gpu.fallen-off`) are cards written by hand and only listed here under `named`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from firstfault.catalogue.card import Card, Link, MistakenFor, Sample, Signature
from firstfault.errors import InputError
from firstfault.model import Role

__all__ = ["XID_SOURCES", "XidCode", "XidPolicy", "XidTable", "load_xid_table", "xid_cards"]

XID_TABLE = Path(__file__).parent / "xid.yaml"
XID_SOURCES = (XID_TABLE, Path(__file__))  # the cards change when either of them does
# On a MIG GPU the driver adds the instance, and any line may end in the code that it follows from (kernel_rc.c).
_PREFIX = r"(?:^|[^A-Za-z])Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)(?: GPU-I:\d+)?(?: GPU-CI:\d+)?\): "
_PROCESS = r"(?:, pid='?(?P<pid>[^',]*)'?)?(?:, name=(?P<name>[^,]*))?(?:[^0-9]|$)"
_NVLINK_UNIT = r", (?:pid=[^,]*, )?(?:name=[^,]*, )?(?P<unit>[A-Z0-9_/]+) "
_NOT_FOUND_BEFOREHAND = Link(none_because="an error of the hardware or the program; configuration does not show it")


class XidPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules over several lines, which no pattern can express; `firstfault.diagnosis.xid` applies them.

    Attributes:
        aftermath: Codes that follow from something else; never act on one alone.
        application_first: Codes that the program's own log explains, whatever the two clocks say.
        stalls: Codes that follow from one of those when it came earlier on the same GPU.
        informational: Codes that record an error which another line reports.
        cancels: Code -> code that it takes back when it comes later on the same GPU.
        cordon: Codes on which a node is taken out at once.
    """

    aftermath: list[int]
    application_first: list[int]
    stalls: list[int]
    informational: list[int]
    cancels: dict[int, int]
    cordon: list[int]


class XidOrigin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where errors of one kind come from: text of the card, default strength, and the causes that they explain."""

    strength: float
    what: str
    explains: list[str]


class XidCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table; the fields are described at the top of xid.yaml."""

    name: str
    now: str
    origin: str
    then: str = ""
    strength: float | None = None
    note: str = ""
    fabric: bool = False
    sample: str = ""
    source: str = ""


class XidTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table."""

    named: dict[int, str]
    policy: XidPolicy
    actions: dict[str, str]
    origins: dict[str, XidOrigin]
    codes: dict[int, XidCode]

    def cause(self, code: int) -> str:
        """The cause id that a code is reported under."""
        return self.named.get(code, f"driver.xid.{code}")


@cache
def load_xid_table() -> XidTable:
    """Read the table that ships with the package.

    Raises:
        InputError: It is not valid.
    """
    import yaml  # noqa: PLC0415  -- not needed where the catalogue comes from a cache

    try:
        return msgspec.convert(yaml.load(XID_TABLE.read_bytes(), Loader=yaml.CSafeLoader), XidTable, strict=False)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise InputError(f"{XID_TABLE}: not a table of XID codes: {error}") from error


def _strength(row: XidCode, origin: XidOrigin) -> float:
    return origin.strength if row.strength is None else row.strength


def _kernel_line(code: int, row: XidCode, origin: XidOrigin) -> Signature:
    made = f"NVRM: Xid (PCI:0000:3b:00): {code}, pid='<unknown>', name=<unknown>, {row.name}"
    printed = not row.fabric and row.sample  # the samples of NVLink 5 codes belong to their own signatures
    return Signature(
        id="kernel-line",
        pattern=f"{_PREFIX}(?:\\d+, .*caused by previous Xid )?(?P<xid>{code}){_PROCESS}",
        unless=r" (?:Fatal|Nonfatal) XC ?\d+ " if row.fabric else "",
        role=Role.ROOT,
        strength=_strength(row, origin),
        rung="accelerator" if _strength(row, origin) >= 0.5 else "",
        samples=[
            Sample(
                text=row.sample if printed else made,
                program="NVIDIA kernel driver",
                versions="450+",
                source=row.source if printed else "",
            ),
            Sample(
                text=f"[12.3] NVRM: Xid (0000:3b:00): {code}, {row.name}",
                program="NVIDIA kernel driver",
                versions="<340",
            ),
            Sample(text=f"NVRM: Xid (PCI:0000:3b:00.0): {code}", program="NVIDIA kernel driver", versions="some"),
            Sample(
                text=f"NVRM: Xid (PCI:0000:3b:00 GPU-I:07 GPU-CI:00): {code}, pid=4711, name=python3, {row.name}",
                program="NVIDIA kernel driver",
                versions="450+, MIG",
                source="NVIDIA/open-gpu-kernel-modules src/nvidia/src/kernel/gpu/rc/kernel_rc.c",
            ),
            Sample(
                text=f"NVRM: Xid (PCI:0000:3b:00): 45, pid=1, name=python3, Ch 00000001 caused by previous Xid {code}",
                program="NVIDIA kernel driver",
                versions="R580+",
            ),
        ],
        negatives=[
            f"NVRM: Xid (PCI:0000:3b:00): {code}0, something",
            f"nvidia-nvswitch0: SXid (PCI:0000:3b:00.0): {code}, Fatal, Link 0",
        ],
    )


def _nvlink5_lines(code: int, row: XidCode, origin: XidOrigin) -> list[Signature]:
    """Since Blackwell NVLink errors carry unit and severity; only the fatal ones take the link down."""
    lines = []
    for severity, strength in (("Fatal", _strength(row, origin) + 0.04), ("Nonfatal", 0.45)):
        text = f"NVRM: Xid (PCI:0000:01:00): {code}, RLW_CTRL {severity} XC1 i0 Link -1 (0x00000001 0x00000008)"
        sample = row.sample if f" {severity} " in row.sample else ""
        lines.append(
            Signature(
                id=f"nvlink5-{severity.lower()}",
                pattern=f"{_PREFIX}(?P<xid>{code}){_NVLINK_UNIT}{severity} XC ?\\d+ i ?\\d+ Link (?P<link>-?\\d+)",
                role=Role.ROOT,
                strength=strength,
                rung="accelerator" if severity == "Fatal" else "",
                samples=[
                    Sample(
                        text=sample or text,
                        program="NVIDIA kernel driver",
                        versions="R570+",
                        source=row.source if sample else "",
                    ),
                    Sample(
                        text=f"NVRM: Xid (PCI:0000:01:00): {code}, NETIR_LINK_EVT {severity} XC 1 i 2 Link 01 [0x0a]",
                        program="NVIDIA kernel driver",
                        versions="<R575",
                        source="Datadog agent, NVIDIA driver events (its tests: pre-R575 link event)",
                    ),
                ],
            )
        )
    return lines


def _reported(code: int, row: XidCode, origin: XidOrigin) -> Signature:
    """The same code as node agents and exporters tell it."""
    return Signature(
        id="reported",
        pattern=(
            rf"(?:XidCriticalError: Xid={code}(?: on |, )|NvidiaXID{code}(?:Error|Warning)\b|\bErrorCode:{code} PCI:"
            rf"|DCGM_FI_DEV_XID_ERRORS\{{[^}}]*\}} {code}(?:\.0)?\s*$|Detected XID {code} for GPU"
            rf"|DCGM_EXP_XID_ERRORS_COUNT\{{[^}}]*xid=\"{code}\"[^}}]*\}} [1-9]|NVRM: Xid {code}: "
            rf"|\bXID {code}(?:\.\d+)? .*detected on GPU|RC all channels for critical error {code}\."
            rf"|XidCriticalError\s+True\s.*\"{code}\":true)"
        ),
        role=Role.ROOT,
        strength=round(_strength(row, origin) * 0.85, 2),
        samples=[
            Sample(
                text=f"XidCriticalError: Xid={code} on Device=GPU-8f6a1c3e; marking device as unhealthy.",
                program="k8s-device-plugin",
                source="NVIDIA/k8s-device-plugin internal/rm/health.go",
            ),
            Sample(
                text=f"condition node/gpu-1 AcceleratedHardwareReady=False reason=NvidiaXID{code}Error message=",
                program="EKS node monitoring agent",
                source="Amazon EKS user guide, node health issues (NvidiaXID[Code]Error)",
            ),
            Sample(
                text=f"Detected XID {code} for GPU 3",
                program="DCGM",
                source="NVIDIA/DCGM dcgmlib/dcgm_errors.h, DCGM_FR_XID_ERROR_MSG",
            ),
            Sample(
                text=f"NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error {code}.",
                program="NVIDIA kernel driver",
                versions="R515+",
                source="NVIDIA/open-gpu-kernel-modules src/nvidia/src/kernel/gpu/rc, krcRcAndNotifyAllChannels",
            ),
            Sample(
                text=f"XID {code} (err status 0x00000000) detected on GPU PCI:0019:01:00",
                program="gpud",
                source="leptonai/gpud pull request 1174",
            ),
            Sample(
                text=f'  XidCriticalError   True   Mon, 23 Jun 2025 18:45:43 +0000   {{"{code}":true}}   6e43a052',
                program="GKE device plugin",
                source="GoogleCloudPlatform/container-engine-accelerators pull request 497",
            ),
            Sample(
                text=f"ErrorCode:{code} PCI:0000:c3:00.0 GPU_UUID:GPU-8f6a1c3e Recommended Action=RESTART_BM",
                program="NVSentinel",
                source="NVIDIA/NVSentinel tests, syslog health monitor",
            ),
            Sample(
                text=f'DCGM_EXP_XID_ERRORS_COUNT{{gpu="3",window_size_in_ms="300000",xid="{code}"}} 1',
                program="dcgm-exporter",
                versions="3.3+",
                source="NVIDIA/dcgm-exporter docs, DCGM_EXP_XID_ERRORS_COUNT",
            ),
            Sample(
                text=f'DCGM_FI_DEV_XID_ERRORS{{gpu="3",UUID="GPU-8f6a1c3e",device="nvidia3"}} {code}',
                program="dcgm-exporter",
                source="NVIDIA/dcgm-exporter etc/default-counters.csv, DCGM_FI_DEV_XID_ERRORS",
            ),
        ],
        negatives=['DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-8f6a1c3e",device="nvidia3"} 0'],
    )


def _card(code: int, row: XidCode, table: XidTable) -> Card:
    origin = table.origins[row.origin]
    cause = f"driver.xid.{code}"
    fix = [table.actions[row.now]]
    if row.then and row.then != row.now:
        fix.append(f"If it comes back: {table.actions[row.then]}")
    return Card(
        id=cause,
        title=f"XID {code}: {row.name}",
        what="\n".join(filter(None, [origin.what, row.note])),
        explains=[other for other in origin.explains if other != cause],
        mistaken_for=(
            [
                MistakenFor(
                    cause="workload.cuda.illegal-access",
                    tell_apart="With the program's own log at hand (illegal memory access, device-side assert) the "
                    "program is the cause and the XID its echo in the kernel log.",
                )
            ]
            if code in table.policy.application_first
            else []
        ),
        signatures=[
            _kernel_line(code, row, origin),
            *(_nvlink5_lines(code, row, origin) if row.fabric else []),
            _reported(code, row, origin),
        ],
        confirm=[
            f'`dmesg -T | grep -E "Xid.*: {code}\\b"` on the node: which GPU, which process, what came just before?',
            "`nvidia-smi -q -i GPU` (recovery action, ECC, remapped rows, NVLink); then `dcgmi diag -r 2 -i GPU`.",
        ],
        fix=fix,
        prevention=[
            "Act on XIDs from the kernel log within seconds (cordon on hardware codes), not at the next failed job."
        ],
        drill=Link(ids=["xid-31"]) if code == 31 else Link(ids=["kmsg-xid-sensor"]),
        check=_NOT_FOUND_BEFOREHAND,
        alert=Link(ids=["xid"]),
        detection_budget_s=60,
        references=["https://docs.nvidia.com/deploy/xid-errors/"],
    )


def xid_cards() -> list[Card]:
    """One card for every code of the table that has no named card.

    Raises:
        InputError: The table is not valid.
    """
    table = load_xid_table()
    return [_card(code, row, table) for code, row in table.codes.items()]
