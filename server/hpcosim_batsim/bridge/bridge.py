"""Batsim's protocol over a simulation: a scheduler's replies in, messages for it out, no socket.

There is a message for every instant at which something happens that the scheduler is told of, with
all that did. What it decides is done at the times it says, or at once where these have passed; the
next message comes when the time it says it is ready at has passed, too.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence

from hpcosim_batsim.bridge import events as say
from hpcosim_batsim.bridge import replies
from hpcosim_batsim.bridge.deciding import carry_out
from hpcosim_batsim.bridge.happening import happen, hear
from hpcosim_batsim.bridge.opening import Options
from hpcosim_batsim.bridge.run import new_run
from hpcosim_batsim.errors import BadReplyError, StuckError
from hpcosim_batsim.inputs.external_events import ExternalEvent
from hpcosim_batsim.inputs.platform_model import Platform
from hpcosim_batsim.inputs.workload_model import Workload
from hpcosim_server.errors import waiting_jobs
from hpcosim_workloads.table import LATEST_S


class Bridge:
    """A run, told of in Batsim's messages.

    Args:
        workloads: its jobs.
        platform: its hosts.
        options: what holds.
        external: events from outside, by time; None: there are no files of such, which is not the
            same as empty ones.

    Attributes:
        run: the run.
        over: the last message has been returned.

    Raises:
        InputError: this can't be simulated.
    """

    def __init__(
        self,
        workloads: Sequence[Workload],
        platform: Platform,
        options: Options,
        external: Iterable[ExternalEvent] | None = None,
    ) -> None:
        self.run = new_run(workloads, platform, options)
        self.over = False
        self._simulation = self.run.simulation
        self._external = deque(external or ())
        self._external_to_end = external is not None
        self._said_s = 0.0

    def begin(self) -> bytes:
        """Return the first message."""
        message = self._message()
        self._tell_end_of_external()  # there may be none at all
        return message

    def answer(self, reply: bytes) -> bytes:
        """Do what the scheduler says, let time pass, and return the next message.

        Raises:
            BadReplyError: it says what it may not.
            StuckError: nothing more can happen, and not all is over.
        """
        said = replies.read_reply(reply)
        while self._next_s() <= self._simulation.now_s:  # jobs are submitted at the start
            self._step(math.inf)
        for place, decision in enumerate(said.decisions):
            where = f"$.events[{place}]"
            self._wait_until(decision.timestamp_s, f"{where}.timestamp")
            carry_out(self.run, decision.data, where)
        self._wait_until(said.now_s, "$.now")
        while True:
            next_s = self._next_s()
            if next_s > self._simulation.now_s and self.run.queue:  # the instant is complete
                break
            if next_s == math.inf:
                self._end()
                break
            self._step(math.inf)
        return self._message()

    def last_words(self, why: Exception) -> bytes:
        """Return a message that ends the simulation for a scheduler that did something wrong."""
        self.over = True
        data = say.to_json({"error": " ".join(str(why).split())})
        self.run.queue.append(say.event(self._simulation.now_s, "SIMULATION_ENDS", data))
        return self._message()

    def _message(self) -> bytes:
        now_s = self._simulation.now_s
        # What is written has six decimals; a scheduler that repeats it means now.
        self._said_s = float(f"{now_s:.6f}")
        queue, self.run.queue = self.run.queue, []
        return say.message(now_s, queue)

    # Time

    def _next_s(self) -> float:
        next_s = self._simulation.next_s()
        return min(next_s, self._external[0].time_s) if self._external else next_s

    def _step(self, until_s: float) -> None:
        """Let the next instant happen, if it comes by `until_s`; else time passes up to there."""
        external = self._external
        if external:
            until_s = min(until_s, external[0].time_s)
        hear(self.run, self._simulation.step(until_s))
        while external and external[0].time_s <= self._simulation.now_s:
            happen(self.run, external.popleft())
            self._tell_end_of_external()

    def _wait_until(self, time_s: float, where: str) -> None:
        if time_s > LATEST_S:
            raise BadReplyError(
                f"there is no time {time_s}; the latest is {LATEST_S:g} s",
                where,
                self._simulation.now_s,
            )
        if time_s > self._said_s:
            while self._simulation.now_s < time_s:
                self._step(time_s)

    def _end(self) -> None:
        now_s = self._simulation.now_s
        waiting = [job.full_id for job in self.run.known.jobs if job.state == "waiting"]
        if waiting:
            raise StuckError(
                now_s, f"{waiting_jobs(waiting)}, and the scheduler does nothing about it"
            )
        if self.run.registering:
            raise StuckError(
                now_s,
                "all jobs are over, and the scheduler neither registers more nor says "
                "NOTIFY registration_finished",
            )
        self.over = True
        self.run.queue.append(say.event(now_s, "SIMULATION_ENDS"))

    def _tell_end_of_external(self) -> None:
        if self._external_to_end and not self._external:
            self._external_to_end = False
            self.run.queue.append(
                say.notify(self._simulation.now_s, "no_more_external_event_to_occur")
            )
