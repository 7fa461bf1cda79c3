"""Metrics, compared with values computed by hand on a small run."""

from __future__ import annotations

import csv
import inspect
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_protocol import AllocateJob, KillJob, NodeGroup, Platform, Processor, RejectJob
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.record.metrics import (
    Metrics,
    energies,
    job_counts,
    jobs_that_ran,
    measure,
    node_use,
    slowdowns,
    waits,
)
from hpcosim_sim.record.recording import Recording
from hpcosim_sim.record.run_record import RunRecord, record_of
from hpcosim_workloads.table import JobSpec
from support.paths import SCENARIOS
from support.simulating import cluster_of, jobs_of, simulate


def small_run() -> Simulation:
    """Return a run of six jobs on two nodes of two cores, submitted from 100 s on.

    | job | submitted | cores | started | ended | on   |                              |
    |-----|-----------|-------|---------|-------|------|------------------------------|
    | 1   | 100       | 2     | 100     | 120   | 0    | completed                    |
    | 2   | 100       | 3     | 120     | 125   | 0, 1 | completed                    |
    | 3   | 104       | 1     | 104     | 112   | 1    | timeout, of 30 s it wanted   |
    | 4   | 110       | 1     | 130     | 134   | 0    | killed, of 50 s it wanted    |
    | 5   | 110       | 1     |         | 130   |      | rejected by a decision       |
    | 6   | 130       | 5     |         | 130   |      | rejected, as it is too large |
    """
    platform = cluster_of(2, 2, static_w=100.0, dynamic_w=10.0, idle_fraction=0.5)
    table = jobs_of(
        (100.0, 20.0, 2),
        (100.0, 5.0, 3),
        (104.0, 30.0, 1, 8.0),
        (110.0, 50.0, 1),
        (110.0, 9.0, 1),
        (130.0, 9.0, 5),
    )
    simulation = Simulation(platform, table, Rules(kill_at_walltime=True))
    for decisions, now_s in (
        ([], 100.0),
        ([AllocateJob(1, [0])], 104.0),
        ([AllocateJob(3, [1])], 110.0),
        ([], 112.0),
        ([], 120.0),
        ([AllocateJob(2, [0, 1])], 125.0),
        ([], 130.0),
    ):
        assert simulation.advance(decisions).now_s == now_s
    simulation.advance([AllocateJob(4, [0]), RejectJob(5)])
    assert simulation.advance([KillJob(4)], elapsed_s=4.0).now_s == 134.0
    assert simulation.advance().ended
    return simulation


WAITS = [0.0, 20.0, 0.0, 20.0]
RUNS = [20.0, 5.0, 8.0, 4.0]
# Power of node 0: 120 W with job 1, 120 W with two tasks of job 2, 110 W with job 4, 50 W idle.
NODE_0_J = 20 * 120 + 5 * 120 + 5 * 50 + 4 * 110
NODE_1_J = 4 * 50 + 8 * 110 + 8 * 50 + 5 * 110 + 5 * 50 + 4 * 50
ENERGY_J = NODE_0_J + NODE_1_J
BY_HAND: dict[str, float] = {
    "jobs": 6,
    "jobs_completed": 2,
    "jobs_killed": 2,
    "jobs_rejected": 2,
    "jobs_skipped": 7,
    "makespan_s": 34.0,
    "mean_wait_s": 10.0,
    "median_wait_s": 10.0,
    "p90_wait_s": 20.0,
    "p95_wait_s": 20.0,
    "p99_wait_s": 20.0,
    "max_wait_s": 20.0,
    "mean_response_s": (20 + 25 + 8 + 24) / 4,
    "mean_slowdown": (20 / 20 + 25 / 5 + 8 / 8 + 24 / 4) / 4,
    "mean_bounded_slowdown": (1 + 25 / 10 + 1 + 24 / 10) / 4,
    "utilization": (2 * 20 + 3 * 5 + 1 * 8 + 1 * 4) / (4 * 34),
    "energy_j": ENERGY_J,
    "computing_energy_j": ENERGY_J - 5 * 50 - (4 + 8 + 5 + 4) * 50,
    "idle_energy_j": 5 * 50 + (4 + 8 + 5 + 4) * 50,
    "sleeping_energy_j": 0.0,
    "switching_on_energy_j": 0.0,
    "switching_off_energy_j": 0.0,
    "wasted_energy_j": 5 * 50 + (4 + 8 + 5 + 4) * 50,
    "energy_kwh": ENERGY_J / 3.6e6,
    "peak_power_w": 120.0 + 110.0,
    "wasted_energy_kwh": (5 * 50 + (4 + 8 + 5 + 4) * 50) / 3.6e6,
    "edp_js": ENERGY_J * 34,
    # Jobs 1 to 4: energy / requested time * response / requested time.
    "jobs_timed_out": 1,
    "mean_normalised_edp": (
        20 * 120 / 20 * 20 / 20
        + 5 * (200 + 30) / 5 * 25 / 5
        + 8 * 110 / 8 * 8 / 8
        + 4 * 110 / 50 * 24 / 50
    )
    / 4,
    "node_shutdowns": 0,
    "job_filling_rate": (20 + 5 + 4 + 8 + 5) / (2 * 34),
}


