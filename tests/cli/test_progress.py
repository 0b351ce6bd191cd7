"""What a drill's progress says where no terminal shows a moving line."""

from __future__ import annotations

import io
import re

from firstfault.cli.progress import Progress


def test_every_line_has_its_time():
    """A log of it can be laid beside the ranks' logs."""
    stream = io.StringIO()
    progress = Progress(stream)
    progress.event("world-opening", {})
    progress.event("injecting", {"kind": "security-group-toggles"})
    progress.event("job-started", {"ranks": 2, "timeout": 5, "deadline": 20})
    progress.event("rank-ended", {"rank": 0, "exit_code": 1})
    progress.event("deadline-passed", {"phase": "injected", "ranks": [1], "failed": []})
    progress.event("undoing", {})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 6
    assert [line for line in lines if not re.match(r" *\d+\.\d s  \w+ +\w", line)] == []
    assert "injected  ranks [1] hang: ended at the deadline" in lines[4]
