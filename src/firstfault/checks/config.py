"""firstfault.toml: `[audit]`, and the baseline file.

::

    [audit]
    complete = true                  # the inputs are everything there is
    exclude = ["vendor/**"]
    disable = ["some-check"]         # with a reason: use suppress instead where only some places are meant

    [[audit.suppress]]
    check = "service-links-enabled"
    path = "third-party/**"
    subject = "Deployment/ml/*"
    reason = "vendor's manifest; asked for in their issue 12"
    until = 2027-01-31
"""

from __future__ import annotations

import datetime as dt
import tomllib
from pathlib import Path

import msgspec

from firstfault.checks.suppress import Suppression
from firstfault.errors import InputError
from firstfault.model.audit import AuditReport
from firstfault.model.files import read_whole

__all__ = ["BASELINE_SCHEMA", "CONFIG_NAME", "AuditConfig", "load_baseline", "load_config", "make_baseline"]

_MAX_BYTES = 64 << 20

CONFIG_NAME = "firstfault.toml"
BASELINE_SCHEMA = "firstfault.audit-baseline/1"


class SuppressEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One `[[audit.suppress]]` table."""

    check: str
    reason: str = ""
    path: str = "*"
    subject: str = "*"
    until: dt.date | None = None


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `[audit]` table.

    Attributes:
        complete: See `Inventory.complete`.
        exclude: Globs over paths that are not read.
        disable: Checks that do not run.
        suppress: Accepted findings.
    """

    complete: bool = False
    exclude: list[str] = []
    disable: list[str] = []
    suppress: list[SuppressEntry] = []
    source: str = ""

    def suppressions(self) -> list[Suppression]:
        """Return the entries as suppressions."""
        return [
            Suppression(
                check=entry.check, path=entry.path, subject=entry.subject, reason=entry.reason, until=entry.until,
                where="config", at=self.source,
            )
            for entry in self.suppress
        ]  # fmt: skip


def load_config(path: Path | None, *, near: list[Path]) -> AuditConfig:
    """Read the configuration.

    Args:
        path: The file that the caller named; None looks for firstfault.toml in the working directory, then in `near`.
            Parent folders are not searched: a result must not depend on what lies above a checkout.
        near: The audited folders.

    Raises:
        InputError: Not TOML, or a key that does not exist.
    """
    candidates = [path] if path else [Path(CONFIG_NAME), *(item / CONFIG_NAME for item in near)]
    for candidate in candidates:
        if path or candidate.is_file():
            return _read_config(candidate)
    return AuditConfig()


def _read_config(path: Path) -> AuditConfig:
    try:
        data = tomllib.loads(read_whole(path, _MAX_BYTES).decode("utf-8"))
        config = msgspec.convert(data.get("audit", {}), AuditConfig)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InputError(f"{path}: not a configuration: {error}") from error
    return msgspec.structs.replace(config, source=path.as_posix())


class BaselineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One finding that was there when the baseline was written."""

    check: str
    path: str
    subject: str
    fingerprint: str
    reason: str
    until: dt.date | None = None


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """The baseline file: findings that are known and accepted for now."""

    entries: list[BaselineEntry]
    schema: str = BASELINE_SCHEMA


def load_baseline(path: Path) -> list[Suppression]:
    """Read a baseline file.

    Raises:
        InputError: It cannot be read or is no baseline.
    """
    try:
        baseline = msgspec.json.decode(read_whole(path, _MAX_BYTES), type=Baseline)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a baseline: {error}") from error
    return [
        Suppression(
            check=entry.check, path=entry.path, subject=entry.subject, fingerprint=entry.fingerprint,
            reason=entry.reason, until=entry.until, where="baseline", at=path.as_posix(),
        )
        for entry in baseline.entries
    ]  # fmt: skip


def make_baseline(report: AuditReport, reason: str, until: dt.date | None) -> bytes:
    """Return the baseline file that accepts every open finding of `report`."""
    entries = [
        BaselineEntry(
            check=finding.check, path=finding.path, subject=finding.subject, fingerprint=finding.fingerprint,
            reason=reason, until=until,
        )
        for finding in report.findings
        if finding.result != "pass" and (not finding.suppressed or finding.suppressed_in == "baseline")
    ]  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(Baseline(entries=entries)), indent=2) + b"\n"
