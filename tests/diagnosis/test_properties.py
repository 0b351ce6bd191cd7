"""What must not matter: the order of files, shippers' prefixes, how ranks interleave, neutral lines in between."""

from __future__ import annotations

import io
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.catalogue import load_catalogue
from firstfault.diagnosis import diagnose
from firstfault.scan import Source, scan_sources

EXAMPLES = Path(__file__).parents[2] / "examples" / "logs"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
CALM = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def logs_of(name: str) -> list[str]:
    """The text of each rank's log."""
    return [path.read_text() for path in sorted((EXAMPLES / name).iterdir())]


def report_on(texts: dict[str, str]):
    """The report on texts under given names."""
    return diagnose(scan_sources(source(name, text.encode()) for name, text in texts.items()))


def source(name: str, data: bytes) -> Source:
    return Source(name, lambda: io.BytesIO(data), size=len(data), reopenable=True)


def cause_of(texts: dict[str, str]) -> str:
    """What triage says about texts: the cause, or the status where there is none."""
    report = report_on(texts)
    return report.verdict.cause if report.verdict else report.status


def usual(name: str) -> str:
    return cause_of({f"rank{rank}.log": text for rank, text in enumerate(logs_of(name))})


@CALM
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 999))
def test_order_and_names_of_files(name, seed):
    """Files in any order, under names that say nothing, give the same verdict."""
    texts = logs_of(name)
    order = random.Random(seed).sample(range(len(texts)), len(texts))
    assert cause_of({f"part-{place}": texts[index] for place, index in enumerate(order)}) == usual(name)


@CALM
@given(
    name=st.sampled_from(NAMES),
    shipper=st.sampled_from(
        [
            "[pod/train-{rank}/main] ",
            "[pod/train-{rank}/main] 2026-11-30T10:00:00.000000000Z ",
            "2026-11-30T10:00:00.000000000Z ",
            "{rank}: ",
            "\x1b[36m(Worker pid=4{rank}, ip=10.0.0.{rank})\x1b[0m ",
            "[1,{rank}]<stderr>:",
        ]
    ),
)
def test_prefixes_of_shippers(name, shipper):
    """What a log shipper puts before each line changes nothing."""
    texts = {
        f"rank{rank}.log": "".join(shipper.format(rank=rank) + line for line in text.splitlines(keepends=True))
        for rank, text in enumerate(logs_of(name))
    }
    assert cause_of(texts) == usual(name)


@CALM
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 999))
def test_ranks_interleaved_in_one_file(name, seed):
    """All ranks in one file, their lines mixed at random but each with its rank before it."""
    rng = random.Random(seed)
    pending = [[f"{rank}: {line}" for line in text.splitlines()] for rank, text in enumerate(logs_of(name))]
    mixed = []
    while any(pending):
        mixed.append(rng.choice([lines for lines in pending if lines]).pop(0))
    assert cause_of({"slurm.out": "\n".join(mixed)}) == usual(name)


@CALM
@given(name=st.sampled_from(NAMES), end=st.sampled_from(["\r\n", "\n"]), seed=st.integers(0, 999))
def test_neutral_lines_and_line_ends(name, end, seed):
    """Ordinary lines with words like error and timeout, and either kind of line end, change nothing."""
    rng = random.Random(seed)
    neutral = [
        "2026-03-01 10:00:00,000 INFO metrics: error_rate=0.0 failed=0 timeout=30s",
        "2026-03-01 10:00:00,000 INFO health check ok: 0 errors, 0 warnings, killed=0",
        "2026-03-01 10:00:00,000 DEBUG no exception raised in the last 3600 s",
    ]
    texts = {}
    for rank, text in enumerate(logs_of(name)):
        lines = []
        for line in text.splitlines():
            lines += [*rng.choices(neutral, k=rng.randrange(3)), line]
        texts[f"rank{rank}.log"] = end.join([*lines, ""])
    assert cause_of(texts) == usual(name)


def as_json_record(text: str, rank: int) -> str:
    return json.dumps({"level": "INFO", "pod": f"w-{rank}", "msg": text}) + "\n"


def as_journal_entry(text: str, rank: int) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1770000000000000", "_HOSTNAME": f"w-{rank}", "MESSAGE": text}) + "\n"


@pytest.mark.parametrize("form", [as_json_record, as_journal_entry])
@pytest.mark.parametrize("name", NAMES)
def test_a_whole_log_in_one_record(name, form):
    """A shipper that puts all that a process printed into one record does not hide what came later in it."""
    assert cause_of({f"rank{rank}.json": form(text, rank) for rank, text in enumerate(logs_of(name))}) == usual(name)


@pytest.mark.parametrize("form", [as_json_record, as_journal_entry])
def test_recovery_within_one_record(form):
    """A retry that succeeds a line later is no fault, also where both lines stand in one record."""
    text = (
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [w-0]:29500 (errno: 111 - Connection refused).\n"
        "w-0:41:41 [0] NCCL INFO ncclCommInitRank comm 0x5581a0 rank 0 nranks 2 cudaDev 0 - Init COMPLETE\n"
        "step 10 loss 2.31\nstep 20 loss 2.20\n"
    )
    assert cause_of({"job.json": form(text, 0)}) == "healthy"


@pytest.mark.parametrize("digits", [4400, 400, 40])
def test_numbers_that_no_program_means(digits):
    """Numbers that are captured, hundreds of digits long: no crash, no endless loop; of long lines a sample."""
    catalogue = load_catalogue()
    signatures = [each for card in catalogue.cards.values() for each in card.signatures] + catalogue.signals
    captured = [each for each in signatures if re.search(r"\(\?P<\w+>\[?\\d", each.pattern)]
    lines = [re.sub(r"\d+", "9" * digits, each.samples[0].text) for each in captured]
    for start in range(5):
        part = lines[start :: 5 if digits < 1000 else 20]
        assert report_on({"job.log": "\n".join(part)}).status in {"fault", "healthy", "unknown"}


@pytest.mark.parametrize("name", NAMES)
def test_evidence_stands_where_the_report_says(name):
    """Every cited line is in its source at its line and offset."""
    texts = {f"rank{rank}.log": text for rank, text in enumerate(logs_of(name))}
    report = report_on(texts)
    for item in report.verdict.evidence if report.verdict else ():
        line = texts[item.source].split("\n")[item.line - 1]
        assert line.startswith(item.text[:100])
        assert texts[item.source].encode()[item.offset :].startswith(item.text[:50].encode())
