"""The engine, advanced instant by instant: a shell for schedulers of Batsim.

`hpcosim_server.engine.simulation` is the shell for schedulers of our protocol.
"""

from __future__ import annotations

import math

from hpcosim_protocol import Decision, Event
from hpcosim_server.engine import decisions
from hpcosim_server.engine.engine import Engine
from hpcosim_workloads.table import JobSpec


class SteppedEngine(Engine):
    """An engine that a scheduler advances by one instant at a time.

    Every job joins the queue: Batsim's schedulers reject themselves the jobs that can never run.
    When the last job is over, nodes on their way and alarms go on.
    """

    def admission_error(self, spec: JobSpec) -> str:
        """Return an empty text: no job is rejected at its submission."""
        return ""

    def step(self, until_s: float = math.inf) -> list[Event]:
        """Let the next instant happen, and return its events.

        Args:
            until_s: if nothing happens by this time, s, time passes up to it; if it is infinity,
                no time passes then.

        Returns:
            As `take_events`.
        """
        clock = self.clock
        if clock.next_s() <= until_s:
            clock.run_instant()
        elif until_s < math.inf:
            clock.advance_to(until_s)
        return self.take_events()

    def take_events(self) -> list[Event]:
        """Return what has happened since this was last called, in order."""
        return self.outbox.take()

    def next_s(self) -> float:
        """Return when something happens next, s; infinity: never."""
        return self.clock.next_s()

    def carry_out(self, decision: Decision) -> None:
        """Carry out a decision now.

        Raises:
            Rejection: the decision is rejected.
        """
        decisions.carry_out(self, decision)

    def reshape(self, job_id: int, cores: int, run_s: float) -> None:
        """Change what a waiting job asks for, and how long it runs.

        Args:
            job_id: the job's number.
            cores: the cores it asks for.
            run_s: its run time on the nodes it will be given, s.

        Raises:
            Rejection: it does not wait.
        """
        job = self.jobs.waiting_job(job_id)
        job.spec = job.spec._replace(cores=cores, run_s=run_s)
        self.recording.cores[job.row] = cores
