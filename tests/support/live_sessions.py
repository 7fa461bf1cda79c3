"""Sessions for tests of the live view: a player that sends requests to a service."""

from __future__ import annotations

import asyncio
from pathlib import Path

from hpcosim_client import View
from hpcosim_protocol import (
    Decisions,
    Events,
    Hello,
    SimulationEnded,
    Welcome,
    decode_server_message,
    encode,
)
from hpcosim_schedulers import make_policy
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation

SCENARIO = """
name: live
platform:
  nodes:
    - count: 4
      processors: [{cores: 2, static_w: 10, dynamic_w: 1}]
      power_states: {sleep_w: 1, switch_on_s: 10, switch_on_w: 20, switch_off_s: 5,
        switch_off_w: 15}
workload: {synthetic: {model: poisson, jobs: 30, mean_interarrival_s: 60, cores: [1, 4],
  run_s: [10, 600]}}
scheduler: {name: easy}
"""


def scenario_in(folder: Path) -> Path:
    """Return the file of a small scenario of 30 jobs with the name `live`."""
    path = folder / "live.yaml"
    path.write_text(SCENARIO)
    return path


class Player:
    """A client of a service without a socket, which schedules one session with EASY.

    Attributes:
        name: the secret name of the session.
        label: its label.
        opened: the session, with its simulation.
        ended: whether the simulation is over.
    """

    def __init__(self, service: Service, client: str = "player") -> None:
        self._service = service
        hello = Hello(versions=[1], client=client, nonce=client)
        welcome = decode_server_message(service.answer(encode(hello)))
        assert isinstance(welcome, Welcome)
        self.name, self.label = welcome.session, welcome.session[:8]
        self.ended = False
        self._view = View(welcome.platform, welcome.seed)
        self._policy = make_policy("easy")
        self._seq = 0
        session = service._open.get(self.name)
        assert session is not None
        self.opened: Opened = session.opened
        self.simulation: Simulation = self.opened.simulation

    def play(self, requests: int = 10**6) -> None:
        """Send a number of requests, or all."""
        while requests > 0 and not self.ended:
            requests -= 1
            self._seq += 1
            decisions = list(self._view.decisions)
            message = Decisions(session=self.name, seq=self._seq, decisions=decisions)
            reply = decode_server_message(self._service.answer(encode(message)))
            self._service.tidy()
            if isinstance(reply, SimulationEnded):
                self.ended = True
                return
            assert isinstance(reply, Events)
            self._view.apply(reply.now_s, reply.events)
            self._policy(self._view)

    async def tick_forever(self) -> None:
        """Let the service look after its sessions, as its socket loop does."""
        while True:
            self._service.tidy()
            await asyncio.sleep(0.005)