def test_by_hand() -> None:
    """Every metric of the small run equals the value computed by hand."""
    assert measure(small_run().record(), skipped=7) == pytest.approx(BY_HAND, rel=1e-14)


@pytest.mark.parametrize("group", [job_counts, waits, slowdowns, energies, node_use])
def test_every_metric_of_a_group_is_defined(group: Callable[[Any], Metrics]) -> None:
    """The docstring of a group defines each of its metrics by name."""
    record = small_run().record()
    values = group(jobs_that_ran(record) if group in (waits, slowdowns) else record)
    text = inspect.cleandoc(group.__doc__ or "")  # Python 3.13 removes the indentation itself
    defined = re.findall(r"^    (\w+): ", text.partition("Returns:")[2], re.M)
    assert defined == list(values)


def of_waits(
    waits_s: list[float], runs_s: list[float] | None = None, requested_s: list[float] | None = None
) -> RunRecord:
    """Return a record of jobs with these waits and run times, each alone on a node with 2 W."""
    count = len(waits_s)
    runs_s, requested_s = runs_s or [1.0] * count, requested_s or [1.0] * count
    platform = Platform((NodeGroup(count, (Processor(1, 1.0, 1.0, 1.0, 0.0),)),))
    recording = Recording()
    for row, wanted_s in enumerate(requested_s):
        recording.submitted(JobSpec(row, 0.0, 1.0, wanted_s, 1, "cores"))
    changes = [
        *((wait_s, 1, row) for row, wait_s in enumerate(waits_s)),
        *((waits_s[row] + run_s, 2, row) for row, run_s in enumerate(runs_s)),
    ]
    for time_s, change, row in sorted(changes):
        if change == 1:
            recording.started(row, time_s, [row], [1])
        else:
            recording.ended(row, time_s, "completed")
    return record_of(Cluster(platform, 0.0), recording, 0.0, max(changes)[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [("median_wait_s", 50.0), ("p90_wait_s", 90.0), ("p95_wait_s", 95.0), ("p99_wait_s", 99.0)],
)
def test_percentiles(name: str, expected: float) -> None:
    """Percentile p of the waits 0 to 100 s is p, in any order."""
    waits_s = [float(i * 37 % 101) for i in range(101)]
    assert measure(of_waits(waits_s))[name] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("median_wait_s", 5.0), ("p90_wait_s", 9.0), ("p95_wait_s", 9.5), ("p99_wait_s", 9.9)],
)
def test_percentiles_between_two(name: str, expected: float) -> None:
    """A percentile interpolates linearly between two waits."""
    assert measure(of_waits([10.0, 0.0]))[name] == pytest.approx(expected)


def test_percentiles_have_the_bits_of_numpy() -> None:
    """Percentiles of any number of waits equal those of `np.percentile`."""
    rng = np.random.default_rng(4)
    for count in range(1, 60):
        waits_s = (rng.random(count) * 1e4).tolist()
        metrics = measure(of_waits(waits_s))
        for percent in (90, 95, 99):
            assert metrics[f"p{percent}_wait_s"] == np.percentile(waits_s, percent)


