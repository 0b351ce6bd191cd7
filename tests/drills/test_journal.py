"""Journals and recovery: interrupted runs are found and finished once, running ones are left alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from firstfault.act.world import started_at
from firstfault.drills import recover
from firstfault.drills.journal import Journal, Undo, read_events, state_dir, unfinished
from firstfault.errors import InputError

UNDO = Undo(id=1, kind="security-group-toggles", record={"groups": []})


def interrupted(state, identity=None, world="local"):
    """Write the journal of a run that was killed under the fault; return its folder."""
    journal = Journal.create(state)
    journal.append("run-started", drill="sg-block", world=world)
    if identity:
        journal.append("world-opened", identity=identity)
    journal.record_undo(UNDO)
    journal.close()
    return journal.folder


def test_interrupted_run_is_finished_once(state):
    """The first call says what was owed, the second finds nothing."""
    folder = interrupted(state)
    (found,) = recover(state)
    assert (found.outcome, found.owed, found.left_behind) == ("recovered", ["security-group-toggles"], [])
    assert not unfinished(folder)
    assert recover(state) == []


def test_refused_run_on_a_cluster_is_closed_without_the_cluster(state):
    """A journal that knows only which cluster was meant owes nothing, and nobody asks that cluster."""
    journal = Journal.create(state)
    journal.append("world-options", drill="sg-block", identity={"options": {}, "topology": {}, "groups": {}})
    journal.close()
    private = journal.folder / "private"
    private.mkdir()
    (private / "a.tfplan").touch()
    (found,) = recover(state)
    assert (found.outcome, found.drill, found.world, found.left_behind) == ("recovered", "sg-block", "eks", [])
    assert not private.exists()
    assert recover(state) == []


def test_running_drill_is_left_alone(state):
    """A run whose process holds its lock is only named."""
    journal = Journal.create(state)
    journal.append("run-started", drill="sg-block", world="local")
    (found,) = recover(state)
    assert found.outcome == "running"
    journal.close()
    (found,) = recover(state)
    assert found.outcome == "recovered"


def test_stub_that_lives_is_ended(state):
    """A world that is still there although its tool is gone is ended; it is certain that it is the recorded one."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as stub:
        identity = {"stub": stub.pid, "stub_started": started_at(stub.pid), "init": 0, "init_started": 1}
        interrupted(state, identity)
        (found,) = recover(state)
        assert stub.wait(10) == -signal.SIGKILL
    # A child of this very process stays a zombie until it is waited for, so `recover` may have seen it.
    assert found.outcome in {"recovered", "owed"}
    assert all(run.outcome == "recovered" for run in recover(state))


def test_foreign_process_with_the_same_number_is_not_touched(state):
    """Process ids are used again: another start time means another process."""
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as stranger:
        identity = dict.fromkeys(("stub", "init"), stranger.pid) | dict.fromkeys(
            ("stub_started", "init_started"), started_at(stranger.pid) - 1
        )
        interrupted(state, identity)
        (found,) = recover(state)
        assert found.outcome == "recovered"
        assert stranger.poll() is None
        stranger.kill()


def test_torn_last_line_is_survived(state):
    """A kill in the middle of a write leaves half a line; the rest counts."""
    folder = interrupted(state)
    with (folder / "journal.jsonl").open("a") as stream:
        stream.write('{"time": "2026-')
    assert [event["event"] for event in read_events(folder)] == ["run-started", "undo-recorded"]
    (found,) = recover(state)
    assert found.outcome == "recovered"
    assert not unfinished(folder)


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "undo-recorded", "undo": {"id": "x"}}',
        '{"event": "undo-recorded"}',
        '{"event": "undone", "undo": null}',
        '{"event": "world-opened", "identity": {"stub": "x"}}',
        '{"event": "run-started", "world": "moon"}',
    ],
)
def test_journal_that_is_not_ours_does_not_stop_the_others(state, line):
    """The run that can be finished is, before the one that cannot is reported."""
    broken = interrupted(state)
    with (broken / "journal.jsonl").open("a") as stream:
        stream.write(line + "\n")
    good = interrupted(state)
    broken.rename(broken.with_name("0-first"))
    with pytest.raises(InputError, match=r"0-first.*; 1 other run"):
        recover(state)
    assert not unfinished(good)


def test_unknown_world_is_not_guessed_at(state):
    """A journal of a newer version is refused, not half undone."""
    interrupted(state, world="moon")
    with pytest.raises(InputError, match="moon"):
        recover(state)


def test_unwritable_state_folder_is_refused(tmp_path):
    """Without a journal there is no drill."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(InputError, match="FIRSTFAULT_STATE"):
        Journal.create(blocked)


def test_user_without_a_home_is_told_what_to_set(monkeypatch):
    """A container's unnamed user has none."""
    monkeypatch.delenv("FIRSTFAULT_STATE", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)

    def homeless(_):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", classmethod(homeless))
    with pytest.raises(InputError, match="no home folder"):
        state_dir()


def test_report_that_does_not_fit_is_left_out(state):
    """A full disk: half a report is worse than none, and no reason to lose the result."""
    journal = Journal.create(state)
    journal.report_path.symlink_to("/dev/full")
    journal.save_report(None)
    assert not journal.report_path.is_symlink()
    journal.close()


def test_events_are_json_lines_with_time(state):
    """Each event is one line that any tool can read."""
    journal = Journal.create(state)
    journal.append("x", value=1, text="a\nb")
    journal.close()
    (line,) = journal.path.read_text().splitlines()
    event = json.loads(line)
    assert (event["event"], event["value"], event["text"]) == ("x", 1, "a\nb")
    assert event["time"].endswith("Z")


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"FIRSTFAULT_STATE": "/a/b"}, "/a/b"),
        ({"XDG_STATE_HOME": "/x"}, "/x/firstfault"),
        ({"HOME": "/h"}, "/h/.local/state/firstfault"),
    ],
)
def test_state_folder_follows_the_environment(monkeypatch, env, expected):
    """FIRSTFAULT_STATE first, then the XDG folder."""
    for name in ("FIRSTFAULT_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert str(state_dir()) == expected


def test_journal_is_private(state):
    """Logs may hold what others need not read."""
    journal = Journal.create(state)
    assert journal.folder.stat().st_mode & 0o077 == 0
    journal.close()
