"""The vector environment of pairing: as many single ones, on either engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="environments need the extra rl")

from gymnasium.error import InvalidAction, ResetNeeded

from hpcosim_gym.environments import vectors
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.environments.pairing_vector import JobNodePairingVectorEnv
from support.paths import ROOT
from support.simulating import cluster_of, jobs_of

EXP1 = str(ROOT / "scenarios" / "papers" / "ineps" / "exp1.yaml")
TWO_NODES = PairingTask(cluster_of(2, 4), Pairing(sees="papers"), "spent")


def first_actions(envs: JobNodePairingVectorEnv, steps: int) -> list[tuple[Any, ...]]:
    """Play the first allowed actions; return observations, masks, rewards and ends."""
    seen, info = envs.reset(seed=1)
    played: list[tuple[Any, ...]] = [(seen, info["action_mask"])]
    for _ in range(steps):
        seen, rewards, over, truncated, info = envs.step(info["action_mask"].argmax(axis=1))
        played.append((seen, info["action_mask"], rewards, over, truncated))
    return played


def test_an_episode_begins_anew_after_its_end() -> None:
    """The step after an end has the first observation, the reward 0 and no metrics."""
    envs = JobNodePairingVectorEnv(2, EXP1)
    first, info = envs.reset()
    over = np.zeros(2, np.bool_)
    while not over.any():
        assert "energy_j" not in info
        seen, _, over, _, info = envs.step(info["action_mask"].argmax(axis=1))
    assert over.all()
    assert not seen.any()
    assert info["action_mask"].sum(axis=1).tolist() == [1, 1]
    assert (info["energy_j"] > 0.0).all()
    assert info["_energy_j"].all()
    seen, rewards, over, _, info = envs.step(np.zeros(2, np.int64))
    assert seen.tolist() == first.tolist()
    assert rewards.tolist() == [0.0, 0.0]
    assert not over.any()


@pytest.mark.parametrize("sees", ["papers", "foreseen"])
def test_both_engines_play_alike(sees: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Numba, the reference plays, with the same numbers."""
    pytest.importorskip("numba", reason="the extra fast is not installed")
    compiled = first_actions(JobNodePairingVectorEnv(2, EXP1, sees=sees), 9)
    monkeypatch.setattr(vectors, "missing_package", lambda: "none")
    envs = JobNodePairingVectorEnv(2, EXP1, sees=sees)
    assert type(envs._runs).__name__ == "Singles"
    for one, other in zip(compiled, first_actions(envs, 9), strict=True):
        for part, same in zip(one, other, strict=True):
            assert part.dtype == same.dtype
            assert part.tobytes() == same.tobytes()


def test_a_limit_of_energy_is_for_the_reference() -> None:
    """A task that the compiled engine does not support is played by single environments."""
    jobs = jobs_of((0, 9, 2), (1, 9, 4))
    limited = replace(jobs, max_energy_j=np.full(2, 1e9))
    envs = JobNodePairingVectorEnv(2, task=TWO_NODES, jobs=limited)
    assert type(envs._runs).__name__ == "Singles"
    assert first_actions(envs, 2)[-1][3].all()


def test_wrong_actions_are_errors_that_say_what_is_allowed() -> None:
    """A masked action, a missing action and a step before the first reset."""
    jobs = jobs_of((0, 9, 2), (1, 9, 4))
    envs = JobNodePairingVectorEnv(2, task=TWO_NODES, jobs=jobs)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    _, info = envs.reset()
    allowed = np.flatnonzero(info["action_mask"][0]).tolist()
    assert allowed == [0, 1, 20]
    with pytest.raises(InvalidAction, match=r"action 3 \(slot 1, empty, on node 1\) is masked; 3 "):
        envs.step(np.array([0, 3]))
    with pytest.raises(InvalidAction, match="expected 2 integers, got 1"):
        envs.step(np.zeros(1, np.int64))
    with pytest.raises(InvalidAction, match="expected integers from 0 to 20"):
        envs.step(np.array([0, 21]))


def test_the_rewards_sum_to_the_objective() -> None:
    """The rewards `foreseen` of an episode sum to minus its energy, as those of a single one."""
    envs, alone = JobNodePairingVectorEnv(1, EXP1), JobNodePairingEnv(EXP1)
    played = first_actions(envs, 20)
    ended = next(number for number, step in enumerate(played) if number and step[3][0])
    total = sum(step[2][0] for step in played[1 : ended + 1])
    alone.reset()
    while not alone.done:
        alone.choose(0)
    assert total == pytest.approx(-alone.objective)


@pytest.mark.parametrize("objective", ["energy", "edp"])
def test_training_plays_alike_on_both_engines(
    objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Environments of a training, with other workloads, baselines and scales, bit by bit."""
    pytest.importorskip("numba", reason="the extra fast is not installed")
    pytest.importorskip("torch", reason="the extra rl is not installed")
    from hpcosim_papers.ineps.agent.policy import RULES
    from hpcosim_papers.ineps.learners import runs, train

    task = JobNodePairingEnv("ineps/exp2", objective=objective).task
    jobs = JobNodePairingEnv("ineps/exp2").workload
    parts = [jobs, jobs.take(slice(3, 12)), jobs.take(slice(2, 18, 3))]
    found = []
    for least, name in ((0, "CompiledRuns"), (10**9, "SingleRuns")):
        monkeypatch.setattr(runs, "WARM_JOBS", least)
        monkeypatch.setattr(runs, "COLD_JOBS", least)
        envs = train.scaled_environments(task, parts, RULES[5])
        played = runs.runs_of(envs)
        assert type(played).__name__ == name
        steps: list[Any] = [
            [env.baseline_costs for env in envs],
            [env.reward_scale for env in envs],
        ]
        while played.active.any():
            choices = played.choices()
            steps.append([(each.rows.tolist(), each.actions.tolist()) for each in choices])
            steps.append(played.step(np.array([len(each.rows) // 2 for each in choices])).tolist())
            steps.append(played.placed())
        found.append([*steps, played.objectives().tolist()])
    assert found[0] == found[1]
