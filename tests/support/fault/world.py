"""One simulated run: clients, network, server and disk, with the faults of a seed."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from hpcosim_client.link import Link
from hpcosim_server import log
from support.fault.disk import SimulatedDisk
from support.fault.host import IDLE_S, Host
from support.fault.mutator import damaged
from support.fault.network import Network
from support.fault.operator import Operator
from support.fault.plan import HEALED_S, Plan, plan_of
from support.fault.scenes import POLICIES, SCENES, STATEFUL, library
from support.fault.simulator import Simulator

END_S = HEALED_S + 2000.0
"""Time at which every run is over, s: one with a pace takes long."""
STRANGER = b"-1.0"
REMEMBERED = 50  # messages that strangers copy


class World:
    """A simulated run.

    Args:
        seed: draws everything.
        plan: what goes wrong; None: what the seed draws.

    Attributes:
        errors: log entries of the server that say error.
        stranger_replies: replies to strangers.
        log: log entries of the server about journals: event, name of the journal, error.
    """

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.plan = plan or plan_of(seed)
        self.errors: list[str] = []
        self.stranger_replies: list[bytes] = []
        self.log: list[tuple[str, str, str]] = []
        self._nonces = random.Random(seed)
        self.simulator = Simulator()
        self.simulator.note(f"plan: {self.plan}")
        self._chance = random.Random(f"world {seed}")
        self._seen: list[bytes] = []
        self.network = Network(
            self.simulator, self.plan, random.Random(f"network {seed}"), self._arrive
        )
        self.disk = SimulatedDisk(self.simulator, self.plan, random.Random(f"disk {seed}"))
        self.host: Any
        self.operators: list[Operator] = []

    def run(self) -> None:
        """Run until every client has its metrics and every session is over, or time is up."""
        with self._patched():
            self.host = self._new_host()
            for number in range(self.plan.clients):
                self.operators.append(self._operator(number))
                self.operators[-1].start()
                self.operators[-1].schedule_crashes()
            try:
                self.simulator.run(END_S, lambda: all(each.done for each in self.operators))
                over_s = max(self.simulator.now_s, HEALED_S) + 3 * IDLE_S
                self.simulator.run(over_s)
            finally:
                for operator in self.operators:
                    operator.stop()

    def _new_host(self) -> Any:
        chance = random.Random(f"host {self.seed}")
        return Host(self.simulator, self.plan, chance, library(), self.disk, self._reply)

    def _operator(self, number: int) -> Operator:
        scenario = f"scene{self._chance.randrange(SCENES)}"
        chance = random.Random(f"operator {self.seed} {number}")
        policies = POLICIES + STATEFUL if self.plan.journal else POLICIES
        policy = self._chance.choice(policies)
        return Operator(number, self.simulator, self.network, self.plan, chance, scenario, policy)

    def _arrive(self, identity: bytes, data: bytes) -> None:
        self.host.arrive(identity, data)
        if identity == STRANGER or self.simulator.now_s >= HEALED_S:
            return
        if self._chance.random() < self.plan.strangers:
            self.host.arrive(STRANGER, self._damaged(data))

    def _damaged(self, data: bytes) -> bytes:
        """Return a damaged copy of this message, or of one before it."""
        self._seen = [*self._seen[-REMEMBERED:], data]
        return damaged(self._chance.choice(self._seen), self._chance)

    def _reply(self, identity: bytes, data: bytes) -> None:
        if identity == STRANGER:
            self.stranger_replies.append(data)
        else:
            self.network.to_client(identity, data)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Put the simulated link, disk and log in the place of the real ones."""
        previous = log.write_to(self._log)
        logger = logging.getLogger("hpcosim_client")
        was, logger.disabled = logger.disabled, True
        try:
            with (
                patch("hpcosim_client.connection.new_link", self._link),
                patch("hpcosim_client.connection.secrets.token_hex", self._nonce),
                patch("hpcosim_server.service.vitals.used_bytes", lambda: 100 * 2**20),
                patch("hpcosim_sim.record.results.write_together", self.disk.write_together),
            ):
                yield
        finally:
            log.write_to(previous)
            logger.disabled = was

    def _link(self, address: str, _send_s: float, _keys: object = None) -> Link:
        number = int(address.removeprefix("sim://"))
        return self.operators[number].link(address)

    def _nonce(self, size: int) -> str:
        return self._nonces.randbytes(size).hex()

    def _log(self, entry: log.Event) -> None:
        if entry["event"] == "internal_error":
            self.errors.append(f"internal error: {entry['error']}")
        if entry["event"] in ("session_closed", "session_unused"):
            self.simulator.note(f"server: closes session {int(entry['session'], 16)}")
            self.host.note_closed(entry["session"])
        if entry["event"] == "session_restored":
            self.host.note_restored(entry["session"])
        if entry["event"] in ("journal_failed", "session_not_restored", "journal_cut"):
            self.simulator.note(f"server: {entry['event']}: {entry['journal']}: {entry['error']}")
            self.log.append((entry["event"], entry["journal"], entry["error"]))
