"""The node-power environment: observations, action masks, rewards, and whole runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("gymnasium", reason="the extra rl is not installed")

from hpcosim_client import View
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_papers.power.environments.power_task import Interval, Reward
from hpcosim_protocol import Platform
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.features import Periodic
from hpcosim_schedulers.power.manager import managed
from hpcosim_sim.record.metrics import jobs_that_ran, measure
from support.learned_power import drawn, new_scheduler, task_of
from support.power_manager_runs import nodes_of, power_history
from support.simulating import jobs_of, simulate


def test_features_by_hand() -> None:
    """All columns equal a hand calculation, in the order of Table 2."""
    jobs = jobs_of((0.0, 30.0, 1, 50.0), (2.0, 5.0, 3), (45.0, 5.0, 3))
    env = NodePowerEnv(task=task_of(nodes_of(3)), jobs=jobs)
    seen, info = env.reset()
    assert seen[:, 0].tolist() == [0.0] * 3  # job 1 started immediately
    assert np.allclose(seen[:, 1], 1 / 21)
    assert seen[:, 6].tolist() == [0.0, 1.0, 1.0]
    assert np.allclose(seen[:, 8], [50 / 3650, 0, 0])
    assert info["action_mask"].tolist() == [[0, 1], [1, 1], [1, 1]]
    # Job 2 waits from 2 s on for all three; node 1 switches off at 0 s and sleeps from 4 s on.
    seen, reward, done, _, info = env.step(np.array([1, 0, 1]))
    assert not done
    wasted_j = np.array([0.0, 4 * 20 + 16 * 5, 20 * 100])
    assert np.allclose(seen[:, 0], 1 / 11)
    assert np.allclose(seen[:, 1], 2 / 22)
    assert np.allclose(seen[:, 2], 18 / 3618)
    assert np.allclose(seen[:, 3], wasted_j.sum() / (20 * 300))
    assert np.allclose(seen[:, 4], 5 / 3605)
    assert seen[:, 5].tolist() == [1.0, 0.0, 1.0]
    assert seen[:, 6].tolist() == [0.0, 0.0, 1.0]
    assert np.allclose(seen[:, 7], [0, 0, 20 / 3620])
    assert np.allclose(seen[:, 8], [30 / 3630, 0, 0])
    assert np.allclose(seen[:, 9], wasted_j / (20 * 100))
    assert np.allclose(seen[:, 10], [0, 4 / 20, 0])
    assert info["action_mask"].tolist() == [[0, 1], [1, 1], [1, 1]]
    # R1 and R2 by equations (10) and (11): one job waited, for 18 of 20 s.
    assert math.isclose(reward, -0.5 * wasted_j.sum() / (300 * 20) - 0.5 * 18 / 20)


def test_nodes_on_their_way_and_nodes_of_jobs_have_no_choice() -> None:
    """Nodes that are switching or run a job have one allowed action."""
    jobs = jobs_of((0.0, 12.0, 1), (30.0, 100.0, 2), (31.0, 1.0, 1))
    env = NodePowerEnv(task=task_of(nodes_of(4), interval_s=3.0), jobs=jobs)
    env.reset()
    seen, _, _, _, info = env.step(np.array([1, 0, 0, 1]))  # at 3 s, two are switching off
    assert np.allclose(seen[:, 5], [1, 1 / 3, 1 / 3, 1])
    assert info["action_mask"].tolist() == [[0, 1], [1, 0], [1, 0], [1, 1]]
    env.step(np.array([1, 0, 0, 1]))  # at 6 s both sleep
    seen, _, _, _, info = env.step(np.array([1, 1, 0, 1]))  # at 9 s one is switching on
    assert np.allclose(seen[:, 5], [1, 2 / 3, 0, 1])
    assert info["action_mask"].tolist() == [[0, 1], [0, 1], [1, 1], [1, 1]]


def test_what_cannot_be_is_passed_over() -> None:
    """Masked actions are ignored."""
    env = NodePowerEnv(task=task_of(nodes_of(2), interval_s=3.0), jobs=jobs_of((0.0, 12.0, 1)))
    env.reset()
    env.step(np.array([0, 0]))
    env.step(np.array([0, 1]))
    assert power_history(env.simulation.recording, 0) == []
    assert power_history(env.simulation.recording, 1) == [(0.0, "switching_off"), (4.0, "sleeping")]


def test_a_node_held_for_a_job_must_stay_on() -> None:
    """A node that is allocated while another one boots may not be switched off."""
    jobs = jobs_of((0.0, 30.0, 1), (21.0, 5.0, 2), (80.0, 1.0, 1))
    env = NodePowerEnv(
        task=task_of(nodes_of(2), interval_s=5.0, scheduler=lambda: make_policy("fcfs")), jobs=jobs
    )
    env.reset()
    for _ in range(7):
        seen, _, _, _, info = env.step(np.array([1, 0]))
    assert env.view.now_s == 35.0  # job 2 has both nodes since 30, and node 1 boots until 40
    assert info["action_mask"].tolist() == [[0, 1], [0, 1]]
    assert np.allclose(seen[:, 0], 1 / 11)
    assert np.allclose(seen[:, 2], 14 / 3614)
    assert seen[:, 6].tolist() == [0.0, 0.0]


def test_a_node_that_is_always_on_cannot_be_asked_to_be_off() -> None:
    """A node without power states may not be switched off."""
    (switched,), (always_on,) = nodes_of(1).nodes, nodes_of(1, None).nodes
    task = task_of(Platform((switched, always_on)))
    _, info = NodePowerEnv(task=task, jobs=jobs_of((50.0, 12.0, 1))).reset()
    assert info["action_mask"].tolist() == [[0, 1], [0, 1]]


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_features_stay_within_their_bounds(seed: int) -> None:
    """Features stay within 0 and 1, and each node has an allowed action."""
    rng = np.random.default_rng(seed)
    jobs = drawn(rng, 40)
    env = NodePowerEnv(task=task_of(nodes_of(5)), jobs=jobs)
    seen, info = env.reset()
    done = False
    while not done:
        assert seen.dtype == np.float32
        assert (seen >= 0.0).all()
        assert (seen <= 1.0).all()
        assert info["action_mask"].any(axis=1).all()
        seen, reward, done, _, info = env.step(rng.integers(0, 2, 5))
        assert -1.0 <= reward <= 0.0


def test_rewards_by_hand() -> None:
    """Both rewards equal a hand calculation, with and without a waiting job."""
    interval = Interval(wasted=0.25, waited_s=90.0, jobs=3, length_s=60.0)
    assert Reward().of(interval) == -(0.5 * 0.25 + 0.5 * 0.5)
    assert Reward().of(interval._replace(waited_s=0.0, jobs=0)) == -0.125
    assert Reward("linear", 1.0, 1e-3).of(interval) == -(0.25 + 0.09)


def test_the_linear_reward_adds_up_to_the_metrics() -> None:
    """The rewards `linear` sum to the weighted wasted energy and waiting time."""
    rng = np.random.default_rng(3)
    jobs = drawn(rng, 40)
    env = NodePowerEnv(task=task_of(nodes_of(5), reward=Reward("linear", 2.0, 1e-3)), jobs=jobs)
    env.reset()
    total, done = 0.0, False
    while not done:
        _, reward, done, _, _ = env.step(rng.integers(0, 2, 5))
        total += reward
    record = env.simulation.record()
    wasted = measure(record)["wasted_energy_j"] / (5 * 100 * 20)
    assert math.isclose(
        -total, 2.0 * wasted + 1e-3 * jobs_that_ran(record).wait_s.sum(), rel_tol=1e-9
    )


def test_the_environment_is_the_run_itself() -> None:
    """A power manager with the same actions gives the same run as the environment."""
    rng = np.random.default_rng(5)
    jobs = drawn(rng, 60)
    env = NodePowerEnv(task=task_of(nodes_of(5)), jobs=jobs)
    chosen: list[Any] = []
    env.reset()
    done = False
    while not done:
        chosen.append(rng.integers(0, 2, 5))
        done = env.step(chosen[-1])[2]
    rounds, left = Periodic(20.0), iter(chosen)

    def manage(view: View) -> float | None:
        return rounds.decide(view, next(left)) if rounds.due(view) else None

    simulation = simulate(nodes_of(5), jobs, managed(new_scheduler(), manage))
    assert measure(simulation.record()) == measure(env.simulation.record())
    assert next(left, None) is None
