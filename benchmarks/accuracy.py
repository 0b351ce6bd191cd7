#!/usr/bin/env python3
"""Scores triage on a corpus of labelled cases (docs/accuracy.md says how and what came out).

A corpus is a file of JSON lines: {"id", "layer", "cause", "also_ok": [], "files": {name: text}}; cause "none" is
healthy.

    python benchmarks/accuracy.py CORPUS [--bury N] [--confusion] [--reliability] [--summary-only]
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

# Ordinary lines that hold the words people grep for. None of them is a fault.
NEUTRAL = (
    "{t} INFO metrics: error_rate=0.0 failed=0 timeout=30s retries=0",
    "{t} INFO health check ok: 0 errors, 0 warnings, timeout 5s",
    "{t} DEBUG cache: hit ratio 0.98, evictions 0, failed lookups 0",
    "{t} INFO task {n} finished, failed=0 skipped=0 unreachable=0 changed=1",
    "{t} INFO error budget remaining 99.98 %",
    "{t} INFO loaded module error_handlers from /srv/app/errors.py",
    "{t} INFO connection pool: idle=8 active=2 timeout=60 killed=0",
    "{t} INFO retry policy: max 5, on timeout, on connection refused",
    "{t} INFO validation: expected failures 0, unexpected failures 0",
    "{t} INFO uploaded shard {n} without error",
    "{t} INFO no exception raised in the last 3600 s",
    "{t} DEBUG signal handlers installed for SIGTERM, SIGINT",
)


@dataclass
class Outcome:
    """What triage said about one case."""

    case: dict
    status: str
    cause: str
    confidence: float
    seconds: float

    @property
    def predicted_layer(self) -> str:
        """The layer that triage blames; "none" for healthy, "?" when it abstains."""
        return {"fault": self.cause.split(".")[0], "healthy": "none"}.get(self.status, "?")

    @property
    def layer_right(self) -> bool:
        """Whether that is the layer of an accepted cause."""
        wanted = {name.split(".")[0] for name in (self.case["cause"], *self.case["also_ok"])}
        return self.predicted_layer in wanted

    @property
    def cause_right(self) -> bool:
        """Whether the cause is the label, an alias of it, or in `also_ok`."""
        said = self.cause if self.status == "fault" else {"healthy": "none"}.get(self.status, "?")
        return any(same(said, name) for name in (self.case["cause"], *self.case["also_ok"]))


def same(said: str, wanted: str) -> bool:
    """Whether two ids name one cause: equal, or one is an alias of the other's card."""
    if said == wanted:
        return True
    card = load_catalogue().cards.get(said)
    other = load_catalogue().cards.get(wanted)
    return bool(card and any(fnmatchcase(wanted, alias) for alias in card.aliases)) or bool(
        other and any(fnmatchcase(said, alias) for alias in other.aliases)
    )


def sources(case: dict, bury: int, rng: random.Random) -> list[Source]:
    found = []
    for name, text in sorted(case["files"].items()):
        data = buried(text, bury, rng).encode()
        found.append(Source(name, lambda data=data: io.BytesIO(data), size=len(data), reopenable=True))
    return found


def buried(text: str, count: int, rng: random.Random) -> str:
    """Put the case into the middle of neutral lines; its own lines keep their order and neighbours."""
    if not count:
        return text
    lines = [
        rng.choice(NEUTRAL).format(t=f"2026-03-01 10:{n // 60 % 60:02d}:{n % 60:02d},{n % 1000:03d}", n=n)
        for n in range(count)
    ]
    cut = rng.randrange(count)
    return "\n".join([*lines[:cut], *text.splitlines(), *lines[cut:], ""])


