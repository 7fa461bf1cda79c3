"""The metrics of a measured period and of classes of jobs, compared with slow versions."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.statistics import MeasureSettings, measure
from hpcosim_sim.record import metrics
from hpcosim_sim.record.run_record import RunRecord
from support.examples import examples
from support.simulating import cluster_of, jobs_of, simulate

JOBS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 40), st.integers(1, 8)), min_size=1, max_size=15
)


def run(jobs: list[tuple[int, int, int]]) -> RunRecord:
    """Return the record of a run of jobs (submission, run time, cores) on 8 cores."""
    ordered = sorted(jobs)
    table = jobs_of(*((float(submit), float(took), cores) for submit, took, cores in ordered))
    return simulate(cluster_of(2, 4), table, "easy").record()


@given(JOBS, st.integers(0, 30), st.integers(0, 30))
@examples(60)
def test_job_metrics_cover_the_jobs_of_the_period(
    jobs: list[tuple[int, int, int]], warm_up_s: int, cool_down_s: int
) -> None:
    """Waits, counts and utilization equal those of a loop over the jobs; energy stays whole."""
    record = run(jobs)
    settings = MeasureSettings(warm_up_s=warm_up_s, cool_down_s=cool_down_s)
    submits = list(record.recording.submit_s)
    start_s, end_s = min(submits) + warm_up_s, max(submits) - cool_down_s
    rows = [row for row, submit in enumerate(submits) if start_s <= submit <= end_s]
    whole = metrics.measure(record)
    if not rows:
        with pytest.raises(ExperimentError, match="no job is submitted within the measured"):
            measure(record, settings, whole)
        return
    found = measure(record, settings, whole).metrics
    starts, ends = list(record.recording.start_s), list(record.recording.end_s)
    waits = [starts[row] - submits[row] for row in rows]
    assert found["jobs"] == found["jobs_completed"] == len(rows)
    assert found["mean_wait_s"] == pytest.approx(sum(waits) / len(rows))
    assert found["max_wait_s"] == max(waits)
    slowdowns = [(ends[row] - submits[row]) / (ends[row] - starts[row]) for row in rows]
    assert found["mean_slowdown"] == pytest.approx(sum(slowdowns) / len(rows))
    assert found["energy_j"] == whole["energy_j"]
    assert list(found) == list(whole)
    if (warm_up_s or cool_down_s) and end_s > start_s:
        busy = sum(  # all times are whole seconds, so each second is either busy or not
            record.recording.cores[row]
            for row in range(len(submits))
            for second in range(int(start_s), int(end_s))
            if starts[row] <= second < ends[row]
        )
        assert found["utilization"] == pytest.approx(busy / (8 * (end_s - start_s)))


def test_overruns_are_those_of_the_period_and_of_the_classes() -> None:
    """Jobs 1 and 2 overrun; job 2 and 3 are measured."""
    table = jobs_of((0.0, 20.0, 1), (5.0, 20.0, 1), (6.0, 20.0, 2))
    table = replace(table, requested_s=np.array([10.0, 10.0, 30.0]))
    record = simulate(cluster_of(2, 4), table, "easy").record()
    whole = metrics.measure(record)
    assert whole["jobs_over_requested_time"] == 2
    cut = measure(record, MeasureSettings(warm_up_s=5, size_classes=(1, 2)), whole)
    assert cut.metrics["jobs_over_requested_time"] == 1
    assert [row["jobs_over_requested_time"] for row in cut.breakdowns] == [1, 0]
    later = measure(record, MeasureSettings(warm_up_s=6), whole).metrics
    assert "jobs_over_requested_time" not in later


def test_without_a_cut_the_metrics_are_those_of_the_run() -> None:
    """No warm-up and no cool-down leave all metrics as they are, also those that are unknown."""
    record = run([(0, 5, 8), (1, 5, 8)])
    whole = {**metrics.measure(record), "cost_eur": 3.5}
    assert measure(record, MeasureSettings(), whole).metrics == whole


@given(JOBS)
@examples(40)
def test_size_classes_partition_the_jobs(jobs: list[tuple[int, int, int]]) -> None:
    """The classes have all jobs, and the mean wait of all is the weighted mean of the classes."""
    record = run(jobs)
    whole = metrics.measure(record)
    rows = measure(record, MeasureSettings(size_classes=(1, 2, 5)), whole).breakdowns
    assert sum(row["jobs"] for row in rows) == len(jobs)
    weighted = sum(row["jobs"] * row["mean_wait_s"] for row in rows) / len(jobs)
    assert weighted == pytest.approx(whole["mean_wait_s"])
    names = [row["class"] for row in rows]
    sizes = {
        "1": sum(cores == 1 for *_, cores in jobs),
        "2-4": sum(2 <= cores <= 4 for *_, cores in jobs),
        "5+": sum(cores >= 5 for *_, cores in jobs),
    }
    assert names == [name for name, count in sizes.items() if count]
    assert [row["jobs"] for row in rows] == [count for count in sizes.values() if count]


def test_jobs_are_measured_by_user() -> None:
    """Each user has the metrics of their jobs of the period; jobs without a user are `unknown`."""
    table = jobs_of((0.0, 10.0, 8), (0.0, 10.0, 8), (5.0, 10.0, 8), (6.0, 1.0, 1))
    names = {**table.names, "user": ("", "7", "3")}
    table = replace(table, user=np.array([1, 2, 1, 0]), names=names)
    record = simulate(cluster_of(2, 4), table, "easy").record()
    settings = MeasureSettings(per_user=True)
    rows = measure(record, settings, metrics.measure(record)).breakdowns
    assert [(row["breakdown"], row["class"], row["jobs"]) for row in rows] == [
        ("user", "unknown", 1),
        ("user", "7", 2),
        ("user", "3", 1),
    ]
    assert [row["mean_wait_s"] for row in rows[1:]] == [7.5, 10.0]


def test_jobs_are_measured_by_partition_and_account() -> None:
    """As `hpcosim compare --by` groups them; `per_user` is one of the kinds."""
    table = jobs_of((0.0, 10.0, 8), (0.0, 10.0, 8), (5.0, 10.0, 8))
    names = {**table.names, "account": ("", "a", "b"), "partition": ("", "p"), "user": ("", "u")}
    ones = np.array([1, 1, 1])
    table = replace(table, account=np.array([1, 2, 1]), partition=ones, user=ones, names=names)
    record = simulate(cluster_of(2, 4), table, "easy").record()
    settings = MeasureSettings(by=("partition", "account", "user", "qos"), per_user=True)
    rows = measure(record, settings, metrics.measure(record)).breakdowns
    assert [(row["breakdown"], row["class"], row["jobs"]) for row in rows] == [
        ("partition", "p", 3),
        ("account", "a", 2),
        ("account", "b", 1),
        ("user", "u", 3),
    ]


def test_a_workload_without_users_has_no_classes_by_user() -> None:
    """Other workloads of the experiment may have users."""
    record = run([(0, 10, 8)])
    assert measure(record, MeasureSettings(per_user=True), {}).breakdowns == []


@pytest.mark.parametrize("bounds", [[2, 4], [1, 4, 4], [1, 8, 4]])
def test_size_classes_ascend_from_1(bounds: list[int]) -> None:
    """Other bounds are an error that shows them."""
    with pytest.raises(msgspec.ValidationError, match=r"begin with 1 and ascend.*got"):
        msgspec.convert({"size_classes": bounds}, MeasureSettings)
