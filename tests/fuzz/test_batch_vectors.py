"""A compiled vector of batch environments is as many single environments, for random tasks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
pytest.importorskip("gymnasium", reason="environments need the extra rl")

from fuzz.test_engines import supported_scenario
from hpcosim_client import PolicyError
from hpcosim_gym.environments.batch_scheduling import BatchSchedulingEnv
from hpcosim_gym.environments.batch_task import BatchTask, Objective
from hpcosim_gym.environments.batch_vector import BatchSchedulingVectorEnv
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of

COUNT = 3


def random_task(seed: int) -> dict[str, Any]:
    """Return arguments of a random environment."""
    rng = np.random.default_rng(seed)
    drawn = supported_scenario(seed, sites=False)
    if rng.random() < 0.8:  # the vector supports it
        drawn["workload"]["placement"] = "cores"
        for job in drawn["workload"]["inline"]:
            job.pop("placement", None)
        for group in drawn["platform"]["nodes"]:
            group["processors"] = [{**group["processors"][0], "contention": None}]
    scenario = msgspec.convert(drawn, Scenario)
    jobs = source_jobs(scenario, Path())
    draws = any(each.processors[0].static_w for each in scenario.platform.nodes)
    rewards: list[Objective] = ["wait", "bounded_slowdown", "energy"]
    task = BatchTask(
        scenario.platform,
        window_jobs=int(rng.choice([1, 3, 7, 64])),
        episode_jobs=None if rng.random() < 0.5 else int(rng.integers(1, len(jobs) + 1)),
        reward=rewards[rng.integers(3 if draws else 2)],
        reward_scale=float(rng.choice([1.0, 3.0])),
        rules=rules_of(scenario),
    )
    return {"task": task, "jobs": jobs, "observation": "flat"}


def begun(env: BatchSchedulingEnv, seed: int | None = None) -> tuple[Any, ...]:
    """Begin an episode; return what a step returns."""
    seen, info = env.reset(seed=seed)
    return seen, 0.0, False, False, info


def differences(how: dict[str, Any], seed: int) -> str:
    """Play a vector and single environments with the same actions; return what differs first."""
    vector = BatchSchedulingVectorEnv(COUNT, **how)
    if type(vector._runs).__name__ != "_Compiled":
        return "the reference plays the vector"
    singles = [BatchSchedulingEnv(**how) for _ in range(COUNT)]
    try:
        alone = [begun(env, seed + place) for place, env in enumerate(singles)]
    except PolicyError:
        with pytest.raises(PolicyError):
            vector.reset(seed=seed)
        return ""
    seen: Any
    seen, info = vector.reset(seed=seed)
    rewards, over = np.zeros(COUNT), np.zeros(COUNT, np.bool_)
    rng = np.random.default_rng(seed)
    for step in range(40):
        for place, (own_seen, own_reward, own_over, _, own_info) in enumerate(alone):
            pairs = {
                "observation": (seen[place].tobytes(), own_seen.tobytes()),
                "mask": (info["action_mask"][place].tolist(), own_info["action_mask"].tolist()),
                "reward": (rewards[place], own_reward),
                "end": (over[place], own_over),
            }
            if own_over:
                metrics = ("mean_wait_s", "mean_bounded_slowdown", "energy_j", "makespan_s")
                pairs |= {name: (info[name][place], own_info[name]) for name in metrics}
            for name, (one, other) in pairs.items():
                if one != other:
                    return f"{name} of environment {place} at step {step}: {one!r}, {other!r}"
        actions = rng.integers(how["task"].window_jobs, size=COUNT)
        try:
            alone = [
                begun(env) if env.done else env.step(action)
                for env, action in zip(singles, actions, strict=True)
            ]
        except PolicyError:  # a random part of the workload without a decision
            return ""
        seen, rewards, over, _, info = vector.step(actions)
    return ""


def test_random_tasks_are_played_as_by_single_environments(vector_seeds: Iterable[int]) -> None:
    """Every observation, mask, reward, end and metric, bit by bit."""
    compiled = 0
    for seed in vector_seeds:
        how = random_task(seed)
        failure = differences(how, seed)
        if failure == "the reference plays the vector":
            continue
        compiled += 1
        assert not failure, f"seed {seed}: {failure}"
    assert compiled
