"""The learned power manager: what it sees, what it may do, what it learns from, and its files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_client import Policy, View, make_policy
from hpcosim_client.power.account import Account, listen
from hpcosim_client.power.features import action_mask, features
from hpcosim_client.power.keep_idle import keep_idle
from hpcosim_client.power.manager import Manager, managed
from hpcosim_client.power.periodic import Periodic
from hpcosim_client.power.timeout import timeout
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_server.record.metrics import jobs_that_ran, measure
from hpcosim_training.power.environment import Interval, PowerEnvironment, Reward
from hpcosim_training.power.lockstep import Lockstep, stretches
from support.learned_power import STATES, drawn, new_scheduler, nodes_of, task_of
from support.simulating import jobs_of, simulate


def audited(policy: Policy, manager: Manager, account: Account) -> Policy:
    """Return both as one policy, with an account kept beside them."""
    both = managed(policy, manager)

    def decide(view: View) -> None:
        both(view)
        account.update(view)
        listen(view)

    return decide


# The account

MIXED = Platform(
    (
        NodeGroup(3, (Processor(2, 1.0, 60.0, 10.0, 0.5),) * 2, power_states=STATES),
        NodeGroup(2, (Processor(4, 2.0, 90.0, 5.0, 0.3),)),
        NodeGroup(2, (Processor(1, 1.0, 40.0),), power_states=STATES),
    )
)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    scheduler=st.sampled_from(["fcfs", "easy", "conservative", "sjf"]),
    manager=st.sampled_from([lambda: timeout(15.0), lambda: timeout(0.0), lambda: keep_idle(1)]),
    platform=st.sampled_from([nodes_of(6), MIXED]),
    deviation_s=st.sampled_from([0.0, 3.0]),
)
def test_the_account_is_the_servers(
    seed: int, scheduler: str, manager: Any, platform: Platform, deviation_s: float
) -> None:
    """Wasted energy, waiting and switching agree with the server's own, whatever is switched."""
    platform = deviating(platform, deviation_s)
    account = Account(platform)
    jobs = drawn(np.random.default_rng(seed), 30)
    policy = audited(make_policy(scheduler), manager(), account)
    simulation = simulate(platform, jobs, policy)
    record = simulation.record()
    metrics = measure(record)
    assert account.now_s == simulation.now_s
    assert math.isclose(account.wasted_j.sum(), metrics["wasted_energy_j"], rel_tol=1e-9)
    waited_s = float(jobs_that_ran(record).wait_s.sum())
    assert math.isclose(account.waited_s, waited_s, rel_tol=1e-9, abs_tol=1e-6)
    switching_s = record.state_node_s["switching_on"] + record.state_node_s["switching_off"]
    assert math.isclose(account.switching_s.sum(), switching_s, rel_tol=1e-9, abs_tol=1e-6)
    assert account.submissions == metrics["jobs"]


def deviating(platform: Platform, deviation_s: float) -> Platform:
    """Return the platform with switching times that vary."""
    groups = []
    for group in platform.nodes:
        states = group.power_states
        if states is not None and deviation_s:
            states = PowerStates(
                sleep_w=states.sleep_w,
                switch_on_s=states.switch_on_s,
                switch_on_w=states.switch_on_w,
                switch_off_s=states.switch_off_s,
                switch_off_w=states.switch_off_w,
                switch_on_sd_s=deviation_s,
                switch_off_sd_s=deviation_s,
            )
        groups.append(
            NodeGroup(group.count, group.processors, group.memory_mb, power_states=states)
        )
    return Platform(tuple(groups))


class Watched(PowerEnvironment):
    """An environment whose view a test may look into."""

    @property
    def view(self) -> View:
        """The scheduler's."""
        return self._view


# What is seen


