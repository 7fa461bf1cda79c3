"""Statistics of combinations, and paired comparisons."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.statistics.bootstrap import Bootstrap
from hpcosim_experiments.statistics.rows import Labels, Row
from hpcosim_experiments.statistics.summary import Plan, comparisons, summaries
from support.examples import examples

PLAN = Plan(("seed",), bootstrap=Bootstrap(resamples=200))


def run(scheduler: str, seed: int, wait: float | None, load: float = 0.5) -> Row:
    """Return the row of a run; a run without a wait failed."""
    status = "failed" if wait is None else "ok"
    return {"scheduler": scheduler, "load": load, "seed": seed, "status": status, "wait_s": wait}


def test_a_summary_is_over_the_repeats() -> None:
    """Each combination has its mean and the number of its runs; failed runs have no value."""
    rows = [run("easy", 1, 10.0), run("fcfs", 1, 8.0), run("easy", 2, 20.0), run("fcfs", 2, None)]
    easy, fcfs = summaries(rows, ["scheduler"], ["wait_s"], PLAN)
    assert (easy.labels, easy.runs) == ({"scheduler": "easy"}, 2)
    assert easy.estimates["wait_s"].value == 15.0
    assert (easy.estimates["wait_s"].low, easy.estimates["wait_s"].high) == (10.0, 20.0)
    assert (fcfs.runs, fcfs.estimates["wait_s"].size) == (2, 1)
    assert not fcfs.estimates["wait_s"].has_interval


def test_tasks_are_strata() -> None:
    """Repeats are resampled within a task, so tasks that differ do not widen the interval."""
    rows = [run("easy", seed, 100 * load, load) for load in (0.5, 0.9) for seed in (1, 2, 3)]
    (found,) = summaries(rows, ["scheduler"], ["wait_s"], PLAN._replace(tasks=("load",)))
    assert found.estimates["wait_s"][:3] == pytest.approx((70.0, 70.0, 70.0))
    (pooled,) = summaries(rows, ["scheduler"], ["wait_s"], PLAN)
    assert pooled.estimates["wait_s"].low < 70.0 < pooled.estimates["wait_s"].high


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=6, unique=True), st.integers(-50, 50))
@examples(50)
def test_pairs_remove_what_both_runs_share(waits: list[int], faster: int) -> None:
    """A constant difference has an interval of length 0, however the workloads differ."""
    rows = [run("easy", seed, wait) for seed, wait in enumerate(waits)]
    rows += [run("fcfs", seed, wait + faster) for seed, wait in enumerate(waits)]
    (found,) = comparisons(rows, ["scheduler"], {"scheduler": "easy"}, ["wait_s"], PLAN)
    assert found.differences["wait_s"] == (faster, faster, faster, len(waits))
    mean = sum(waits) / len(waits)
    assert found.ratios["wait_s"].value == pytest.approx((mean + faster) / mean)


def test_runs_are_paired_by_all_other_labels() -> None:
    """The partner has the labels of the baseline and the same load and seed, in any order."""
    rows = [
        run("easy", 2, 7.0, 0.9),
        run("fcfs", 1, 3.0, 0.5),
        run("easy", 1, 1.0, 0.5),
        run("fcfs", 2, 20.0, 0.9),
        run("easy", 2, 2.0, 0.5),
        run("fcfs", 2, 5.0, 0.5),
    ]
    plan, baseline = PLAN, {"scheduler": "easy"}
    low, high = comparisons(rows, ["scheduler", "load"], baseline, ["wait_s"], plan)
    assert low.labels == {"scheduler": "fcfs", "load": 0.5}
    assert (low.pairs, low.differences["wait_s"].value) == (2, 2.5)
    assert (high.pairs, high.differences["wait_s"].value) == (1, 13.0)


def test_a_baseline_can_be_a_label_of_several_axes() -> None:
    """Each combination that differs in one of the labels is compared with the same runs."""
    rows = [run(name, 1, wait, load) for name, load, wait in (
        ("easy", 0.5, 1.0), ("easy", 0.9, 2.0), ("fcfs", 0.5, 4.0), ("fcfs", 0.9, 8.0)
    )]  # fmt: skip
    baseline: Labels = {"scheduler": "easy", "load": 0.5}
    found = comparisons(rows, ["scheduler", "load"], baseline, ["wait_s"], PLAN)
    assert [one.differences["wait_s"].value for one in found] == [1.0, 3.0, 7.0]


def test_missing_pairs_are_named() -> None:
    """A pair without a result of the run, of the baseline or of both is named with the reason."""
    rows = [run("easy", 1, 1.0), run("easy", 2, None), run("easy", 3, 1.0), run("easy", 4, None)]
    rows += [run("fcfs", seed, wait) for seed, wait in ((1, 2.0), (2, 2.0), (3, None), (4, None))]
    rows.append(run("fcfs", 5, 9.0))
    (found,) = comparisons(rows, ["scheduler"], {"scheduler": "easy"}, ["wait_s"], PLAN)
    assert found.pairs == 1
    assert [(labels["seed"], why) for labels, why in found.missing] == [
        (2, "no result of the baseline"),
        (3, "no result"),
        (4, "no result and no result of the baseline"),
        (5, "no result of the baseline"),
    ]
    assert found.differences["wait_s"].value == 1.0