def test_slowdown_excludes_run_time_zero() -> None:
    """A job with run time 0 counts for the bounded slowdown only."""
    metrics = measure(of_waits([30.0, 30.0], [0.0, 10.0]))
    assert metrics["mean_slowdown"] == 4.0
    assert metrics["mean_bounded_slowdown"] == (3.0 + 4.0) / 2


@pytest.mark.parametrize(
    ("wait_s", "run_s", "expected"),
    [(0.0, 1.0, 1.0), (9.0, 1.0, 1.0), (19.0, 1.0, 2.0), (10.0, 10.0, 2.0), (10.0, 20.0, 1.5)],
)
def test_bounded_slowdown(wait_s: float, run_s: float, expected: float) -> None:
    """Bounded slowdown uses a run time of at least 10 s and is at least 1."""
    assert measure(of_waits([wait_s], [run_s]))["mean_bounded_slowdown"] == pytest.approx(expected)


def unlike(*clocks_ghz: float) -> Platform:
    """Return 4-core nodes with these clocks, 100 W static and 10 W/GHz dynamic power."""
    return Platform(
        tuple(NodeGroup(1, (Processor(4, ghz, 100.0, 10.0 * ghz, 0.5),)) for ghz in clocks_ghz)
    )


@pytest.mark.parametrize(("reference_ghz", "run_s"), [(None, 6.0), (1.0, 3.0), (8.0, 24.0)])
def test_normalised_edp_uses_the_fastest_node(reference_ghz: float | None, run_s: float) -> None:
    """Requested times hold at the slowest clock and are scaled to the fastest node."""
    table = jobs_of((0.0, 6.0, 3, 8.0))
    simulation = Simulation(unlike(1.0, 2.0, 4.0), table, Rules(reference_ghz=reference_ghz))
    simulation.advance(elapsed_s=5.0)
    simulation.advance([AllocateJob(1, [1])])
    energy_j, least_s = run_s * (100 + 3 * 20), 8.0 / 4
    expected = (energy_j / least_s) * ((5.0 + run_s) / least_s)
    assert measure(simulation.record())["mean_normalised_edp"] == pytest.approx(expected)


def test_normalised_edp_excludes_tiny_requested_times() -> None:
    """Jobs with a requested time below 1 ns are excluded."""
    waits_s, runs_s = [1.0, 2.0, 3.0], [4.0, 4.0, 4.0]
    record = of_waits(waits_s, runs_s, [0.0, 2.0, 5e-324])
    assert measure(record)["mean_normalised_edp"] == 4 * 2.0 / 2 * 6 / 2
    of_no_time = of_waits(waits_s, runs_s, [0.0, 0.0, 0.0])
    assert measure(of_no_time)["mean_normalised_edp"] == 0.0


