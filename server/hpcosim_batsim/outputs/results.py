"""Result of a run of a Batsim scheduler, for Batsim's output files."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping

from hpcosim_batsim.bridge.run import SHARED_SLOTS, BatsimRun
from hpcosim_batsim.bridge.switch_log import PstateChange
from hpcosim_batsim.outputs.host_changes import Hosts, logged_state_changes
from hpcosim_batsim.outputs.model import BatsimOutcome, JobOutcome, StateChange
from hpcosim_batsim.outputs.outcome import outcome_of
from hpcosim_batsim.outputs.sharing import merge_slots
from hpcosim_batsim.outputs.unavailability import add_unavailable_states
from hpcosim_server.record.recording import Recording


def results_of(run: BatsimRun) -> BatsimOutcome:
    """Return the result of a run, complete or not."""

    def outcome_of_job(recording: Recording, row: int) -> JobOutcome:
        job = run.registry.jobs[recording.job_id[row]]
        assert job.final is not None
        return JobOutcome(
            name=job.source.name,
            workload=job.source.workload,
            profile=job.source.profile,
            submit_s=job.source.submit_s,
            res=job.source.res,
            walltime_s=job.source.walltime_s,
            state=job.final,
            metadata=job.metadata,
        )

    def states(
        recording: Recording, hosts: Hosts, allocated: Mapping[int, array[int]]
    ) -> Iterator[StateChange]:
        return logged_state_changes(recording, hosts, allocated, run.hosts.log.states)

    outcome = outcome_of(
        run.simulation.record(),
        job=outcome_of_job,
        pstates=run.hosts.pstates_of,
        states=states,
        energy=run.options.energy,
    )
    log = run.hosts.log
    outcome.grouped_switches, outcome.machine_switches = log.requests, log.hosts
    if run.options.compute_sharing:
        merge_slots(outcome, SHARED_SLOTS)
    if outcome.pstates is not None:
        outcome.pstates = [*_initial_pstates(run), *log.pstates]
    outcome.states = add_unavailable_states(outcome.states, run.availability)
    return outcome


def _initial_pstates(run: BatsimRun) -> list[PstateChange]:
    hosts_in: dict[int, list[int]] = {}
    for number, host in enumerate(run.platform.hosts):
        hosts_in.setdefault(host.pstate, []).append(number)
    return [PstateChange(0.0, hosts, pstate) for pstate, hosts in sorted(hosts_in.items())]
