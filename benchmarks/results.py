"""CPU time of writing a results folder, and of reading it."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from benchmarks.cases import equal_nodes, light, simulate
from hpcosim_protocol import Platform
from hpcosim_sim.record.results import Run, write_results
from hpcosim_sim.record.tables import node_lines, node_rows
from hpcosim_view.run.folder import read_folder
from hpcosim_workloads.synthetic.lublin import lublin
from hpcosim_workloads.table import JobTable


def run(smoke: bool) -> dict[str, float]:
    """Return the figures of two workloads.

    Simulating is the run with FCFS. `nodes.csv by replay` is the reference that processes one
    change at a time; its ratio to `nodes.csv` in columns is measured in one process.
    """
    jobs = 500 if smoke else 100_000
    wide = lublin(np.random.default_rng(1), jobs=jobs, processors=256)
    return {
        **_figures("lublin on 256 nodes", equal_nodes(256), wide),
        **_figures("4-core nodes", equal_nodes(64, 4), light(jobs)),
    }


def _figures(name: str, platform: Platform, jobs: JobTable) -> dict[str, float]:
    began_s = time.process_time()
    simulation, _ = simulate(platform, jobs, "fcfs")
    simulating_s = time.process_time() - began_s
    about = Run(scenario=name, scheduler="fcfs", seed=0, hpcosim="", complete=True)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        writing_s = _cpu_s(lambda: write_results(out, simulation.record(), about))
        reading_s = _cpu_s(lambda: read_folder(out))
    columns_s = _cpu_s(lambda: _drain(node_rows(simulation.record())))
    replay_s = _cpu_s(lambda: _drain(node_lines(simulation.record())))
    return {
        f"{name}, writing, s": writing_s,
        f"{name}, writing / simulating": writing_s / simulating_s,
        f"{name}, nodes.csv by replay / in columns": replay_s / columns_s,
        f"{name}, reading, s": reading_s,
    }


def _drain(pieces: Iterable[str]) -> None:
    deque(pieces, maxlen=0)


def _cpu_s(function: Callable[[], object]) -> float:
    began_s = time.process_time()
    function()
    return time.process_time() - began_s
