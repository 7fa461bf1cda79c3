"""The engine of a simulation whose jobs end when their run times become known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from hpcosim_protocol import Decision, DecisionRejected, JobState, Platform, SimulationBegan
from hpcosim_protocol.tags import snake_case
from hpcosim_sim.engine.clock import Rank, Timer
from hpcosim_sim.engine.decisions import carry_out
from hpcosim_sim.engine.end_timers import EndTimers
from hpcosim_sim.engine.engine import Engine
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.engine.rules import Rules
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.execution import Execution
from hpcosim_workloads.table import job_table


class KnownRun(NamedTuple):
    """The run time of a job that is over in reality.

    Attributes:
        run_s: its run time without suspensions, s.
        state: its final state.
    """

    run_s: float
    state: JobState


class LearnedEnds(EndTimers):
    """Ends jobs after their real run times, as soon as these are known.

    A job whose run time is unknown runs until its time limit. If its run time becomes known when
    it has run for longer already, the job ends at once.

    Args:
        engine: the engine, whose clock and jobs it uses.
        execution: model of run times, which the base class needs.

    Attributes:
        known: the known run times, by job id.
    """

    def __init__(self, engine: Engine, execution: Execution) -> None:
        super().__init__(engine.clock, execution, True, engine.end)
        self._engine = engine
        self.known: dict[int, KnownRun] = {}

    def learn(self, job_id: int, run: KnownRun) -> None:
        """Note the run time of a job, and end the job at once if it has run for that long."""
        self.known[job_id] = run
        job = self._engine.jobs.running.get(job_id)
        if job is not None:
            self.set_again(job)

    def forget(self, job_id: int) -> None:
        """Forget the run time of a job that waits or runs again in reality."""
        self.known.pop(job_id, None)

    def set_again(self, job: SimulatedJob) -> None:
        """Set the timer of a running job again; see `EndTimers`."""
        if job.end is not None:
            self._clock.cancel(job.end)
        self.set(job)

    def set(self, job: SimulatedJob) -> None:
        """Set the timer of a job that runs from now on; see `EndTimers`."""
        now_s, limit_s = self._clock.now, job.spec.requested_s
        run_s, state = self.known.get(job.spec.job_id, KnownRun(math.inf, "completed"))
        if run_s > limit_s:
            run_s, state = limit_s, "timeout"
        used_s = now_s - job.started_s if job.progress is None else job.progress.used_s(now_s)
        at_s = now_s + max(run_s - used_s, 0.0)
        job.end = self._clock.at(at_s, Rank.COMPLETION, self._on_learned_end, (job, state))

    def _on_learned_end(self, timer: Timer) -> None:
        job, state = timer.subject
        self._end(job, state)


class NoEnds(LearnedEnds):
    """Ends no job: somebody else does."""

    def set(self, job: SimulatedJob) -> None:
        """Set no timer."""


class LiveEngine(Engine):
    """The state of a cluster that a world copies, at real times.

    There is no workload: a world submits the jobs when it learns of them, and there may always be
    more.

    Args:
        platform: the cluster.
        start_s: time of its first event, s.

    Attributes:
        on_rejected: called with each rejection of a decision.
    """

    end_timers: LearnedEnds
    on_rejected: Callable[[DecisionRejected], object] | None = None

    def __init__(self, platform: Platform, start_s: float) -> None:
        rules = Rules(kill_at_walltime=True, wake_on_allocation=True, initial_time_s=start_s)
        super().__init__(platform, job_table(job_id=()), rules)
        self.all_submitted = False
        self.outbox.take()  # with the end of the empty workload
        self.outbox.add(SimulationBegan(start_s))
        self.end_timers = LearnedEnds(self, Execution(platform, None))

    def pass_to(self, now_s: float) -> None:
        """Let time pass. A time before the present one has no effect: clocks are set back."""
        clock = self.clock
        while clock.next_s() <= now_s:
            clock.run_instant()
        if now_s > clock.now:
            clock.advance_to(now_s)

    def pass_to_event(self, now_s: float, wake: int) -> bool:
        """Let time pass, at most up to the first instant with an event of some kinds.

        So a scheduler that set an alarm sees the time of the alarm, as in a simulation.

        Args:
            now_s: the present time, s.
            wake: bits of the kinds, see `outbox.mask_of`.

        Returns:
            Whether there is such an event; then time stands at its instant.
        """
        clock, outbox = self.clock, self.outbox
        while not outbox.kinds & wake:
            if clock.next_s() > now_s:
                self.pass_to(now_s)
                return False
            clock.run_instant()
        return True

    def decide(self, decision: Decision, seq: int, index: int) -> bool:
        """Carry out a decision now, or add the event that rejects it.

        Args:
            decision: the decision.
            seq: number of its request.
            index: its position in the request.

        Returns:
            Whether it was carried out.
        """
        try:
            carry_out(self, decision)
        except Rejection as rejection:
            self.reject(decision, seq, index, rejection)
            return False
        return True

    def reject(self, decision: Decision, seq: int, index: int, why: Rejection) -> None:
        """Add the event that rejects a decision."""
        event = DecisionRejected(
            self.now_s,
            seq,
            index,
            snake_case(type(decision).__name__),
            why.code,
            why.reason,
            getattr(decision, "job_id", None),
        )
        if self.on_rejected is not None:
            self.on_rejected(event)
        self.outbox.add(event)
