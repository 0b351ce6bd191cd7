"""Files that no run printed are no evidence; whatever may be output is read."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from firstfault import triage
from firstfault.report import render_triage
from firstfault.scan.set_aside import document_in

ROOT = Path(__file__).parents[2]
FALLEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
KERNEL = f"[ 1234.567890] {FALLEN}\n"
RULES = f"""\
groups:
  - name: gpu
    rules:
      - alert: GpuLost
        expr: DCGM_FI_DEV_XID_ERRORS == 79
        for: 0s
        annotations:
          description: "{FALLEN}"
"""
README = f"""\
# Runbook

How we handle broken GPUs; see [the dashboard](dash.md) and [the rules](rules.md).

## A GPU is gone

The kernel prints `{FALLEN}`. Drain the node:

```console
$ kubectl drain NODE
```

| XID | meaning |
| --- | --- |
| 79 | the GPU has fallen off the bus |
"""
PYTHON = f'''\
"""Watches the kernel log."""

import re
from pathlib import Path

PATTERN = re.compile(r"GPU has fallen off the bus")


def watch(path: Path) -> bool:
    """Say whether a line such as the next one is there.

        {FALLEN}
    """
    return PATTERN.search(path.read_text()) is not None
'''
CPP = f"""\
#include <cstdio>
#include "watch.h"

namespace gpu {{
static const char* kSample = "{FALLEN}";
}}  // namespace gpu
#define LOST 79
"""
CARD = f"""\
id: driver.gpu.fallen-off
title: The GPU has fallen off the bus
what: |
  {FALLEN}
signatures:
  - id: xid
    pattern: 'fallen off the bus'
    samples:
      - text: '{FALLEN}'
"""
PATCH = f"""\
diff --git a/watch.py b/watch.py
--- a/watch.py
+++ b/watch.py
@@ -1,2 +1,3 @@
 import re
