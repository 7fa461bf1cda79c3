"""Workloads that no agent was trained on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_papers.ineps.study.unseen import COLUMNS, POLICIES, Unseen, difference, summary, unseen
from hpcosim_papers.studies.study import scenario_path
from hpcosim_scenarios.running.library import Library

LIBRARY = Library([scenario_path("ineps", "exp2")])


def test_workloads_are_seeded_and_their_uses_differ() -> None:
    """The same workload is drawn again; the same number of another use is another workload."""
    jobs = LIBRARY.first_jobs
    drawn = [Unseen("exp2", "final", 4).draw(jobs) for _ in range(2)]
    assert np.array_equal(drawn[0].ops, drawn[1].ops)
    other = Unseen("exp2", "validation", 4).draw(jobs)
    assert not np.array_equal(drawn[0].ops, other.ops)


def test_half_of_the_workloads_keep_the_mix_of_jobs() -> None:
    """They have the scenario's jobs in another order; the others are drawn with replacement."""
    jobs = LIBRARY.first_jobs
    for one in unseen("exp2", "final"):
        drawn = one.draw(jobs)
        assert len(set(drawn.job_id.tolist())) == len(jobs)
        if not one.resampled:
            assert sorted(drawn.ops) == sorted(jobs.ops)
        assert np.allclose(drawn.submit_s * one.load, jobs.submit_s)
    assert sum(one.resampled for one in unseen("exp2", "final")) in range(8, 12)


def test_differences_are_means_of_relative_differences() -> None:
    """And the table has a line for each experiment."""
    values = dict.fromkeys(POLICIES, (90.0, 220.0)) | {"rule": (100.0, 200.0)}
    rows = [
        dict(zip(COLUMNS, ("exp1", number, 1.0, 0, policy, value), strict=True))
        for policy, each in values.items()
        for number, value in enumerate(each)
    ]
    found = difference(rows, "search", "rule")
    assert found.value == pytest.approx(0.0)
    assert (found.low, found.high) == pytest.approx((-10.0, 10.0))
    assert "| exp1 | +0.00 (-10.00 to +10.00) |" in summary(rows)
