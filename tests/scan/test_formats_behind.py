"""A format that begins behind a banner is read as what it is, at the same cost for any size."""

from __future__ import annotations

import io
import json
import re

import pytest

from firstfault.catalogue import load_catalogue
from firstfault.scan import scan
from firstfault.scan.readers import detect_source
from firstfault.scan.readers.behind import WINDOW, later_windows

BANNER = "* Welcome to the cluster: please read the acceptable use policy carefully, thank you all. *\n"
SHORT, LONG = BANNER * 130, BANNER * 1200
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PENDING = "0/4 nodes are available: 4 Insufficient nvidia.com/gpu."
WHEN = "2024-01-01T00:00:00.000000000Z"


def pod(number):
    """A Pod that waits for a GPU."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": PENDING}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{number}", "namespace": "t"},
        "status": {"phase": "Pending", "conditions": [condition]},
    }


def records(**last):
    """Lines of JSON."""
    many = [json.dumps({"ts": 1700000000 + number, "level": "info", "msg": f"step {number}"}) for number in range(3000)]
    return "\n".join([*many, json.dumps({"ts": 1700009999, "level": "error", **last})]) + "\n"


LINES = {
    "kernel": "".join(f"[{number:5d}.123456] usb 1-1: new device {number}\n" for number in range(3000)),
    "json-log": records(msg="rank 3 died\n" + OOM),
    "cri-log": "".join(f"{WHEN} stdout F step {number}\n" for number in range(3000))
    + f"{WHEN} stderr P torch.OutOfMemoryError: CUDA out \n{WHEN} stderr F of memory. Tried\n",
}
DOCUMENTS = {
    "kubernetes": json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod(n) for n in range(200)]}, indent=1),
    "kubernetes on one line": json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod(n) for n in range(300)]}),
    "kubernetes in YAML": "".join(
        f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: p{n}\nstatus:\n  phase: Pending\n  reason: x\n---\n" for n in range(900)
    ),
    "kubectl-events": "LAST SEEN   TYPE      REASON             OBJECT        MESSAGE\n"
    + "5m          Normal    Pulled             pod/a         Container image already present on machine\n" * 1000
    + f"5m          Warning   FailedScheduling   pod/train-0   {PENDING}\n",
    "kubectl-describe": "Name:             w\nNamespace:        train\nStatus:           Running\nEvents:           <none>\n\n" * 1000,
}  # fmt: skip


def kind_of(tmp_path, text):
    """What a file with this text is taken for."""
    path = tmp_path / "x.log"
    path.write_text(text)
    return scan([path]).sources[0].kind


@pytest.mark.parametrize("banner", [SHORT, LONG], ids=["within the head", "longer than the head"])
@pytest.mark.parametrize("kind", LINES)
def test_formats_of_lines_behind_any_banner(tmp_path, kind, banner):
    """Middle and end of a file say what most of it is."""
    assert kind_of(tmp_path, banner + LINES[kind]) == kind


@pytest.mark.parametrize("banner", [SHORT, LONG], ids=["within the head", "longer than the head"])
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_behind_a_banner(tmp_path, name, banner):
    """The warnings of a tool may fill a screen, or a thousand, before its answer comes."""
    assert kind_of(tmp_path, banner + DOCUMENTS[name]) == name.split()[0]


@pytest.mark.parametrize("banner", [SHORT, LONG], ids=["within the head", "longer than the head"])
def test_the_facts_of_a_document_behind_a_banner_are_read(tmp_path, banner):
    """The first object too, with the line at which it stands."""
    path = tmp_path / "x.yaml"
    path.write_text(banner + DOCUMENTS["kubernetes in YAML"].replace("reason: x", f"message: {PENDING}", 1))
    found = [item for item in scan([path]).observations if "Insufficient" in item.text]
    assert found
    assert found[0].line == banner.count("\n") + 7


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_log_with_a_document_behind_it_keeps_its_lines(tmp_path, name):
    """Somebody appended what kubectl said: the log's own fault is still the first."""
    path = tmp_path / "x.log"
    path.write_text(STEPS + f"[rank0]: {OOM}\n" + DOCUMENTS[name])
    result = scan([path])
    assert result.sources[0].kind == name.split()[0]
    assert any(item.text == f"[rank0]: {OOM}" for item in result.observations)


def test_a_stream_is_judged_by_its_head():
    """Standard input cannot be looked into further on, so a banner within the head is what can be seen through."""
    result = scan(["-"], stdin=io.BytesIO((SHORT + LINES["json-log"]).encode()))
    assert result.sources[0].kind == "json-log"
    assert any("CUDA out of memory" in item.text and not item.text.startswith("{") for item in result.observations)


STEPS = "".join(f"step {number} loss 0.{number}\n" for number in range(9000))


@pytest.mark.parametrize(
    "quoted",
    [
        "NAME      READY   STATUS    RESTARTS   AGE\ntrain-0   1/1     Running   0          5m\n",
        json.dumps(pod(1), indent=1) + "\n",
        json.dumps({"msg": "one record", "ts": 1}) + "\n",
        "LAST SEEN   TYPE      REASON\n5m   Normal   Pulled   pod/a   x\n",
        "Name:             w\nNamespace:        train\n",
    ],
)
def test_a_log_that_quotes_a_format_stays_a_log(tmp_path, quoted):
    """Reading gigabytes record by record because of one table would be slow, and wrong."""
    assert kind_of(tmp_path, SHORT + quoted + STEPS) == "log"


def test_the_look_ahead_costs_the_same_for_any_size():
    """Three windows, however long the source is."""
    read = []

    class Counted(io.BytesIO):
        def read(self, size=-1):
            data = super().read(size)
            read.append(len(data))
            return data

    text = (LONG * 30).encode()
    assert len(later_windows(text[:65536], Counted(text), len(text))) == 3
    assert read == [WINDOW, WINDOW]
    assert detect_source(text[:1000]) == (None, "log")


KERNEL_ONLY = [
    (f"{card.id}/{signature.id}", sample.text)
    for card in load_catalogue().cards.values()
    for signature in card.signatures
    if signature.kinds == ["kernel"]
    for sample in signature.samples
]


@pytest.mark.parametrize(("key", "line"), KERNEL_ONLY)
def test_a_kernel_line_counts_wherever_it_stands(tmp_path, key, line):
    """A job's log with the kernel's lines behind it: what a line is does not depend on how the file began."""
    path = tmp_path / "x.log"
    # Some samples are shortened; the kernel prints six digits (and no link counts at boot).
    path.write_text(STEPS + re.sub(r"^\[ *\d+\.\d+\]", "[ 8914.200000]", line) + "\n")
    assert key in {item.signature for item in scan([path]).observations}
