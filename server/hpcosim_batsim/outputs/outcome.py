"""Result of a run in Batsim's terms."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

from hpcosim_batsim.bridge.final_states import FINAL
from hpcosim_batsim.bridge.switch_log import SwitchLog
from hpcosim_batsim.outputs.energy import energy_log
from hpcosim_batsim.outputs.host_changes import (
    hosts_by_node,
    hosts_of_jobs,
    logged_state_changes,
    pstate_changes,
    state_changes,
)
from hpcosim_batsim.outputs.model import MIN_RUN_S, BatsimOutcome, JobOutcome
from hpcosim_sim.record.recording import STATES, Recording
from hpcosim_sim.record.run_record import RunRecord

JobOf = Callable[[Recording, int], JobOutcome]
"""Returns the result of the job in a row of the recording, without start, end, hosts, energy."""


def native_job(recording: Recording, row: int) -> JobOutcome:
    """Return the job in a row of the recording of a run without Batsim's workloads."""
    return JobOutcome(
        name=str(recording.job_id[row]),
        workload="w0",
        profile="",
        submit_s=recording.submit_s[row],
        res=recording.cores[row],
        walltime_s=recording.requested_s[row],
        state=FINAL[STATES[recording.state[row]]],
    )


def outcome_of(
    record: RunRecord,
    *,
    job: JobOf = native_job,
    log: SwitchLog | None = None,
    energy: bool = True,
) -> BatsimOutcome:
    """Return the result of a run, complete or not, without the jobs that have not ended.

    Args:
        record: the run.
        job: returns the result of a job.
        log: the requests to change pstates; None: each change of power in the recording is one.
        energy: include the energy over time and of each job, and the pstates.
    """
    recording, hosts = record.recording, hosts_by_node(record.platform)
    allocated = hosts_of_jobs(recording, hosts)
    if log is None:
        states = list(state_changes(recording, hosts, allocated))
        switches = [change.hosts for change in states if change.state.startswith("switching")]
        requests, switched = len(switches), sum(map(len, switches))
        pstates = list(pstate_changes(recording, hosts))
    else:
        states = list(logged_state_changes(recording, hosts, allocated, log.states))
        requests, switched, pstates = log.requests, log.hosts, log.pstates
    consumed = energy_log(record, None if log is None else log.energy) if energy else None
    return BatsimOutcome(
        hosts=record.platform.core_count,
        jobs=_jobs(record, job, allocated, energy=energy),
        states=states,
        pstates=pstates if energy else None,
        energy=consumed.points if consumed else None,
        start_s=record.start_s,
        energy_before_j=consumed.before_j if consumed else 0.0,
        grouped_switches=requests,
        machine_switches=switched,
        version=f"hpcosim {_version()}",
    )


def _version() -> str:
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # run from the source tree
        return "unknown"


def _jobs(
    record: RunRecord, job: JobOf, allocated: Mapping[int, array[int]], *, energy: bool
) -> list[JobOutcome]:
    """Return the jobs that have ended, in the order in which they ended."""
    recording = record.recording
    energies_j = record.job_energies_j if energy else None
    row_of = recording.periods.row
    place = {row_of[~code]: place for place, code in enumerate(recording.changes) if code < 0}
    ended = [row for row in range(len(recording)) if not math.isnan(recording.end_s[row])]
    ended.sort(key=lambda row: (recording.end_s[row], place.get(row, len(recording.changes))))
    jobs = []
    for row in ended:
        result = job(recording, row)
        if row in allocated:
            result.start_s, result.end_s = recording.start_s[row], recording.end_s[row]
            if result.end_s == result.start_s:
                result.end_s += MIN_RUN_S
            result.hosts = allocated[row]
            result.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(result)
    return jobs