+SAMPLE = "{FALLEN}"
"""
DASHBOARD = json.dumps({"title": FALLEN, "schemaVersion": 39, "panels": [{"type": "graph", "title": FALLEN}]}, indent=1)
DOCUMENTS = {
    "prometheus-rules": RULES,
    "documentation": README,
    "source-code": PYTHON,
    "fault-card": CARD,
    "patch": PATCH,
    "dashboard": DASHBOARD,
    "workflow": f"on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo '{FALLEN}'\n",
    "terraform-source": f'variable "x" {{\n  description = "{FALLEN}"\n}}\nresource "a" "b" {{\n  x = 1\n}}\n',
    "shell-script": f"#!/usr/bin/env bash\nset -eu\ngrep -q '{FALLEN}' /var/log/kern.log\n",
    "binary": "\x7fELF\x02\x01\x01" + FALLEN,
    "log-rules": json.dumps({"plugin": "kmsg", "logPath": "/dev/kmsg", "rules": [{"reason": "Xid", "pattern": FALLEN}]}),
    "conversation": json.dumps({"messages": [{"role": "user", "content": f"What does {FALLEN} mean?"}]}),
    "data-set": f'id,question,answer\n1,"What does {FALLEN} mean?","the GPU is gone"\n',
    "ticket": f"GPU-12 lost a GPU\nStatus: CLOSED\nComment by ann: it printed {FALLEN} Replaced.\n",
    "history": f"commit 0d5e1f2\nAuthor: Ann <a@b.c>\nDate:   Tue Nov 3 02:14:07 2026 +0000\n\n    Look for {FALLEN}\n",
}  # fmt: skip


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_document_is_no_evidence_of_a_fault(tmp_path, kind):
    """Its text quotes the very message that the catalogue looks for: nothing is made of that, and the report says why."""
    (tmp_path / "file").write_text(DOCUMENTS[kind])
    report = triage([tmp_path])
    assert report.status == "unknown"
    (aside,) = report.set_aside
    assert (aside.kind, aside.name) == (kind, str(tmp_path / "file"))
    assert aside.why


SHORT = {
    "Python": f'import logging\nLOOK_FOR = [\n    "{FALLEN}",\n]\ndef check(line):\n    if line in LOOK_FOR:\n        raise ValueError(line)\n',
    "C": f'#include <nccl.h>\nstatic ncclResult_t f() {{\n  printf("{FALLEN}\\n");\n  return ncclSystemError;\n}}\n',
    "Rust": f'fn main() {{\n    println!("{FALLEN}");\n}}\n',
    "JavaScript": f'const x = require("fs");\nfunction f(y) {{\n  return y.includes("{FALLEN}");\n}}\n',
    "a runbook by its title": f"Runbook: GPUs\n\nDrain the node on\n{FALLEN}\n",
    "a runbook by its entries": f"GPUs\n\nSymptom:\n  {FALLEN}\nAction:\n  drain\n\nSymptom:\n  RuntimeError: CUDA out of memory\nAction:\n  a smaller batch\n",
    "the report of an incident": f"Postmortem 2026-10-02\n\nImpact: 3 h.\nRoot cause: at 02:14 node-3 printed\n{FALLEN}\nWe replaced it.\n",
    "rules for Loki in JSON": json.dumps({"groups": [{"name": "a", "rules": [{"alert": "A", "expr": "x > 0", "annotations": {"summary": FALLEN}}]}]}),
}  # fmt: skip


@pytest.mark.parametrize("name", SHORT)
def test_a_short_document_is_none_the_less_one(tmp_path, name):
    """Ten lines of source code have few marks: no line of them could be output."""
    (tmp_path / "file").write_text(SHORT[name])
    report = triage([tmp_path])
    assert report.status == "unknown"
    assert len(report.set_aside) == 1


@pytest.mark.parametrize("name", ["kern.log", "README.md", "rules.yaml", "watch.py"])
def test_a_log_is_read_whatever_its_name(tmp_path, name):
    """Content decides."""
    (tmp_path / name).write_text(KERNEL)
    report = triage([tmp_path])
    assert report.verdict.cause == "driver.gpu.fallen-off"
    assert report.set_aside == []


def test_a_log_beside_documents_is_found(tmp_path):
    """A repository with logs in it: the log speaks, the rest does not, in a folder and in an archive."""
    for name, text in DOCUMENTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "rank0.log").write_text(
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.\n"
    )
    packed = tmp_path.parent / f"{tmp_path.name}.tar"
    with tarfile.open(packed, "w") as archive:
        archive.add(tmp_path, "repository")
    for path in (tmp_path, packed):
        report = triage([path])
        assert report.verdict.cause == "workload.cuda.oom"
        assert report.others == []
        assert len(report.set_aside) == len(DOCUMENTS)


XID_LINES = "".join(
    f"[ {at}.000123] NVRM: Xid (PCI:0000:3b:00): 79, pid={at}, name=python, GPU has fallen off the bus.\n"
    for at in (101, 102, 103, 104, 105, 106)
)
GUIDE = f"""\
# Broken GPUs

This guide is about GPUs that fail while a job is running, and about what the people on call do with their nodes.

## A GPU is gone

The driver writes one line for each process that held the GPU, so that a node with many processes prints many of them:

```text
{XID_LINES}```

All of them mean the same. The link to the GPU is down, and nothing but a reset of the machine brings it up again. Drain
the node first, since the other GPUs go on working until then, and their jobs can write a checkpoint.

## What should I do with the node?

Open a case with the vendor and name the serial number. Nodes that lose a GPU twice within a month are replaced.

## Other codes

