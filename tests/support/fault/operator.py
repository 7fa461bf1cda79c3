"""A client and the person who runs it: starts the scheduler again until a run is complete."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from hpcosim_client.connection import Timeouts
from hpcosim_client.errors import (
    ResultsNotWrittenError,
    ServerGoneError,
    ServerRefusedError,
)
from hpcosim_client.loop import run
from hpcosim_protocol import Welcome
from hpcosim_schedulers import make_policy
from support.fault.network import Network, SimulatedLink
from support.fault.plan import Plan, Window
from support.fault.simulator import Process, Simulator

TIMEOUTS = Timeouts(resend_s=1.0, reply_s=15.0, hello_s=6.0)
NO_HISTORY = "get_history: the server has no history"
"""Start of the error after which the client comes back, too: the disk of the journal was full."""
NONCE_IN_USE = "hello.nonce is in use"
PATIENCE_S = 2.0
"""Time after which a client that failed is started again, s."""

Metrics = Mapping[str, int | float]

RETRIED = {"out_of_order", "too_many_sessions", "shutting_down"}
"""Codes of errors after which the client comes back with its session."""


class Operator:
    """Runs one scheduler until it has its metrics.

    Args:
        number: number of the client, from 0.
        simulator: the simulated time.
        network: the network.
        plan: what goes wrong.
        chance: draws what the client remembers when it comes back.
        scenario: name of its scenario.
        policy: name of its policy.

    Attributes:
        metrics: the metrics of the run; None: there are none yet.
        misses_results: whether the server told it that it has not written the results.
        sessions: names of the sessions that it has had.
        snapshots: names of sessions that it continued from a snapshot.
        closed: names of sessions that ended while the client was away.
        lost: names of sessions that the server did not know any more, with its reason.
        ahead: names of sessions whose server expected another request, with its message.
        faults: errors that no client may see.
        starts: number of starts of the client.
    """

    def __init__(
        self,
        number: int,
        simulator: Simulator,
        network: Network,
        plan: Plan,
        chance: random.Random,
        scenario: str,
        policy: str,
    ) -> None:
        self.number, self.scenario, self.policy = number, scenario, policy
        self.metrics: Metrics | None = None
        self.misses_results = False
        self.sessions: list[str] = []
        self.snapshots: set[str] = set()
        self.closed: list[str] = []
        self.lost: list[tuple[str, str]] = []
        self.ahead: list[tuple[str, str]] = []
        self.faults: list[str] = []
        self.starts = 0
        self._simulator = simulator
        self._network = network
        self._plan = plan
        self._chance = chance
        self._process: Process | None = None
        self._is_welcome = self._came_back = False
        self._restarts = bool(plan.server_crashes or plan.server_terms)
        self._session = ""

    @property
    def done(self) -> bool:
        """Whether the run is complete, as far as the operator can know."""
        return self.metrics is not None or bool(self.closed)

    @property
    def identity(self) -> bytes:
        """Address of the present process."""
        return b"%d.%d" % (self.number, self.starts)

    def link(self, address: str) -> SimulatedLink:
        """Return the link of the present process, instead of a ZeroMQ socket."""
        assert self._process is not None
        return self._network.connect(self._process, self.identity)

    def schedule_crashes(self) -> None:
        """Let the client be killed as planned."""
        for crash in self._plan.client_crashes:
            if crash.client == self.number:
                self._simulator.at(crash.at_s, partial(self._crash, crash))

    def stop(self) -> None:
        """Kill the client."""
        if self._process is not None:
            self._process.kill()

    def start(self) -> None:
        """Start the client, unless its run is complete."""
        if self.done:
            return
        self.starts += 1
        self._is_welcome, self._came_back = False, bool(self._session)
        self._note(f"starts with session {self._label(self._session)}")
        process = Process(self._simulator, self._run, self._ended)
        self._process = process
        process.start()

    def _run(self) -> None:
        self.metrics = run(
            make_policy(self.policy),
            f"sim://{self.number}",
            name=self.policy,
            scenario=self.scenario,
            session=self._session,
            timeouts=TIMEOUTS,
            welcomed=self._welcomed,
        )

    def _welcomed(self, welcome: Welcome) -> None:
        self._note(f"is welcome to session {self._label(welcome.session)} at seq {welcome.seq}")
        if self._session and not welcome.options.history:
            self.snapshots.add(welcome.session)
        self._session, self._is_welcome = welcome.session, True
        self.sessions.append(welcome.session)

    def _crash(self, crash: Window) -> None:
        if self._process is None or not self._process.alive or self.done:
            return
        self._note("is killed")
        self._process.kill()
        if self._chance.random() < self._plan.forgetful:
            self._session = ""
        self._simulator.after(crash.for_s, self.start)

    def _ended(self, error: BaseException | None) -> None:
        self._note("is done" if error is None else f"ends: {error}")
        if error is None:
            return
        if isinstance(error, ResultsNotWrittenError):
            self.metrics, self.misses_results = error.metrics, True
            return
        if isinstance(error, ServerRefusedError):
            self._refused(error.error.code, error.error.message)
        elif not isinstance(error, ServerGoneError):
            self.faults.append(f"client {self.number}: {error!r}")
            return
        self._simulator.after(PATIENCE_S, self.start)

    def _refused(self, code: str, message: str) -> None:
        if code == "unknown_session":
            if message.endswith("every job is over"):
                if self._is_welcome and not self._came_back:  # its last request has a reply
                    self.faults.append(f"client {self.number} got no last reply: {message}")
                self.closed.append(self._session)
            else:
                self.lost.append((self._session, message))
            self._session = ""
        elif code == "internal_error" and self._plan.no_memory:
            self._session = ""  # `invariants` checks that it was for want of memory
        elif code == "out_of_order":
            self.ahead.append((self._session, message))
        elif message.startswith(NONCE_IN_USE) and self._restarts:
            pass  # TCP would have lost this late copy of its hello with the server that was killed
        elif code not in RETRIED and not message.startswith(NO_HISTORY):
            self.faults.append(f"client {self.number}: {code}: {message}")

    def _note(self, text: str) -> None:
        self._simulator.note(f"client {self.number}: {text}")

    @staticmethod
    def _label(session: str) -> str:
        return str(int(session[:8], 16)) if session else "(new)"
