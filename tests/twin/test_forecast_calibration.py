"""Ranges widened by earlier forecasts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_twin.calibration import (
    LEAST,
    Margins,
    PastRange,
    margins,
    past_ranges,
    widened,
)
from hpcosim_twin.forecast import StartForecast
from hpcosim_twin.observation import ForecastError, Observation
from support.fake_cluster import FakeCluster


def test_the_margins_make_earlier_ranges_hold_nine_times_of_ten_at_each_end() -> None:
    """With the margins, 10 % of the starts are before the range and 10 % after it."""
    starts_s = np.random.default_rng(1).normal(1000.0, 100.0, 2000)
    by = margins([PastRange(990.0, 1010.0, start_s) for start_s in starts_s.tolist()], 5000.0)
    assert np.mean(starts_s < 990.0 - by.low_s) == pytest.approx(0.1, abs=0.001)
    assert np.mean(starts_s > 1010.0 + by.high_s) == pytest.approx(0.1, abs=0.001)


def test_a_job_that_waits_beyond_its_range_counts_as_one_that_starts_now() -> None:
    """Jobs that have not started count if their range is over; otherwise they say nothing."""
    over = [PastRange(0.0, 100.0, None)] * 30
    assert margins(over, 700.0).high_s == 600.0
    assert margins([PastRange(0.0, 800.0, None)] * 30, 700.0) == Margins(0.0, 0.0)


def test_few_earlier_forecasts_change_nothing() -> None:
    """From a handful of starts no quantile is taken."""
    assert margins([PastRange(0.0, 1.0, 900.0)] * (LEAST - 1), 1000.0) == Margins(0.0, 0.0)


def test_a_wider_range_does_not_begin_in_the_past() -> None:
    """The median stays; the range grows at both ends, but no job starts before now."""
    (found,) = widened([StartForecast(1, 150.0, 120.0, 200.0, 300.0)], Margins(50.0, 7.0), 100.0)
    assert found == StartForecast(1, 150.0, 100.0, 207.0, 300.0)


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
    path.write_text(json.dumps({"jobs": rows}))
    found = past_ranges([path], Observation(state=state, platform=platform, settings={}))
    assert found == [PastRange(1.0, 9.0, state.jobs[runs].started_s), PastRange(2.0, 9.0, None)]


def test_a_file_that_is_no_forecast_is_one_clear_error(tmp_path: Path) -> None:
    """The message names the file and what was expected."""
    path = tmp_path / "earlier.json"
    path.write_text("[]")
    platform = Platform((NodeGroup(1, (Processor(1, 1.0, 1.0, 0.0, 1.0),)),))
    seen = Observation(state=FakeCluster().state(), platform=platform, settings={})
    with pytest.raises(ForecastError, match=r"earlier.json: .*hpcosim forecast --json"):
        past_ranges([path], seen)
