"""Logs wrapped by container runtimes, shippers and the journal: what the program printed comes out."""

from __future__ import annotations

import io
import json

import pytest

from firstfault.scan.readers import classify_text, containers, detect_reader
from scan.reading import read, texts

NCCL = "nccl-master-0:730:775 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 - Init START"


def test_cri_lines_lose_their_prefix_and_keep_their_time():
    """Line, offset and time are those of the original."""
    data = f"2024-05-01T12:00:00.5Z stderr F {NCCL}\n2024-05-01T12:00:01.25+00:00 stdout F step 1\n"
    lines = list(containers.CRI.read(io.BytesIO(data.encode()), "0.log"))
    assert [(line.text, line.line, line.offset, line.time) for line in lines] == [
        (NCCL, 1, 0, 1714564800.5),
        ("step 1", 2, data.index("\n") + 1, 1714564801.25),
    ]


def test_cri_without_pieces_is_plain_text():
    """The engine knows the prefix; only lines that were cut need a reader, which is slower."""
    data = b"2024-05-01T12:00:00.5Z stderr F text\n"
    assert detect_reader(data) is None
    assert classify_text(data) == "cri-log"


def test_cri_pieces_are_joined_per_stream():
    """A line that the runtime cut at 16 KiB is one line again, even when the other stream comes between."""
    data = (
        "2024-05-01T12:00:00Z stdout P The client socket has \n"
        "2024-05-01T12:00:00Z stderr F other\n"
        "2024-05-01T12:00:01Z stdout F timed out\n"
        "2024-05-01T12:00:02Z stdout P never ended"
    )
    assert texts(data) == ["other", "The client socket has timed out", "never ended"]


def test_docker_json_is_unescaped_and_joined():
    """Escapes of JSON are taken back, so that patterns see what the program printed."""
    records = [
        {"log": 'say "hi" <tag> \u001b[31mred\n', "stream": "stderr", "time": "2024-05-01T12:00:00.5Z"},
        {"log": "long ", "stream": "stdout", "time": "2024-05-01T12:00:01Z"},
        {"log": "line\n", "stream": "stdout", "time": "2024-05-01T12:00:01Z"},
    ]
    kind, lines = read("\n".join(json.dumps(record, separators=(",", ":")) for record in records) + "\nnot json\n")
    assert kind == "docker-log"
    assert [line.text for line in lines] == ['say "hi" <tag> \x1b[31mred', "long line", "not json"]
    assert lines[0].time == 1714564800.5


@pytest.mark.parametrize(
    ("record", "text", "time", "stream"),
    [
        (
            {"level": "ERROR", "time": "2024-11-12T16:46:59.426Z", "message": "Reconciler error", "commit": "fb4d75f", "error": "no such subnet", "NodeClaim": {"name": "a"}},
            "Reconciler error error=no such subnet level=ERROR NodeClaim.name=a",
            1731430019.426,
            "",
        ),
        ({"level": "info", "ts": 1731914237.25, "msg": "launched"}, "launched level=info", 1731914237.25, ""),
        (
            {"log": NCCL + "\n", "kubernetes": {"namespace_name": "ml", "pod_name": "w-0", "container_name": "main"}, "date": 1714564800.5},
            NCCL,
            1714564800.5,
            "ml/w-0/main",
        ),
        ({"labels": {"namespace": "ml", "pod": "w-1", "container": "c"}, "line": NCCL, "timestamp": "2024-05-01T12:00:00.5Z"}, NCCL, 1714564800.5, "ml/w-1/c"),
        ({"message": f"2024-05-01T12:00:00.5Z stderr F {NCCL}", "@timestamp": "2030-01-01T00:00:00Z"}, NCCL, 1714564800.5, ""),
        ({"message": json.dumps({"msg": "inner", "ts": 1714564800.5}), "host": "node-1"}, "inner", 1714564800.5, "node-1"),
        ({"body": {"stringValue": NCCL}, "timeUnixNano": "1714564800500000000"}, NCCL, 1714564800.5, ""),
    ],
)  # fmt: skip
def test_records_of_loggers_and_shippers(record, text, time, stream):
    """Message first, then the fields of a structured logger; wrappers of shippers vanish."""
    kind, (line,) = read(json.dumps(record) + "\n")
    assert kind == "json-log"
    assert (line.text, line.time, line.stream) == (text, time, stream)