def test_features_by_hand() -> None:
    """Every column, in the order of Table 2, of a small case worked out by hand."""
    jobs = jobs_of((0.0, 30.0, 1, 50.0), (2.0, 5.0, 3), (45.0, 5.0, 3))
    env = PowerEnvironment(task_of(nodes_of(3)), jobs)
    seen, mask = env.reset()
    assert seen[:, 0].tolist() == [0.0] * 3  # job 1 started at once
    assert np.allclose(seen[:, 1], 1 / 21)
    assert seen[:, 6].tolist() == [0.0, 1.0, 1.0]
    assert np.allclose(seen[:, 8], [50 / 3650, 0, 0])
    assert mask.tolist() == [[False, True], [True, True], [True, True]]
    # Job 2 waits from 2 s on for all three; node 1 goes off at 0 and sleeps from 4 s on.
    seen, mask, reward, done = env.step(np.array([1, 0, 1]))
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
    assert mask.tolist() == [[False, True], [True, True], [True, True]]
    # R1 and R2 by equations (10) and (11): one job waited, for 18 of 20 s.
    assert math.isclose(reward, -0.5 * wasted_j.sum() / (300 * 20) - 0.5 * 18 / 20)


def test_nodes_on_their_way_and_nodes_of_jobs_have_no_choice() -> None:
    """Only what is idle, or sleeps for nobody, can be asked to be other than it is."""
    jobs = jobs_of((0.0, 12.0, 1), (30.0, 100.0, 2), (31.0, 1.0, 1))
    env = Watched(task_of(nodes_of(4), interval_s=3.0), jobs)
    env.reset()
    seen, mask, _, _ = env.step(np.array([1, 0, 0, 1]))  # at 3 s, two are on their way off
    assert np.allclose(seen[:, 5], [1, 1 / 3, 1 / 3, 1])
    assert mask.tolist() == [[False, True], [True, False], [True, False], [True, True]]
    env.step(np.array([1, 0, 0, 1]))  # at 6 s both sleep
    seen, mask, _, _ = env.step(np.array([1, 1, 0, 1]))  # at 9 s one is on its way on
    assert np.allclose(seen[:, 5], [1, 2 / 3, 0, 1])
    assert mask.tolist() == [[False, True], [False, True], [True, True], [True, True]]


def test_what_cannot_be_is_passed_over() -> None:
    """A node that runs a job, or is on its way, stays as it is whatever is asked of it."""
    env = Watched(task_of(nodes_of(2), interval_s=3.0), jobs_of((0.0, 12.0, 1)))
    env.reset()
    env.step(np.array([0, 0]))
    env.step(np.array([0, 1]))
    assert env.simulation.recording.power_history(0) == []
    assert env.simulation.recording.power_history(1) == [(0.0, "switching_off"), (4.0, "sleeping")]


def test_a_node_held_for_a_job_must_stay_on() -> None:
    """On, but held until another node has booted, it can't be asked to be off; its job waits."""
    jobs = jobs_of((0.0, 30.0, 1), (21.0, 5.0, 2), (80.0, 1.0, 1))
    env = Watched(task_of(nodes_of(2), interval_s=5.0, scheduler=lambda: make_policy("fcfs")), jobs)
    env.reset()
    for _ in range(7):
        seen, mask, _, _ = env.step(np.array([1, 0]))
    assert env.view.now_s == 35.0  # job 2 has both nodes since 30, and node 1 boots until 40
    assert mask.tolist() == [[False, True], [False, True]]
    assert np.allclose(seen[:, 0], 1 / 11)
    assert np.allclose(seen[:, 2], 14 / 3614)
    assert seen[:, 6].tolist() == [0.0, 0.0]


def test_nodes_that_are_always_on_cannot_be_asked_to_be_off() -> None:
    """A node without power states has no choice."""
    env = PowerEnvironment(task_of(nodes_of(2, None)), jobs_of((0.0, 12.0, 1)))
    _, mask = env.reset()
    assert mask.tolist() == [[False, True], [False, True]]


def test_nodes_planned_for_a_job_are_left_on() -> None:
    """What the job scheduler counts on for a job to come can't be asked to be off."""
    platform = nodes_of(2)
    view, account = View(platform), Account(platform)
    account.update(view)
    view.nodes.planned[1] = True
    assert action_mask(view, account).tolist() == [[True, True], [False, True]]


def test_the_calendar() -> None:
    """With an origin four columns follow: where in the day, and in the week, it is."""
    platform = nodes_of(1)
    view, account = View(platform), Account(platform)
    view.now_s = 3600.0
    account.update(view)
    seen = features(view, account, origin_s=5 * 86400.0 + 5 * 3600.0)
    assert seen.shape == (1, 15)
    turn = 2 * math.pi * (5.25 / 7)
    assert np.allclose(seen[0, 11:], [1.0, 0.0, math.sin(turn), math.cos(turn)], atol=1e-6)


