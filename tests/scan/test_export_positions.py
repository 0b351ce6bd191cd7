"""Where a line out of a log backend's export stands: the number of its record, and the message's own place."""

from __future__ import annotations

import json

import pytest

from firstfault import triage
from firstfault.report import render_triage
from firstfault.scan import scan

FALLEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus: \u00e9\t\"x\""
SECOND = 10**9
START = 1_700_000_000


def loki(newest_first=True):
    """Two streams, forty lines each, the newest first as Loki gives them; the fault is the third of the second."""
    streams = []
    for pod in ("a", "b"):
        values = [[str((START + number) * SECOND), f"step {number} of {pod}"] for number in range(40)]
        if pod == "b":
            values[37][1] = FALLEN
        streams.append({"stream": {"pod": pod}, "values": values[::-1] if newest_first else values})
    return {"status": "success", "data": {"resultType": "streams", "result": streams}}


def cloudwatch():
    """Forty events; the fault is the thirtieth."""
    events = [{"timestamp": (START + n) * 1000, "message": f"step {n}", "logStreamName": "a"} for n in range(40)]
    events[29]["message"] = FALLEN
    return {"events": events}


EXPORTS = {"loki": (loki(), 43), "loki, oldest first": (loki(newest_first=False), 78), "cloudwatch": (cloudwatch(), 30)}


@pytest.mark.parametrize("indent", [None, 1], ids=["on one line", "pretty"])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("name", EXPORTS)
def test_entry_line_and_offset_lead_to_the_message(tmp_path, name, ascii_only, indent):
    """What the report says is where the message stands in the file, byte for byte."""
    value, entry = EXPORTS[name]
    path = tmp_path / "export.json"
    path.write_text("\n" + json.dumps(value, indent=indent, ensure_ascii=ascii_only), "utf-8")
    report = triage([path])
    (cited,) = [item for item in report.verdict.evidence if item.role == "root"]
    assert cited.entry == entry
    data = path.read_bytes()
    assert data[cited.offset :].startswith(b"NVRM: Xid (PCI:0000:3b:00): 79")
    assert cited.line == data[: cited.offset].count(b"\n") + 1
    assert cited.time.startswith("2023-11-14T22:")
    assert f"export.json entry {entry} (line {cited.line})" in report.verdict.summary
    assert f"entry {entry} (line {cited.line}) at 2023-11-14T22:" in render_triage(report, "text")


def test_records_are_numbered_over_all_documents_of_a_file(tmp_path):
    """Pages of an answer, one behind the other."""
    first = {"events": [{"timestamp": START * 1000, "message": "step 1"}] * 5}
    path = tmp_path / "pages.json"
    path.write_text(json.dumps(first) + "\n" + json.dumps(cloudwatch()) + "\n")
    (cited,) = [item for item in triage([path]).verdict.evidence if item.role == "root"]
    assert (cited.entry, cited.line) == (35, 2)


def test_the_order_of_time_decides_what_came_before(tmp_path):
    """An allocation that failed and was survived: newest first in the file, yet nothing is wrong at the end."""
    lines = ["NCCL INFO socketPollConnect: connect to 10.0.0.1<1> returned Connection refused, retrying (1/34)"]
    lines = [
        f"h:1:1 [0] {lines[0]}",
        "h:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 - Init COMPLETE",
        "step 1 loss 0.1",
        "Training completed",
    ]
    values = [[str((START + number) * SECOND), text] for number, text in enumerate(lines)]
    for name, order in (("newest.json", values[::-1]), ("oldest.json", values)):
        document = {"data": {"resultType": "streams", "result": [{"stream": {}, "values": order}]}}
        (tmp_path / name).write_text(json.dumps(document))
        assert triage([tmp_path / name]).status == "healthy"


def test_a_message_that_is_not_there_as_it_is_has_a_number_only(tmp_path):
    """A record within a record was unwrapped: its entry is known, its place in the file is not claimed."""
    events = [
        {"timestamp": START * 1000, "message": "x"},
        {"timestamp": START * 1000, "message": json.dumps({"log": FALLEN})},
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"events": events, "logStreamName": "a"}).replace("NVRM", "\\u004eVRM"))
    (cited,) = [item for item in triage([path]).verdict.evidence if item.role == "root"]
    assert (cited.entry, cited.line, cited.offset) == (2, None, None)
    assert "entry 2." in triage([path]).verdict.summary


def test_the_last_of_equal_lines_is_the_last_in_time(tmp_path):
    """A document that has the newest line first: the same fault three times is cited as first and last by time."""
    value = loki()
    for values in (stream["values"] for stream in value["data"]["result"]):
        for number in (5, 20, 35):
            values[number][1] = FALLEN
    path = tmp_path / "export.json"
    path.write_text(json.dumps(value, indent=1), "utf-8")
    found = [item for item in scan([path]).observations if item.signature.startswith("driver.gpu.fallen-off/")]
    by_stream = {stream: [item.order for item in found if item.stream == stream] for stream in ("a", "b")}
    for stream, places in by_stream.items():
        times = [item.time for item in found if item.stream == stream]
        assert places == sorted(places)
        assert max(times) - min(times) > 25, stream
