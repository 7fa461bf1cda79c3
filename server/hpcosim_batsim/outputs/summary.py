"""Summary of a run: the row of `PREFIX_schedule.csv`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import get_args

from hpcosim_batsim.outputs.model import MIN_RUN_S, BatsimOutcome, HostState, JobOutcome


def summary(outcome: BatsimOutcome) -> dict[str, str | float | None]:
    """Return the values of the summary by column; None: not measured.

    Times are in seconds, energies in joules. `nb_jobs_finished` counts all jobs that ran, and
    `nb_jobs_killed` those of them without success. Means are sums over the jobs that ran, divided
    by the number of all jobs, also rejected ones, as in Batsim. Slowdowns are those of `stretch`.
    Without jobs all values are 0; Batsim then writes `-nan`.
    """
    ran = [job for job in outcome.jobs if job.start_s is not None and job.end_s is not None]
    waits_s = [(job.start_s or 0.0) - job.submit_s for job in ran]
    turnarounds_s = [(job.end_s or 0.0) - job.submit_s for job in ran]
    stretches = [stretch(job) for job in ran]
    successes = sum(job.state == "COMPLETED_SUCCESSFULLY" for job in outcome.jobs)
    state_s = _state_times_s(outcome)
    return {
        "batsim_version": outcome.version,
        "consumed_joules": _consumed_j(outcome),
        "makespan": max((job.end_s or 0.0 for job in ran), default=0.0),
        "max_slowdown": max(stretches, default=0.0),
        "max_turnaround_time": max(turnarounds_s, default=0.0),
        "max_waiting_time": max(waits_s, default=0.0),
        "mean_slowdown": _mean(stretches, outcome),
        "mean_turnaround_time": _mean(turnarounds_s, outcome),
        "mean_waiting_time": _mean(waits_s, outcome),
        "nb_computing_machines": outcome.hosts,
        "nb_grouped_switches": outcome.grouped_switches,
        "nb_jobs": len(outcome.jobs),
        "nb_jobs_finished": len(ran),
        "nb_jobs_killed": len(ran) - successes,
        "nb_jobs_rejected": sum(job.state == "REJECTED" for job in outcome.jobs),
        "nb_jobs_success": successes,
        "nb_machine_switches": outcome.machine_switches,
        "scheduling_time": outcome.scheduling_s,
        "simulation_time": outcome.simulation_s,
        "success_rate": successes / len(outcome.jobs) if outcome.jobs else 0.0,
        "time_computing": state_s["computing"],
        "time_idle": state_s["idle"],
        "time_sleeping": state_s["sleeping"],
        "time_switching_off": state_s["switching_off"],
        "time_switching_on": state_s["switching_on"],
        "time_unavailable": state_s["unavailable"],
    }


def stretch(job: JobOutcome) -> float:
    """Return the turnaround time of a job divided by its run time, as Batsim does."""
    assert job.start_s is not None
    assert job.end_s is not None
    return (job.end_s - job.submit_s) / max(job.end_s - job.start_s, MIN_RUN_S)


def _state_times_s(outcome: BatsimOutcome) -> dict[HostState, float]:
    """Return the time that all hosts together spent in each state, s.

    As in Batsim, the last state of each host is not counted.
    """
    state: list[HostState] = ["idle"] * outcome.hosts
    since_s = [outcome.start_s] * outcome.hosts
    spent_s: dict[HostState, list[float]] = {name: [] for name in get_args(HostState)}
    for change in outcome.states:
        for host in change.hosts:
            spent_s[state[host]].append(change.time_s - since_s[host])
            state[host], since_s[host] = change.state, change.time_s
    return {name: math.fsum(times_s) for name, times_s in spent_s.items()}


def _consumed_j(outcome: BatsimOutcome) -> float:
    """Return the energy from the first submission to the end of the last job, as Batsim does."""
    ends_j = [point.energy_j for point in outcome.energy or () if point.kind == "e"]
    return ends_j[-1] - outcome.energy_before_j if ends_j else 0.0


def _mean(values: Sequence[float], outcome: BatsimOutcome) -> float:
    return math.fsum(values) / len(outcome.jobs) if values else 0.0
