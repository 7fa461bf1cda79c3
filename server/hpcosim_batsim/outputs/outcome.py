"""The result of a run in Batsim's terms."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version

from hpcosim_batsim.inputs.model import FinalState, JobOutcome, Outcome
from hpcosim_batsim.outputs.energy import PstatesOf, energy_log
from hpcosim_batsim.outputs.hosts import hosts_by_node, hosts_of_jobs, state_changes
from hpcosim_protocol import NodeGroup
from hpcosim_server.record.recording import STATES, Recording
from hpcosim_server.record.run_record import RunRecord

FINAL: Mapping[str, FinalState] = {
    "completed": "COMPLETED_SUCCESSFULLY",
    "timeout": "COMPLETED_WALLTIME_REACHED",
    "killed": "COMPLETED_KILLED",
    "node_failed": "COMPLETED_FAILED",
    "rejected": "REJECTED",
}

JobOf = Callable[[Recording, int], JobOutcome]
"""Returns what is known of a job, by its row, apart from when and where it ran and its energy."""


def plain_job(recording: Recording, row: int) -> JobOutcome:
    """Return a job of one of our workloads, which have no profiles, by its row."""
    return JobOutcome(
        name=str(recording.job_id[row]),
        workload="w0",
        profile="",
        submit_s=recording.submit_s[row],
        res=recording.cores[row],
        walltime_s=recording.requested_s[row],
        state=FINAL[STATES[recording.state[row]]],
    )


def plain_pstates(_: NodeGroup) -> tuple[int, int]:
    """Return the numbers of the power states of one of our nodes: on, and sleeping."""
    return 0, 1


def outcome_of(
    record: RunRecord,
    *,
    job: JobOf = plain_job,
    pstates: PstatesOf = plain_pstates,
    energy: bool = True,
) -> Outcome:
    """Return the result of a run, finished or not; jobs that are not over are left out.

    Args:
        record: the run.
        job: describes a job.
        pstates: numbers the power states of a kind of nodes.
        energy: include the energy over time and of each job.
    """
    hosts = hosts_by_node(record.platform)
    given = hosts_of_jobs(record.recording, hosts)
    states = list(state_changes(record.recording, hosts, given))
    log = energy_log(record, hosts, pstates) if energy else None
    return Outcome(
        hosts=record.platform.core_count,
        jobs=_jobs(record, job, given, energy=energy),
        states=states,
        pstates=log.pstates if log else None,
        energy=log.points if log else None,
        start_s=record.start_s,
        unpaid_j=log.unpaid_j if log else 0.0,
        grouped_switches=sum(change.state.startswith("switching") for change in states),
        version=f"hpcosim {_version()}",
    )


def _version() -> str:
    try:
        return version("hpcosim")
    except PackageNotFoundError:  # run from its source
        return "unknown"


def _jobs(
    record: RunRecord, job: JobOf, given: Mapping[int, array[int]], *, energy: bool
) -> list[JobOutcome]:
    """Return the jobs that are over, in the order in which they were."""
    recording = record.recording
    energies_j = record.job_energies_j if energy else None
    place = {~code: place for place, code in enumerate(recording.changes) if code < 0}
    over = [row for row in range(len(recording)) if not math.isnan(recording.end_s[row])]
    over.sort(key=lambda row: (recording.end_s[row], place.get(row, len(recording.changes))))
    jobs = []
    for row in over:
        told = job(recording, row)
        if row in given:
            told.start_s, told.end_s = recording.start_s[row], recording.end_s[row]
            told.hosts = given[row]
            told.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(told)
    return jobs
