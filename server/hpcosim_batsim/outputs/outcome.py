"""Result of a run in Batsim's terms."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version

from hpcosim_batsim.bridge.final_states import FINAL
from hpcosim_batsim.outputs.energy import PstatesOf, energy_log
from hpcosim_batsim.outputs.host_changes import (
    Hosts,
    hosts_by_node,
    hosts_of_jobs,
    state_changes,
)
from hpcosim_batsim.outputs.model import BatsimOutcome, JobOutcome, StateChange
from hpcosim_protocol import NodeGroup
from hpcosim_server.record.recording import STATES, Recording
from hpcosim_server.record.run_record import RunRecord

JobOf = Callable[[Recording, int], JobOutcome]
"""Returns the result of the job in a row of the recording, without start, end, hosts, energy."""


StatesOf = Callable[[Recording, Hosts, Mapping[int, "array[int]"]], Iterable[StateChange]]
"""Returns the state changes of hosts from a recording, the hosts of each node and of each job."""


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


def native_pstates(_: NodeGroup) -> tuple[int, int]:
    """Return the pstates of a node of a platform that is not Batsim's: 0 on, 1 asleep."""
    return 0, 1


def outcome_of(
    record: RunRecord,
    *,
    job: JobOf = native_job,
    pstates: PstatesOf = native_pstates,
    states: StatesOf = state_changes,
    energy: bool = True,
) -> BatsimOutcome:
    """Return the result of a run, complete or not, without the jobs that have not ended.

    Args:
        record: the run.
        job: returns the result of a job.
        pstates: returns the pstates of a kind of node.
        states: returns the state changes of hosts, see `state_changes`.
        energy: include the energy over time and of each job.
    """
    hosts = hosts_by_node(record.platform)
    allocated = hosts_of_jobs(record.recording, hosts)
    changes = list(states(record.recording, hosts, allocated))
    switches = [change for change in changes if change.state.startswith("switching")]
    log = energy_log(record, hosts, pstates) if energy else None
    return BatsimOutcome(
        hosts=record.platform.core_count,
        jobs=_jobs(record, job, allocated, energy=energy),
        states=changes,
        pstates=log.pstates if log else None,
        energy=log.points if log else None,
        start_s=record.start_s,
        energy_before_j=(log.energy_before_j if log else None) or 0.0,
        grouped_switches=len(switches),
        machine_switches=sum(len(change.hosts) for change in switches),
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
            result.hosts = allocated[row]
            result.energy_j = None if energies_j is None else energies_j[row]
        jobs.append(result)
    return jobs
