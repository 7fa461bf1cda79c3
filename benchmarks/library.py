"""EASY of a shared library beside that of the client, in one run; needs a C++ compiler."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cases import equal_nodes, lublin_256
from hpcosim_client import play
from hpcosim_client.library import LibraryScheduler
from hpcosim_schedulers import make_policy
from hpcosim_sim.engine.simulation import Batch, Simulation

CPP = Path(__file__).parents[1] / "scheduler_client" / "cpp"


def run(smoke: bool) -> dict[str, float]:
    """Return the figures; `the engine's share`: of the time, what the simulator itself takes."""
    jobs = lublin_256(500 if smoke else 10_000)
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "libeasy.so"
        command = ["make", "--directory", str(CPP), f"LIBRARY={library}", str(library)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return {}
        names = {"python": "easy", "library": f"in-process:{library}", "child": str(library)}
        best = dict.fromkeys(names, (math.inf, 0.0, 0))
        for _ in range(1 if smoke else 5):
            for name, scheduler in names.items():
                best[name] = min(best[name], _timed(scheduler, jobs))
    figures = {f"{name}, jobs/s": len(jobs) / wall_s for name, (wall_s, _, _) in best.items()}
    wall_s, engine_s, calls = best["library"]
    figures["the engine alone, jobs/s"] = len(jobs) / engine_s
    figures["library, the engine's share"] = engine_s / wall_s
    figures["a call of the library with its scheduling, us"] = 1e6 * (wall_s - engine_s) / calls
    return figures


def _timed(scheduler: str, jobs: Any) -> tuple[float, float, int]:
    """Return wall time, that within the simulator, s, and the number of calls."""
    simulation, policy = Simulation(equal_nodes(256), jobs), make_policy(scheduler)
    if isinstance(policy, LibraryScheduler):
        policy.hello  # noqa: B018 - loads it
    clock, engine_s, calls = time.perf_counter, 0.0, 0

    def ask(decisions: Any, wake_on: Any, elapsed_s: float) -> Batch:
        nonlocal engine_s, calls
        began_s = clock()
        batch = simulation.advance(decisions, wake_on=wake_on, elapsed_s=elapsed_s)
        engine_s += clock() - began_s
        calls += 1
        return batch

    began_s = clock()
    play(policy, simulation.cluster.platform, ask)
    return clock() - began_s, engine_s, calls
