"""The node-centric study: weeks, interpretations, measures, and files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_experiments.definition import combinations_of, load_experiment
from hpcosim_experiments.executors import Local
from hpcosim_experiments.statistics.rows import Row
from hpcosim_papers.node_centric import paper
from hpcosim_papers.node_centric import reproduce as tables
from hpcosim_papers.node_centric.paper import energies_j, measured
from hpcosim_papers.node_centric.reproduce import compare_weeks, study_of, whole_log
from hpcosim_papers.studies.study import Request, Study, only, plan, scenario_path
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import LoadedScenario
from hpcosim_scenarios.running.policies import chosen_by
from hpcosim_scenarios.running.run import opened_with
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads import shaping
from hpcosim_workloads.table import PLACEMENTS, JobTable, job_table

ONE_NODE = PLACEMENTS.index("one_node")
KIT = scenario_path("node_centric", "kit")
FILES = {
    "experiment.json",
    "runs",
    "results.csv",
    "summary.md",
    *(f"{kind}-{cap}.png" for kind in ("boxes", "wins", "energy", "jobs") for cap in paper.CAPS),
}


def log_of(**columns: Any) -> JobTable:
    """Return a log of jobs that each run on one node."""
    count = len(columns["submit_s"])
    return job_table(job_id=range(1, count + 1), placement=ONE_NODE, **columns)


def small_log(jobs: int = 60, weeks: float = 2.0, seed: int = 1) -> JobTable:
    """Return a log with random jobs of up to 500 cores and 20 hours."""
    rng = np.random.default_rng(seed)
    run_s = rng.uniform(60, 72000, jobs)
    return log_of(
        submit_s=np.sort(rng.uniform(0, weeks * paper.WEEK_S, jobs)),
        run_s=run_s,
        requested_s=run_s * rng.uniform(1, 5, jobs),
        cores=rng.integers(1, 501, jobs),
    )


def measures_of(jobs: JobTable, scheduler: str = "first-high-gflops") -> dict[str, float]:
    """Return the measures of these jobs as one week."""
    return measured(record_of(jobs, scheduler), jobs)


def record_of(jobs: JobTable, scheduler: str) -> RunRecord:
    """Return the record of a run of these jobs."""
    scenario = load_scenario(KIT)
    chosen = chosen_by(scenario, KIT, scheduler)
    with opened_with(chosen, LoadedScenario(scenario, jobs, {}, None)) as (opened, policy):
        run_in_process(opened, policy)
    return opened.simulation.record()


def experiment_of(folder: Path, jobs: JobTable, weeks: int) -> Study:
    """Return the study on the first weeks of another log."""
    columns = (jobs.job_id, jobs.submit_s, jobs.run_s, jobs.requested_s, jobs.cores)
    names = ("job_id", "submit_s", "run_s", "requested_s", "cores")
    lines = [
        json.dumps(dict(zip(names, (value.item() for value in line), strict=True)))
        for line in zip(*columns, strict=True)
    ]
    (folder / "log.jsonl").write_text("\n".join(lines) + "\n")
    log = {"workload.trace": None, "workload.json": str(folder / "log.jsonl")}
    return study_of()._replace(
        overrides=log, changed=only(lambda labels: int(labels["week"]) < weeks)
    )


def rows_of(makespans: dict[str, list[float]], energies: dict[str, list[float]]) -> list[Row]:
    """Return results of every scheduler; schedulers without values get those of Duplex."""
    weeks = len(makespans[paper.PAPERS_DUPLEX])
    rows: list[Row] = []
    for scheduler in paper.SCHEDULERS:
        like = scheduler if scheduler in makespans else paper.PAPERS_DUPLEX
        for week in range(weeks):
            row: dict[str, Any] = {reading.column: 1.0 for reading in paper.READINGS}
            row |= {"cap": "clip", "week": week, "scheduler": scheduler, "jobs": 10}
            row["makespan_s"] = makespans[like][week] * paper.WEEK_S
            row["energy_fraction_j"] = energies[like][week]
            rows.append(row)
    return rows


def test_weeks_follow_each_other() -> None:
    """The experiment has 41 weeks, each from the end of the one before, for each cap."""
    axes = combinations_of(load_experiment(study_of().experiment)).axes
    week_s = paper.WEEK_S
    windows = [value.value for value in axes["week"].values]
    assert windows == [[week * week_s, (week + 1) * week_s] for week in range(41)]
    assert [value.label for value in axes["week"].values] == [str(week) for week in range(41)]
    assert [value.label for value in axes["cap"].values] == list(paper.CAPS)
    assert [value.label for value in axes["scheduler"].values] == list(paper.SCHEDULERS)


def test_caps_cut_jobs_to_a_node(tmp_path: Path) -> None:
    """Cores are clipped, or divided by 8, rounded up and clipped."""
    log = log_of(submit_s=[0.0] * 5, run_s=1.0, requested_s=1.0, cores=[1, 9, 64, 500, 1000])
    planned = plan(experiment_of(tmp_path, log, 1))
    assert whole_log(planned, "clip").cores.tolist() == [1, 9, 64, 64, 64]
    assert whole_log(planned, "eighth").cores.tolist() == [1, 2, 8, 63, 64]


@pytest.mark.parametrize("scheduler", paper.SCHEDULERS)
def test_energy_by_replay_is_the_metered_one(scheduler: str) -> None:
    """The energy of a replayed schedule equals the metered energy."""
    log = shaping.cap_cores(shaping.divide_cores(small_log(40, 0.5), 8), 64)
    record = record_of(log, scheduler)
    all_on_j, untouched_off_j = energies_j(record, record.platform)
    assert all_on_j == pytest.approx(record.energy_j, rel=1e-12)
    assert untouched_off_j <= all_on_j


def test_readings_of_idle_power_differ_by_what_idle_nodes_draw() -> None:
    """Energies for each interpretation of idle power equal a hand calculation."""
    log = log_of(submit_s=[0.0, 7200.0], run_s=[14400.0, 14400.0], requested_s=14400.0, cores=64)
    values = measures_of(log)
    static_w = [35.108 * (ghz / 3) ** 2 for ghz in (1, 2, 3, 4)]
    computing_j = 7200 * (static_w[3] + 64 * 3.313 * (4 / 3) ** 2)
    of_fifteen_s, between_s = 15 * 10800, 3600
    idle_ws = 4 * sum(static_w) * 10800 - static_w[3] * 7200  # static power x idle seconds
    assert values["makespan_s"] == 10800
    assert values["energy_fraction_j"] == pytest.approx(computing_j + 0.3959 * idle_ws)
    assert values["energy_watts_j"] == pytest.approx(computing_j + 0.4 * (of_fifteen_s + between_s))
    assert values["energy_fraction_untouched_j"] == pytest.approx(
        computing_j + 0.3959 * static_w[3] * between_s
    )
    assert values["energy_watts_untouched_j"] == pytest.approx(computing_j + 0.4 * between_s)
    assert values["edp_watts_js"] == pytest.approx(10800 * values["energy_watts_j"])


def test_slowdown_by_hand() -> None:
    """Slowdowns, (wait + run time) / t_b, equal a hand calculation for both interpretations of t_b.

    17 jobs of a whole node are submitted together; each runs 1 h at 1 GHz and requests 2 h.
    HighGFlops starts 16 of them, 4 at each clock rate, and the last when the first at 4 GHz ends.
    """
    log = log_of(submit_s=[0.0] * 17, run_s=3600.0, requested_s=7200.0, cores=64)
    values = measures_of(log)
    responses_s = [4 * 3600 / ghz for ghz in (1, 2, 3, 4)]
    total_s = sum(responses_s) + 900 + 900
    assert values["mean_wait_s"] == pytest.approx(900 / 17)
    assert values["slowdown_requested"] == pytest.approx(total_s / 17 / 7200)
    assert values["slowdown_run"] == pytest.approx(total_s / 17 / 3600)


def test_jobs_of_no_run_time_are_left_out_of_the_slowdown() -> None:
    """A job without run time counts in all measures except the slowdown."""
    log = log_of(submit_s=[0.0, 1.0], run_s=[0.0, 3600.0], requested_s=[60.0, 3600.0])
    assert measures_of(log)["slowdown_run"] == pytest.approx(0.25)


def test_ties_are_wins_of_all() -> None:
    """All schedulers with the best value of a week win it, up to rounding."""
    values = {
        "a": np.array([1.0, 2.0, 3.0, 0.0]),
        "b": np.array([1.0 + 1e-12, 1.0, 4.0, 0.0]),
        "c": np.array([1.1, 5.0, 2.0, 1.0]),
    }
    assert paper.wins(values, ["a", "b", "c"]) == {"a": 2, "b": 3, "c": 1}
    assert paper.wins(values, ["a", "c"]) == {"a": 3, "c": 1}


def test_change_is_against_the_mean_of_the_baselines() -> None:
    """A change is in percent of the mean of the baselines."""
    of = {"a": 50.0, "b": 90.0, "c": 110.0, "d": 0.0}
    assert tables.change(of, "a", ["b", "c"]) == pytest.approx(-50.0)
    assert np.isnan(tables.change(of, "a", ["d"]))


def test_the_drawn_week_resembles_the_paper() -> None:
    """The week nearest to the medians is chosen, first among weeks that match the paper."""
    makespans = {
        "first-high-gflops": [1.0, 1.1, 1.2],
        "first-low-power": [1.1, 1.2, 1.3],
        paper.PAPERS_DUPLEX: [1.0, 1.3, 1.9],
    }
    energies = {
        "first-high-gflops": [2.0, 2.0, 2.0],
        "first-low-power": [1.0, 1.0, 1.0],
        paper.PAPERS_DUPLEX: [3.0, 3.0, 3.0],
    }
    rows = rows_of(makespans, energies)
    assert paper.resembles_figures(rows).tolist() == [False, True, True]
    assert paper.representative_week(rows) == 1
    makespans[paper.PAPERS_DUPLEX] = [1.0, 1.0, 1.0]
    assert not paper.resembles_figures(rows_of(makespans, energies)).any()
    assert paper.representative_week(rows_of(makespans, energies)) == 1


@pytest.mark.slow
def test_study_writes_all_files(tmp_path: Path) -> None:
    """Two weeks of a small log with every scheduler give all files."""
    study = experiment_of(tmp_path, small_log(), 2)
    out = tmp_path / "out"
    compare_weeks(study, Request("node-centric", out, executor=Local(workers=2)))
    assert {path.name for path in out.iterdir()} == FILES
    with (out / "results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(paper.CAPS) * 2 * len(paper.SCHEDULERS)
    jobs = {row["week"]: int(row["jobs"]) for row in rows}
    assert sum(jobs.values()) == len(small_log())
    assert all(float(row[reading.column]) >= 0 for row in rows for reading in paper.READINGS)


@pytest.mark.trace
def test_real_log_has_the_weeks_and_sizes_the_readme_names(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log has the number of weeks and the mean cores that the README states."""
    monkeypatch.setenv("HPCOSIM_TRACES", str(traces))
    planned = plan(study_of())
    logs = {cap: whole_log(planned, cap) for cap in paper.CAPS}
    assert len(logs["clip"]) == 25326
    submit_s = logs["clip"].submit_s
    assert len(set((submit_s // paper.WEEK_S).astype(int).tolist())) == 41
    means = [float(log.cores.mean()) for log in logs.values()]
    assert means == pytest.approx([48.8, 22.1], abs=0.05)
