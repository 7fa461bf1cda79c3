"""A server of many sessions: what one session adds to the latency of others, and throughput."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.throughput import CLIENTS, Client, recorded, throughput
from hpcosim_protocol import Bye, Decisions, Hello, encode

SCENARIO = """
name: {name}
seed: 3
platform: {{nodes: [{{count: 256, processors: [{{cores: 1, static_w: 190, dynamic_w: 0}}]}}]}}
workload:
  synthetic:
    {{model: poisson, jobs: {jobs}, mean_interarrival_s: 60, cores: [1, 64], run_s: [60, 3600]}}
scheduler: {{name: fcfs}}
"""
SESSIONS = 8
CORES = 2


class Sizes(NamedTuple):
    """Sizes of a benchmark.

    Attributes:
        played: jobs of each session of the throughput.
        large: jobs of the session that disturbs others.
        alone: requests of the observer without it.
        hellos: sessions opened one after the other.
    """

    played: int
    large: int
    alone: int
    hellos: int


FULL, SMOKE = Sizes(4000, 200_000, 20_000, 50), Sizes(50, 300, 50, 3)


@contextmanager
def server(folder: Path, workers: int, *options: str) -> Iterator[tuple[str, int]]:
    """Start a server of the scenarios in a folder; yield its address and its process id."""
    command = [sys.executable, "-m", "hpcosim.cli", "serve", *map(str, folder.glob("*.yaml"))]
    command += ["--bind", "tcp://127.0.0.1:*", "--out", str(folder / f"out-{workers}")]
    command += ["--workers", str(workers), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    try:
        assert process.stderr is not None
        entries = map(json.loads, process.stderr)
        yield next(e["address"] for e in entries if e["event"] == "listening"), process.pid
    finally:
        process.terminate()
        process.communicate()


def run(smoke: bool) -> dict[str, float]:
    """Return the figures.

    The aims: less than 5 ms of worst added latency, and a speed-up of 1.7 on two cores.
    """
    sizes = SMOKE if smoke else FULL
    figures: dict[str, float] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        for scenario, jobs in (("played", sizes.played), ("large", sizes.large)):
            text = SCENARIO.format(name=scenario, jobs=jobs)
            (folder / f"{scenario}.yaml").write_text(text)
        requests = recorded(folder / "played.yaml")
        for workers in (1, SESSIONS):
            label = "one process" if workers == 1 else "workers"
            with server(folder, workers) as (address, pid):
                figures |= named(_hellos(address, sizes), label)
                figures |= named(_latency(address, sizes), label)
                figures |= named(_memory(address, pid), label)
        for client in CLIENTS:
            for workers in (1, CORES, SESSIONS):
                with server(folder, workers, "--set", "journal.keep=false") as (address, pid):
                    found = throughput(address, pid, client, requests, SESSIONS)
                figures |= named(found, f"{client}, workers: {workers}")
            one = figures[f"messages/s, {client}, workers: 1"]
            for workers in (CORES, SESSIONS):
                ratio = figures[f"messages/s, {client}, workers: {workers}"] / one
                figures[f"speed-up of {workers} workers, {client}"] = ratio
    return figures


def named(figures: dict[str, float], label: str) -> dict[str, float]:
    """Return figures with a label."""
    return {f"{name}, {label}": value for name, value in figures.items()}


def _hellos(address: str, sizes: Sizes) -> dict[str, float]:
    """Return the time of a hello whose scenario is loaded."""
    took = []
    for _ in range(sizes.hellos):
        client = Client(address)
        client.ask(encode(Hello(versions=[])))  # connects
        began_s = time.perf_counter()
        session = client.hello("played")
        took.append(1000 * (time.perf_counter() - began_s))
        client.ask(encode(Bye(session=session)))
        client.close()
    return {"hello p50, ms": float(np.median(took)), "hello worst, ms": max(took)}


def _latency(address: str, sizes: Sizes) -> dict[str, float]:
    """Return the latency of a session alone, and beside a session that is busy."""
    with Observer(address) as observer:
        figures = {f"alone {what}": ms for what, ms in observer.watch(sizes.alone).items()}
        for name, disturb in DISTURBERS.items():
            disturber = multiprocessing.Process(target=disturb, args=(address,))
            disturber.start()
            found = observer.watch(0, while_runs=disturber.is_alive)
            disturber.join()
            figures |= {f"{name}: {what}": ms for what, ms in found.items()}
    return figures


class Observer:
    """Measures the round trip of a request whose reply is known already.

    Args:
        address: address of the server.
    """

    def __init__(self, address: str) -> None:
        self._client = Client(address)
        session = self._client.hello("played")
        self._request = encode(Decisions(session=session, seq=1))
        self._client.ask(self._request)
        self._bye = encode(Bye(session=session))

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.ask(self._bye)
        self._client.close()

    def watch(
        self, requests: int, while_runs: Callable[[], bool] = lambda: False
    ) -> dict[str, float]:
        """Return the median, the 99th percentile and the worst round trip, ms."""
        took: list[float] = []
        while len(took) < max(1, requests) or while_runs():
            began_s = time.perf_counter()
            self._client.ask(self._request)
            took.append(1000 * (time.perf_counter() - began_s))
            time.sleep(0.0005)
        p50, p99 = np.percentile(took, (50, 99))
        return {"p50, ms": float(p50), "p99, ms": float(p99), "worst, ms": max(took)}


def _load(address: str) -> None:
    """Open a session whose workload is drawn anew."""
    client = Client(address)
    client.ask(encode(Bye(session=client.hello("large", seed=8))))
    client.close()


def _think(address: str) -> None:
    """Let much time pass in one request, and have the results written."""
    client = Client(address)
    session = client.hello("large")
    client.ask(encode(Decisions(session=session, seq=1, wake_on=[], elapsed_s=1e7)))
    client.ask(encode(Bye(session=session)))
    client.close()


def _write(address: str) -> None:
    """Have the results of a large session written, and wait for the next reply."""
    client = Client(address)
    session = client.hello("large")
    client.ask(encode(Decisions(session=session, seq=1)))
    client.ask(encode(Bye(session=session)))
    client.ask(encode(Hello(versions=[])))
    client.close()


DISTURBERS: dict[str, Callable[[str], None]] = {
    "a log is read": _load,
    "a simulation": _think,
    "results": _write,
}


def _memory(address: str, pid: int) -> dict[str, float]:
    """Return the memory of a server, and of each session with a loaded scenario."""
    before_mb = _memory_mb(pid)
    clients = [Client(address) for _ in range(SESSIONS)]
    for client in clients:
        session = client.hello("played")
        client.ask(encode(Decisions(session=session, seq=1)))
    after_mb = _memory_mb(pid)
    for client in clients:
        client.close()
    return {"memory, MB": before_mb, "memory per session, MB": (after_mb - before_mb) / SESSIONS}


def _memory_mb(pid: int) -> float:
    """Return the memory of a process and its children; pages that they share count once."""
    total_kb = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if pid in (int(folder.name), parent):
                rollup = (folder / "smaps_rollup").read_text()
                total_kb += int(rollup.partition("\nPss:")[2].split()[0])
        except OSError:
            continue
    return total_kb / 1024
