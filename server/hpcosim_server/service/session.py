"""One client's simulation: requests in, replies out, no socket."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from hpcosim_protocol import (
    PROTOCOL_VERSION,
    Decisions,
    Error,
    Events,
    Hello,
    Options,
    ServerMessage,
    SimulationEnded,
    Welcome,
    encode,
)
from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.errors import SimulationStuck
from hpcosim_server.record.results import Run, metrics_of
from hpcosim_workloads.table import LATEST_S


@dataclass(frozen=True, slots=True)
class Opened:
    """What a hello opens.

    Attributes:
        simulation: a new simulation.
        run: what `run.json` says of it.
        jobs: how many jobs the workload has.
    """

    simulation: Simulation
    run: Run
    jobs: int

    def complete(self) -> None:
        """Note in `run` that every job is over."""
        self.run.complete, self.run.ended_because = True, "every job is over"


class Session:
    """A simulation and the one client that decides in it.

    Args:
        hello: the message that opened it.
        opened: the simulation.
        options: what the client is told that holds.
        now_s: the time by the service's clock, s.

    Attributes:
        name: a secret between server and client: whoever knows it is the client.
        label: the part of the name that is no secret, for the log and for folders.
        opened: the simulation.
        heard_s: when the client's last message came, by the service's clock, s.
        seq: the number of the last request that was answered.
        last_answer: the reply to it.
        hello: the message that opened the session.
    """

    def __init__(self, hello: Hello, opened: Opened, options: Options, now_s: float) -> None:
        self.name = secrets.token_hex(12)
        self.label = self.name[:8]
        self.opened = opened
        self.heard_s = self._reported_s = now_s
        self.seq = 0
        self.last_answer = b""
        self._last_request: Decisions | None = None
        self.hello = hello
        self._options = options
        self._welcome = encode(self._make_welcome())

    @property
    def ended_because(self) -> str:
        """Why the session is over; empty: it is not."""
        return self.opened.run.ended_because

    def hear(self, now_s: float) -> None:
        """Note that a message of the client came."""
        self.heard_s = now_s

    def has_news(self, now_s: float) -> bool:
        """Tell whether the client was heard since this was last true."""
        news = self.heard_s > self._reported_s
        if news:
            self._reported_s = now_s
        return news

    def welcome(self) -> bytes:
        """Return the reply to the hello that opened the session, the same each time."""
        return self._welcome

    def resume(self) -> bytes:
        """Return a welcome with a snapshot, for a client that comes back."""
        welcome = self._make_welcome()
        welcome.snapshot = self.opened.simulation.snapshot()
        return encode(welcome)

    def decide(self, request: Decisions) -> bytes:
        """Answer a request; the same request again gets the same reply."""
        if request.seq == self.seq and request == self._last_request:
            return self.last_answer
        refusal = self._refusal(request)
        if refusal is not None:
            return encode(refusal)
        answer = encode(self._advance(request))
        self.seq, self.last_answer, self._last_request = request.seq, answer, request
        return answer

    def end(self, why: str) -> None:
        """End the session for a reason, unless it has ended."""
        if not self.ended_because:
            self.opened.run.ended_because = why

    def _advance(self, request: Decisions) -> ServerMessage:
        try:
            batch = self.opened.simulation.advance(
                request.decisions,
                wake_on=request.wake_on,
                elapsed_s=request.elapsed_s,
                seq=request.seq,
            )
        except SimulationStuck as stuck:
            self.end(str(stuck))
            return Error(code="simulation_stuck", message=str(stuck), fatal=True, seq=request.seq)
        if not batch.ended:
            return Events(seq=request.seq, now_s=batch.now_s, events=batch.events)
        self.opened.complete()
        metrics = metrics_of(self.opened.simulation.record(), self.opened.run)
        return SimulationEnded(seq=request.seq, now_s=batch.now_s, metrics=metrics)

    def _refusal(self, request: Decisions) -> Error | None:
        if request.seq != self.seq + 1:
            return Error(
                code="out_of_order",
                message=f"seq is {request.seq}; {self.seq + 1} is next, "
                f"or the last request again, unchanged",
                where="$.seq",
                seq=request.seq,
            )
        if len(request.decisions) > self._options.max_decisions:
            return Error(
                code="too_many_decisions",
                message=f"{len(request.decisions)} decisions in a message; "
                f"at most {self._options.max_decisions} are allowed",
                where="$.decisions",
                seq=request.seq,
            )
        if request.elapsed_s > LATEST_S:
            return Error(
                code="invalid_message",
                message=f"elapsed_s is {request.elapsed_s}; at most {LATEST_S} is allowed",
                where="$.elapsed_s",
                seq=request.seq,
            )
        return None

    def _make_welcome(self) -> Welcome:
        simulation, run = self.opened.simulation, self.opened.run
        return Welcome(
            version=PROTOCOL_VERSION,
            session=self.name,
            scenario=run.scenario,
            seed=run.seed,
            platform=simulation.cluster.platform,
            options=self._options,
            seq=self.seq,
            now_s=simulation.now_s,
        )
