"""Cost of journals: two processes over tcp with and without them, in turns."""

from __future__ import annotations

import multiprocessing
import resource
import time
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.cases import equal_nodes, lublin_256
from benchmarks.wire import free_port
from hpcosim_client import run as schedule
from hpcosim_protocol import Hello, Platform
from hpcosim_schedulers import make_policy
from hpcosim_server.journal.journal_file import SyncPolicy
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.socket_loop import serve
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.results import Run
from hpcosim_workloads.table import JobTable

NODES = 256
WAYS: tuple[SyncPolicy | None, ...] = (None, "never", "interval")


class _Times(NamedTuple):
    wall_s: float
    cpu_s: float


def run(smoke: bool) -> dict[str, float]:
    """Return the figures.

    `journal / none` is the least time of several runs with a journal divided by the least time
    without one. CPU time is that of both processes. The target for `interval` is at most 1.1.
    `always` takes as long as the disk needs for each request, so it has a figure of its own.
    """
    jobs, rounds = lublin_256(300 if smoke else 3_000), 1 if smoke else 9
    figures: dict[str, float] = {}
    for policy in ("fcfs", "easy"):
        times: dict[SyncPolicy | None, list[_Times]] = {way: [] for way in WAYS}
        size = 0
        for _ in range(rounds):
            for way in WAYS:
                with TemporaryDirectory() as folder:
                    times[way].append(_two_processes(jobs, policy, way, Path(folder)))
                    size = max(size, _size(Path(folder)))
        wall_s = {way: min(each.wall_s for each in times[way]) for way in WAYS}
        cpu_s = {way: min(each.cpu_s for each in times[way]) for way in WAYS}
        figures[f"{policy}, no journal, s of wall"] = wall_s[None]
        figures[f"{policy}, no journal, s of CPU"] = cpu_s[None]
        for way in WAYS[1:]:
            figures[f"{policy}, {way}: wall, journal / none"] = wall_s[way] / wall_s[None]
            figures[f"{policy}, {way}: CPU, journal / none"] = cpu_s[way] / cpu_s[None]
        figures[f"{policy}, bytes of the journal per job"] = size / len(jobs)
    with TemporaryDirectory() as folder:
        few = lublin_256(100)
        slow = _two_processes(few, "fcfs", "always", Path(folder))
        figures["fcfs, always, ms of wall per job"] = 1000 * slow.wall_s / len(few)
    return figures


def _two_processes(jobs: JobTable, policy: str, sync: SyncPolicy | None, folder: Path) -> _Times:
    """Return the time from hello to the end, and the CPU time of both processes."""
    address = f"tcp://127.0.0.1:{free_port()}"
    ours, theirs = multiprocessing.Pipe()
    arguments = (address, equal_nodes(NODES), jobs, sync, folder, theirs)
    server = multiprocessing.Process(target=_serve, args=arguments)
    server.start()
    ours.recv()
    decide = make_policy(policy)
    began_s, used_s = time.perf_counter(), time.process_time()
    schedule(decide, address, name="benchmark")
    wall_s, client_s = time.perf_counter() - began_s, time.process_time() - used_s
    server_s: float = ours.recv()
    server.join()
    return _Times(wall_s, client_s + server_s)


def _serve(
    address: str,
    platform: Platform,
    jobs: JobTable,
    sync: SyncPolicy | None,
    folder: Path,
    pipe: Pipe,
) -> None:
    about = Run(hpcosim="", scenario="benchmark", scheduler="benchmark", seed=0)

    def opener(_: Hello) -> Opened:
        return Opened(Simulation(platform, jobs), about, len(jobs))

    journals = None if sync is None else Journals(folder, sync)
    service = Service(opener, sessions=1, journals=journals)
    used_s = _cpu_s()
    pipe.send(None)
    serve(service, address)
    pipe.send(_cpu_s() - used_s)


def _cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.journal"))
