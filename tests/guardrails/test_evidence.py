"""The collector uploads once for each new XID and once when the node leaves, and not for an old log."""

from __future__ import annotations

import os
import subprocess

import pytest
import yaml

from firstfault.guardrails import Options, render

XID = "[Mon Nov 30] NVRM: Xid (PCI:0000:00:1e): 79, pid=1, GPU has fallen off the bus."
STUBS = {
    # chroot ROOT dmesg -T | nvidia-smi -q | dcgmi diag -r 1
    "chroot": '#!/bin/sh\ncase "$2" in dmesg) cat "$STATE/log";; *) echo "$2 says";; esac\n',
    "curl": '#!/bin/sh\ncat "$STATE/node"\n',
    "aws": '#!/bin/sh\n[ -e "$STATE/refuse" ] && exit 1\nls "$5" | tr "\\n" " " >> "$STATE/uploads"\necho "$6" >> "$STATE/uploads"\n',
    # Each sleep is one turn of the loop; the steps of a test stand in files named by their number.
    "sleep": (
        '#!/bin/sh\nn=$(cat "$STATE/turn"); n=$((n + 1)); echo $n > "$STATE/turn"\n'
        '[ -e "$STATE/step.$n" ] && . "$STATE/step.$n"\n[ $n -lt 5 ] || kill "$PPID"\n'
    ),
}


@pytest.fixture
def collect(tmp_path):
    """Run five turns of the script's loop; return the uploads."""
    objects = yaml.safe_load_all(
        render(Options(cluster="gpu", evidence_bucket="evidence"), ["evidence"]).files[
            "components/evidence/evidence.yaml"
        ]
    )
    script = next(o for o in objects if o and o["kind"] == "ConfigMap")["data"]["collect.sh"]
    (tmp_path / "collect.sh").write_text(script)
    for name, text in STUBS.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)

    def run(log="", node='{"spec": {}}', **steps):
        (tmp_path / "turn").write_text("0")
        (tmp_path / "log").write_text(log)
        (tmp_path / "node").write_text(node)
        for name, commands in steps.items():
            (tmp_path / name.replace("step", "step.")).write_text(commands)
        environment = {
            "PATH": f"{tmp_path}:{os.environ['PATH']}", "STATE": str(tmp_path), "NODE_NAME": "gpu-1", "BUCKET": "b", "CLUSTER": "gpu",
        }  # fmt: skip
        subprocess.run(["sh", tmp_path / "collect.sh"], env=environment, capture_output=True, timeout=60, check=False)
        uploads = tmp_path / "uploads"
        return uploads.read_text().splitlines() if uploads.exists() else []

    return run


def test_a_quiet_node_uploads_nothing(collect):
    """Other kernel lines come and go."""
    assert collect(log="[Mon] eth0: link up\n", step2='echo more >> "$STATE/log"\n') == []


def test_a_new_xid_is_uploaded_once(collect):
    """With log, nvidia-smi and dcgmi, under cluster, node and time."""
    uploads = collect(step2=f"echo '{XID}' >> \"$STATE/log\"\n")

    assert len(uploads) == 1
    assert uploads[0].startswith("dcgmi.txt dmesg.txt nvidia-smi.txt s3://b/gpu/gpu-1/")
    assert uploads[0].endswith("-xid/")


def test_an_xid_before_the_start_is_uploaded_too(collect):
    """The collector may start after the fault."""
    assert len(collect(log=XID + "\n")) == 1


def test_a_second_xid_is_another_upload(collect):
    """The same code again counts."""
    assert len(collect(log=XID + "\n", step3=f"echo '{XID}' >> \"$STATE/log\"\n")) == 2


@pytest.mark.parametrize(
    "node", ['{"spec": {"unschedulable": true}}', '{"taints": [{"key": "karpenter.sh/disrupted"}]}']
)
def test_a_node_that_leaves_uploads_once(collect, node):
    """Cordoned by hand, or about to be replaced."""
    uploads = collect(node=node)

    assert len(uploads) == 1
    assert uploads[0].endswith("-leaving/")


def test_a_refused_upload_is_tried_again(collect):
    """Evidence must not be lost to a right that comes a moment later."""
    uploads = collect(log=XID + "\n", step1='touch "$STATE/refuse"\n', step3='rm -f "$STATE/refuse"\n')

    assert len(uploads) == 1


def test_after_a_refusal_at_first(collect, tmp_path):
    """The very first upload fails."""
    (tmp_path / "refuse").touch()

    assert len(collect(log=XID + "\n", step2='rm -f "$STATE/refuse"\n')) == 1
