"""The text of a report: short where there is much, whole where something may be copied."""

from __future__ import annotations

from firstfault.diagnosis import triage
from firstfault.model import Ladder, LadderGroup, TriageReport
from firstfault.report import render_triage


def report_with(groups):
    return TriageReport(
        status="healthy", verdict=None, ladder=Ladder(rungs=["process", "steps"], groups=groups), sources=[]
    )


def test_a_thousand_ranks_take_one_line():
    """Ranks with one fate are one line, however many they are."""
    groups = [
        LadderGroup(
            ranks=[[0, 516], [518, 1023]], reached="process", stopped_at="steps", why="it waits in allreduce 4"
        ),
        LadderGroup(ranks=[[517, 517]], reached="process", stopped_at="steps", why="ValueError"),
    ]
    text = render_triage(report_with(groups), "text")
    assert "1,023 ranks (0-516, 518-1023): reached process, stopped at steps: it waits in allreduce 4" in text
    assert "  rank 517: reached process, stopped at steps: ValueError" in text


def test_healthy_says_whether_a_job_was_seen(tmp_path):
    """An idle GPU is well, which says nothing of a job; steps do."""
    path = tmp_path / "log"
    path.write_text("NAME      READY   STATUS    RESTARTS   AGE\ntrain-0   1/1     Running   0          5h\n")
    assert "no step, collective or served model is among them" in render_triage(triage([path]), "text")
    path.write_text("".join(f"step {n} loss 2.{n} tokens/s 1000\n" for n in range(9)))
    assert "they show the job at work" in render_triage(triage([path]), "text")


def test_many_fates_and_many_runs_are_cut_short():
    """A person sees the largest groups and how many there are beside them; JSON has all."""
    groups = [
        LadderGroup(
            ranks=[[rank, rank] for rank in range(start, 2000, 100)], reached="process", stopped_at=None, why=f"{start}"
        )
        for start in range(50)
    ]
    text = render_triage(report_with(groups), "text")
    assert "and 38 smaller groups" in text
    assert max(map(len, text.splitlines())) < 200
    assert '"why": "49"' in render_triage(report_with(groups), "json")


def test_paths_are_not_broken(tmp_path):
    """A path in the summary stays in one piece, however long."""
    path = tmp_path / ("a-long-name-" * 9) / "rank-0.log"
    path.parent.mkdir()
    path.write_text("NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.\n")
    assert f"{path}:1" in render_triage(triage([path]), "text")


def test_what_the_driver_asks_for_comes_first(tmp_path):
    """XID 154 names the recovery action: it leads the fix of the fault that it follows."""
    path = tmp_path / "dmesg.txt"
    path.write_text(
        "NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.\n"
        "NVRM: Xid (PCI:0000:19:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n"
    )
    verdict = triage([path]).verdict
    assert verdict.cause == "driver.gpu.fallen-off"
    assert "Node Reboot Required" in verdict.fix[0]