def test_what_passes_messages_on_logs_them_whole():
    event = {
        "agent": "gpu-health-monitor", "isFatal": True, "message": "GPU had an uncontained error (XID 95)",
        "errorCode": ["DCGM_FR_UNCONTAINED_ERROR"], "metadata": {"region": "eu"},
    }  # fmt: skip
    for field, place in (({"HealthEvent": event}, "event.HealthEvent"), ({"events": [event]}, "event.events")):
        record = {"level": "INFO", "msg": "Handling event for ruleset", "event": {"version": 1, **field}}
        _, (line,) = read(json.dumps(record) + "\n")
        assert line.text == (
            f"Handling event for ruleset level=INFO event.version=1 {place}.agent=gpu-health-monitor {place}.isFatal=True "
            f"{place}.message=GPU had an uncontained error (XID 95) {place}.errorCode=DCGM_FR_UNCONTAINED_ERROR"
        )
    _, (line,) = read('{"msg": "found", "node": {"spec": {"cpu": [1, 2], "pool": {"name": "a"}}, "name": "n1"}}\n')
    assert line.text == "found node.name=n1"


@pytest.mark.parametrize("end", ["", ",", '","node":{"name":"a', '","node":{"name":"a"', '","pods":["a"'])
def test_a_record_whose_end_was_cut_off_is_read(end):
    """Pastes end where the terminal did; what stands in the record counts."""
    start = '{"level":"INFO","time":"2024-11-18T07:32:24Z","message":"no node'
    kind, (first, line) = read('{"message":"x"}\n' + start + (end if end.startswith('"') else '"' + end) + "\n")
    assert kind == "json-log"
    assert line.text.startswith("no node")
    assert not line.text.startswith("{")
    assert line.time == 1731915144.0
    assert first.text == "x"


def test_an_error_that_is_an_object_is_shown_with_its_code():
    """Web APIs of clouds answer so; the code says more than the message does."""
    answer = (
        '{"error": {"code": "instance-operations/launch/insufficient-capacity", "message": "Not enough capacity."}}'
    )
    assert texts(answer) == ["Not enough capacity. error.code=instance-operations/launch/insufficient-capacity"]


def test_json_records_among_plain_lines():
    """A controller prints both; prefixes of `kubectl logs --prefix --timestamps` do not hide the record."""
    data = 'I1112 16:46:59 main.go:1] starting\n[pod/karpenter-1/controller] 2024-05-01T12:00:00.1Z {"level":"ERROR","message":"no \\"gpu\\" pool"}\n{broken\n'
    kind, lines = read(data)
    assert kind == "json-log"
    assert [(line.text, line.line) for line in lines] == [
        ("I1112 16:46:59 main.go:1] starting", 1),
        ('no "gpu" pool level=ERROR', 2),
        ("{broken", 3),
    ]
    assert lines[1].stream == "karpenter-1/controller"


@pytest.mark.parametrize(
    "document",
    [
        {"logs": "first\nsecond\n"},
        {"stdout": "first\nsecond\n", "stderr": "", "rc": 1},
        {"id": 7, "result": {"output": "first\nsecond"}},
        [{"line": "second", "timestamp": "1714564802000"}, {"line": "first", "timestamp": "1714564801000"}],
        {"data": [{"id": "a", "attributes": {"message": "first"}}, {"id": "b", "attributes": {"message": "second"}}]},
        {"results": [{"_raw": "first"}, {"_raw": "second"}, {"_raw": ""}]},
    ],
    ids=["ray", "command", "nested", "grafana", "datadog", "splunk"],
)
def test_a_log_within_a_document_on_one_line(document):
    """What holds a log is read line by line, in order of time where it tells one."""
    _, lines = read(json.dumps(document) + "\n")
    assert [line.text for line in lines] == ["first", "second"]
    assert lines[0].place != lines[1].place or lines[1].place is not None


def test_pretty_printed_records():
    """`kubectl logs … | jq` prints one record over many lines."""
    data = 'before\n{\n  "message": "initiating delete",\n  "messageKind": "spot_interrupted",\n  "Node": {\n    "name": "n1"\n  }\n}\n{\n  "no": 1\n}\n'
    assert texts(data) == [
        "before",
        "initiating delete messageKind=spot_interrupted Node.name=n1",
        "{",
        '  "no": 1',
        "}",
    ]


def test_a_large_plain_log_with_one_record_is_plain():
    """Decoding costs time: a log that is mostly text goes to the fast engine."""
    data = b'{"message": "x"}\n' + b"step 1 loss 2\n" * 10_000
    assert read(data)[0] is None


def test_messages_of_several_lines_come_out_line_by_line():
    """A traceback in one field is many lines at one place."""
    data = json.dumps({"message": "Traceback (most recent call last):\n  File x\nValueError: no"}) + "\n"
    _, lines = read(data)
    assert [line.text for line in lines] == ["Traceback (most recent call last):", "  File x", "ValueError: no"]
    assert {line.line for line in lines} == {1}


