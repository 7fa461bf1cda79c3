"""The record of a twin: answers, starts, ranges that follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_twin.answers.record import Record

T0 = 1_800_000_000.0
JOB = LiveJob(
    id=1, name="a", user="ann", partition="main", state="pending", slurm_state="PENDING",
    submitted_s=T0, cpus=1, nodes_min=1, nodes_max=0,
)  # fmt: skip


def answer(at_s: float, *rows: tuple[int, float, float, float]) -> dict[str, Any]:
    """Return an answer about the queue, of jobs with their drawn quantiles."""
    jobs = [
        {"job_id": number, "median_s": median, "low_s": low, "high_s": high, "squeue_s": high,
         "drawn_low_s": low, "drawn_high_s": high}
        for number, low, median, high in rows
    ]  # fmt: skip
    return {"at_s": at_s, "jobs": jobs}


def state(at_s: float, *jobs: LiveJob) -> ClusterState:
    """Return a state with these jobs."""
    return ClusterState(at_s, {job.id: job for job in jobs}, {}, {})


def started(number: int, start_s: float) -> LiveJob:
    """Return a job that has started."""
    return replace(JOB, id=number, state="running", started_s=start_s)


def lives(count: int, seed: int) -> Iterator[tuple[dict[str, Any], ClusterState]]:
    """Yield answers, and the states at whose time their jobs start: three times as late."""
    generator = np.random.default_rng(seed)
    for number in range(1, count + 1):
        at_s = T0 + 1000.0 * number
        median_s = float(generator.lognormal(5.0, 0.5))
        wait_s = 3.0 * float(generator.lognormal(5.0, 0.5))
        times = (at_s + median_s / 2, at_s + median_s, at_s + 2 * median_s)
        yield answer(at_s, (number, *times)), state(at_s + 900.0, started(number, at_s + wait_s))


def play(record: Record, count: int = 100, seed: int = 0) -> list[dict[str, Any]]:
    """Let a record live, and return the answers that it gave."""
    given = []
    for asked, then in lives(count, seed):
        given.append(record.calibrated(asked))
        record.note(given[-1])
        record.observe(then)
    return given


def test_coverage_and_error_are_those_of_the_answers_that_were_given() -> None:
    """Computed again from the answers and the starts of 100 jobs."""
    record = Record()
    given = play(record)
    starts = [next(iter(then.jobs.values())).started_s or 0.0 for _, then in lives(100, 0)]
    rows = [each["jobs"][0] for each in given]
    found = record.summary(T0 + 1e6)
    for each in ("0.5", "0.8", "0.95"):
        ends = [row["ranges"][each] for row in rows]
        inside = [a - 1 <= at <= b + 1 for (a, b), at in zip(ends, starts, strict=True)]
        assert found["coverage"][each] == pytest.approx(np.mean(inside))
    errors = [abs(row["median_s"] - at) for row, at in zip(rows, starts, strict=True)]
    assert found["median_error_s"] == pytest.approx(np.median(errors))
    slurm = [abs(row["squeue_s"] - at) for row, at in zip(rows, starts, strict=True)]
    assert found["beside_slurm"]["slurm_median_error_s"] == pytest.approx(np.median(slurm))
    assert (found["answers"], found["started"], found["waiting"]) == (100, 100, 0)


def test_ranges_learn_from_starts() -> None:
    """Of 400 jobs that wait three times as long as was drawn, the last have their start in it."""
    record = Record()
    given = play(record, 400)
    last = list(lives(400, 0))[300:]
    rows = [each["jobs"][0] for each in given[300:]]
    held = [
        row["low_s"] - 1 <= (then.jobs[row["job_id"]].started_s or 0.0) <= row["high_s"] + 1
        for row, (_, then) in zip(rows, last, strict=True)
    ]
    assert np.mean(held) > 0.7


def test_a_record_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The figures and the next ranges are as without one."""
    path = tmp_path / "record.jsonl"
    record, other = Record(path), Record()
    for asked, then in lives(50, 1):
        for each in (record, other):
            each.note(each.calibrated(asked))
            each.observe(then)
    record.note(record.calibrated(answer(T0 + 1e6, (999, T0 + 1e6, T0 + 1.1e6, T0 + 1.2e6))))
    other.note(other.calibrated(answer(T0 + 1e6, (999, T0 + 1e6, T0 + 1.1e6, T0 + 1.2e6))))
    record.close()
    assert path.stat().st_mode & 0o777 == 0o600
    with path.open("ab") as file:
        file.write(b'{"record":"answered","at_s"')  # a write that was cut off
    again = Record(path)
    assert again.summary(T0 + 2e6) == other.summary(T0 + 2e6)
    asked = answer(T0 + 2e6, (7, T0 + 2e6, T0 + 2.1e6, T0 + 2.2e6))
    assert again.calibrated(asked) == other.calibrated(asked)
    with pytest.raises(JournalError, match="another twin writes to this journal"):
        Record(path)
    again.close()


