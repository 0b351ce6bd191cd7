"""The drills' own name server, small cluster, kernel-log reader and file skeleton."""

from __future__ import annotations

import json
import os
import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from firstfault.drills import lint_scenario, new_scenario
from firstfault.drills.everything import left_out
from firstfault.drills.injectors import INJECTORS
from firstfault.drills.minicluster import MiniCluster, amount, healthy_node
from firstfault.drills.nameserver import Misanswer, NameServer
from firstfault.drills.observe import _gpu_lines
from firstfault.drills.scenario import find_scenario
from firstfault.drills.tail import step_seconds
from firstfault.errors import InputError, UsageError

QUESTION = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x06master\x02ml\x00\x00\x01\x00\x01"


@pytest.fixture
def names():
    """A name server on loopback that knows one name, and a way to ask it."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    address = sock.getsockname()
    server = NameServer(sock, {"master.ml": "10.0.0.7"})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        asker.settimeout(10)

        def ask(question=QUESTION):
            asker.sendto(question, address)
            return asker.recv(512)

        yield server, ask
    server.close()


def test_name_is_answered(names):
    """Same id, no error, one answer, the address."""
    _, ask = names
    reply = ask()
    assert reply[:2] == b"\x12\x34"
    assert reply[3] & 15 == 0
    assert reply.endswith(socket.inet_aton("10.0.0.7"))


def test_name_is_answered_wrongly_and_rightly_again(names):
    """No such name; another address; the true one."""
    server, ask = names
    server.set("master.ml", Misanswer())
    assert ask()[3] & 15 == 3
    server.set("master.ml", Misanswer(address="10.9.9.9"))
    assert ask().endswith(socket.inet_aton("10.9.9.9"))
    server.set("master.ml", Misanswer(delay_s=0.01))
    assert ask().endswith(socket.inet_aton("10.0.0.7"))
    server.set("master.ml", None)
    assert ask().endswith(socket.inet_aton("10.0.0.7"))


def test_other_questions_get_no_address(names):
    """An AAAA question for a name that exists: no error and no answer."""
    _, ask = names
    reply = ask(QUESTION[:-4] + b"\x00\x1c\x00\x01")
    assert (reply[3] & 15, reply[7]) == (0, 0)


def cluster(command, *, node=None, policy="Never"):
    """A small cluster with one Pod, run to its end."""
    pod = {
        "name": "trainer-0",
        "command": [sys.executable, "-c", command],
        "limits": {"ephemeral-storage": "60Gi", "nvidia.com/gpu": "1"},
        "restartPolicy": policy,
    }
    return MiniCluster(node or healthy_node(), pod)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"allocatable": {"nvidia.com/gpu": "0"}}, "1 Insufficient nvidia.com/gpu"),
        ({"allocatable": {"ephemeral-storage": "18Gi"}}, "1 Insufficient ephemeral-storage"),
        ({"taints": [{"key": "gpu", "value": "x"}]}, "1 node(s) had untolerated taint {gpu: x}"),
    ],
)
def test_scheduler_refuses_in_its_own_words(change, words):
    """The Pod stays Pending, and an event says why."""
    node = healthy_node()
    node["status"]["allocatable"] |= change.get("allocatable", {})
    node["spec"]["taints"] += change.get("taints", [])
    with cluster("", node=node) as small:
        assert small.run() == "Pending"
        assert f"0/1 nodes are available: {words}." in small.events[-1]["message"]


def test_kubelet_runs_restarts_and_reports():
    """Exit codes are real, restarts are counted, and the log of the instance before is kept."""
    with cluster("print('ok')") as small:
        assert small.run() == "Succeeded"
    with cluster("import os; os.kill(os.getpid(), 9)") as small:
        assert small.run() == "Failed"
        assert small.pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137
    with cluster("print('boom'); raise SystemExit(3)", policy="Always") as small:
        assert small.run() == "Running"
        status = small.pod["status"]["containerStatuses"][0]
        assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
        assert status["lastState"]["terminated"]["exitCode"] == 3
        server = small.kubeconfig()["clusters"][0]["cluster"]["server"]
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        log = opener.open(f"{server}/api/v1/namespaces/training/pods/trainer-0/log?previous=true").read()
        assert log == b"boom\n"
        pods = json.load(opener.open(f"{server}/api/v1/namespaces/training/pods"))
        assert pods["items"][0]["metadata"]["name"] == "trainer-0"


def test_quantities():
    """As Kubernetes writes them."""
    assert [amount(text) for text in ("2", "500m", "1Ki")] == [2.0, 0.5, 1024.0]


def test_kernel_log_lines_of_the_driver_alone(tmp_path):
    """Records are told apart and shown as dmesg does; others are left out."""
    read, write = os.pipe2(os.O_NONBLOCK)
    os.write(write, b"3,811,7038828763,-;NVRM: Xid (PCI:0000:00:1e): 79\n SUBSYSTEM=pci\n")
    assert _gpu_lines_of(read, write) == ["[ 7038.828763] NVRM: Xid (PCI:0000:00:1e): 79"]
    os.close(read)
    assert not list(tmp_path.iterdir())


def _gpu_lines_of(read, write):
    found = _gpu_lines(read)
    os.close(write)
    return found


def test_step_seconds_leave_the_first_out(tmp_path):
    """The first step makes connections; nothing printed is None."""
    assert step_seconds(tmp_path) is None
    lines = [f"[rank 0] iter {i} sum-first=3.0 seconds={s}" for i, s in enumerate((9.0, 0.1, 0.3))]
    (tmp_path / "rank-0.log").write_text("\n".join(lines) + "\n")
    assert step_seconds(tmp_path) == pytest.approx(0.2)


def test_new_scenario_is_valid_and_never_overwrites(tmp_path):
    """What `drill new` writes has nothing to say to lint."""
    path = tmp_path / "mine.yaml"
    new_scenario(path)
    assert lint_scenario(path) == []
    with pytest.raises(InputError, match="exists"):
        new_scenario(path)
    with pytest.raises(UsageError, match="not a name"):
        new_scenario(tmp_path / "My Drill.yml")


def test_left_out_has_its_reason():
    """What a machine without GPU does not run, and what `--all` never runs."""
    assert "GPU" in left_out(find_scenario("cuda-oom"), "gloo")
    assert "two GPUs" in left_out(find_scenario("two-gpus-one-node"), "gloo")
    assert "--allow-kernel-log" in left_out(find_scenario("kmsg-xid-sensor"), "gloo")
    assert left_out(find_scenario("sg-block"), "gloo") == ""
    assert "launcher" in left_out(find_scenario("env-missing"), "gloo", "torchrun")
    assert left_out(find_scenario("env-missing"), "gloo", "direct") == ""


def test_programs_ship_with_their_records():
    """A replay names the source of every record."""
    programs = Path(sys.modules["firstfault.drills.minicluster"].__file__).parent / "programs"
    records = json.loads((programs / "vllm_records.json").read_text())
    assert all(each["source"].startswith("vLLM") and "https://" in each["source"] for each in records.values())


def test_the_example_of_the_docs_is_valid(tmp_path):
    """A scenario written from the page alone has nothing to say to lint, and every kind of injection is on the page."""
    page = (Path(__file__).parents[2] / "docs" / "scenarios.md").read_text()
    path = tmp_path / "no-vpc-rule.yaml"
    path.write_text(page.split("```yaml\n")[1].split("```")[0])
    assert lint_scenario(path) == []
    assert [kind for kind in (str(each.__struct_config__.tag) for each in INJECTORS) if f"`{kind}`" not in page] == []
