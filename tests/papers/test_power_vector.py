"""The vector environment of node power: as many single ones, on either engine."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="environments need the extra rl")

from gymnasium.error import InvalidAction

from hpcosim_gym.environments import vectors
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import PowerTask
from hpcosim_papers.power.environments.power_vector import NodePowerVectorEnv
from hpcosim_schedulers import make_policy
from support.learned_power import drawn, task_of
from support.power_manager_runs import nodes_of

JOBS = drawn(np.random.default_rng(3), 40)
TASK = task_of(nodes_of(5), scheduler=partial(make_policy, "fcfs"), origin_s=80_000.0)
PLANNED = replace(TASK, scheduler=partial(make_policy, "easy", "planned"))


def played(envs: NodePowerVectorEnv, steps: int) -> list[tuple[Any, ...]]:
    """Play random actions; return observations, masks, rewards, ends and energies."""
    rng = np.random.default_rng(1)
    seen, info = envs.reset(seed=1)
    found: list[tuple[Any, ...]] = [(seen, info["action_mask"])]
    for _ in range(steps):
        seen, rewards, over, _, info = envs.step(rng.integers(0, 2, size=(envs.num_envs, 5)))
        found.append((seen, info["action_mask"], rewards, over, info.get("energy_j", rewards)))
    return found


@pytest.mark.compiles
@pytest.mark.parametrize("task", [TASK, PLANNED], ids=["fcfs", "planned"])
@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_vector_of_one_is_the_single_environment(
    engine: str, task: PowerTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Observation, mask, reward, end and energy of each step, bit by bit, also after the end."""
    if engine == "compiled":
        pytest.importorskip("numba", reason="the extra fast is not installed")
    else:
        monkeypatch.setattr(vectors, "missing_package", lambda: "none")
    vector: Any = NodePowerVectorEnv(1, task=task, jobs=JOBS)
    assert type(vector._runs).__name__ == {"compiled": "_Compiled", "reference": "Singles"}[engine]
    rng, alone, ends = np.random.default_rng(1), NodePowerEnv(task=task, jobs=JOBS), 0
    steps = played(vector, 60)
    seen, info = alone.reset()
    assert steps[0][0][0].tolist() == seen.tolist()
    for shown, masks, rewards, over, energies_j in steps[1:]:
        action, reward = rng.integers(0, 2, size=(1, 5))[0], 0.0
        if alone.done:
            seen, info = alone.reset()
        else:
            seen, reward, _, _, info = alone.step(action)
        assert shown[0].tobytes() == seen.tobytes()
        assert masks[0].tolist() == info["action_mask"].tolist()
        assert (rewards[0], over[0]) == (reward, alone.done)
        if alone.done:
            assert energies_j[0] == info["energy_j"]
            ends += 1
    assert ends > 0


def test_another_scheduler_function_is_for_the_reference() -> None:
    """The compiled engine only knows the shipped schedulers, by their names."""
    task = replace(TASK, scheduler=lambda: make_policy("fcfs"))
    envs: Any = NodePowerVectorEnv(2, task=task, jobs=JOBS)
    assert type(envs._runs).__name__ == "Singles"


def test_wrong_actions_are_errors() -> None:
    """Other numbers of environments or nodes, and other values than 0 and 1."""
    envs = NodePowerVectorEnv(2, task=TASK, jobs=JOBS)
    envs.reset()
    for wrong in (np.zeros((1, 5)), np.zeros((2, 4)), np.full((2, 5), 2)):
        with pytest.raises(InvalidAction, match="action: expected"):
            envs.step(wrong)
