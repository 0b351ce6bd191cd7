"""The good word of one Pod or node excuses no other, and of the same one only what came before it."""

from __future__ import annotations

import io
import json

import pytest

from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

HEAD = "NAMESPACE  LAST SEEN  TYPE     REASON            OBJECT       MESSAGE\n"
TAINT = "0/1 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: present}."
FULL = "0/8 nodes are available: 8 Insufficient nvidia.com/gpu."


def read(text):
    """The report on one text."""
    return diagnose(scan_sources([Source("events", lambda: io.BytesIO(text.encode()), size=len(text))]))


def failed(pod, message):
    """A row of `kubectl get events`: the scheduler found no node."""
    return f"ml         2m21s      Warning  FailedScheduling  pod/{pod}  {message}\n"


def works(pod):
    """Rows of a Pod that got a node and started."""
    return (
        f"ml         90m        Normal   Scheduled         pod/{pod}  Successfully assigned ml/{pod} to node-9\n"
        f'ml         90m        Normal   Pulled            pod/{pod}  Successfully pulled image "web" in 2s\n'
        f"ml         90m        Normal   Started           pod/{pod}  Started container web\n"
    )


def event(pod, reason, message, time):
    """An Event object."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "type": "Warning" if reason == "FailedScheduling" else "Normal",
        "reason": reason,
        "message": message,
        "involvedObject": {"kind": "Pod", "namespace": "ml", "name": pod},
        "firstTimestamp": time,
        "metadata": {"name": f"{pod}.{reason}", "namespace": "ml"},
    }


@pytest.mark.parametrize(("message", "cause"), [(TAINT, "infra.taint.untolerated"), (FULL, "infra.gpu.exhausted")])
def test_another_pod_that_was_scheduled_excuses_nothing(message, cause):
    """A Pod without a node is as sure a fault beside a Pod that runs as it is alone."""
    alone = read(HEAD + failed("train-0", message))
    beside = read(HEAD + failed("train-0", message) + works("web-7"))
    assert beside.verdict is not None
    assert beside.verdict.cause == cause
    assert beside.verdict.confidence == alone.verdict.confidence
    assert beside.ladder.groups[0].reached == "admitted"


@pytest.mark.parametrize("twice", [False, True])
def test_the_same_pod_that_was_scheduled_later_is_well(twice):
    """What counts is the last word of a Pod, also where the text was pasted twice."""
    text = HEAD + failed("train-0", TAINT) + works("train-0")
    assert read(text * (1 + twice)).status == "healthy"


def test_the_one_pod_of_many_that_got_no_node_is_cited():
    """Among many Pods that waited, the line of the one that still waits is shown."""
    names = [f"train-{number}" for number in range(40)]
    text = HEAD + "".join(failed(name, TAINT) + ("" if name == "train-17" else works(name)) for name in names)
    report = read(text)
    assert report.verdict is not None
    assert report.verdict.cause == "infra.taint.untolerated"
    assert "train-17" in report.verdict.evidence[0].text
    assert read(text + works("train-17")).status == "healthy"


@pytest.mark.parametrize(
    ("pod", "time", "status"),
    [
        ("web-7", "2026-01-01T12:00:00Z", "fault"),
        ("train-0", "2026-01-01T08:00:00Z", "fault"),  # an earlier Pod of that name
        ("train-0", "2026-01-01T12:00:00Z", "healthy"),
    ],
)
def test_event_objects_of_the_same_pod_count_by_their_time(pod, time, status):
    """In `kubectl get events -o json` times tell what came later."""
    events = [
        event("train-0", "FailedScheduling", FULL, "2026-01-01T10:00:00Z"),
        event(pod, "Scheduled", f"Successfully assigned ml/{pod} to node-9", time),
        event(pod, "Started", "Started container web", time),
    ]
    assert read(json.dumps({"apiVersion": "v1", "kind": "List", "items": events}, indent=1)).status == status


def test_an_image_that_another_pod_pulled_excuses_nothing():
    """Pulled of one Pod says nothing about the image of another."""
    row = 'ml         2m   Warning  Failed   pod/train-0  Failed to pull image "reg/x:1": reg/x:1: not found\n'
    assert read(HEAD + row + works("web-7")).verdict.confidence == read(HEAD + row).verdict.confidence


def test_another_node_that_is_ready_excuses_nothing():
    """A node that is not ready stays so beside one that is."""
    head = "NAME    STATUS     ROLES    AGE   VERSION\n"
    bad, good = "node-a  NotReady   <none>   1d    v1.31.0\n", "node-b  Ready      <none>   1d    v1.31.0\n"
    assert read(head + bad).verdict.cause == "infra.node.notready"
    assert read(head + bad + good).verdict.confidence == read(head + bad).verdict.confidence


TABLE = "NAME      READY   STATUS    RESTARTS   AGE\ntrain-0   1/1     Running   0          5h\n"


@pytest.mark.parametrize(
    "status",
    ["0/1     Error", "0/1     Pending", "0/1     Init:0/1", "0/1     Unknown", "0/1     Terminating", "0/1     Running",
     "1/2     NotReady", "0/1     CreateContainerError", "0/1     ContainerCreating"],
)  # fmt: skip
def test_a_pod_that_runs_makes_no_other_one_healthy(status):
    """The table is not healthy: what is wrong with the other Pod is asked for by its name, unless a card knows."""
    assert read(TABLE).status == "healthy"
    report = read(TABLE + f"train-1   {status}     0          5h\n")
    assert report.status in {"unknown", "fault"}
    if report.status == "unknown":
        assert "Pod train-1" in report.missing[0].what
        assert "kubectl describe pod train-1" in report.missing[0].command


def test_last_row_of_a_pod_counts():
    """As `kubectl get pods -w` prints it: a Pod that was starting and runs now is well, the other way round it is not."""
    starting, running = "train-1   0/1     ContainerCreating   0   5s\n", "train-1   1/1     Running   0   9s\n"
    assert read(TABLE + starting + running).status == "healthy"
    assert read(TABLE + running + "train-1   0/1     Error   0   12s\n").status == "unknown"
