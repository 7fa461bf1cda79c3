"""Kills a server at random instants, restarts it with `--resume`, and compares all results.

python -m benchmarks.killed_servers --kills 200 --seed 1
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from hpcosim_client import Timeouts, run
from hpcosim_schedulers import make_policy

POLICIES = ("fcfs", "easy", "conservative", "sjf")
TIMEOUTS = Timeouts(resend_s=0.1, reply_s=300.0, hello_s=300.0)
LONGEST_S = 0.6  # time from `listening` to a kill
STARTING_S = 1.5  # time from the start to a kill that may come before `listening`
EARLY = 0.15  # fraction of such kills
SCENARIO = """
name: killed
seed: 7
platform:
  nodes:
    - count: 32
      processors: [{cores: 4, static_w: 100, dynamic_w: 5, idle_fraction: 0.4}]
      power_states: {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30,
                     switch_off_w: 80, switch_on_sd_s: 5}
workload:
  synthetic: {model: poisson, jobs: 400, mean_interarrival_s: 60, cores: [1, 64], run_s: [60, 3600]}
scheduler: {name: easy}
"""
Files = Mapping[str, bytes]


class Survival(NamedTuple):
    """The outcome.

    Attributes:
        kills: number of kills.
        interrupted: number of kills that interrupted an open session.
        sessions: number of sessions, all of which came to their end.
        different: names of results folders that differ from those of an undisturbed run.
        lost: number of sessions without results.
        wall_s: wall time, s.
    """

    kills: int
    interrupted: int
    sessions: int
    different: Sequence[str]
    lost: int
    wall_s: float


class _Clients:
    """Schedulers in threads, each with one session after the other until `enough`."""

    def __init__(self, address: str, count: int) -> None:
        self.enough = threading.Event()
        self.sessions: dict[str, str] = {}
        self.errors: list[Exception] = []
        self._address = address
        self._threads = [
            threading.Thread(target=self._run, args=(POLICIES[n % len(POLICIES)],))
            for n in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the last sessions."""
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _run(self, policy: str) -> None:
        try:
            while not self.enough.is_set():
                names: list[str] = []
                run(
                    make_policy(policy),
                    self._address,
                    name=policy,
                    timeouts=TIMEOUTS,
                    welcomed=lambda welcome, names=names: names.append(welcome.session),  # type: ignore[misc]
                )
                self.sessions[names[0]] = policy
        except Exception as error:
            self.errors.append(error)


class _Server:
    """A server process."""

    def __init__(self, folder: Path, port: int, sync: str, workers: int) -> None:
        words = ["serve", "killed.yaml", "--bind", f"tcp://127.0.0.1:{port}", "--out", "out"]
        words += ["--resume", "out/.journal", "--set", f"journal.sync={sync}"]
        words += ["--workers", str(workers)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hpcosim.cli", *words],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def wait_until_listening(self) -> None:
        """Wait for its log entry `listening`."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            entry = json.loads(line)
            if entry["event"] == "session_not_restored":
                raise AssertionError(line)
            if entry["event"] == "listening":
                self._reader.start()
                return
        raise AssertionError("the server ended before it listened")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the server and wait for its end; SIGKILL kills all its processes."""
        if number == signal.SIGKILL:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)
        self._process.wait()
        if self._reader.is_alive():
            self._reader.join()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _read(self) -> None:
        """Read the rest of the log, so that the pipe is never full."""
        assert self._process.stderr is not None
        self._process.stderr.read()


def survive(
    kills: int,
    clients: int,
    chance: random.Random,
    sync: str = "interval",
    workers: int = 1,
) -> Survival:
    """Run sessions whose server is killed again and again, and compare their results.

    Args:
        kills: number of kills by SIGKILL.
        clients: number of schedulers that run at once.
        chance: source of the instants of the kills.
        sync: `journal.sync` of the server.
        workers: its option `--workers`.
    """
    began_s = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "killed.yaml").write_text(SCENARIO)
        expected = _undisturbed(folder)
        port = _free_port()
        schedulers = _Clients(f"tcp://127.0.0.1:{port}", clients)
        interrupted = 0
        for _ in range(kills):
            server = _Server(folder, port, sync, workers)
            if chance.random() < EARLY:
                time.sleep(chance.uniform(0.0, STARTING_S))
            else:
                server.wait_until_listening()
                time.sleep(chance.uniform(0.0, LONGEST_S))
            server.kill()
            interrupted += bool(_journals(folder, "open"))
        schedulers.enough.set()
        server = _Server(folder, port, sync, workers)
        server.wait_until_listening()
        schedulers.join()
        server.kill(signal.SIGTERM)
        found = {each.name.rpartition("-")[2]: each for each in (folder / "out").glob("[!.]*")}
        different = [
            each.name
            for each in found.values()
            if _files(each) != expected[each.name.split("-")[1]]
        ]
        lost = sum(session[:8] not in found for session in schedulers.sessions)
        wall_s = time.monotonic() - began_s
        return Survival(kills, interrupted, len(schedulers.sessions), different, lost, wall_s)


def _undisturbed(folder: Path) -> Mapping[str, Files]:
    """Return the results of a run of each policy with a server that is not killed."""
    port = _free_port()
    server = _Server(folder, port, "never", workers=1)
    expected = {}
    for policy in POLICIES:
        run(make_policy(policy), f"tcp://127.0.0.1:{port}", name=policy, timeouts=TIMEOUTS)
    server.wait_until_listening()
    server.kill(signal.SIGTERM)
    for each in (folder / "out").glob("[!.]*"):
        expected[each.name.split("-")[1]] = _files(each)
    (folder / "out").rename(folder / "undisturbed")
    return expected


def _files(folder: Path) -> Files:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _journals(folder: Path, state: str) -> list[Path]:
    return list((folder / "out/.journal" / state).glob("*.journal"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main() -> None:
    """Print the outcome; exit with status 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sync", default="interval", choices=["always", "interval", "never"])
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    outcome = survive(options.kills, options.clients, chance, options.sync, options.workers)
    for name, value in outcome._asdict().items():
        print(f"{name:12} {value}")
    sys.exit(bool(outcome.different or outcome.lost))


if __name__ == "__main__":
    main()