Codes 13, 31 and 43 come from the program. They need no maintenance, and the job may be started again on the same node.
"""
WITH_I = GUIDE.replace("All of them mean the same.", "I have seen this since the last update of the driver.")
EXPLAINED = {
    "a guide with a run of lines": GUIDE,
    "a guide with questions": GUIDE.replace("## Other codes", "## How can I tell it from a reset?"),
    "a guide with Windows line ends": GUIDE.replace("\n", "\r\n"),
}


@pytest.mark.parametrize("name", EXPLAINED)
def test_a_page_that_explains_what_it_quotes_is_documentation(tmp_path, name):
    """However many lines of a log follow each other in it."""
    (tmp_path / "guide.md").write_bytes(EXPLAINED[name].encode())
    report = triage([tmp_path])
    assert report.status == "unknown"
    assert [each.kind for each in report.set_aside] == ["documentation"]


PASTES = {
    "an issue with its template": "### Your current environment\n\nSee [docs](a) and [more](b).\n\n### 🐛 Describe the bug\n\n```text\n" + FALLEN + "\n```\n",
    "a few words and a fence": "# GPU job dies\n\nAfter the upgrade we see:\n\n```\n" + FALLEN + "\n```\n\n**Any idea?**\n",
    "a page full of log lines": "# Notes\n\nSee [a](b) and [c](d).\n\n## Then\n\n```\n" + KERNEL * 12 + "```\n\n## And\n\nMore.\n",
    "sections of a report": "# Node down\n\n## Environment\n\n`p5.48xlarge`, [AMI](x), [driver](y)\n\n## Logs\n\n```\n" + KERNEL + "```\n\n## What I tried\n\nReboot.\n",
    "a report with many headings, told in the first person": WITH_I,
    "a report that asks": GUIDE + "\nAny idea what to do?\n",
    "a report of what somebody sees": GUIDE.replace("All of them", "We see these on three nodes. All of them"),
    "a report in Chinese": GUIDE.replace("All of them", "我们的节点 All of them"),
    "a page whose log stands between its sentences": GUIDE.replace("```text\n", "").replace("```\n", ""),
    "a page with far more log than words": GUIDE.replace(XID_LINES, XID_LINES * 8),
    "an incident": GUIDE.replace("## Other codes", "## Timeline"),
    "a page with fewer headings": GUIDE.replace("## Other codes", "More:").replace("## What should I do", "What to do"),
    "quoted mail": "> # Hi\n>\n> " + KERNEL,
    "a few words": "Hi, my job fails with:\n" + FALLEN + "\nAny idea?\n",
    "a short script, then what it printed": "import torch\nX_SIZE = 4\ndef f():\n    return 1\nf()\n" + FALLEN + "\n",
    "the last commit, then what the job printed": "commit 0d5e1f2\nAuthor: A <a@b.c>\nDate:   Tue Nov 3\n\n    Fix\n\n" + FALLEN + "\n",
    "one symptom and one action": "Symptom:\n" + FALLEN + "\nAction:\nreboot\n",
    "an incident with its log": "Postmortem\n\n" + KERNEL * 6,
    "a request that failed": json.dumps({"level": "error", "messages": [{"role": "user", "content": "Hi"}], "error": FALLEN}) + "\n",
}  # fmt: skip


@pytest.mark.parametrize("name", PASTES)
def test_a_page_of_somebody_who_needs_help_is_read(tmp_path, name):
    """Markdown around a log does not make it documentation."""
    (tmp_path / "issue.md").write_text(PASTES[name])
    report = triage([tmp_path])
    assert report.verdict is not None, report.set_aside
    assert report.verdict.cause == "driver.gpu.fallen-off"


OUTPUT = {
    "a job that prints its script": PYTHON + "RuntimeError: " + "CUDA out of memory\n",
    "nccl-tests": "# nThread 1 nGpus 8 minBytes 8\n#\n# Using devices\nnode: Test CUDA failure common.cu:941 'x'\n",
    "RAS": "##### text at 08:18:17\nNCCL version 2.28.9 compiled with CUDA 13.0\n\nJob summary\n===========\n",
    "a unit file": "# /etc/systemd/system/x.service\n[Unit]\nDescription=x\n\n[Service]\nExecStart=/bin/x\nRestart=always\n",
    "yaml of an object": "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\nstatus:\n  phase: Failed\n",
    "ethtool": "NIC statistics:\n     rx_packets: 1\n     tx_errors: 9\n",
    "nothing": "",
}


@pytest.mark.parametrize("name", OUTPUT)
def test_output_that_looks_a_little_like_a_document_is_read(name):
    """In doubt a file is read."""
    assert document_in(OUTPUT[name].encode()) is None


HOSTILE = [
    "](",
    "`a",
    "**a",
    "\n",
    "\n ",
    "\r\n",
    "# a\n\n",
    "{{ ",
    '"panels"  ',
    "- - ",
    "a:\n",
    "static a ",
    "{\n",
    "\n}",
    "> > ",
    "a a( ",
    "x, ",
    '"level" ',
    "Symptom:\n",
    "commit 0d5e1f2\n",
]


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_hostile_file_is_told_in_linear_time(piece):
    """A page of blank lines took half a minute once: every mark of every format meets every piece here."""
    marks = "# A\n\n`x` [a](b)\nexpr: x\nscrape_configs:\n.PHONY: x\nid: a.b\npattern: x\ncause: x\njobs:\n{{ x\nFROM x\nfn x\nSymptom: x\n"
    found = document_in((marks + piece * 50_000)[:98_304].encode())
    assert found is None or found.kind == "documentation"


def test_a_large_script_with_output_behind_it_is_read(tmp_path):
    """The beginning is source code; the end, where the fault stands, is not."""
    path = tmp_path / "job.out"
    path.write_text("".join(f"def step{n}():\n    return {n}\n" for n in range(5000)) + "import a\n" + KERNEL)
    assert triage([path]).verdict.cause == "driver.gpu.fallen-off"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ('groups:\n- name: a\n  rules:\n  - alert: A\n    expr: absent(kube_node_status_allocatable{resource="nvidia_com_gpu"})\n', "observability.alert.absent-pitfall"),
        ("global:\n  scrape_interval: 5m\nscrape_configs:\n  - job_name: dcgm\n", "observability.exporter.slow-interval"),
        ("#!/bin/bash\nexport TORCH_NCCL_TRACE_BUFFER_SIZE=0\ntorchrun train.py\n", "observability.flightrecorder.off"),
        ('module "eks" {\n  source = "terraform-aws-modules/eks/aws"\n  node_security_group_enable_recommended_rules = false\n}\n', "infra.securitygroup.recommended-rules-off"),
    ],
)  # fmt: skip
def test_configuration_is_evidence_of_what_is_judged_from_it(tmp_path, text, cause):
    """A rule that never fires is a fault of the rule file; the report says that it was read as configuration."""
    (tmp_path / "file").write_text(text)
    report = triage([tmp_path])
    assert report.verdict.cause == cause
    assert "read as configuration" in report.set_aside[0].why
    assert report.sources[0].kind == report.set_aside[0].kind


def test_our_own_repository_names_no_fault():
    """Cards, signals, pages and source of this project quote every message there is."""
    found = triage([ROOT / "src" / "firstfault" / "catalogue", ROOT / "src" / "firstfault" / "diagnosis"])
    assert found.verdict is None
    assert len(found.set_aside) > 200


def test_what_is_left_out_on_purpose_is_no_failure(tmp_path):
    """A link that leads out, a pipe and the history of a repository are told, and do not count as unreadable."""
    (tmp_path / "a.log").write_text(KERNEL)
    (tmp_path / "out").symlink_to("/etc/hostname")
    history = tmp_path / ".git"
    for name in ("objects", "refs"):
        (history / name).mkdir(parents=True)
    (history / "HEAD").write_text("ref: refs/heads/main\n")
    (history / "COMMIT_EDITMSG").write_text(FALLEN)
    report = triage([tmp_path])
    assert report.problems == []
    assert {Path(item.name).name for item in report.set_aside} == {"out", ".git"}
    assert [Path(item.name).name for item in report.sources] == ["a.log"]


def test_a_stream_is_judged_too():
    """Standard input gets the same look as a file, and can still be read afterwards."""
    assert triage(["-"], stdin=io.BytesIO(README.encode())).set_aside[0].kind == "documentation"
    assert triage(["-"], stdin=io.BytesIO(KERNEL.encode())).verdict.cause == "driver.gpu.fallen-off"


def test_the_text_report_says_what_was_set_aside(tmp_path):
    """A person sees it at the end of the report."""
    (tmp_path / "README.md").write_text(README)
    text = render_triage(triage([tmp_path]), "text")
    assert "Set aside: no run printed it" in text
    assert "a page of documentation (Markdown)" in text
