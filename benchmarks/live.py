"""Cost of the live view, as ratios to the same run without it.

Each ratio is of CPU times of the thread of the simulation and the scheduler, in one process: a live
view works in other threads. Runs with and without it alternate, so that a change of the machine's
speed meets both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import urlopen

from benchmarks.cases import equal_nodes, lublin_256
from hpcosim_scenarios.running.in_process import LABEL, run_in_process
from hpcosim_schedulers import make_policy
from hpcosim_server.service.observer import Watch
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.results import Run
from hpcosim_view.live.address import HttpAddress, live_view
from hpcosim_workloads.table import JobTable

LOOPBACK = HttpAddress("127.0.0.1", 0)


def run(smoke: bool) -> dict[str, float]:
    """Return the figures: ratios of the shortest of several runs."""
    jobs = lublin_256(200 if smoke else 10_000)
    plain_s, unseen_s, seen_s = [], [], []
    for _ in range(2 if smoke else 15):
        plain_s.append(_timed(jobs, None))
        unseen_s.append(_with_view(jobs, 0))
        seen_s.append(_with_view(jobs, 1))
    return {
        "lublin_256 fcfs, no viewer, x of no live view": min(unseen_s) / min(plain_s),
        "lublin_256 fcfs, one viewer, x of no live view": min(seen_s) / min(plain_s),
    }


def _with_view(jobs: JobTable, viewers: int) -> float:
    with live_view(LOOPBACK) as view, _reading(view.url, viewers):
        return _timed(jobs, view.watch)


def _timed(jobs: JobTable, watch: Watch | None) -> float:
    """Return the CPU time of the thread of a simulation, s."""
    simulation = Simulation(equal_nodes(256), jobs)
    opened = Opened(
        simulation, Run(hpcosim="0", scenario="benchmark", scheduler="fcfs", seed=0), len(jobs)
    )
    began_s = time.thread_time()
    run_in_process(opened, make_policy("fcfs"), watch=watch)
    return time.thread_time() - began_s


@contextmanager
def _reading(url: str, viewers: int) -> Iterator[None]:
    """Let viewers read the frames of the only session as soon as it is open."""
    threads = [threading.Thread(target=_read, args=(url,)) for _ in range(viewers)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.join()


def _read(url: str) -> None:
    while b'"label"' not in urlopen(f"{url}api/sessions").read():
        time.sleep(0.005)
    with urlopen(f"{url}api/sessions/{LABEL}/frames") as frames:
        while frames.readline() not in (b"", b"event: end\n"):
            pass