def run(path: Path, bury: int) -> list[Outcome]:
    rng = random.Random(0)
    outcomes = []
    for line in path.read_text("utf-8").splitlines():
        if not line.strip():
            continue
        case = {"also_ok": [], **json.loads(line)}
        begin = time.perf_counter()
        report = diagnose(scan_sources(sources(case, bury, rng)))
        verdict = report.verdict
        outcomes.append(
            Outcome(
                case,
                report.status,
                verdict.cause if verdict else "",
                verdict.confidence if verdict else 0.0,
                time.perf_counter() - begin,
            )
        )
    return outcomes


def calibration(outcomes: list[Outcome]) -> tuple[float, list[tuple[float, int, float, float]]]:
    """Expected calibration error over the verdicts, and (upper edge, count, mean confidence, share right) per bin."""
    blamed = [one for one in outcomes if one.status == "fault"]
    rows, error = [], 0.0
    for tenth in range(10):
        inside = [one for one in blamed if tenth / 10 <= one.confidence < (tenth + 1) / 10 + (tenth == 9)]
        if inside:
            mean = sum(one.confidence for one in inside) / len(inside)
            right = sum(one.cause_right for one in inside) / len(inside)
            rows.append(((tenth + 1) / 10, len(inside), mean, right))
            error += abs(mean - right) * len(inside) / len(blamed)
    return error, rows


def summary(outcomes: list[Outcome]) -> str:
    total = len(outcomes)
    healthy = [one for one in outcomes if one.case["cause"] == "none"]
    faulty = [one for one in outcomes if one.case["cause"] != "none"]
    sure_wrong = [one for one in outcomes if one.status == "fault" and one.confidence >= 0.8 and not one.cause_right]
    error, _ = calibration(outcomes)
    seconds = sorted(one.seconds for one in outcomes)
    rows = [
        ("cases", f"{total} ({len(healthy)} healthy)"),
        ("layer right", share(sum(one.layer_right for one in outcomes), total)),
        ("cause right (alias, also_ok)", share(sum(one.cause_right for one in outcomes), total)),
        ("healthy called a fault", f"{sum(one.status == 'fault' for one in healthy)} of {len(healthy)}"),
        ("fault called healthy", f"{sum(one.status == 'healthy' for one in faulty)} of {len(faulty)}"),
        ("wrong with confidence >= 0.8", share(len(sure_wrong), total)),
        ("abstained", share(sum(one.status == "unknown" for one in outcomes), total)),
        ("expected calibration error", f"{error:.3f}"),
        ("seconds per case, p50 / p95", f"{seconds[total // 2]:.4f} / {seconds[int(total * 0.95)]:.4f}"),
    ]
    return "\n".join(f"{name:<32}{value}" for name, value in rows)


def share(count: int, total: int) -> str:
    return f"{count} ({count / max(total, 1):.1%})"


def confusion(outcomes: list[Outcome]) -> str:
    lines = [
        f"{one.case['id']:<34}{one.case['cause']:<40}{one.status:<8}{one.cause:<42}{one.confidence:.2f}"
        for one in outcomes
        if not one.cause_right
    ]
    pairs = Counter((one.case["layer"], one.predicted_layer) for one in outcomes if not one.layer_right)
    lines += [f"layer {wanted} called {said}: {count}" for (wanted, said), count in pairs.most_common()]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--bury", type=int, default=0, metavar="N", help="put each file into N neutral lines")
    parser.add_argument("--confusion", action="store_true", help="list the cases that were wrong")
    parser.add_argument("--reliability", action="store_true", help="print the reliability curve")
    parser.add_argument("--summary-only", action="store_true", help="print no case, whatever else is asked")
    arguments = parser.parse_args()
    outcomes = run(arguments.corpus, arguments.bury)
    print(summary(outcomes))
    if arguments.reliability:
        print("\nconfidence up to   cases   mean   right")
        for edge, count, mean, right in calibration(outcomes)[1]:
            print(f"{edge:>16.1f}{count:>8}{mean:>7.2f}{right:>8.2f}")
    if arguments.confusion and not arguments.summary_only:
        print()
        print(confusion(outcomes))


if __name__ == "__main__":
    main()
