"""A compiled vector of pairing environments is as many single environments, for random tasks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
pytest.importorskip("gymnasium", reason="environments need the extra rl")

from fuzz.test_engines import supported_scenario
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.agent.site import Kind
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, Reward
from hpcosim_papers.ineps.environments.pairing_vector import JobNodePairingVectorEnv
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import rules_of

COUNT = 3


def pairing_scenario(seed: int) -> Scenario:
    """Return a random scenario whose jobs fit on single nodes, and whose nodes draw power."""
    random, scenario = Random(seed), supported_scenario(seed, sites=False)
    groups = scenario["platform"]["nodes"]
    groups[0]["processors"][0]["static_w"] = random.choice((35.1, 190))
    largest = max(sum(each["cores"] for each in group["processors"]) for group in groups)
    for job in scenario["workload"]["inline"]:
        job["cores"] = 1 + (job["cores"] - 1) % largest
        job.pop("placement", None)
    scenario["workload"]["placement"] = random.choice(("cores", "one_node"))
    return msgspec.convert(scenario, Scenario)


def random_task(seed: int) -> dict[str, Any]:
    """Return arguments of a random environment."""
    random, scenario = Random(seed), pairing_scenario(seed)
    jobs = source_jobs(scenario, Path())
    settings = Pairing(
        sees=random.choice(("papers", "papers_no_energy", "foreseen", "foreseen", "foreseen")),
        window_jobs=random.choice((1, 3, 10, 100)),
        placements_per_event=random.choice(("one", "all")),
        wait=random.random() < 0.8,
        wait_s=random.choice((None, 1.0, 7.3, 100.0)),
        most_wait_s=random.choice((5.0, 60.0, 600.0)),
        objective=random.choice(("energy", "edp")),
        time_s=random.choice((30.0, 700.1)),
        energy_j=random.choice((1000.0, 1e6)),
    )
    reward: Reward = "spent"
    if settings.sees == "foreseen" and random.random() < 0.7:
        reward = "foreseen"
    costs = {}
    if random.random() < 0.5:
        kinds = zip(jobs.cores, jobs.requested_s, jobs.memory_volume_mb, strict=True)
        costs = {Kind(*kind, np.inf): random.random() * 1e5 for kind in kinds}
    return {
        "task": PairingTask(scenario.platform, settings, reward, rules_of(scenario)),
        "jobs": jobs,
        "reward_scale": random.choice((1.0, 3.0)),
        "baseline_costs": costs,
        "max_decisions": random.choice((None, None, 13)),
        "invalid": random.choice(("raise", "first")),
    }


def begun(env: JobNodePairingEnv) -> tuple[Any, ...]:
    """Begin an episode; return what a step returns."""
    seen, info = env.reset()
    return seen, 0.0, False, False, info


def differences(how: dict[str, Any], seed: int) -> str:
    """Play a vector and single environments with the same actions; return what differs first."""
    vector = JobNodePairingVectorEnv(COUNT, **how)
    assert type(vector._runs).__name__ == "_Compiled"
    singles = [JobNodePairingEnv(**how) for _ in range(COUNT)]
    alone = [begun(env) for env in singles]
    seen, info = vector.reset(seed=seed)
    rewards, over, truncated = np.zeros(COUNT), np.zeros(COUNT, np.bool_), np.zeros(COUNT, np.bool_)
    rng = np.random.default_rng(seed)
    for step in range(25):
        for place, (own_seen, own_reward, own_over, own_truncated, own_info) in enumerate(alone):
            pairs = {
                "mask": (info["action_mask"][place].tolist(), own_info["action_mask"].tolist()),
                "observation": (seen[place].tobytes(), own_seen.tobytes()),
                "reward": (rewards[place], own_reward),
                "end": (over[place], own_over),
                "truncation": (truncated[place], own_truncated),
            }
            if "action_taken" in own_info:
                pairs["action"] = (info["action_taken"][place], own_info["action_taken"])
            if own_over:
                metrics = ("energy_j", "edp_js", "makespan_s")
                pairs |= {name: (info[name][place], own_info[name]) for name in metrics}
            for name, (one, other) in pairs.items():
                if one != other:
                    return f"{name} of environment {place} at step {step}: {one!r}, {other!r}"
        masks = [each[-1]["action_mask"] for each in alone]
        if how["invalid"] == "first":
            masks = [np.ones_like(mask) for mask in masks]
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        alone = [
            begun(env) if last[2] or last[3] else env.step(action)
            for env, last, action in zip(singles, alone, actions, strict=True)
        ]
        seen, rewards, over, truncated, info = vector.step(actions)
    return ""


def test_random_tasks_are_played_as_by_single_environments(vector_seeds: Iterable[int]) -> None:
    """Every observation, mask, reward, end and metric, bit by bit."""
    for seed in vector_seeds:
        failure = differences(random_task(seed), seed)
        assert not failure, f"seed {seed}: {failure}"