@settings(max_examples=20)
@given(seed=st.integers(0, 1000))
def test_features_stay_within_their_bounds(seed: int) -> None:
    """Whatever is decided, each feature is from 0 to 1, and each node may be asked something."""
    rng = np.random.default_rng(seed)
    jobs = drawn(rng, 40)
    env = PowerEnvironment(task_of(nodes_of(5)), jobs)
    seen, mask = env.reset()
    done = False
    while not done:
        assert seen.dtype == np.float32
        assert (seen >= 0.0).all()
        assert (seen <= 1.0).all()
        assert mask.any(axis=1).all()
        seen, mask, reward, done = env.step(rng.integers(0, 2, 5))
        assert -1.0 <= reward <= 0.0


# Rewards and runs


def test_rewards_by_hand() -> None:
    """Both kinds, with and without a job that waited."""
    interval = Interval(wasted=0.25, waited_s=90.0, jobs=3, length_s=60.0)
    assert Reward().of(interval) == -(0.5 * 0.25 + 0.5 * 0.5)
    assert Reward().of(interval._replace(waited_s=0.0, jobs=0)) == -0.125
    assert Reward("linear", 1.0, 1e-3).of(interval) == -(0.25 + 0.09)


def test_the_linear_reward_adds_up_to_the_metrics() -> None:
    """Summed over a run it is the wasted energy and the waits, weighed."""
    rng = np.random.default_rng(3)
    jobs = drawn(rng, 40)
    env = PowerEnvironment(task_of(nodes_of(5), reward=Reward("linear", 2.0, 1e-3)), jobs)
    env.reset()
    total, done = 0.0, False
    while not done:
        _, _, reward, done = env.step(rng.integers(0, 2, 5))
        total += reward
    record = env.simulation.record()
    wasted = measure(record)["wasted_energy_j"] / (5 * 100 * 20)
    waited_s = jobs_that_ran(record).wait_s.sum()
    assert math.isclose(-total, 2.0 * wasted + 1e-3 * waited_s, rel_tol=1e-9)


def test_the_environment_is_the_run_itself() -> None:
    """A manager that decides from within makes the same run as one that decides from without."""
    rng = np.random.default_rng(5)
    jobs = drawn(rng, 60)
    env = PowerEnvironment(task_of(nodes_of(5)), jobs)
    chosen: list[Any] = []
    env.reset()
    done = False
    while not done:
        chosen.append(rng.integers(0, 2, 5))
        done = env.step(chosen[-1])[3]
    rounds, left = Periodic(20.0), iter(chosen)

    def manage(view: View) -> None:
        if rounds.due(view):
            rounds.decide(view, next(left))

    simulation = simulate(nodes_of(5), jobs, managed(new_scheduler(), manage))
    assert measure(simulation.record()) == measure(env.simulation.record())
    assert next(left, None) is None


def test_stretches_are_of_equal_time() -> None:
    """Each job is in one of them; those of no job are left out."""
    jobs = jobs_of((0.0, 1.0, 1), (1.0, 1.0, 1), (25.0, 1.0, 1), (99.0, 1.0, 1), (100.0, 1.0, 1))
    assert [part.job_id.tolist() for part in stretches(jobs, 4)] == [[1, 2], [3], [4, 5]]


def test_runs_in_lockstep_end_each_in_its_time() -> None:
    """One that is over waits, and counts no further."""
    task = task_of(nodes_of(2))
    workloads = [jobs_of((0.0, 15.0, 1)), jobs_of((0.0, 50.0, 1))]
    runs = Lockstep([PowerEnvironment(task, jobs) for jobs in workloads])
    runs.step(np.ones((2, 2), dtype=np.int64))
    assert runs.active.tolist() == [False, True]
    while runs.active.any():
        rewards = runs.step(np.ones((1, 2), dtype=np.int64))
        assert rewards[0] == 0.0
    assert runs.totals().steps == 4
    assert runs.totals().wasted_j == (15 + 50) * 100
