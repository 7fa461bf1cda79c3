"""Ranges widened by earlier forecasts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_twin.answers.calibration import (
    PROBABILITY,
    AdaptiveRanges,
    PastRange,
    ScoreRange,
    calibrated,
    interval_score,
    learned_ranges,
    normal_scores,
    past_ranges,
    range_of,
    wait_of_draws,
)
from hpcosim_twin.answers.table import RANGES
from hpcosim_twin.cluster.observation import ForecastError, Observation
from support.fake_cluster import FakeCluster


def spread(start_s: float | None, asked_s: float = 0.0) -> PastRange:
    """Return a forecast of a wait of 900 to 1100 s, and what happened."""
    return PastRange(asked_s, asked_s + 900.0, asked_s + 1000.0, asked_s + 1100.0, start_s)


def learned(past: list[PastRange], now_s: float, prior: Sequence[float] = ()) -> ScoreRange:
    """Return the range of 80 % at a time."""
    return learned_ranges(past, prior).ranges(now_s)[PROBABILITY]


UNCHANGED = learned([], 0.0)


def test_nine_of_ten_starts_are_within_each_end_of_a_learned_range() -> None:
    """Starts spread four times as much as was drawn: the ranges grow until 80 % are within."""
    starts_s = np.random.default_rng(1).normal(1000.0, 400.0 / 1.2816, 400).clip(1.0)
    by = learned([spread(start_s) for start_s in starts_s.tolist()], 5000.0)
    low_s, high_s = range_of(spread(None), by)
    assert np.mean(starts_s < low_s) == pytest.approx(0.1, abs=0.03)
    assert np.mean(starts_s > high_s) == pytest.approx(0.1, abs=0.03)


def test_ranges_hold_although_the_draws_become_wrong() -> None:
    """Of a thousand answers whose errors grow and whose waits double, as many hold as wanted."""
    draw, ranges = np.random.default_rng(3), AdaptiveRanges()
    held: dict[float, list[bool]] = {each: [] for each in RANGES}
    waiting: list[tuple[float, int]] = []
    for number in range(1000):
        now_s = 600.0 * number
        for start_s, job in [each for each in sorted(waiting) if each[0] <= now_s]:
            ranges.started(job, start_s)
            waiting.remove((start_s, job))
        drawn = wait_of_draws(1000.0 * np.exp(draw.normal(0.0, 0.3, 50)))
        given = ranges.ranges(now_s)
        ranges.answered(number, drawn, now_s, given)
        late = 1.0 if number < 400 else 2.0
        wait_s = float(1000.0 * late * np.exp(draw.normal(0.0, 0.3 + 0.0006 * number)))
        waiting.append((now_s + wait_s, number))
        for each, (low, high) in given.items():
            held[each].append(drawn.wait_s(low) <= wait_s <= drawn.wait_s(high))
    for each, found in held.items():
        assert np.mean(found[100:]) == pytest.approx(each, abs=0.04)


def test_the_score_of_a_wait_is_the_inverse_of_the_wait_of_a_score() -> None:
    """Between the quantiles and beyond them; a certain forecast has a spread, too."""
    for waits_s in (np.arange(100.0), np.full(9, 5000.0), np.array([0.0, 10.0, 1e5])):
        drawn = wait_of_draws(waits_s)
        for wait_s in (0.5, 40.0, 5000.0, 1e6):
            assert drawn.wait_s(drawn.score(wait_s)) == pytest.approx(wait_s, rel=1e-6)
    assert wait_of_draws(np.full(9, math.inf)).wait_s(0.0) == math.inf


def test_scores_of_a_calibration_count_before_answers_are_known() -> None:
    """A prior of scores twice as wide as normal ones gives ranges of twice the width."""
    by = learned([], 0.0, prior=(2.0 * normal_scores(100)).tolist())
    assert by.high == pytest.approx(2.0 * UNCHANGED.high, rel=0.02)
    assert by.low == pytest.approx(2.0 * UNCHANGED.low, rel=0.02)


def test_a_job_that_waits_beyond_its_range_counts_as_one_that_starts_now() -> None:
    """Jobs that have not started count if their range is over; otherwise they say nothing."""
    assert learned([spread(None)] * 30, 7000.0).high > 3.0
    assert learned([spread(None)] * 30, 1000.0) == UNCHANGED


def test_an_interval_score_is_the_width_and_ten_times_a_miss_at_80_percent() -> None:
    """2 / (1 - 0.8) is 10."""
    low, high, actual = (np.array(each) for each in ([0.0, 0.0, 5.0], [10.0] * 3, [4.0, 12.0, 4.0]))
    assert interval_score(low, high, actual, 0.8) == pytest.approx([10.0, 30.0, 15.0])


def test_a_job_that_is_gone_says_nothing() -> None:
    """A cancelled job has no start."""
    ranges = AdaptiveRanges()
    ranges.answered(1, spread(None).drawn(), 0.0, ranges.ranges(0.0))
    ranges.gone(1)
    ranges.started(1, 9000.0)
    assert ranges.scores == []


def test_a_range_contains_its_median_and_does_not_begin_in_the_past() -> None:
    """No job starts before the forecast, and one that never starts has no range."""
    forecast = PastRange(100.0, 120.0, 150.0, 200.0, None)
    assert range_of(forecast, ScoreRange(-9.0, -1.0)) == (100.0, 150.0)
    never = PastRange(100.0, math.inf, math.inf, math.inf, None)
    assert range_of(never, ScoreRange(-1.5, 1.5)) == (math.inf, math.inf)


def test_an_answer_about_the_queue_gets_ranges() -> None:
    """Its range of 80 % takes the place of the drawn one; a job that never starts has none."""
    drawn = {"median_s": 1000.0, "drawn_low_s": 900.0, "drawn_high_s": 1100.0}
    never = dict.fromkeys(drawn)
    given = {each: ScoreRange(2 * UNCHANGED.low, 2 * UNCHANGED.high) for each in RANGES}
    found, other = calibrated({"at_s": 0.0, "jobs": [drawn, never]}, given)["jobs"]
    assert [found["low_s"], found["high_s"]] == found["ranges"]["0.8"]
    assert found["low_s"] < 900.0 < 1100.0 < found["high_s"]
    assert other["ranges"]["0.8"] == [None, None]


def test_earlier_output_is_compared_with_what_slurm_shows(tmp_path: Path) -> None:
    """Started and waiting jobs count; forgotten jobs and those without times do not."""
    cluster = FakeCluster()
    for _ in range(6):
        cluster.submit(run_s=100.0)
    state = cluster.state()
    platform = Platform((NodeGroup(4, (Processor(1, 1.0, 1.0, 0.0, 1.0),)),))
    runs = min(number for number, job in state.jobs.items() if job.started_s is not None)
    waits = min(number for number, job in state.jobs.items() if job.state == "pending")
    rows = [
        {"job_id": number, "drawn_low_s": low_s, "drawn_high_s": 9.0, "median_s": 3.0}
        for number, low_s in ((runs, 1.0), (waits, 2.0), (waits, None), (99_999, 3.0))
    ]
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps({"at_s": 0.5, "jobs": rows}))
    found = past_ranges([path], Observation(state=state, platform=platform, settings={}))
    assert found == [
        PastRange(0.5, 1.0, 3.0, 9.0, state.jobs[runs].started_s),
        PastRange(0.5, 2.0, 3.0, 9.0, None),
    ]


def test_a_file_that_is_no_forecast_is_one_clear_error(tmp_path: Path) -> None:
    """The message names the file and what was expected."""
    path = tmp_path / "earlier.json"
    path.write_text("[]")
    platform = Platform((NodeGroup(1, (Processor(1, 1.0, 1.0, 0.0, 1.0),)),))
    seen = Observation(state=FakeCluster().state(), platform=platform, settings={})
    with pytest.raises(ForecastError, match=r"earlier.json: .*hpcosim ask queue --json"):
        past_ranges([path], seen)
