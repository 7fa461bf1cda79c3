"""The account and the features of learned power managers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hpcosim_client import Policy, View
from hpcosim_protocol import NodeGroup, Platform, Processor
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.power.account import EnergyAccount, listen
from hpcosim_schedulers.power.features import action_mask, features
from hpcosim_schedulers.power.manager import Manager, managed
from hpcosim_schedulers.power.timeout import keep_idle, timeout
from hpcosim_sim.record.metrics import jobs_that_ran, measure
from support.examples import examples
from support.learned_power import drawn
from support.power_manager_runs import STATES, nodes_of
from support.simulating import simulate


def audited(policy: Policy, manager: Manager, account: EnergyAccount) -> Policy:
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


@examples(40)
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
    """Wasted energy, waiting and switching times equal the server's metrics."""
    platform = deviating(platform, deviation_s)
    account = EnergyAccount(platform)
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
    assert account.submissions.count == metrics["jobs"]


def deviating(platform: Platform, deviation_s: float) -> Platform:
    """Return the platform with switching times that vary."""
    groups = []
    for group in platform.nodes:
        states = group.power_states
        if states is not None and deviation_s:
            states = replace(states, switch_on_sd_s=deviation_s, switch_off_sd_s=deviation_s)
        groups.append(replace(group, power_states=states))
    return Platform(tuple(groups))


# What is seen


def test_nodes_planned_for_a_job_are_left_on() -> None:
    """Reserved nodes cannot be switched off."""
    platform = nodes_of(2)
    view, account = View(platform), EnergyAccount(platform)
    account.update(view)
    view.power_exchange.planned[1] = True
    assert action_mask(view, account).tolist() == [[True, True], [False, True]]


def test_the_calendar() -> None:
    """With an origin four columns follow: where in the day, and in the week, it is."""
    platform = nodes_of(1)
    view, account = View(platform), EnergyAccount(platform)
    view.now_s = 3600.0
    account.update(view)
    seen = features(view, account, origin_s=5 * 86400.0 + 5 * 3600.0)
    assert seen.shape == (1, 15)
    turn = 2 * math.pi * (5.25 / 7)
    assert np.allclose(seen[0, 11:], [1.0, 0.0, math.sin(turn), math.cos(turn)], atol=1e-6)
