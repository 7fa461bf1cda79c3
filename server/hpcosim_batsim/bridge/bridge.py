"""Batsim's protocol without the socket: scheduler replies in, messages out.

The bridge sends one message per instant that has events for the scheduler. It applies each decision
at its timestamp, or immediately if the timestamp is in the past. The next message follows after the
`now` of the reply.

Times that differ only by rounding are one instant: 0.1 + 0.2 is not 0.3 in floating point. The
simulation processes them one after the other, at their times. Their events are in one message with
one timestamp, in Batsim's order.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hpcosim_batsim.bridge import replies
from hpcosim_batsim.bridge.actions import carry_out
from hpcosim_batsim.bridge.batsim4 import Batsim4
from hpcosim_batsim.bridge.event_queue import SubmitterGroup
from hpcosim_batsim.bridge.front import Front
from hpcosim_batsim.bridge.handlers import apply_external_event, handle_events
from hpcosim_batsim.bridge.run import BatsimOptions, new_run
from hpcosim_batsim.errors import BadReplyError, StuckError
from hpcosim_batsim.inputs.external_events import ExternalEvent
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.workload_model import BatsimWorkload
from hpcosim_sim.errors import waiting_jobs
from hpcosim_sim.record.tables import intervals
from hpcosim_workloads.table import MAX_TIME_S

SAME_INSTANT_S = 1e-9
"""Largest difference of times of one instant, s, up to times of some weeks."""

SAME_INSTANT_ULPS = 4
"""The same for later times, in units of the last place of a time."""

PRINTED_S = 1e-6
"""Resolution of times in messages, s."""


class Bridge:
    """A run, driven by Batsim's messages.

    Args:
        external: external events by time. None: there is no file of them, so the scheduler gets
            no `no_more_external_event_to_occur`.
        front: version of the protocol; default: that of Batsim 4.2.1.

    Raises:
        InputError: the combination of platform, workloads and options is not supported.
    """

    def __init__(
        self,
        workloads: Sequence[BatsimWorkload],
        platform: BatsimPlatform,
        options: BatsimOptions,
        external: Iterable[ExternalEvent] | None = None,
        front: Front | None = None,
    ) -> None:
        self.run = new_run(front or Batsim4(), workloads, platform, options)
        self.replied = False
        self.ended = False
        self._simulation = self.run.simulation
        self._external = deque(external or ())
        if external is not None:
            group = SubmitterGroup(1, self.run.front.no_more_external_events)
            self.run.external = self.run.queue.add_submitter(group, len(self._external))
        self._printed_now_s = 0.0
        self._reply_now_s = 0.0

    def first_message(self) -> bytes:
        """Return the message with `SIMULATION_BEGINS`."""
        return self._message()

    def next_message(self, reply: bytes) -> bytes:
        """Apply the scheduler's reply, advance the simulation and return the next message.

        Raises:
            BadReplyError: the reply is invalid.
            StuckError: no event is left, but jobs wait or registration has not ended.
        """
        begins, self.replied = not self.replied, True
        decoded = self.run.front.read_reply(reply)
        self._check_order(decoded.now_s)
        if begins or self._next_s() <= self._simulation.now_s:  # jobs are submitted at time 0
            self._run_instant(self._simulation.now_s)
        for place, decision in enumerate(decoded.decisions):
            where = f"$.events[{place}]"
            self._advance_to(decision.timestamp_s, f"{where}.timestamp")
            carry_out(self.run, decision.data, where)
            if self.run.stopped:
                self.run.queue.take()
                return self._last_message()
        self._advance_to(decoded.now_s, "$.now")
        if self._next_s() <= _end_of_instant(self._simulation.now_s):
            self._run_instant(self._simulation.now_s)
        while not self.run.queue:
            next_s = self._next_s()
            if next_s == math.inf:
                self._end()
            else:
                self._run_instant(next_s)
        return self._message()

    def error_message(self, why: Exception) -> bytes:
        """Return the message that ends the simulation because of an error of the scheduler."""
        return self._last_message(" ".join(str(why).split()))

    def _last_message(self, error: str = "") -> bytes:
        self.ended = True
        self.run.queue.add(self.run.front.ends(self._simulation.now_s, error))
        return self._message()

    def _message(self) -> bytes:
        now_s = self._simulation.now_s
        # Messages may round times; a scheduler that sends the printed time back means now.
        self._printed_now_s = self.run.front.printed_s(now_s)
        return self.run.front.message(now_s, self.run.queue.take())

    # Time

    def _check_order(self, now_s: float) -> None:
        """Check that the clock of the scheduler does not go back.

        It may be behind the simulation: batsim-py rounds its times down to whole seconds.
        """
        if now_s < self._reply_now_s:
            raise BadReplyError(
                f"expected a time of at least {self._reply_now_s}, that of the reply before it, "
                f"got {now_s}",
                "$.now",
                self._simulation.now_s,
            )
        self._reply_now_s = now_s

    def _next_s(self) -> float:
        next_s = self._simulation.next_s()
        return min(next_s, self._external[0].time_s) if self._external else next_s

    def _run_instant(self, begin_s: float) -> None:
        """Process all events of the instant of `begin_s`."""
        self.run.queue.begin_instant()
        end_s = _end_of_instant(begin_s)
        while (next_s := self._next_s()) <= end_s:
            handle_events(self.run, self._simulation.step(next_s), begin_s)
            external = self._external
            while external and external[0].time_s <= self._simulation.now_s:
                apply_external_event(self.run, external.popleft(), begin_s)
        self.run.queue.end_instant(begin_s)

    def _advance_to(self, time_s: float, where: str) -> None:
        if time_s <= self._printed_now_s:
            return
        if time_s > MAX_TIME_S:
            raise BadReplyError(
                f"expected a time of at most {MAX_TIME_S:g} s, got {time_s}",
                where,
                self._simulation.now_s,
            )
        end_s = _end_of_instant(time_s)
        while (next_s := self._next_s()) <= end_s:
            self._run_instant(next_s)
        if self._simulation.now_s < time_s:
            self.run.queue.begin_instant()
            self._simulation.step(time_s)
            self.run.queue.end_instant(time_s)

    def _end(self) -> None:
        now_s = self._simulation.now_s
        waiting = [job.full_id for job in self.run.registry.jobs if job.state == "waiting"]
        if waiting:
            raise StuckError(
                now_s,
                f"{waiting_jobs(waiting)}, no event is left, and the scheduler neither starts nor "
                "rejects a job",
            )
        if self.run.registering:
            raise StuckError(
                now_s,
                "all jobs have ended, and the scheduler neither registers jobs nor sends "
                f"{self.run.front.registration}",
            )
        self.ended = True
        self.run.queue.add(self.run.front.ends(now_s))


def _end_of_instant(time_s: float) -> float:
    """Return the latest time, s, that is the same instant as `time_s`."""
    rounding_s = min(SAME_INSTANT_ULPS * math.ulp(time_s), PRINTED_S / 2)
    return time_s + max(SAME_INSTANT_S, rounding_s)


def run_one_by_one(bridge: Bridge) -> None:
    """Run all jobs in order of submission, each alone on the hosts with the lowest numbers.

    A job starts when it is submitted and the job before it has ended. A job that requests more
    hosts than there are is rejected.

    Raises:
        SchedulerError: a job cannot run, such as on a host that is unavailable.
    """
    hosts = len(bridge.run.platform.hosts)
    waiting: deque[dict[str, Any]] = deque()
    running = False
    message = bridge.first_message()
    while not bridge.ended:
        received = msgspec.json.decode(message)
        for event in received["events"]:
            if event["type"] == "JOB_SUBMITTED":
                waiting.append(event["data"]["job"])
            elif event["type"] == "JOB_COMPLETED":
                running = False
        decisions = []
        while waiting and not running:
            job = waiting.popleft()
            running = job["res"] <= hosts
            data = {"job_id": job["id"]}
            if running:
                data["alloc"] = intervals(range(job["res"]))
            kind = "EXECUTE_JOB" if running else "REJECT_JOB"
            decisions.append({"timestamp": received["now"], "type": kind, "data": data})
        reply = {"now": received["now"], "events": decisions}
        message = bridge.next_message(replies.to_json(reply).encode())
