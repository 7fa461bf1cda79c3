"""`Front`: what differs between the versions of Batsim's protocol.

The bridge, the registry of jobs, executions, states of hosts and results are the same for all
versions. A front reads replies, carries out decisions and makes events and messages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from hpcosim_batsim.bridge.event_queue import Wait
from hpcosim_batsim.bridge.host_states import PstateSwitch
from hpcosim_batsim.bridge.jobs import RunJob
from hpcosim_batsim.errors import BadReplyError
from hpcosim_batsim.inputs.external_events import ExternalEvent

if TYPE_CHECKING:
    from hpcosim_batsim.bridge.run import BatsimRun


class TimedDecision(Struct, gc=False):
    """A decision and its time.

    Attributes:
        timestamp_s: simulated time at which it applies, s; a time in the past means now.
    """

    timestamp_s: float
    data: Any


class SchedulerReply(Struct, gc=False):
    """A scheduler's reply.

    Attributes:
        now_s: earliest time of the next message, s.
    """

    now_s: float
    decisions: list[TimedDecision]


class Front(Protocol):
    """A version of Batsim's protocol. Its events have a form of its own."""

    registration: str
    """What the scheduler sends to end the registration of jobs."""

    def printed_s(self, now_s: float) -> float:
        """Return a time as the scheduler reads it, s."""

    def read_reply(self, reply: bytes) -> SchedulerReply:
        """Return a decoded reply.

        Raises:
            BadReplyError: the reply does not follow the protocol.
        """

    def name_of(self, decision: Any) -> str:
        """Return the type of a decision in messages."""

    def carry_out(self, run: BatsimRun, decision: Any) -> None:
        """Apply a decision at the current simulated time.

        Raises:
            Rejection, InputError, ValueError: the decision is invalid.
        """

    def on_call(self, run: BatsimRun, call: Wait, time_s: float) -> None:
        """Handle the time of a call, see `set_call`."""

    def message(self, now_s: float, events: Sequence[Any]) -> bytes:
        """Return a message with these events."""

    def begins(self, run: BatsimRun) -> Any:
        """Return the event that the simulation begins."""

    def ends(self, time_s: float, error: str = "") -> Any:
        """Return the event that the simulation ends, because of an error unless it is empty."""

    def job_submitted(self, run: BatsimRun, job: RunJob, time_s: float) -> Any:
        """Return the event that a job has been submitted."""

    def job_completed(self, job: RunJob, time_s: float, return_code: int) -> Any:
        """Return the event that a job has ended."""

    def jobs_killed(
        self,
        run: BatsimRun,
        time_s: float,
        requested: Sequence[str],
        progresses: Mapping[str, Mapping[str, Any]],
    ) -> Any:
        """Return the event that a request to kill jobs is complete.

        Args:
            progresses: progress of each job that the request ended, by id.
        """

    def switched(self, switch: PstateSwitch, time_s: float) -> Any:
        """Return the event that all hosts of a request have switched."""

    def no_more_jobs(self, time_s: float) -> Any:
        """Return the event that all jobs of the workloads have been submitted."""

    def no_more_external_events(self, time_s: float) -> Any:
        """Return the event that all external events have occurred."""

    def external(self, event: ExternalEvent, time_s: float) -> Any:
        """Return the event that an external event has occurred."""


def check_times(times_s: Sequence[float], now_s: float) -> None:
    """Check the order of the times of a reply's decisions, and that none is after its `now`."""
    before_s = -math.inf
    for place, time_s in enumerate(times_s):
        where = f"$.events[{place}].timestamp"
        if time_s < before_s:
            raise BadReplyError(
                f"expected a time of at least {before_s}, that of the decision before it, got "
                f"{time_s}",
                where,
            )
        before_s = time_s
        if time_s > now_s:
            raise BadReplyError(
                f"expected a time of at most the message's now, {now_s}, got {time_s}", where
            )
