"""The compiled engine beside the reference, in one run."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace as replace_fields

from benchmarks.cases import equal_nodes, lublin_256, simulate, site_jobs, trace
from hpcosim_compiled.policies import ALWAYS_ON, NO_SETTINGS
from hpcosim_protocol import Platform, PowerStates
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.policies import chosen_by
from hpcosim_schedulers.catalogue.power import with_power
from hpcosim_schedulers.power.settings import Power, Timeout
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.record.results import Run, write_results
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.swf import read_swf
from hpcosim_workloads.table import JobTable

INEPS = Path(__file__).parents[1] / "scenarios" / "papers" / "ineps" / "exp3.yaml"
PAIRING = ("first-high-gflops", "shortest-high-cores")
SITE = Path(__file__).parent / "site.yaml"
CASES = (("sdsc-sp2", 128), ("llnl-thunder", 4008))


TIMES = PowerStates(9.0, 300.0, 190.0, 60.0, 100.0)
SLEEPING = Platform((replace_fields(equal_nodes(256).nodes[0], power_states=TIMES),))
"""Nodes that boot in 300 s and are switched off in 60 s."""


def run(smoke: bool) -> dict[str, float]:
    """Return CPU time of the reference / that of the compiled engine, records included."""
    try:
        from hpcosim_compiled.simulation import CompiledSimulation
    except ImportError:
        return {}
    began_s = time.process_time()
    few = lublin_256(100)
    CompiledSimulation(equal_nodes(256), few, Rules(), "fcfs").prepare()
    figures = {"preparation (10 to 20 s if not in the cache), s": time.process_time() - began_s}
    jobs = lublin_256(500 if smoke else 10_000)
    for scheduler in ("fcfs", "easy", "easy-wfp3"):
        figures |= _ratios("lublin_256", jobs, equal_nodes(256), scheduler)
    for scheduler in ("conservative", "slurm"):
        figures |= _ratios("lublin_256", jobs.take(slice(0, 3000)), equal_nodes(256), scheduler)
    figures |= _ratios("timeout 600 s, lublin_256", jobs, SLEEPING, "easy", Timeout(600.0))
    platform, contending = _contending(300 if smoke else 5000)
    for scheduler in PAIRING:
        figures |= _ratios("contention", contending, platform, scheduler)
    jobs, platform, settings = _site(50 if smoke else 1000)
    figures |= _ratios("site with accounts", jobs, platform, "slurm", settings=settings)
    for name, nodes in () if smoke else CASES:
        log = trace(name)
        if log is not None:
            figures |= _ratios(name, log, equal_nodes(nodes), "easy")
            figures |= _ratios(name, log.take(slice(0, 5000)), equal_nodes(nodes), "conservative")
            figures |= _ratios(name, log.take(slice(0, 5000)), equal_nodes(nodes), "slurm")
            figures |= _from_file(name, nodes)
    return figures


def _contending(count: int) -> tuple[Platform, JobTable]:
    """Return the 40 nodes of Experiment 3 of InEPS, and random jobs of it that come one by one."""
    library, rng = Library([INEPS]), np.random.default_rng(0)
    jobs = library.first_jobs.take(rng.integers(len(library.first_jobs), size=count))
    jobs = replace(jobs, job_id=np.arange(count))
    return library.first.platform, jobs.at(rng.exponential(0.2, count).cumsum())


def _site(count: int) -> tuple[JobTable, Platform, Mapping[str, object]]:
    """Return jobs of `site.yaml`, its nodes, and the settings of its scheduler."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / SITE.name
        file.write_bytes(SITE.read_bytes())
        lines = (json.dumps(job) + "\n" for job in site_jobs(count))
        (file.parent / "site-jobs.jsonl").write_text("".join(lines))
        loaded = Library([file]).default
    settings = msgspec.json.decode(chosen_by(loaded.scenario, file, None, {}).settings)
    return loaded.jobs, loaded.scenario.platform, settings


def _from_file(name: str, nodes: int) -> dict[str, float]:
    """Return CPU time from the file to the results folder, of both engines, and parts of it."""
    from hpcosim_compiled.simulation import CompiledSimulation

    path = find_trace(name)
    about = Run(scenario=name, scheduler="easy", seed=0, hpcosim="", complete=True)

    def reading() -> None:
        read_swf(path)

    def compiled() -> None:
        simulation = CompiledSimulation(equal_nodes(nodes), read_swf(path), Rules(), "easy")
        while simulation.advance():
            pass
        write(simulation.record())

    def reference() -> None:
        write(simulate(equal_nodes(nodes), read_swf(path), "easy")[0].record())

    def write(record: RunRecord) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            write_results(Path(scratch) / "out", record, about)

    read_s, compiled_s, reference_s = map(_cpu_s, (reading, compiled, reference))
    return {
        f"{name}, from file to folder: reference / compiled": reference_s / compiled_s,
        f"{name}, from file to folder, compiled, s": compiled_s,
        f"{name}, reading / from file to folder, compiled": read_s / compiled_s,
    }


def _cpu_s(function: Callable[[], object]) -> float:
    began_s = time.process_time()
    function()
    return time.process_time() - began_s


def _ratios(
    name: str,
    jobs: JobTable,
    platform: Platform,
    scheduler: str,
    power: Power = ALWAYS_ON,
    settings: Mapping[str, object] = NO_SETTINGS,
) -> dict[str, float]:
    from hpcosim_compiled.simulation import CompiledSimulation

    def compiled() -> None:
        simulation = CompiledSimulation(
            platform, jobs, Rules(), scheduler, power=power, settings=settings
        )
        while simulation.advance():
            pass
        simulation.record()

    def reference() -> None:
        policy = with_power(scheduler, power, settings=settings)
        simulate(platform, jobs, policy)[0].record()

    taken_s = []
    for simulation, times in ((compiled, 5), (reference, 1)):
        best_s = float("inf")
        for _ in range(times):
            began_s = time.process_time()
            simulation()
            best_s = min(best_s, time.process_time() - began_s)
        taken_s.append(best_s)
    what = f"{name} {scheduler}, {len(jobs)} jobs"
    return {
        f"{what}: reference / compiled": taken_s[1] / taken_s[0],
        f"{what}: jobs/s": len(jobs) / taken_s[0],
    }
