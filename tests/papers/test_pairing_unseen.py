"""Workloads that no agent was trained on."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra rl is not installed")

from hpcosim_experiments.statistics.rows import read_rows
from hpcosim_papers.ineps.agent.policy import load_pairing
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.study.unseen import (
    AGENT,
    BEST_RULES,
    COLUMNS,
    KINDS,
    METRICS,
    OBJECTIVES,
    STUDY,
    TRAININGS,
    Unseen,
    difference,
    model_name,
    summary,
    unseen,
)
from hpcosim_papers.studies.study import papers_folder, scenario_path
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy

LIBRARY = Library([scenario_path("ineps", "exp2")])
SHIPPED = papers_folder() / "ineps" / STUDY


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


def _rows(values: dict[tuple[str, int | str], tuple[float, float]]) -> list[dict[str, object]]:
    return [
        dict(zip(COLUMNS, ("exp1", "edp", number, 1.0, 0, *policy, value), strict=True))
        for policy, each in values.items()
        for number, value in enumerate(each)
    ]


def test_differences_are_means_of_relative_differences() -> None:
    """Of several agents, over all of them; the table has a line for each experiment."""
    rows = _rows(
        {("rule", ""): (100.0, 200.0), ("agent", 0): (90.0, 220.0), ("agent", 1): (70.0, 200.0)}
    )
    found = difference(rows, "agent", "rule")
    assert found.value == pytest.approx((0.0 - 15.0) / 2.0)
    assert (found.low, found.high) == pytest.approx((-20.0, 5.0))
    line = next(line for line in summary(rows).splitlines() if line.startswith("| exp1 | edp |"))
    assert line.startswith("| exp1 | edp | -7.50 (-20.00 to +5.00) |")
    assert line.endswith("| +0.00, -15.00 |")


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_shipped_agent_plays_as_in_the_table(objective: Objective) -> None:
    """The scheduler of the file has the value that the compiled engine found, as `results.csv`."""
    name = f"pairing:{SHIPPED / model_name('exp2', objective)}.safetensors"
    _, about = load_pairing(SHIPPED / f"{model_name('exp2', objective)}.safetensors")
    seed = about.training["seed"]
    expected = {
        row["number"]: row["value"]
        for row in read_rows(SHIPPED / "results.csv")
        if row["experiment"] == "exp2"
        and row["objective"] == objective
        and row["policy"] == AGENT
        and row["seed"] == seed
    }
    for one in unseen("exp2", "final")[:4]:
        opened = open_scenario(LIBRARY.first, one.draw(LIBRARY.first_jobs), name)
        found = run_in_process(opened, make_policy(name))[METRICS[objective]]
        assert found == pytest.approx(expected[one.number], rel=1e-9)


def test_every_cell_has_a_tuned_rule_and_every_training_an_agent() -> None:
    """So the study needs no training."""
    assert set(BEST_RULES) == {(kind, objective) for kind in KINDS for objective in OBJECTIVES}
    assert all((SHIPPED / f"{model_name(*cell)}.safetensors").is_file() for cell in TRAININGS)
