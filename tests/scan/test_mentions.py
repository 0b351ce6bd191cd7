"""A line that only mentions an error is no proof of it; a line that reports one is, however much it quotes."""

from __future__ import annotations

import json

import pytest

from firstfault import triage
from firstfault.scan.mentions import is_mention

FALLEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
MENTIONS = {
    "trace of a script": f"+ set -e\n+ grep -q '{FALLEN}' dmesg.txt\n+ exit 0\n",
    "shell history": f'  501  kubectl get pods\n  502  kubectl logs train-0 | grep -i "{MEMORY}"\n',
    "shell history with times": f'#1730600047\ngrep "{MEMORY}" job.log\n#1730600050\necho "{FALLEN}"\n',
    "table of processes": f'root  812  0.0 python watch.py --pattern "{FALLEN}"\nroot  813  0.0 grep {MEMORY}\n',
    "what grep found in documents": f"$ grep -rn fallen docs/\ndocs/xid.md:12:{FALLEN}\n",
    "what grep found in source code": f'watch.py:4:    "{FALLEN}",\n',
    "tests that passed": f"tests/test_x.py::test_xid[{FALLEN}] PASSED [ 33%]\ntests/test_x.py::test_oom[{MEMORY}] PASSED\n",
    "a list of changes": f'v2.3.1\n- fix: handle "{MEMORY}" by halving the batch\n- feat: {FALLEN}\n',
    "values of a chart": f'npd:\n  rules:\n    - reason: Xid79\n      pattern: "{FALLEN}"\n',
    "a review": f'We should also match "{FALLEN}" here.\nAlso `{MEMORY}` should be its own class.\n',
    "advice": f'If you see "{FALLEN}", then drain the node.\n',
    "a question": f"What does {FALLEN} mean?\n",
    "a chat about another case": f"[02:14] ann: job died again\n[02:16] bob: is it like in March: {FALLEN} ?\n[02:17] ann: no {MEMORY} either\n",
    "an expression": "  CUDA error: .*device-side assert triggered|NVRM: Xid \\(.*\\): 79, .*GPU has fallen off the bus\n",
    "what a model was asked": f"INFO request: prompt: 'my job prints {MEMORY}', params: n=1\n",
    "a query that a log backend writes down": f'level=info ts=2026-11-03T02:14:07Z caller=metrics.go:159 query="{{a=1}} |= {FALLEN}" status=200\n',
    "a command that sudo writes down": f"Nov  3 02:14:07 n1 sudo: ann : TTY=pts/0 ; COMMAND=/usr/bin/grep '{FALLEN}' kern.log\n",
    "a command that auditd writes down": f'type=EXECVE msg=audit(1.2:9): argc=3 a0="grep" a1="{FALLEN}" a2="kern.log"\n',
    "a stage of promtail": f"- match:\n    selector: '{{job=1}} |= \"{FALLEN}\"'\n",
    "a filter of Fluent Bit": f"[FILTER]\n    Name grep\n    Regex log {FALLEN}\n",
    "a filter of Vector": f"condition = 'contains(.message, \"{FALLEN}\")'\n",
    "a query in SQL": f"SELECT count(*) FROM logs WHERE line LIKE '%{FALLEN}%';\n",
    "tests in XML": f'<testsuite><testcase classname="t" name="test_xid[{FALLEN}]" time="0.1"/></testsuite>\n',
    "tests of C++": f'[ RUN      ] X.Finds/"{FALLEN}"\n[       OK ] X.Finds/"{FALLEN}" (0 ms)\n',
    "a chat that gives no time on the line": f"ann  2:14 AM\njob died\nbob  2:16 AM\ncould it be like in March: {FALLEN} ?\n",
    "mail about alerts": f'From Monday on we alert on "{FALLEN}" and on "{MEMORY}".\n',
    "a check that found nothing": "[check] no torch.OutOfMemoryError seen\n2026-11-03 02:14:08 INFO no CUDA out of memory errors found\n",
    "a sample of the training data": f'2026-11-03 02:14:08 INFO sample: "{FALLEN}"\n',
}  # fmt: skip
REPORTS = {
    "a chat about this case": f"[02:14] ann: job died again\n[02:16] ann: it printed {FALLEN}\n",
    "a job under set -x": f"+ python train.py\nstep 1\n{FALLEN}\n+ exit 1\n",
    "what grep found in a log": f"$ grep -n Xid kern.log\nkern.log:12:Nov  3 02:14:07 n1 kernel: {FALLEN}\n",
    "behind a pipe": f"root@n1:~# dmesg | grep -i xid\n[ 1234.567890] {FALLEN}\n",
    "code marks": f"My training fails with `{FALLEN}`, what can I do?\n",
    "a line of code marks": f"`{FALLEN}`\n",
    "a line in bold": f"**{FALLEN}**\n",
    "a line in italics": f"*{FALLEN}*\n",
    "a message of an object": f"  message: '{FALLEN}'\n",
    "a field of a record": f'E1103 02:14:07.000000    1234 kubelet.go:1] "Failed" err="{FALLEN}"\n',
    "an exception's text": f'RuntimeError("{FALLEN}")\n',
    "a test that failed": f"FAILED tests/test_x.py::test_y - RuntimeError: {FALLEN}\n",
    "mail about a job": f'Hi all,\n\nmy job printed "{FALLEN}". Any idea?\n',
    "a question about this": f"What does this mean? {FALLEN}\n",
    "an answer that a program quotes": f'2026-11-03 02:14:08 ERROR the answer contains "{FALLEN}"\n',
    "a check that found something": f"[check] no heartbeat; kernel log: {FALLEN}\n",
    "an indented line": f"    {FALLEN}\n",
    "a mention, and the line itself": f"+ grep -q '{FALLEN}' dmesg.txt\n[ 1234.567890] {FALLEN}\n",
}


