"""Logs that a backend saved as CSV are read as the log that they hold, in order of time."""

from __future__ import annotations

import csv
import io

import pytest

from firstfault.scan.readers import csv_export
from firstfault.scan.set_aside import document_in
from scan.reading import read, texts

TRACEBACK = 'Traceback (most recent call last):\n  File "/opt/train.py", line 8, in <module>\nRuntimeError: "x", y'


def table(*rows: list[str], quoting: int = csv.QUOTE_MINIMAL, delimiter: str = ",") -> str:
    """Return rows as a program writes them."""
    text = io.StringIO()
    csv.writer(text, quoting=quoting, delimiter=delimiter).writerows(rows)
    return text.getvalue()


@pytest.mark.parametrize(
    ("header", "row"),
    [
        pytest.param(["Time", "Line", "tsNs", "id"], lambda n, text: [str(n), text, f"171456480{n}000000000", f"{n}_a"], id="grafana"),
        pytest.param(["@timestamp", "@message", "@logStream"], lambda n, text: [f"2024-05-01 12:00:0{n}.000", text, "w-0"], id="insights"),
        pytest.param(["Date", "Host", "Service", "Content"], lambda n, text: [f"2024-05-01T12:00:0{n}.000Z", "n1", "train", text], id="datadog"),
        pytest.param(["_id", "@timestamp", "message"], lambda n, text: ["x", f"May 1, 2024 @ 12:00:0{n}.000", text], id="kibana"),
        pytest.param(["_raw", "_time", "host"], lambda n, text: [text, f"2024-05-01T12:00:0{n}.000+0000", "n1"], id="splunk"),
        pytest.param(["insertId", "jsonPayload.message", "textPayload", "timestamp"], lambda n, text: ["i", "", text, f"2024-05-01T12:00:0{n}Z"], id="google"),
    ],
)  # fmt: skip
def test_newest_first_is_put_right(header, row):
    """Messages come out oldest first, those of several lines line by line, without what stands beside them."""
    data = table(header, row(3, "third"), row(2, TRACEBACK), row(1, "first, with a comma"))
    kind, lines = read(data)
    assert kind == "log-export"
    assert [line.text for line in lines] == ["first, with a comma", *TRACEBACK.split("\n"), "third"]
    assert [line.place for line in lines] == [1, 2, 3, 4, 5]


def test_lines_are_those_of_the_file():
    """A line within a quoted message bears its own number and offset."""
    data = table(["timestamp", "message"], ["2024-05-01T12:00:00Z", TRACEBACK], ["2024-05-01T12:00:01Z", "end"])
    lines = read(data)[1]
    assert [(line.text, line.line) for line in lines][2:] == [('RuntimeError: "x", y', 4), ("end", 5)]
    assert data.encode()[lines[-1].offset :].startswith(b"2024-05-01T12:00:01Z,end")
    assert lines[-1].time == 1714564801


def test_equal_times_are_turned_round_with_all_others():
    """A backend that hands out the newest first hands out lines of the same second in that order, too."""
    stamp = "2024-05-01 12:00:0{}"
    rows = [[stamp.format(second), text] for second, text in ((2, "d"), (1, "c"), (1, "b"), (0, "a"))]
    assert texts(table(["timestamp", "message"], *rows)) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("newest_first", [True, False])
def test_an_export_too_large_to_sort_keeps_its_direction(monkeypatch, newest_first):
    """Places count down where the newest comes first, without all rows in memory."""
    monkeypatch.setattr(csv_export, "MOST_KEPT", 10_000)
    rows = [[f"2024-05-01 12:{minute:02}:00", f"a{minute}\nb{minute}"] for minute in range(60)]
    lines = read(table(["timestamp", "message"], *(rows[::-1] if newest_first else rows)))[1]
    ordered = sorted(lines, key=lambda line: line.place)
    assert [line.text for line in ordered] == [f"{letter}{minute}" for minute in range(60) for letter in "ab"]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(delimiter):
    """Spreadsheets of some countries want semicolons, and say so in a line of their own."""
    data = f"\ufeffsep={delimiter}\r\n" + table(["time", "log"], ["2024-05-01 12:00:00", "a;b"], delimiter=delimiter)
    assert texts(data) == ["a;b"]


def test_commas_without_quotes():
    """A message in the last column may have commas that nobody quoted; what follows it stays with it."""
    data = "time,level,msg\n2024-05-01 12:00:01,INFO,step 1, loss 2\nsecond line\n2024-05-01 12:00:00,INFO,begin\n"
    assert texts(data) == ["begin", "step 1, loss 2", "second line"]


def test_a_quote_that_never_closes(monkeypatch):
    """It swallows no more than the longest row, and its lines are not lost."""
    monkeypatch.setattr(csv_export, "LONGEST_ROW", 200)
    data = 'time,message\n2024-05-01 12:00:00,begin\n2024-05-01 12:00:01,"open' + "\nnoise" * 50
    assert texts(data)[0] == "begin"
    assert texts(data).count("noise") == 50


@pytest.mark.parametrize(
    "data",
    [
        "timestamp,gpu_util,memory_used\n2024-05-01 12:00:00,99,70000\n",
        "step one\nstep two\n",
        "time,message\n",
        "log\n",
        "Hello, message\nfoo\n",
    ],
)
def test_other_tables_and_texts_are_none(data):
    """Measurements, prose and a header alone are no log export."""
    assert read(data)[0] is None


@pytest.mark.parametrize(
    "data",
    [
        "severity,status,alertname,summary\ncritical,firing,Xid,GPU has fallen off the bus\n",
        'State,Name,Labels,Annotations\r\nNormal,"Xid 79",severity=critical,"summary=GPU has fallen off the bus"\r\n',
        'Status,Severity,Name\nOK,high,"CUDA out of memory"\n',
    ],
)
def test_a_list_of_alerts_is_set_aside(data):
    """Names and summaries of alerts quote what they would fire on."""
    document = document_in(data.encode())
    assert document is not None
    assert document.kind == "alerts"


def test_a_log_with_severities_is_not_set_aside():
    """Severity and status beside a message are columns of a log."""
    assert document_in(b"timestamp,severity,status,message\n2024-05-01 12:00:00,ERROR,error,x\n") is None
