"""The simulator for schedulers of our protocol: one object with one verb, `advance`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hpcosim_protocol import Decision, DecisionRejected, Event, EventKind
from hpcosim_protocol.events import snake_case
from hpcosim_server.engine.decisions import carry_out
from hpcosim_server.engine.engine import Engine
from hpcosim_server.engine.outbox import DEFAULT_MASK, REJECTIONS_ONLY, mask_of
from hpcosim_server.engine.rules import Rules
from hpcosim_server.engine.snapshot import snapshot_of
from hpcosim_server.errors import Rejection, SimulationStuck
from hpcosim_workloads.table import LATEST_S

__all__ = ["MAX_REJECTED_IN_A_ROW", "Batch", "Rules", "Simulation"]

MAX_REJECTED_IN_A_ROW = 1000
"""Livelock limit: batches in a row, at one instant, that hold only rejected decisions."""


class Batch(NamedTuple):
    """What one call of `advance` brought.

    Attributes:
        now_s: the simulated second.
        events: what has happened since the last batch, in order.
        ended: whether every job is over; `events` is then empty.
    """

    now_s: float
    events: list[Event]
    ended: bool


class Simulation(Engine):
    """A simulation that a scheduler advances, batch by batch.

    The clock starts at the first submission, unless the rules say otherwise. Arguments and
    attributes are those of `Engine`.
    """

    _rejected_in_a_row = 0

    def advance(
        self,
        decisions: Sequence[Decision] = (),
        *,
        wake_on: Iterable[EventKind] | None = None,
        elapsed_s: float = 0.0,
        seq: int = 0,
    ) -> Batch:
        """Carry out decisions, then let time pass until the scheduler is to be woken.

        Args:
            decisions: what to do, in this order.
            wake_on: kinds of events to return for; None: `DEFAULT_WAKE_ON`. Alarms and
                rejected decisions always count. When nothing more can happen, what has
                happened is returned whatever its kind.
            elapsed_s: seconds that pass before the decisions are carried out, from 0 to
                `LATEST_S`.
            seq: the number that `decision_rejected` names.

        Returns:
            Everything that happened since the last batch, up to the end of one instant.

        Raises:
            SimulationStuck: jobs wait and nothing can happen any more.
            ValueError: `elapsed_s` is out of range.
        """
        before_s = self.clock.now
        if not 0.0 <= elapsed_s <= LATEST_S:
            raise ValueError(f"elapsed_s must be from 0 to {LATEST_S}, not {elapsed_s}")
        if elapsed_s > 0.0:
            self._let_pass(before_s + elapsed_s)
        for index, decision in enumerate(decisions):
            try:
                carry_out(self, decision)
            except Rejection as rejection:
                self._reject(seq, index, decision, rejection)
        self._run(DEFAULT_MASK if wake_on is None else mask_of(wake_on))
        self._watch_for_livelock(before_s)
        events = self.outbox.take()
        if self.rules.validate:
            self.validate()
        return Batch(self.clock.now, events, ended=not events)

    def snapshot(self) -> list[Event]:
        """Return events that bring an empty view to the present state.

        They stand for what `advance` has not returned yet, too, except for alarms that went off
        and decisions that were rejected: the client that was to be told of them is gone.
        """
        events = snapshot_of(self)
        self.outbox.take()
        return events

    # Time

    def _run(self, wake: int) -> None:
        """Let time pass to the end of an instant that woke the scheduler, or to the last one."""
        clock, outbox = self.clock, self.outbox
        clock.finish_instant()
        while not (outbox.kinds & wake or self.is_over):
            if not clock.run_instant():
                if not outbox.events:
                    raise self._stuck("the scheduler lets nothing more happen")
                return

    def _let_pass(self, until_s: float) -> None:
        clock = self.clock
        while clock.next_s() <= until_s and not self.is_over:
            clock.step()
        if not self.is_over:
            clock.pass_to(until_s)

    # Schedulers that make no progress

    def _reject(self, seq: int, index: int, decision: Decision, rejection: Rejection) -> None:
        self.outbox.tell(
            DecisionRejected(
                self.now_s,
                seq,
                index,
                snake_case(type(decision).__name__),
                rejection.code,
                rejection.reason,
                getattr(decision, "job_id", None),
            )
        )

    def _watch_for_livelock(self, before_s: float) -> None:
        """Raise SimulationStuck after too many batches that hold only rejected decisions."""
        if self.outbox.kinds != REJECTIONS_ONLY or self.now_s > before_s:
            self._rejected_in_a_row = 0
            return
        self._rejected_in_a_row += 1
        if self._rejected_in_a_row > MAX_REJECTED_IN_A_ROW:
            last = self.outbox.events[-1]
            assert isinstance(last, DecisionRejected)
            raise self._stuck(
                f"{self._rejected_in_a_row} messages in a row brought nothing but rejected "
                f"decisions, the last: {last.reason}"
            )

    def _stuck(self, why: str) -> SimulationStuck:
        waiting = self.jobs.waiting
        since_s = min((job.spec.submit_s for job in waiting.values()), default=self.now_s)
        return SimulationStuck(self.now_s, list(waiting), since_s, why)
