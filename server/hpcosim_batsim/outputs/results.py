"""The result of a run of a Batsim scheduler, for Batsim's output files."""

from __future__ import annotations

from hpcosim_batsim.bridge.run import SHARED_SLOTS, Run
from hpcosim_batsim.inputs.model import JobOutcome, Outcome
from hpcosim_batsim.outputs.outcome import outcome_of
from hpcosim_batsim.outputs.sharing import merge_slots
from hpcosim_batsim.outputs.unavailable import with_unavailable
from hpcosim_server.record.recording import Recording


def results_of(run: Run) -> Outcome:
    """Return the result of a run, finished or not."""

    def job(recording: Recording, row: int) -> JobOutcome:
        known = run.known.jobs[recording.job_id[row]]
        assert known.final is not None
        return JobOutcome(
            name=known.about.name,
            workload=known.about.workload,
            profile=known.about.profile,
            submit_s=known.about.submit_s,
            res=known.about.res,
            walltime_s=known.about.walltime_s,
            state=known.final,
            metadata=known.metadata,
        )

    outcome = outcome_of(
        run.simulation.record(),
        job=job,
        pstates=run.hosts.pstates_of,
        energy=run.options.energy,
    )
    outcome.grouped_switches = run.switch_requests
    if run.options.compute_sharing:
        merge_slots(outcome, SHARED_SLOTS)
    outcome.states = with_unavailable(outcome.states, run.availability)
    return outcome
