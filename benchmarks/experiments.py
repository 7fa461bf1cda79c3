"""Experiments: overhead per run, growth with the number of runs, and speed-up with two workers."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hpcosim_experiments.carry_out import run_experiment
from hpcosim_experiments.executors import Local
from hpcosim_scenarios import simulate
from hpcosim_scenarios.model import Engine
from hpcosim_schedulers import make_policy

SCENARIO = """name: benchmark
platform:
  nodes: [{{count: 256, processors: [{{cores: 1, static_w: 190, dynamic_w: 0, idle_fraction: 1}}]}}]
workload:
  synthetic: {{model: lublin, jobs: {jobs}, processors: 256}}
scheduler: fcfs
engine: {engine}
"""
EXPERIMENT = """name: benchmark
scenario: benchmark.yaml
axes: {{seed: [{seeds}]}}
report: {{metrics: [mean_wait_s], figures: [], resamples: 1000}}
"""


def run(smoke: bool) -> dict[str, float]:
    """Return the figures. `overhead`: CPU time / that of a loop of `simulate`, minus 1."""
    runs, jobs = (20, 200) if smoke else (300, 2000)
    few, many = (20, 80) if smoke else (1000, 5000)
    experiment_s, bare_s = _experiment(runs, jobs), _bare(runs, jobs)
    compiled_s = _experiment(runs, jobs, engine="compiled")
    short_s = {count: _experiment(count, 10) / count for count in (few, many)}
    parallel = 10 if smoke else 200
    one_s, two_s = (
        _experiment(parallel, jobs, workers=workers, clock=time.perf_counter) for workers in (1, 2)
    )
    return {
        f"{runs} runs of {jobs} jobs, CPU ms per run": 1000 * experiment_s / runs,
        f"{runs} runs of {jobs} jobs, overhead": experiment_s / bare_s - 1,
        f"{runs} runs of {jobs} jobs, reference / compiled engine": experiment_s / compiled_s,
        **{f"{n} runs of 10 jobs, CPU ms per run": 1000 * each for n, each in short_s.items()},
        f"time per run, {many} runs / {few} runs": short_s[many] / short_s[few],
        f"{parallel} runs of {jobs} jobs, speed-up with 2 workers": one_s / two_s,
    }


def _experiment(
    runs: int,
    jobs: int,
    workers: int = 0,
    clock: Callable[[], float] = time.process_time,
    engine: Engine = "reference",
) -> float:
    """Return the time of an experiment from the file to the report, s."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "experiment.yaml"
        path.write_text(EXPERIMENT.format(seeds=", ".join(map(str, range(runs)))))
        _write_scenario(folder, jobs, engine)
        began_s = clock()
        done = run_experiment(path, out=folder / "out", executor=Local(workers=workers))
        took_s = clock() - began_s
        assert not done.failed
        return took_s


def _bare(runs: int, jobs: int) -> float:
    """Return the CPU time of a loop of `simulate` over the same runs, s."""
    with tempfile.TemporaryDirectory() as name:
        path = _write_scenario(Path(name), jobs, "reference")
        began_s = time.process_time()
        for seed in range(runs):
            simulate(path, make_policy("fcfs"), overrides={"seed": seed})
        return time.process_time() - began_s


def _write_scenario(folder: Path, jobs: int, engine: Engine) -> Path:
    path = folder / "benchmark.yaml"
    path.write_text(SCENARIO.format(jobs=jobs, engine=engine))
    return path
