"""Many schedulers at once, as processes that are killed and come back. A program of its own.

It prints one JSON object: names of the sessions that are complete, number of kills, errors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass, field

from hpcosim_client.connection import Timeouts
from hpcosim_client.errors import ServerGoneError, ServerRefusedError
from hpcosim_client.loop import run
from hpcosim_schedulers import make_policy

TIMEOUTS = Timeouts(resend_s=0.5, reply_s=60.0, hello_s=60.0)
POLICY = "easy"
AWAY_S = 0.05  # time before a client that failed is started again
RETRIED = ("shutting_down", "out_of_order")


@dataclass(slots=True)
class SwarmClient:
    """A scheduler.

    Attributes:
        session: its session; empty: none yet.
        pid: its process; 0: none runs.
        pipe: what the process writes.
        kill_at_s: when it is killed; infinity: never.
        done: whether its run is complete.
        lines: what the process has written.
    """

    session: str = ""
    pid: int = 0
    pipe: int = -1
    kill_at_s: float = float("inf")
    done: bool = False
    lines: bytes = b""


@dataclass(slots=True)
class Swarm:
    """The schedulers.

    Attributes:
        address: address of the server.
        kills: number of kills that are left.
        chance: draws the times of kills.
        clients: the schedulers.
        keys: folder of their keys; None: they have none.
        errors: what no scheduler may see.
        killed: number of kills.
    """

    address: str
    kills: int
    chance: random.Random
    mean_s: float
    clients: list[SwarmClient]
    keys: str | None = None
    errors: list[str] = field(default_factory=list)
    killed: int = 0

    def start(self, client: SwarmClient) -> None:
        """Start the process of a scheduler."""
        readable, writable = os.pipe()
        client.pid = os.fork()
        if not client.pid:
            os.close(readable)
            schedule(self.address, client.session, writable, self.keys)
        os.close(writable)
        client.pipe, client.lines = readable, b""
        if self.kills:
            client.kill_at_s = time.monotonic() + self.chance.expovariate(1.0 / self.mean_s)

    def kill_due(self) -> None:
        """Kill the processes whose time has come."""
        for client in self.clients:
            if client.pid and time.monotonic() >= client.kill_at_s:
                client.kill_at_s = float("inf")
                os.kill(client.pid, signal.SIGKILL)
                self.kills -= 1
                self.killed += 1

    def read(self, client: SwarmClient) -> None:
        """Read what a process says; note its end."""
        if data := os.read(client.pipe, 65536):
            client.lines += data
            return
        os.close(client.pipe)
        _, status = os.waitpid(client.pid, 0)
        client.pid = 0
        for line in client.lines.decode().splitlines():
            word, _, rest = line.partition(" ")
            if word == "session":
                client.session = rest
            elif word == "done":
                client.done = True
            elif word == "error":
                self.errors.append(rest)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) not in (0, 3):
            self.errors.append(f"a client ended with the status {os.WEXITSTATUS(status)}")


def schedule(address: str, session: str, pipe: int, keys: str | None) -> None:
    """Run one scheduler and exit: with 3 if it is to be started again."""
    status = 0
    try:
        run(
            make_policy(POLICY),
            address,
            name=POLICY,
            session=session,
            keys=keys,
            timeouts=TIMEOUTS,
            welcomed=lambda welcome: _say(pipe, f"session {welcome.session}"),
        )
        _say(pipe, "done")
    except ServerGoneError:
        status = 3
    except ServerRefusedError as refused:
        status = 3
        if refused.error.message.endswith("every job is over"):
            _say(pipe, "done")
        elif refused.error.code not in RETRIED:
            _say(pipe, f"error {refused}")
    except BaseException as error:
        _say(pipe, f"error {error!r}")
    os._exit(status)


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


def main() -> None:
    """Run the schedulers until all are complete or one met an error."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--mean-s", type=float, default=0.5)
    parser.add_argument("--keys")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    clients = [SwarmClient() for _ in range(given.clients)]
    chance = random.Random(given.seed)
    swarm = Swarm(given.address, given.kills, chance, given.mean_s, clients, given.keys)
    while not swarm.errors and not all(client.done for client in clients):
        for client in clients:
            if not client.pid and not client.done:
                swarm.start(client)
        by_pipe = {client.pipe: client for client in clients if client.pid}
        ready, _, _ = select.select(list(by_pipe), [], [], AWAY_S)
        for pipe in ready:
            swarm.read(by_pipe[pipe])
        if swarm.kills > 0:
            swarm.kill_due()
    for client in clients:
        if client.pid:
            os.kill(client.pid, signal.SIGKILL)
    sessions = [client.session for client in clients if client.done]
    answer = {"sessions": sessions, "kills": swarm.killed, "errors": swarm.errors}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
