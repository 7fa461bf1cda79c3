"""Simulated runs with the real front and workers, which pass real connections to each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.fault.fleet_world import FleetWorld, violations
from support.fault.mutations import FLEET_FOCUS, FLEET_MUTATIONS
from support.fault.plan import FleetPlan, Window
from support.fault.planting import found_within, planted
from support.fault.scenes import undisturbed
from support.fault.world_text import explained, replay

Note = Callable[[str, object], None]
KIND = "fleets"


def run(seed: int, plan: FleetPlan | None = None) -> FleetWorld:
    """Return a simulated run that is over."""
    world = FleetWorld(seed, plan)
    world.run()
    return world


def figures(world: FleetWorld) -> dict[str, int]:
    """Return what a run did, for the summary."""
    return {
        "runs": 1,
        "sessions": len({each.name for each in world.host.executed if each.name}),
        "messages": world.network.sent,
        "kills of fronts": world.host.kills["front"],
        "kills of workers": world.host.kills["worker"],
        "connections moved": world.moved,
        "refused": world.refused,
    }


@pytest.mark.slow
@pytest.mark.usefixtures("one_core")
def test_any_faults_of_fleets_keep_the_invariants(
    fleets: range, pytestconfig: pytest.Config, record_property: Note
) -> None:
    """Whatever happens to front and workers, each session has one worker and its results."""
    for seed in fleets:
        record_property("replay", f"seed {seed}: {replay(KIND, seed)}")
        world = run(seed)
        wrong = violations(world)
        record_property("fault", figures(world))
        if pytestconfig.getoption("--fault-seed", default=None) is not None:
            print(explained(KIND, world, wrong))  # noqa: T201 - what the option asks for
        assert not wrong, explained(KIND, world, wrong)


def test_a_fleet_without_faults_serves_each_client_once() -> None:
    """No client is started again, each has a worker of its own, and nothing is left open."""
    world = run(1, FleetPlan(clients=3, journal="always"))
    assert not violations(world)
    assert [client.starts for client in world.operators] == [1, 1, 1]
    assert len({each.name[-4:] for each in world.host.executed}) == 3


def test_a_killed_front_loses_no_session_and_no_connection_of_a_worker() -> None:
    """Clients that have a worker do not notice."""
    world = run(1, FleetPlan(clients=3, journal="", server_crashes=(Window(2.0, 1.0, 0),)))
    assert not violations(world)
    assert world.host.kills == {"front": 1, "worker": 0}
    assert [client.starts for client in world.operators] == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_fleet_seed_always_gives_the_same_run(seed: int) -> None:
    """Two runs of a seed have the same trace, messages and results."""
    first, second = run(seed), run(seed)
    assert first.simulator.trace == second.simulator.trace
    assert first.network.sent == second.network.sent
    assert first.disk.folders == second.disk.folders


@pytest.mark.slow
@pytest.mark.spoils
@pytest.mark.filterwarnings("ignore")  # of descriptors that bugs leave open
@pytest.mark.usefixtures("one_core")
@pytest.mark.parametrize("what", planted(FLEET_MUTATIONS))
def test_a_bug_planted_in_a_fleet_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch, record_property: Note
) -> None:
    """The simulated runs find each of the planted bugs."""
    undisturbed("scene0", "fcfs")
    FLEET_MUTATIONS[what](monkeypatch)
    seeds = found_within(lambda seed: violations(run(seed, FLEET_FOCUS.get(what))))
    print(f"{what}: found after {seeds} seeds")  # noqa: T201 - seen with -s
    assert seeds is not None
    record_property("fault", {"bugs found": 1, "seeds needed": seeds})
