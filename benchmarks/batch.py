"""Steps/s of the environment `hpcosim/BatchScheduling-v1` on SDSC-SP2.

A step is one call of `step`: a choice among up to 64 waiting jobs, its effect, the simulation of
all events until the next choice (with EASY backfilling at each), the observation, the reward and
the information.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import gymnasium
import numpy as np

from benchmarks.cases import equal_nodes, lublin_256, simulate, trace
from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_gym.environments.batch_task import BatchTask
from hpcosim_gym.gymnasium_envs import BATCH_SCHEDULING
from hpcosim_workloads.table import JobTable

WINDOWS = tuple(range(0, 54_000, 5_000))
"""First jobs of the windows of 500 jobs."""

REPEATS = 5
"""Repeats of each window; the fastest counts."""


def run(smoke: bool) -> dict[str, float]:
    """Return the figures, per second of CPU time of one thread; actions are uniformly random."""
    log, nodes, windows, size = (None if smoke else trace("sdsc-sp2")), 128, WINDOWS, 500
    if log is None:
        log, nodes, windows, size = lublin_256(400), 256, WINDOWS[:1], 400
    task = BatchTask(equal_nodes(nodes), episode_jobs=size)
    figures = {}
    for form in ("flat", "dict"):
        env = BatchSchedulingEnv(task=task, jobs=log, observation=form)
        figures[f"{form}, steps/s"] = _rate(env, windows, lambda env, action: env.step(action))
    env = BatchSchedulingEnv(task=task, jobs=log)
    figures["without observation, steps/s"] = _rate(
        env, windows, lambda env, action: env.choose(min(action, len(env.visible) - 1))
    )
    for count in (8, 64 if smoke else 1024):
        rate = _vector_rate(task, log, count, 20 if smoke else 300)
        figures[f"{count} in a vector, flat, steps/s"] = rate
        figures[f"{count} in a vector / single, flat"] = rate / figures["flat, steps/s"]
    figures["EASY alone, jobs/s"] = _easy_rate(task, log, windows, size)
    return figures


def _rate(
    env: BatchSchedulingEnv,
    windows: tuple[int, ...],
    step: Callable[[BatchSchedulingEnv, int], object],
) -> float:
    steps = 0

    def episode(first: int) -> None:
        nonlocal steps
        rng = np.random.default_rng(first)
        env.reset(options={"first_job": first})
        while not env.done:
            step(env, int(rng.integers(len(env.visible))))
            steps += 1

    least_s = sum(_least_s(lambda first=first: episode(first)) for first in windows)  # type: ignore[misc]
    return steps / REPEATS / least_s


def _vector_rate(task: BatchTask, jobs: JobTable, count: int, steps: int) -> float:
    envs = gymnasium.make_vec(
        BATCH_SCHEDULING, count, "vector_entry_point", task=task, jobs=jobs, observation="flat"
    )
    rng = np.random.default_rng(0)

    def some_steps() -> None:
        _, info = envs.reset(seed=0)
        for _ in range(steps):
            choices = info["action_mask"].sum(axis=1)
            _, _, _, _, info = envs.step(rng.integers(choices))

    return count * steps / _least_s(some_steps)


def _easy_rate(task: BatchTask, log: JobTable, windows: tuple[int, ...], size: int) -> float:
    """Return the jobs/s of EASY in process, for comparison."""

    def simulate_easy(first: int) -> None:
        simulate(task.platform, log.take(slice(first, first + size)), "easy")

    least_s = sum(_least_s(lambda first=first: simulate_easy(first)) for first in windows)  # type: ignore[misc]
    return size * len(windows) / least_s


def _least_s(work: Callable[[], None]) -> float:
    """Return the least CPU time of some repeats, s."""
    times_s = []
    for _ in range(REPEATS):
        began_s = time.process_time()
        work()
        times_s.append(time.process_time() - began_s)
    return min(times_s)