def test_a_damaged_line_is_left_out(tmp_path: Path) -> None:
    """The others count."""
    path = tmp_path / "record.jsonl"
    record = Record(path)
    play(record, 5)
    record.close()
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = b'{"record": "answered", "at_s": [[[[\n'
    path.write_bytes(b"".join(lines))
    again = Record(path)
    assert again.summary(T0)["started"] == 4
    again.close()


def test_the_file_has_a_largest_size(tmp_path: Path) -> None:
    """Its older half is dropped; what follows is read."""
    path = tmp_path / "record.jsonl"
    record = Record(path, most_bytes=20_000)
    play(record, 300)
    assert path.stat().st_size < 21_000
    assert record.summary(T0)["started"] == 300
    record.close()
    again = Record(path)
    assert 20 < again.summary(T0)["started"] < 300
    again.close()


def test_a_job_that_waits_beyond_its_range_is_a_miss() -> None:
    """It would be left out if only starts counted."""
    record = Record()
    record.note(record.calibrated(answer(T0, (1, T0 + 10, T0 + 20, T0 + 30))))
    record.observe(state(T0 + 10, JOB))
    assert record.summary(T0 + 10)["coverage"]["0.8"] is None
    record.observe(state(T0 + 5000, JOB))
    assert record.summary(T0 + 5000)["coverage"]["0.8"] == 0.0


@pytest.mark.parametrize(
    "then",
    [
        state(T0 + 100, replace(JOB, state="over", slurm_state="CANCELLED", ended_s=T0 + 50)),
        state(T0 + 100),
    ],
)
def test_a_job_that_is_cancelled_has_no_start(then: ClusterState) -> None:
    """Its answers are dropped."""
    record = Record()
    record.note(record.calibrated(answer(T0, (1, T0 + 10, T0 + 20, T0 + 30))))
    record.observe(then)
    found = record.summary(T0 + 1000)
    assert (found["started"], found["waiting"]) == (0, 0)


def test_answers_soon_after_each_other_count_once() -> None:
    """A job about which everybody asks does not outweigh the others."""
    record = Record()
    for at_s in (T0, T0 + 1.0, T0 + 200.0, T0 + 301.0):
        record.note(record.calibrated(answer(at_s, (1, T0 + 400, T0 + 500, T0 + 600))))
    assert record.summary(T0 + 301.0)["answers"] == 2


def test_a_job_that_never_starts_in_the_futures_has_no_range() -> None:
    """It is not kept, as there is nothing to compare."""
    record = Record()
    asked = answer(T0, (1, T0 + 10, T0 + 20, T0 + 30))
    asked["jobs"][0] |= {"median_s": None, "low_s": None, "high_s": None, "drawn_high_s": None}
    found = record.calibrated(asked)
    assert found["jobs"][0]["ranges"]["0.8"] == [None, None]
    record.note(found)
    assert record.summary(T0)["answers"] == 0


def test_ranges_begin_with_those_of_a_calibration() -> None:
    """Before answers are known, its scores say how wide they are."""
    asked = answer(T0, (1, T0 + 100, T0 + 200, T0 + 300))
    late = [float(each) for each in np.linspace(1.0, 4.0, 100)]
    (plain,) = Record().calibrated(asked)["jobs"]
    (found,) = Record(prior=late).calibrated(asked)["jobs"]
    assert found["high_s"] > plain["high_s"]
    assert found["low_s"] >= plain["low_s"]


def test_questions_of_others_change_no_ranges() -> None:
    """They count in the figures; what the twin says next follows from its own questions."""
    record, other = Record(), Record()
    for asked, then in lives(60, 2):
        record.note(record.calibrated(asked), is_own=False)
        for each in (record, other):
            each.note(each.calibrated(asked))
            each.observe(then)
    assert record.summary(T0)["answers"] == 120
    asked = answer(T0 + 2e6, (7, T0 + 2e6, T0 + 2.1e6, T0 + 2.2e6))
    assert record.calibrated(asked) == other.calibrated(asked)
