"""What a policy saves against a baseline on the same jobs, and what it costs in waiting."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

YEAR_S = 365 * 86_400.0
LEAST_DELAY_S = 1e-6
"""Differences of waits below are rounding errors, s."""

Metrics = Mapping[str, int | float]

SAVED = ("energy_kwh", "energy_cost", "co2_kg")
WAITS = ("mean_wait_s", "p95_wait_s", "max_wait_s")


class Outcome(NamedTuple):
    """What a comparison needs of a run.

    Attributes:
        metrics: the metrics.
        waits_s: wait of each job that started, s, by job id.
    """

    metrics: Metrics
    waits_s: Mapping[int, float]


def outcome_of(folder: Path, metrics: Metrics) -> Outcome:
    """Return the outcome of a run with results in a folder."""
    with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
        waits_s = {
            int(job["job_id"]): float(job["start_s"]) - float(job["submit_s"])
            for job in csv.DictReader(file)
            if job["start_s"]
        }
    return Outcome(metrics, waits_s)


def savings_of(outcome: Outcome, baseline: Outcome) -> dict[str, int | float]:
    """Return what a policy saves against a baseline, and how much longer jobs wait.

    Returns:
        saved_energy_kwh: Energy of the baseline - energy of the policy, kWh.
        saved_energy_cost: Cost of the baseline - cost of the policy, in the currency of the
            scenario. Only with a price.
        saved_co2_kg: Emissions of the baseline - emissions of the policy, kg of CO2. Only with a
            carbon intensity.
        saved_energy_share: Saved energy / energy of the baseline.
        saved_energy_kwh_per_year: Saved energy of a year of such jobs, kWh: saved_energy_kwh * 365
            days / makespan of the baseline. Like the two below, it is absent if that is 0.
        saved_energy_cost_per_year: Saved cost of a year of such jobs, in the currency.
        saved_co2_kg_per_year: Saved emissions of a year of such jobs, kg of CO2.
        extra_mean_wait_s: Mean wait of the policy - mean wait of the baseline, s.
        extra_p95_wait_s: The same for the 95th percentile of the wait, s.
        extra_max_wait_s: The same for the longest wait, s.
        jobs_compared: Number of jobs that started in both runs.
        jobs_delayed: Number of them that wait longer than with the baseline.
        longest_delay_s: Largest increase of the wait of a job, s; 0: no job waits longer.
        longest_delay_job_id: Id of that job. Absent if no job waits longer.
    """
    ours, theirs = outcome.metrics, baseline.metrics
    saved = {name: theirs[name] - ours[name] for name in SAVED if name in theirs}
    found = {f"saved_{name}": value for name, value in saved.items()}
    total_kwh = theirs["energy_kwh"]
    found["saved_energy_share"] = saved["energy_kwh"] / total_kwh if total_kwh else 0.0
    if theirs["makespan_s"]:
        scale = YEAR_S / theirs["makespan_s"]
        found |= {f"saved_{name}_per_year": value * scale for name, value in saved.items()}
    found |= {f"extra_{name}": ours[name] - theirs[name] for name in WAITS}
    return found | _delays(outcome, baseline)


def _delays(outcome: Outcome, baseline: Outcome) -> dict[str, int | float]:
    """Return the increases of waits, job by job."""
    before_s = baseline.waits_s
    delays_s = {
        job: wait_s - before_s[job] for job, wait_s in outcome.waits_s.items() if job in before_s
    }
    delayed = {job: delay_s for job, delay_s in delays_s.items() if delay_s > LEAST_DELAY_S}
    found: dict[str, int | float] = {
        "jobs_compared": len(delays_s),
        "jobs_delayed": len(delayed),
        "longest_delay_s": max(delayed.values(), default=0.0),
    }
    if delayed:
        found["longest_delay_job_id"] = max(delayed, key=delayed.__getitem__)
    return found
