"""The power manager `empirical`: spare nodes by how far the demand rose before."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hpcosim_client.errors import PolicyError
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.predictive import rises
from hpcosim_schedulers.predictive.empirical import (
    by_weights,
    facts_of,
    load_weights,
    save_weights,
)
from hpcosim_schedulers.predictive.rises import (
    EDGES,
    HOLDS,
    LEVELS,
    TIMES,
    WEIGHTS,
    NodeFacts,
    best_number,
    is_due,
    new_rises,
    pass_time,
    submit,
)
from support.power_manager_runs import nodes_of, switched
from support.simulating import jobs_of, simulate

FACTS = NodeFacts(400.0, 1000.0, 90.0, 90_000.0, 200.0, 32.0)


def test_the_counts_are_those_of_the_rises_after_each_step() -> None:
    """Compared with the demand at all times, for each time to hold nodes."""
    rng = np.random.default_rng(3)
    times_s = np.cumsum(rng.exponential(300.0, 60))
    sizes = rng.integers(1, 9, 60).astype(np.float64)
    changes = np.where(rng.random(60) < 0.5, sizes, -sizes)
    past, demand = new_rises(), 100.0
    past.g[rises.DEMAND] = demand
    arrivals: list[tuple[float, float]] = []
    levels = [(0.0, demand)]
    pass_time(past, FACTS, 0.0, 0)
    for at_s, change in zip(times_s.tolist(), changes.tolist(), strict=True):
        pass_time(past, FACTS, at_s, 0)
        demand += change
        if change > 0.0:
            submit(past, at_s, demand)
            arrivals.append((at_s, demand))
        past.g[rises.DEMAND] = demand
        levels.append((at_s, demand))
    for time, hold in enumerate(HOLDS):
        kept = 1.0 - 1.0 / rises.MEMORY[0]
        count = rose = 0.0
        for step in range(int(past.next_step[time])):
            from_s = 250.0 * step
            before = [level for at_s, level in levels if at_s < from_s or at_s == 0.0][-1]
            to_s = from_s + 1000.0 * hold
            after = [level for at_s, level in arrivals if from_s < at_s <= to_s]
            count = count * kept + 1.0
            rose = rose * kept + float(max(after, default=before) - before >= EDGES[2])
        assert past.counts[0, time] == pytest.approx(count)
        assert past.rose[0, time, 2] == pytest.approx(rose)


def spare_nodes(chance: float, saved: float, idle: int, asleep: int) -> int:
    """Return the best number where nodes up to 4 are needed with a chance, and others never."""
    past, few = new_rises(), np.array(EDGES) <= 4
    grows = np.array(HOLDS)[:, None] / HOLDS[-1]
    past.chance[:] = np.where(few, chance * grows, 1e-4)
    past.saved[:] = np.where(np.array(EDGES) == 4, saved / TIMES, 0.0)
    assert past.chance.shape == (TIMES, LEVELS)
    return best_number(past, FACTS, np.zeros(WEIGHTS), idle, 0, asleep)


def test_nodes_that_will_be_needed_are_kept_and_woken() -> None:
    """Not more of them, and none without a need."""
    assert spare_nodes(0.99, 8.0, idle=16, asleep=0) == 4
    assert spare_nodes(0.99, 80.0, idle=0, asleep=16) == 4
    assert spare_nodes(1e-4, 0.0, idle=16, asleep=0) == 0
    assert spare_nodes(1e-4, 0.0, idle=0, asleep=16) == 0


def test_decisions_without_events_are_up_to_a_minute_apart() -> None:
    """Where nodes break even in 1 s; where they do in 1000 s, it is as long as that."""
    for even_s, longest_s in ((1.0, 60.0), (1000.0, 1000.0)):
        past, facts, at_s = new_rises(), FACTS._replace(even_s=even_s), [0.0]
        for _ in range(30):
            assert is_due(past, facts, at_s[-1], 0.0, False)
            at_s.append(float(past.g[rises.DUE_S]))
        gaps_s = np.diff(at_s)
        assert gaps_s[0] == 0.125 * even_s
        assert gaps_s.max() == gaps_s[-1] == pytest.approx(longest_s)


def test_a_higher_price_switches_fewer_nodes_off() -> None:
    """A log of bursts with pauses longer than the break-even time."""
    rows = [(3000.0 * burst + each, 500.0, 2) for burst in range(12) for each in range(3)]
    jobs, weights = jobs_of(*rows, placement="whole_nodes"), np.zeros(WEIGHTS)
    off = []
    for price_w in (1.0, 1e6):
        policy = managed(make_policy("easy", "planned"), by_weights(weights, price_w))
        changes = switched(simulate(nodes_of(8), jobs, policy))
        off.append(sum(state == "switching_off" for _, _, state in changes))
    assert off[0] > off[1]


def test_the_facts_of_nodes_are_those_of_their_states() -> None:
    """Nodes of 100 W that boot in 10 s at 80 W, switch off in 4 s at 20 W, and sleep at 5 W."""
    facts = facts_of(nodes_of(4), 300.0)
    cycle_j = 10 * 75.0 + 4 * 15.0
    assert facts == NodeFacts(10.0, 10.0, 95.0, cycle_j, 300.0, 4.0)
    assert facts_of(nodes_of(4, None), 300.0).cycle_j == 0.0


def test_a_file_has_the_weights(tmp_path: Path) -> None:
    """One of another size is an error that names the command that writes such files."""
    pytest.importorskip("safetensors", reason="the extra rl is not installed")
    path, weights = tmp_path / "rises.safetensors", np.arange(WEIGHTS, dtype=np.float64)
    save_weights(path, weights, "seed 1")
    assert load_weights(path).tolist() == weights.tolist()
    save_weights(path, weights[1:], "seed 1")
    with pytest.raises(PolicyError, match="hpcosim train rises"):
        load_weights(path)


def test_times_between_steps_double() -> None:
    """The last hold is the longest that a count waits for."""
    assert all(math.isclose(2.0 * low, high) for low, high in pairwise(HOLDS))
    assert HOLDS[-1] / rises.STEP < rises.STEPS
