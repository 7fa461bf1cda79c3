"""A compiled vector of power environments is as many single environments, for random tasks."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
pytest.importorskip("gymnasium", reason="environments need the extra rl")

from fuzz.conftest import SEEDS
from fuzz.test_engines import supported_scenario
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import PowerTask, Reward
from hpcosim_papers.power.environments.power_vector import NodePowerVectorEnv
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.settings import Awareness

COUNT = 3

AWARE: tuple[tuple[str, Awareness], ...] = (
    ("easy", "aware"),
    ("easy", "planned"),
    ("conservative", "planned"),
    ("conservative", "aware"),
)
"""The schedulers of the first seeds: one family, because each takes minutes to compile."""

SCHEDULERS: tuple[tuple[str, Awareness], ...] = (
    *AWARE,
    ("fcfs", "aware"),
    ("sjf", "aware"),
    ("fcfs", "unaware"),
    ("wfp3", "unaware"),
    ("easy", "unaware"),
    ("easy-saf", "unaware"),
    ("conservative", "unaware"),
)


def random_task(seed: int) -> dict[str, Any]:
    """Return arguments of a random environment."""
    random, drawn = Random(seed), supported_scenario(seed, sites=False)
    drawn["platform"]["nodes"][0]["processors"][0]["static_w"] = 190
    for group in drawn["platform"]["nodes"]:
        group["power_states"] = {
            "sleep_w": random.choice((0, 5)),
            "switch_on_s": random.choice((0, 3, 9.3, 40)),
            "switch_on_w": random.choice((0, 80.5)),
            "switch_off_s": random.choice((0, 4, 21)),
            "switch_off_w": random.choice((0, 20)),
        }
        if random.random() < 0.2:
            del group["power_states"]
    drawn["platform"]["nodes"][0].setdefault(
        "power_states",
        {"sleep_w": 1, "switch_on_s": 5, "switch_on_w": 3, "switch_off_s": 2, "switch_off_w": 2},
    )
    if random.random() < 0.7:
        drawn["workload"]["placement"] = "cores"
        for job in drawn["workload"]["inline"]:
            job.pop("placement", None)
    scenario = msgspec.convert(drawn, Scenario)
    name, awareness = random.choice(AWARE if seed < SEEDS else SCHEDULERS)
    scheduler = partial(make_policy, name, awareness)
    task = PowerTask(
        scenario.platform,
        scheduler,
        random.choice((3.0, 7.7, 20.0, 60.0)),
        random.choice((None, 80_000.0)),
        Reward(random.choice(("shares", "linear")), 0.5, random.choice((0.5, 1e-3))),
        rules_of(scenario),
    )
    return {"task": task, "jobs": source_jobs(scenario, Path())}


def begun(env: NodePowerEnv) -> tuple[Any, ...]:
    """Begin an episode; return what a step returns."""
    seen, info = env.reset()
    return seen, 0.0, False, False, info


def differences(how: dict[str, Any], seed: int) -> str:
    """Play a vector and single environments with the same actions; return what differs first."""
    vector: Any = NodePowerVectorEnv(COUNT, **how)
    if type(vector._runs).__name__ != "_Compiled":
        return "the reference plays the vector"
    singles = [NodePowerEnv(**how) for _ in range(COUNT)]
    alone = [begun(env) for env in singles]
    seen, info = vector.reset(seed=seed)
    rewards, over = np.zeros(COUNT), np.zeros(COUNT, np.bool_)
    rng = np.random.default_rng(seed)
    for step in range(40):
        for place, (own_seen, own_reward, own_over, _, own_info) in enumerate(alone):
            pairs = {
                "time": (vector._runs._episodes.now_s(place), singles[place].view.now_s),
                "mask": (info["action_mask"][place].tolist(), own_info["action_mask"].tolist()),
                "observation": (seen[place].tolist(), own_seen.tolist()),
                "reward": (rewards[place], own_reward),
                "end": (over[place], own_over),
            }
            if own_over:
                metrics = ("energy_j", "edp_js", "makespan_s")
                pairs |= {name: (info[name][place], own_info[name]) for name in metrics}
            for name, (one, other) in pairs.items():
                if str(one) != str(other):  # also where both are NaN
                    return f"{name} of environment {place} at step {step}: {one!r}, {other!r}"
        actions = rng.integers(0, 2, size=(COUNT, how["task"].platform.node_count))
        if rng.random() < 0.5:  # nodes that stay on let jobs run
            actions[:] = 1
        alone = [
            begun(env) if env.done else env.step(action)
            for env, action in zip(singles, actions, strict=True)
        ]
        seen, rewards, over, _, info = vector.step(actions)
    return ""


def test_random_tasks_are_played_as_by_single_environments(vector_seeds: Iterable[int]) -> None:
    """Every observation, mask, reward, end and metric, bit by bit."""
    compiled = 0
    for seed in vector_seeds:
        failure = differences(random_task(seed), seed)
        if failure == "the reference plays the vector":
            continue
        compiled += 1
        assert not failure, f"seed {seed}: {failure}"
    assert compiled
