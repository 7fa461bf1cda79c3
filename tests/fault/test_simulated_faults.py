"""Simulated runs: the real client and service between simulated network, time and disk."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest

from support.fault.invariants import violations
from support.fault.mutations import FOCUS, MUTATIONS
from support.fault.plan import Plan, Window, plan_of
from support.fault.planting import found_within, planted
from support.fault.scenes import undisturbed
from support.fault.world import World
from support.fault.world_text import explained, replay

Note = Callable[[str, object], None]
KIND = "seeds"


def run(seed: int, plan: Plan | None = None) -> World:
    """Return a simulated run that is over."""
    world = World(seed, plan)
    world.run()
    return world


def figures(world: World) -> dict[str, int]:
    """Return what a run did, for the summary."""
    return {
        "runs": 1,
        "sessions": len({each.name for each in world.host.executed if each.name}),
        "messages": world.network.sent,
        "lost, doubled or late": world.network.lost + world.network.doubled + world.network.late,
        "kills and stops of servers": len(world.host.ended_s),
        "starts of clients again": sum(client.starts - 1 for client in world.operators),
    }


@pytest.mark.slow
@pytest.mark.usefixtures("one_core")
def test_any_faults_keep_the_invariants_for_all_seeds(
    seeds: range, pytestconfig: pytest.Config, record_property: Note
) -> None:
    """Whatever goes wrong, every run ends with the results of an undisturbed one."""
    for seed in seeds:
        record_property("replay", f"seed {seed}: {replay(KIND, seed)}")
        world = run(seed)
        wrong = violations(world)
        record_property("fault", figures(world))
        if pytestconfig.getoption("--fault-seed", default=None) is not None:
            print(explained(KIND, world, wrong))  # noqa: T201 - what the option asks for
        assert not wrong, explained(KIND, world, wrong)


@pytest.mark.slow
@pytest.mark.spoils
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("what", planted(MUTATIONS))
def test_a_planted_bug_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch, record_property: Note
) -> None:
    """The simulated runs find each of the planted bugs."""
    undisturbed("scene0", "fcfs")
    MUTATIONS[what](monkeypatch)
    seeds = found_within(lambda seed: violations(run(seed, FOCUS.get(what))))
    print(f"{what}: found after {seeds} seeds")  # noqa: T201 - seen with -s
    assert seeds is not None
    record_property("fault", {"bugs found": 1, "seeds needed": seeds})


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_always_gives_the_same_run(seed: int) -> None:
    """Two runs of a seed have the same trace, messages and results."""
    first, second = run(seed), run(seed)
    assert first.simulator.trace == second.simulator.trace
    assert first.network.sent == second.network.sent
    assert first.disk.folders == second.disk.folders


def test_a_run_without_faults_opens_one_session_for_each_client() -> None:
    """Without faults, no client is started again and no message is lost or sent again."""
    world = run(1, Plan(clients=3))
    assert not violations(world)
    assert [client.starts for client in world.operators] == [1, 1, 1]
    assert len(world.host.executed) == 3
    assert len(world.disk.folders) == 3


def test_the_faults_of_the_seeds_are_of_every_kind() -> None:
    """Each kind of fault is in many seeds, and some seeds have none."""
    plans = [plan_of(seed) for seed in range(1000)]
    kinds = Plan.__dataclass_fields__
    for kind in itertools.islice(kinds, 2, None):
        assert sum(getattr(plan, kind) != kinds[kind].default for plan in plans) > 150
    assert any(plan == Plan(clients=plan.clients, latency_s=plan.latency_s) for plan in plans)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 22))
def test_late_requests_of_a_killed_client_change_nothing(seed: int) -> None:
    """A policy with a state goes on, also if a request of its last process comes very late."""
    chance = random.Random(seed)
    kills = tuple(Window(chance.uniform(0, 20), chance.uniform(0, 0.5)) for _ in range(8))
    plan = Plan(1, latency_s=0.3, late=0.3, journal="always", client_crashes=kills)
    world = run(seed, plan)
    wrong = violations(world)
    assert not wrong, explained(KIND, world, wrong)


def test_a_full_disk_loses_only_the_results_that_it_met() -> None:
    """A run whose results do not fit is reported, and its client has its metrics."""
    world = run(5, Plan(clients=1, disk_full=(Window(0.0, 50.0),)))
    assert not violations(world)
    assert [failure.cause for failure in world.host.service.failures] == ["results_not_written"]
    assert world.operators[0].metrics is not None