EXPORTS = {
    "loki": {"status": "success", "data": {"resultType": "streams", "result": [
        {"stream": {"namespace": "ml", "pod": "w-0"}, "values": [["1714564802000000000", "second"], ["1714564801000000000", "first"]]},
    ]}},
    "cloudwatch": {"events": [
        {"timestamp": 1714564802000, "message": "second", "ingestionTime": 1, "logStreamName": "ml/w-0"},
        {"timestamp": 1714564801000, "message": "first", "ingestionTime": 1, "logStreamName": "ml/w-0"},
    ]},
    "subscription": {"messageType": "DATA_MESSAGE", "logStream": "ml/w-0", "logEvents": [
        {"id": "1", "timestamp": 1714564801000, "message": "first"}, {"id": "2", "timestamp": 1714564802000, "message": "second"},
    ]},
    "insights": {"results": [
        [{"field": "@timestamp", "value": "2024-05-01 12:00:02.000"}, {"field": "@message", "value": "second"}, {"field": "@logStream", "value": "ml/w-0"}, {"field": "@ptr", "value": "x"}],
        [{"field": "@timestamp", "value": "2024-05-01 12:00:01.000"}, {"field": "@message", "value": "first"}, {"field": "@logStream", "value": "ml/w-0"}, {"field": "@ptr", "value": "x"}],
    ]},
    "elastic": {"hits": {"hits": [
        {"_source": {"@timestamp": "2024-05-01T12:00:01Z", "message": "first", "kubernetes": {"namespace": "ml", "pod": {"name": "w-0"}}}},
        {"_source": {"@timestamp": "2024-05-01T12:00:02Z", "message": "second", "kubernetes": {"namespace": "ml", "pod": {"name": "w-0"}}}},
    ]}},
    "google": [
        {"textPayload": "first", "timestamp": "2024-05-01T12:00:01Z", "resource": {"labels": {"namespace_name": "ml", "pod_name": "w-0"}}},
        {"textPayload": "second", "timestamp": "2024-05-01T12:00:02Z", "resource": {"labels": {"namespace_name": "ml", "pod_name": "w-0"}}},
    ],
    "opentelemetry": {"resourceLogs": [{"scopeLogs": [{"logRecords": [
        {"timeUnixNano": "1714564801000000000", "body": {"stringValue": "first"}}, {"timeUnixNano": "1714564802000000000", "body": {"stringValue": "second"}},
    ]}]}]},
}  # fmt: skip


@pytest.mark.parametrize("backend", EXPORTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_exports_of_log_backends_come_out_in_order_of_time(backend, indent):
    """Loki and CloudWatch hand out the newest line first; the reader turns that round."""
    kind, lines = read(json.dumps(EXPORTS[backend], indent=indent))
    assert kind in {"log-export", "json-log"}
    assert [(line.text, line.time) for line in lines] == [("first", 1714564801.0), ("second", 1714564802.0)]
    if backend != "opentelemetry":
        assert {line.stream for line in lines} == {"ml/w-0"}


def test_dmesg_json():
    """`dmesg --json`: kernel lines look like those of the journal."""
    kind, lines = read(
        json.dumps({"dmesg": [{"pri": 3, "time": 12.5, "msg": "NVRM: Xid (PCI:0000:07:00): 79"}]}, indent=3)
    )
    assert kind == "log-export"
    assert [(line.text, line.time) for line in lines] == [("kernel: NVRM: Xid (PCI:0000:07:00): 79", None)]


def test_journal_json():
    """`journalctl -o json`: identifier before the message, host as stream; kernel lines look like kernel lines."""
    entries = [
        {"__REALTIME_TIMESTAMP": "1714564801000000", "MESSAGE": "NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.", "_TRANSPORT": "kernel", "_HOSTNAME": "n1", "SYSLOG_IDENTIFIER": "kernel"},
        {"__REALTIME_TIMESTAMP": "1714564802000000", "MESSAGE": [110, 111], "SYSLOG_IDENTIFIER": "kubelet", "_PID": "7", "_HOSTNAME": "n1"},
        {"__REALTIME_TIMESTAMP": "1714564802000000", "MESSAGE": None},
    ]  # fmt: skip
    kind, lines = read("\n".join(map(json.dumps, entries)))
    assert kind == "journal"
    assert [(line.text, line.time, line.stream) for line in lines] == [
        ("kernel: NVRM: Xid (PCI:0000:07:00): 79, GPU has fallen off the bus.", 1714564801.0, "n1"),
        ("kubelet[7]: no", 1714564802.0, "n1"),
    ]


def test_journal_export():
    """`journalctl -o export`, with a binary field that holds line feeds."""
    data = (
        b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1714564801000000\n_HOSTNAME=n1\nSYSLOG_IDENTIFIER=nv\n_PID=9\n"
        b"MESSAGE\n" + (9).to_bytes(8, "little") + b"one\ntwo=3\n\n"
        b"__CURSOR=s=2\n__REALTIME_TIMESTAMP=1714564802000000\nMESSAGE=last"
    )
    kind, lines = read(data)
    assert kind == "journal"
    assert [(line.text, line.time) for line in lines] == [
        ("nv[9]: one", 1714564801.0),
        ("nv[9]: two=3", 1714564801.0),
        ("last", 1714564802.0),
    ]
