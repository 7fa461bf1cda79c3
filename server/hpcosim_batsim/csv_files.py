"""Batsim's output files, with the columns and formats of v4.2.1.

They differ from Batsim's files in three ways. Times of states and pstates have up to 15 significant
digits; Batsim's 6 digits are coarser than a second after eleven days. The version is hpcosim's.
Values that were not measured are empty, by default wall-clock times, which differ between runs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import get_args

from hpcosim_batsim.results import MIN_RUN_S, BatsimOutcome, HostState, JobOutcome
from hpcosim_sim.record.tables import intervals

JOB_COLUMNS = (
    "job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,"
    "success,final_state,starting_time,execution_time,finish_time,waiting_time,turnaround_time,"
    "stretch,allocated_resources,consumed_energy,metadata"
)
MACHINE_STATE_COLUMNS = "time,nb_sleeping,nb_switching_on,nb_switching_off,nb_idle,nb_computing"
PSTATE_COLUMNS = "time,machine_id,new_pstate"
ENERGY_COLUMNS = "time,energy,event_type,wattmin,epower"
_COUNTED: tuple[HostState, ...] = (
    "sleeping",
    "switching_on",
    "switching_off",
    "idle",
    "computing",
)


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


def files_of(
    outcome: BatsimOutcome, prefix: str = "out", *, complete: bool = True
) -> dict[str, Iterable[str]]:
    """Return the lines of each file by name, `PREFIX_jobs.csv` and so on.

    The files on energy and pstates are included if the outcome has these.

    Args:
        complete: include `PREFIX_schedule.csv`. Batsim writes this summary at the end of a
            simulation; a Batsim that is stopped before leaves none. The summary only counts jobs
            that have ended, so one of a run cut short would read as a success.
    """
    files: dict[str, Iterable[str]] = {
        f"{prefix}_jobs.csv": _job_lines(outcome),
        f"{prefix}_machine_states.csv": _machine_state_lines(outcome),
    }
    if complete:
        files[summary_file(prefix)] = _schedule_lines(outcome)
    if outcome.pstates is not None:
        files[f"{prefix}_pstate_changes.csv"] = _pstate_lines(outcome)
    if outcome.energy is not None:
        files[f"{prefix}_consumed_energy.csv"] = _energy_lines(outcome)
    return files


SUMMARY5 = "schedule.json"
"""End of the name of the summary of Batsim 5."""


def files5_of(
    outcome: BatsimOutcome,
    prefix: str,
    *,
    machine_states: bool,
    pstates: bool,
    complete: bool = True,
) -> dict[str, Iterable[str]]:
    """Return the lines of each file of Batsim 5 by name, `PREFIXjobs.csv` and so on.

    Args:
        complete: include `PREFIXschedule.json`, see `files_of`.
    """
    files: dict[str, Iterable[str]] = {f"{prefix}jobs.csv": _job_lines(outcome, metadata="")}
    if machine_states:
        files[f"{prefix}machine_states.csv"] = _machine_state_lines(outcome)
    if pstates:
        files[f"{prefix}pstate_changes.csv"] = _pstate_lines(outcome)
    if outcome.energy is not None:
        files[f"{prefix}consumed_energy.csv"] = _energy_lines(outcome)
    if complete:
        files[f"{prefix}{SUMMARY5}"] = _summary5_lines(outcome)
    if complete and outcome.scheduling_s is not None:
        files[f"{prefix}real_exec_info.json"] = _object_lines(
            {
                "time_in_edc_seconds": outcome.scheduling_s,
                "time_in_simu_seconds": outcome.simulation_s,
            }
        )
    return files


def _summary5_lines(outcome: BatsimOutcome) -> Iterator[str]:
    row = summary(outcome)
    del row["scheduling_time"], row["simulation_time"]
    ran = [job for job in outcome.jobs if job.start_s is not None]
    first_s = min((job.submit_s for job in ran), default=0.0)
    end_s = row["makespan"]
    assert isinstance(end_s, float)
    yield from _object_lines({**row, "makespan": end_s - first_s})


def _object_lines(values: Mapping[str, str | float | None]) -> Iterator[str]:
    yield "{\n"
    rows = [f"  {json.dumps(name)}: {_json_of(value)}" for name, value in values.items()]
    yield ",\n".join(rows) + "\n}\n"


def _json_of(value: str | float | None) -> str:
    return f"{value:f}" if isinstance(value, float) else json.dumps(value)


def summary_file(prefix: str) -> str:
    """Return the name of the summary, which is only there if the other files are whole."""
    return f"{prefix}_schedule.csv"


def _job_lines(outcome: BatsimOutcome, metadata: str | None = None) -> Iterator[str]:
    """Yield the lines of jobs.

    Args:
        metadata: last column; default: the metadata of each job, quoted.
    """
    yield JOB_COLUMNS + "\n"
    for job in outcome.jobs:
        last = f'"{_quoted(job.metadata)}"' if metadata is None else metadata
        walltime_s = -1.0 if job.walltime_s is None else job.walltime_s
        yield (
            f"{_cell(job.name)},{_cell(job.workload)},{_cell(job.profile)},{job.submit_s:f},"
            f"{job.res},{walltime_s:f},{int(job.state == 'COMPLETED_SUCCESSFULLY')},{job.state},"
            f"{_run_columns(job)},{last}\n"
        )


def _run_columns(job: JobOutcome) -> str:
    if job.start_s is None or job.end_s is None:
        return ",,,,,,,"
    # Times are rounded before subtraction: columns add up, and the jobs of a host do not overlap.
    submit_s, start_s, end_s = (round(t, 6) for t in (job.submit_s, job.start_s, job.end_s))
    energy_j = -1.0 if job.energy_j is None else job.energy_j
    return (
        f"{start_s:f},{end_s - start_s:f},{end_s:f},{start_s - submit_s:f},{end_s - submit_s:f},"
        f"{stretch(job):f},{intervals(job.hosts)},{energy_j:f}"
    )


def _machine_state_lines(outcome: BatsimOutcome) -> Iterator[str]:
    yield MACHINE_STATE_COLUMNS + "\n"
    state: list[HostState] = ["idle"] * outcome.hosts
    counts: dict[HostState, int] = dict.fromkeys(get_args(HostState), 0)
    counts["idle"] = outcome.hosts
    for change in outcome.states:
        for host in change.hosts:
            counts[state[host]] -= 1
            counts[change.state] += 1
            state[host] = change.state
        if change.counted:
            numbers = ",".join(str(counts[name]) for name in _COUNTED)
            yield f"{_time(change.time_s)},{numbers}\n"


def _pstate_lines(outcome: BatsimOutcome) -> Iterator[str]:
    yield PSTATE_COLUMNS + "\n"
    for change in outcome.pstates or ():
        yield f"{_time(change.time_s)},{intervals(change.hosts)},{change.pstate}\n"


def _energy_lines(outcome: BatsimOutcome) -> Iterator[str]:
    yield ENERGY_COLUMNS + "\n"
    before_s, before_j = outcome.start_s, 0.0
    for point in outcome.energy or ():
        passed_s = point.time_s - before_s
        mean_w = f"{(point.energy_j - before_j) / passed_s:f}" if passed_s > 0 else "NA"
        yield f"{point.time_s:f},{point.energy_j:f},{point.kind},{point.idle_w:f},{mean_w}\n"
        before_s, before_j = point.time_s, point.energy_j


def _schedule_lines(outcome: BatsimOutcome) -> Iterator[str]:
    row = summary(outcome)
    yield ",".join(row) + "\n"
    yield ",".join(_text_of(value) for value in row.values()) + "\n"


def _text_of(value: str | float | None) -> str:
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, float) else _cell(str(value))


def _time(time_s: float) -> str:
    return f"{time_s:.15g}"


def _cell(text: str) -> str:
    """Return text as a CSV cell, quoted if it has a separator."""
    return f'"{_quoted(text)}"' if any(sign in text for sign in ',"\r\n') else text


def _quoted(text: str) -> str:
    return text.replace('"', '""')
