"""Result of a run of a Batsim scheduler, for Batsim's output files."""

from __future__ import annotations

from hpcosim_batsim.bridge.run import SHARED_SLOTS, BatsimRun
from hpcosim_batsim.outputs.model import BatsimOutcome, JobOutcome
from hpcosim_batsim.outputs.outcome import outcome_of
from hpcosim_batsim.outputs.sharing import merge_slots
from hpcosim_batsim.outputs.unavailability import add_unavailable_states
from hpcosim_sim.record.recording import Recording


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

    outcome = outcome_of(
        run.simulation.record(),
        job=outcome_of_job,
        log=run.hosts.log,
        energy=run.options.energy,
    )
    if run.options.compute_sharing:
        merge_slots(outcome, SHARED_SLOTS)
    outcome.states = add_unavailable_states(outcome.states, run.availability)
    return outcome
