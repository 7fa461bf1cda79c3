"""A pybatsim scheduler on hpcosim, compared with its own computing time and with a ping-pong."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import zmq

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import BatsimTimeouts, WallTimes, exchange_messages
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.results import results_of

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from support.batsim_inputs import write_platform, write_workload
from support.batsim_outputs import write_outputs
from support.batsim_venv import NoClientsError, clients

HOSTS = 128
SCHEDULER = "easyBackfill"
ROUNDS = 5

# pybatsim's command, instrumented to measure its time outside of `recv` and `send`.
COMMAND = """
import time
from batsim.cmds.launcher import main
from batsim.network import NetworkHandler

class Noted:
    since_s = own_s = 0.0

def timed(call):
    def run(*args, **more):
        if Noted.since_s:  # after the first message
            Noted.own_s += time.perf_counter() - Noted.since_s
        try:
            return call(*args, **more)
        finally:
            Noted.since_s = time.perf_counter()
    return run

NetworkHandler.recv, NetworkHandler.send = timed(NetworkHandler.recv), timed(NetworkHandler.send)
main()
print("own", Noted.own_s)
"""

# pybatsim's network handler with recorded replies, without a scheduler.
ECHO = """
import json, sys
from batsim.network import NetworkHandler

replies = [json.loads(line) for line in open(sys.argv[2], encoding="utf-8")]
wire = NetworkHandler(sys.argv[1], timeout=20000)
wire.bind()
for reply in [{}, *replies]:
    wire.recv()
    wire.send(reply)
wire.close()
"""


class _Noted(Bridge):
    """Records all messages and replies, and the time of the first reply."""

    said: list[bytes]
    heard: list[bytes]
    began_s: float

    def first_message(self) -> bytes:
        self.said, self.heard = [super().first_message()], []
        return self.said[0]

    def next_message(self, reply: bytes) -> bytes:
        if not self.heard:
            self.began_s = time.perf_counter()
        self.heard.append(reply)
        self.said.append(super().next_message(reply))
        return self.said[-1]


def run(smoke: bool) -> dict[str, float]:
    """Return the figures.

    `x_of_limit` is the wall time of the run until the last file is written, divided by (computing
    time of the scheduler + 1.3 x ping-pong with the same messages, with JSON at both ends). The
    target is at most 1.
    """
    try:
        programs = clients()
    except NoClientsError as error:
        print(f"  skipped: pybatsim cannot be installed: {error}")
        return {}
    jobs = 200 if smoke else 10_000
    rounds = [_round(programs, jobs) for _ in range(1 if smoke else ROUNDS)]
    # A mean: the latency between two processes varies by a factor of 2 from round to round.
    mean = {name: sum(one[name] for one in rounds) / len(rounds) for name in rounds[0]}
    limit_s = mean["scheduler alone, s"] + 1.3 * mean["JSON ping-pong, s"]
    figures = {"jobs": jobs, **mean, "x_of_limit": mean["run, s"] / limit_s}
    return {f"{SCHEDULER}, {name}": value for name, value in figures.items()}


def _round(programs: Path, jobs: int) -> dict[str, float]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        bridge, wall_s, own_s = _together(programs, folder, jobs)
        return {
            "messages": len(bridge.said),
            "run, s": wall_s,
            "scheduler alone, s": own_s,
            "JSON ping-pong, s": _ping_pong(programs, folder, bridge),
            "simulator alone, s": _replayed(folder, bridge),
        }


def _together(programs: Path, folder: Path, jobs: int) -> tuple[_Noted, float, float]:
    """Return the bridge, the wall time of the run and the computing time of the scheduler.

    The wall time is from the first reply to the last file. The computing time is the time of the
    scheduler outside of `recv` and `send`, when the simulator waits for it.
    """
    bridge = _bridge(folder, jobs)
    address = f"tcp://127.0.0.1:{_free_port()}"
    with (folder / "said").open("wb") as said:
        scheduler = subprocess.Popen(
            [programs / "python", "-c", COMMAND, SCHEDULER, "-s", address, "-v", "error"],
            stdout=said,
            stderr=said,
            cwd=folder,
        )
        exchange_messages(bridge, address, BatsimTimeouts(), WallTimes())
        write_outputs(folder / "out", results_of(bridge.run))
        wall_s = time.perf_counter() - bridge.began_s
        scheduler.wait()
    said_last = (folder / "said").read_text(encoding="utf-8").split()
    return bridge, wall_s, float(said_last[-1])


def _replayed(folder: Path, before: _Noted) -> float:
    """Return the wall time of the same run with recorded replies, without a scheduler."""
    bridge = _bridge(folder, len(before.run.registry.jobs))
    began_s = time.perf_counter()
    bridge.first_message()
    for reply in before.heard:
        bridge.next_message(reply)
    return time.perf_counter() - began_s


def _ping_pong(programs: Path, folder: Path, said: _Noted) -> float:
    """Return the wall time of a ping-pong with the same messages, with JSON at both ends."""
    messages = [json.loads(message) for message in said.said]
    (folder / "replies").write_bytes(b"\n".join(said.heard))
    address = f"tcp://127.0.0.1:{_free_port()}"
    echo = subprocess.Popen([programs / "python", "-c", ECHO, address, folder / "replies"])
    with zmq.Context() as context, context.socket(zmq.REQ) as socket:
        socket.connect(address)
        socket.send(b"{}")
        socket.recv()
        began_s = time.perf_counter()
        for message in messages[: len(said.heard)]:
            socket.send_string(json.dumps(message))
            json.loads(socket.recv_string())
        wall_s = time.perf_counter() - began_s
    echo.wait()
    return wall_s


def _bridge(folder: Path, jobs: int) -> _Noted:
    """Return a simulation of delay jobs on 128 hosts at an offered load of about 1."""
    rng = np.random.default_rng(1)
    submit_s = np.cumsum(rng.exponential(20.0, jobs)).round(3)
    delay_s = rng.integers(1, 600, jobs).tolist()
    res = np.minimum(HOSTS, 1 + rng.exponential(8.0, jobs).astype(int)).tolist()
    told = [
        {
            "id": number,
            "subtime": 1 + submit_s[number],
            "res": res[number],
            "walltime": delay_s[number] + 60,
            "profile": f"d{delay_s[number]}",
        }
        for number in range(jobs)
    ]
    profiles = {f"d{delay}": {"type": "delay", "delay": delay} for delay in sorted(set(delay_s))}
    workload = write_workload(folder, told, profiles)
    platform = write_platform(folder, HOSTS)
    return _Noted(read_workloads([workload]), read_platform(platform), BatsimOptions())


def _free_port() -> int:
    with zmq.Context() as context, context.socket(zmq.REP) as probe:
        return probe.bind_to_random_port("tcp://127.0.0.1")
