"""`SteppedEngine`: the simulation engine, advanced by one instant at a time for Batsim's protocol.

`hpcosim_sim.engine.simulation` is its counterpart for hpcosim's protocol.
"""

from __future__ import annotations

import math

from hpcosim_protocol import Decision, Event
from hpcosim_sim.engine import decisions
from hpcosim_sim.engine.engine import Engine
from hpcosim_workloads.table import JobSpec


class SteppedEngine(Engine):
    """An engine that advances by one instant at a time.

    Every job joins the queue, because Batsim leaves it to the scheduler to reject jobs that cannot
    run. Power switches and alarms continue after the last job has ended.
    """

    def admission_error(self, spec: JobSpec) -> str:
        """Return an empty text: no job is rejected at its submission."""
        return ""

    def step(self, until_s: float = math.inf) -> list[Event]:
        """Process the next instant and return its events.

        Args:
            until_s: if there is no event until this time, s, advance to it; infinity: do not
                advance then.

        Returns:
            The events since the last call, see `take_events`.
        """
        clock = self.clock
        if clock.next_s() <= until_s:
            clock.run_instant()
        elif until_s < math.inf:
            clock.advance_to(until_s)
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        return self.outbox.take()

    def next_s(self) -> float:
        """Return the time of the next event, s; infinity: there is none."""
        return self.clock.next_s()

    def carry_out(self, decision: Decision) -> None:
        """Apply a decision at the current time.

        Raises:
            Rejection: the decision is rejected.
        """
        decisions.carry_out(self, decision)

    def reshape(self, job_id: int, cores: int, run_s: float) -> None:
        """Set the cores and the run time of a waiting job.

        Args:
            job_id: number of the job.
            cores: requested cores.
            run_s: run time on the nodes of its allocation, s; infinity: `complete` ends the job,
                unless it reaches its requested time.

        Raises:
            Rejection: the job does not wait.
        """
        job = self.jobs.waiting_job(job_id)
        job.spec = job.spec._replace(cores=cores, run_s=run_s)
        self.recording.cores[job.row] = cores

    def complete(self, job_id: int) -> None:
        """End a running job successfully.

        Raises:
            Rejection: the job does not run.
        """
        self.end(self.jobs.running_job(job_id), "completed")