@pytest.mark.parametrize("name", MENTIONS)
def test_a_mention_alone_is_no_fault(tmp_path, name):
    """Who looks for an error, tests for it or tells of another case does not report it."""
    (tmp_path / "text").write_text(MENTIONS[name])
    assert triage([tmp_path]).status != "fault"


@pytest.mark.parametrize("name", REPORTS)
def test_what_reports_an_error_counts_in_full(tmp_path, name):
    """Quotes and commands around it take nothing from a line that says what happened."""
    (tmp_path / "text").write_text(REPORTS[name])
    report = triage([tmp_path])
    assert report.verdict is not None
    assert report.verdict.cause == "driver.gpu.fallen-off"
    assert report.verdict.confidence >= 0.9


def test_a_mention_does_not_outweigh_a_line(tmp_path):
    """A script looks for one error, and the job dies of another one."""
    (tmp_path / "text").write_text(f"+ grep -q '{FALLEN}' dmesg.txt\n+ python train.py\n[rank0]: {MEMORY}\n")
    report = triage([tmp_path])
    assert report.verdict is not None
    assert report.verdict.cause == "workload.cuda.oom"
    assert report.others == []


SHIPPED = {
    "a plan": "[terraform]: -/+ resource\n[terraform]:   ~ id = 1\n",
    "a boot": "Oct 17 12:05:14 localhost kernel: Module i8042 is blacklisted\n\nOct 17 12:05:15 localhost kernel: GPT: errors.\n",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_level_of_a_shipper_proves_no_work(tmp_path, name):
    """A shipper puts "info" on whatever it ships, an empty line too: that says as little as the lines alone."""
    records = [
        json.dumps({"ts": "2026-11-03T02:14:01Z", "level": "info", "msg": line}) for line in SHIPPED[name].split("\n")
    ]
    (tmp_path / "plain").write_text(SHIPPED[name])
    assert triage([tmp_path / "plain"]).status == "unknown"
    (tmp_path / "wrapped").write_text("\n".join(records))
    assert triage([tmp_path / "wrapped"]).status == "unknown"


def test_the_level_of_a_program_shows_that_it_works(tmp_path):
    """A logger with fields of its own is no shipper."""
    (tmp_path / "log").write_text('{"level":"info","ts":1609192433.9,"logger":"controller","msg":"Found Resource"}\n')
    assert triage([tmp_path / "log"]).status == "healthy"


def test_only_so_much_before_an_error_is_looked_at():
    """A record of one line may be megabytes: what is far away from an error says nothing of it."""
    near, far = (f"grep {'x' * width} '" for width in (100, 1000))
    assert is_mention(f"{near}{FALLEN}'", 0, len(near), len(near) + len(FALLEN))
    assert not is_mention(f"{far}{FALLEN}'", 0, len(far), len(far) + len(FALLEN))
