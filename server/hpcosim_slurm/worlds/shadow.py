"""A virtual copy of the cluster: the scheduler drives it, and never touches the real one.

The rules, beside those of `copied`:

* A job starts where and when the scheduler says, and runs for its real run time. If the real job is
  not over yet, the copy ends when the run time becomes known, at the latest at its time limit:
  nothing that lies in the future is ever used.
* A requeue because of a failed node concerns the copy of a job only if it is on that node.
"""

from __future__ import annotations

from typing import Protocol

from hpcosim_protocol import Decision
from hpcosim_sim.errors import Rejection
from hpcosim_slurm.state import LiveJob
from hpcosim_slurm.worlds.copied import CopiedCluster
from hpcosim_slurm.worlds.difference import Change
from hpcosim_slurm.worlds.live_engine import KnownRun, LiveEngine
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled

# The protocol of a world: what a scheduler sees, and what its decisions do.


class World(Protocol):
    """What a scheduler sees of a live cluster, and what its decisions do.

    Attributes:
        engine: the state of the cluster as the scheduler sees it. Its outbox has the events that
            the scheduler has not got.
    """

    engine: LiveEngine

    def pass_to(self, now_s: float) -> None:
        """Let time pass up to now, a Unix time, s."""

    def note(self, change: Change) -> None:
        """Note what changed in reality."""

    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """Carry out a decision now, or add the event that rejects it.

        Args:
            decision: the decision.
            seq: number of its request.
            index: its position in the request.
        """


class ShadowWorld(CopiedCluster):
    """A virtual copy of the part of a cluster that a scheduler sees; see `CopiedCluster`."""

    def carry_out(self, decision: Decision, seq: int, index: int) -> None:
        """See `World`."""
        try:
            self._check_own(decision)
        except Rejection as rejection:
            self.engine.reject(decision, seq, index, rejection)
            return
        self.engine.decide(decision, seq, index)

    def _over(self, job: LiveJob) -> None:
        """Note that a real job is over: now its run time is known."""
        engine, found = self.engine, self.engine.jobs.find(job.id)
        if found is None:
            return
        if is_cancelled(job):
            engine.end(found, "cancelled")
            return
        if job.slurm_state.startswith("DEADLINE"):
            engine.end(found, "deadline")
            return
        run_s = self._run_times.of(job)
        if run_s is None:  # Slurm has ended it without a run, such as BOOT_FAIL
            engine.end(found, "cancelled", f"Slurm: {job.slurm_state}"[:200])
            return
        engine.end_timers.learn(job.id, KnownRun(run_s, final_state_of(job)))
