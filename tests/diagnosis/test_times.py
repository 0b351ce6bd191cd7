"""What the clocks say about which fault came first, and what lies too far back to matter."""

from __future__ import annotations

import io

import pytest

from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

XID_79 = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=python3, GPU has fallen off the bus."
OOM = "[rank0]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
FULL = "[rank1]: OSError: [Errno 28] No space left on device"


def read(**logs):
    """The report on several logs, given as name=text."""
    sources = [Source(name, lambda text=text: io.BytesIO(text.encode()), size=len(text)) for name, text in logs.items()]
    return diagnose(scan_sources(sources))


def job(day):
    """Steps of a day, then an error of that day."""
    steps = "".join(f"2026-11-{day}T10:0{n}:00Z step {n} loss 2.{n}\n" for n in range(1, 5))
    return steps + f"2026-11-{day}T10:05:00Z {OOM}\n"


def test_a_fault_long_before_the_last_step_is_not_the_first_one():
    """Two weeks on the job was at work; an hour on the two clocks may just differ."""
    kernel = f"2026-11-16T10:00:00Z node kernel: {XID_79}\n"
    assert read(kernel=kernel, job=job(16)).verdict.cause == "driver.gpu.fallen-off"
    report = read(kernel=kernel, job=job(30))
    assert report.verdict.cause == "workload.cuda.oom"
    assert all("Xid" not in line.text for line in report.verdict.evidence)


@pytest.mark.parametrize(("minute", "cause"), [("00", "infra.disk.ephemeral"), ("59", "workload.cuda.oom")])
def test_of_two_independent_faults_the_earlier_is_the_first(minute, cause):
    """Although the other one is somewhat better seen."""
    report = read(
        rank0=f"2026-11-30T10:30:00Z {OOM}\n",
        rank1=f"2026-11-30T10:{minute}:00Z {FULL}\n",
    )
    assert report.verdict.cause == cause
    assert {other.cause for other in report.others} == {"infra.disk.ephemeral", "workload.cuda.oom"} - {cause}


def test_evidence_of_a_verdict_holds_no_root_of_another():
    """An exception's last line may be the consequence of one cause and the root of another, which is told apart."""
    report = read(rank0=f"2026-11-30T10:00:05Z {OOM}\n", rank1=f"2026-11-30T10:00:01Z {FULL}\n")
    assert [line.source for line in report.verdict.evidence if line.role == "root"] == ["rank0"]
    assert "rank1" not in {line.source for line in report.verdict.evidence}