@pytest.mark.parametrize(
    ("name", "sequences"), [("deep_eas/lambda_0.9", 4), ("ineps/exp2", None), ("demo", None)]
)
def test_normalised_edp_matches_jobs_csv(name: str, sequences: int | None, tmp_path: Path) -> None:
    """The metric equals the value computed from `jobs.csv` and the requested times."""
    folder = SCENARIOS if name == "demo" else SCENARIOS / "papers"
    overrides = {"workload.synthetic.sequences": sequences} if sequences else {}
    library = Library([folder / f"{name}.yaml"], overrides)
    clocks = [group.ops_per_s for group in library.first.platform.nodes]
    asked_s = {job.job_id: job.requested_s for job in library.first_jobs.rows()}
    opened = open_scenario(library.first, library.first_jobs, "fcfs")
    metrics = run_in_process(opened, make_policy("fcfs"), tmp_path / "out")
    values = []
    with (tmp_path / "out" / "jobs.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            if not row["start_s"]:
                continue
            least_s = asked_s[int(row["job_id"])] * min(clocks) / max(clocks)
            response_s = float(row["end_s"]) - float(row["submit_s"])
            values.append(float(row["energy_j"]) / least_s * response_s / least_s)
    assert len(values) == metrics["jobs_completed"] > 0
    expected = sum(values) / len(values)
    assert metrics["mean_normalised_edp"] == pytest.approx(expected, rel=1e-12)


NONE_RAN = {
    name: 0.0 for name in BY_HAND if name not in {"jobs", "jobs_rejected", "jobs_timed_out"}
}


def test_no_jobs() -> None:
    """A workload without jobs has all metrics, with value 0."""
    empty = simulate(cluster_of(2), jobs_of(*[(0.0, 1.0, 1)]).take(slice(0, 0)))
    assert measure(empty.record()) == {**NONE_RAN, "jobs": 0, "jobs_rejected": 0}


def test_no_job_ran() -> None:
    """If every job is rejected at submission, all means are 0."""
    metrics = measure(simulate(cluster_of(2), jobs_of((5.0, 1.0, 3), (5.0, 1.0, 4))).record())
    assert metrics == {**NONE_RAN, "jobs": 2, "jobs_rejected": 2}


def test_jobs_that_wait_or_run_do_not_count() -> None:
    """In an incomplete run, means are over the jobs that have ended."""
    table = jobs_of((0.0, 4.0, 1), (0.0, 90.0, 1), (1.0, 5.0, 1))
    simulation = Simulation(cluster_of(2), table)
    simulation.advance()
    simulation.advance([AllocateJob(1, [0]), AllocateJob(2, [1])])
    assert simulation.advance().now_s == 4.0
    metrics = measure(simulation.record())
    assert (metrics["jobs"], metrics["jobs_completed"]) == (3, 1)
    assert metrics["mean_response_s"] == 4.0
    assert metrics["utilization"] == 4 / (2 * 4)  # both cores were held all the time
    assert metrics["energy_j"] == 2 * 4 * 110
    assert metrics["job_filling_rate"] == 1.0


def test_utilization_counts_requested_cores() -> None:
    """Utilization counts requested cores, also with whole nodes."""
    table = jobs_of((0.0, 10.0, 5), placement="whole_nodes")
    metrics = measure(simulate(cluster_of(2, 4), table).record())
    assert metrics["utilization"] == 5 / 8
    assert metrics["job_filling_rate"] == 1.0


def test_measuring_twice_changes_nothing() -> None:
    """Measuring an incomplete run does not change its final metrics."""

    def run(looks: bool) -> dict[str, int | float]:
        simulation = Simulation(cluster_of(1), jobs_of((0.0, 0.1, 1), (0.3, 0.7, 1)))
        for decisions in ([], [AllocateJob(1, [0])], [], [AllocateJob(2, [0])]):
            simulation.advance(decisions)
            if looks:
                measure(simulation.record())
        return measure(simulation.record())

    assert run(True) == pytest.approx(run(False), rel=1e-14)


def test_plain_finite_numbers() -> None:
    """Every metric is a finite Python int or float."""
    for simulation in (small_run(), simulate(cluster_of(1), jobs_of((0.0, 1.0, 9)))):
        values = measure(simulation.record()).values()
        assert {type(value) for value in values} <= {int, float}
        assert all(map(math.isfinite, values))


def test_jobs_are_late_after_their_deadline() -> None:
    """A job that ends at its deadline is in time; without deadlines there are no such metrics."""
    table = jobs_of((0.0, 10.0, 1), (0.0, 10.0, 1), (0.0, 10.0, 1), (0.0, 10.0, 1))
    table = replace(table, deadline_s=np.array([10.0, 15.0, np.inf, 100.0]))
    metrics = measure(simulate(cluster_of(1), table).record())
    assert (metrics["jobs_late"], metrics["max_lateness_s"]) == (1, 5.0)
    assert "jobs_late" not in measure(small_run().record())


def test_peak_power_ignores_power_that_is_drawn_for_no_time() -> None:
    """Between the end of one job and the start of the next at one instant, and in zero runs."""
    table = jobs_of((0.0, 10.0, 1), (10.0, 10.0, 2))
    metrics = measure(simulate(cluster_of(2), table).record())
    assert metrics["peak_power_w"] == 220.0
