"""One simulated run: clients, network, server and disk, with the faults of a seed."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import structlog

from hpcosim_client.link import Link
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
        self.host: Host
        self.operators: list[Operator] = []

    def run(self) -> None:
        """Run until every client has its metrics and every session is over, or time is up."""
        with self._patched():
            self.host = Host(
                self.simulator,
                self.plan,
                random.Random(f"host {self.seed}"),
                library(),
                self.disk,
                self._reply,
            )
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
            self._seen = [*self._seen[-REMEMBERED:], data]
            self.host.arrive(STRANGER, damaged(self._chance.choice(self._seen), self._chance))

    def _reply(self, identity: bytes, data: bytes) -> None:
        if identity == STRANGER:
            self.stranger_replies.append(data)
        else:
            self.network.to_client(identity, data)

    @contextmanager
    def _patched(self) -> Iterator[None]:
        """Put the simulated link, disk and log in the place of the real ones."""
        config = structlog.get_config()
        structlog.configure(processors=[self._log], cache_logger_on_first_use=False)
        logger = logging.getLogger("hpcosim_client")
        was, logger.disabled = logger.disabled, True
        try:
            with (
                patch("hpcosim_client.connection.new_link", self._link),
                patch("hpcosim_client.connection.secrets.token_hex", self._nonce),
                patch("hpcosim_server.record.results.write_together", self.disk.write_together),
            ):
                yield
        finally:
            structlog.configure(**config)
            logger.disabled = was

    def _link(self, address: str, timeout_s: float, keys: object = None) -> Link:
        number = int(address.removeprefix("sim://"))
        return self.operators[number].link(address, timeout_s)

    def _nonce(self, size: int) -> str:
        return self._nonces.randbytes(size).hex()

    def _log(self, _: Any, method: str, entry: MutableMapping[str, Any]) -> Any:
        if entry["event"] == "internal_error":
            self.errors.append(f"internal error: {entry['error']}")
        if entry["event"] == "session_closed":
            self.simulator.note(f"server: closes session {int(entry['session'], 16)}")
            self.host.note_closed(entry["session"])
        if entry["event"] == "session_restored":
            self.host.note_restored(entry["session"])
        if entry["event"] in ("journal_failed", "session_not_restored", "journal_cut"):
            self.simulator.note(f"server: {entry['event']}: {entry['journal']}: {entry['error']}")
            self.log.append((entry["event"], entry["journal"], entry["error"]))
        raise structlog.DropEvent
