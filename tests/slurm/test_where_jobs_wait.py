"""Where jobs wait: in a waiting partition for each partition, or held."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpcosim_protocol import AllocateJob, DecisionRejected, JobSubmitted
from hpcosim_slurm.commands import Action, Place, Release, Withdraw
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode, LivePartition
from hpcosim_slurm.worlds.live import LiveWorld, releases_of
from hpcosim_slurm.worlds.site import Site, chosen

NODES = ("a", "b")
SITE = Site(
    partitions=("main", "gpu"), waiting=("queue", "queue-gpu"), mode="place", start_timeout_s=5.0
)


def state_with(partition: str) -> ClusterState:
    """Return a cluster whose job 1 waits; `gpu` has node b, and `main` both nodes."""
    job = LiveJob(1, "job", "ann", partition, "pending", "PENDING", 0.0, 1, 1, 1, eligible_s=0.0)
    return ClusterState(
        0.0,
        {1: job},
        {name: LiveNode(name, 1, 1, True, True, "on", "IDLE") for name in NODES},
        {
            "main": LivePartition("main", NODES, is_up=True, is_default=True),
            "gpu": LivePartition("gpu", NODES[1:], is_up=True, time_limit_s=60.0),
            "queue": LivePartition("queue", NODES, is_up=False),
            "queue-gpu": LivePartition("queue-gpu", NODES, is_up=False),
        },
    )


@pytest.mark.parametrize(
    ("waits", "shown", "node", "starts"),
    [
        ("queue", "main", 1, "main"),
        ("queue-gpu", "gpu", 1, "gpu"),
        ("queue-gpu,queue", "gpu,main", 0, "main"),
        ("queue-gpu,queue", "gpu,main", 1, "gpu"),
    ],
)
def test_a_job_starts_in_a_partition_of_its_own(
    waits: str, shown: str, node: int, starts: str
) -> None:
    """The scheduler sees where it may start; it goes back to where it waited."""
    world = LiveWorld(chosen(state_with(waits), SITE), SITE)
    (submitted,) = (e for e in world.engine.outbox.take() if isinstance(e, JobSubmitted))
    assert list(submitted.partitions) == shown.split(",")
    world.carry_out(AllocateJob(1, [node]), 1, 0)
    assert actions(world) == [Place("1", (NODES[node],), starts)]
    world.pass_to(6.0)
    assert actions(world) == [Withdraw("1", waits)]


def actions(world: LiveWorld) -> list[Action]:
    """Return the actions that a world orders."""
    return [each.order.action for each in world.take_orders()]


def test_the_time_limit_is_that_of_the_partition_in_which_a_job_starts() -> None:
    """The waiting partition has none."""
    world = LiveWorld(chosen(state_with("queue-gpu"), SITE), SITE)
    (submitted,) = (e for e in world.engine.outbox.take() if isinstance(e, JobSubmitted))
    assert submitted.requested_s == 60.0


@pytest.mark.parametrize(
    ("waits", "released"), [("queue-gpu", "gpu"), ("queue,queue-gpu", "main,gpu"), ("gpu", None)]
)
def test_the_fall_back_releases_jobs_of_all_waiting_partitions(
    waits: str, released: str | None
) -> None:
    """Each to the partitions in which it may start."""
    found = [
        order.action for order in releases_of(chosen(state_with(waits), SITE), SITE, frozenset())
    ]
    assert found == ([] if released is None else [Release("1", released)])


@pytest.mark.parametrize(("reason", "is_ours"), [("JobHeldUser", True), ("JobHeldAdmin", False)])
def test_in_mode_hold_jobs_are_submitted_held(reason: str, is_ours: bool) -> None:
    """The scheduler may start them, and the fall-back releases them; an operator's hold stays."""
    site = Site(partitions=("main",), mode="hold")
    state = state_with("main")
    held = replace(state.jobs[1], is_held=True, reason=reason, eligible_s=None)
    state = chosen(replace(state, jobs={1: held}), site)
    world = LiveWorld(state, site)
    world.carry_out(AllocateJob(1, [0]), 1, 0)
    assert actions(world) == ([Release("1")] if is_ours else [])
    rejected = [e for e in world.engine.outbox.take() if isinstance(e, DecisionRejected)]
    assert len(rejected) == (0 if is_ours else 1)
    assert [order.action for order in releases_of(state, site, frozenset())] == [
        Release("1")
    ] * is_ours
