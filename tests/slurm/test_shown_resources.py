"""What schedulers see of reservations, licences, devices, arrays and other partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hpcosim_protocol import (
    AllocateJob,
    Dependency,
    Event,
    JobCompleted,
    JobEligible,
    JobRequest,
    JobStarted,
    JobSubmitted,
    KillJob,
    NodeDrained,
    NodeRepaired,
)
from hpcosim_slurm.state import ClusterState, LivePartition, LiveReservation
from hpcosim_slurm.texts import task_id
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.difference import difference
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.site import Site, chosen, platform_of
from support.fake_cluster import EPOCH_S, FakeCluster


def reservation(name: str, nodes: str, *flags: str, **more: Any) -> LiveReservation:
    """Return a reservation of an hour that has begun 60 s ago, of the user `ann`."""
    window: dict[str, Any] = {
        "start_s": EPOCH_S - 60.0,
        "end_s": EPOCH_S + 3540.0,
        "is_active": True,
    }
    named = {"nodes": tuple(nodes.split()), "users": ("ann",), "flags": flags}
    return LiveReservation(name=name, **{**window, **named, **more})


@dataclass
class Scene:
    """A cluster with more than jobs, and what a scheduler sees of it."""

    cluster: FakeCluster = field(default_factory=lambda: FakeCluster(nodes=2, starts=False))
    site: Site = field(default_factory=Site)
    reservations: list[LiveReservation] = field(default_factory=list)
    licenses: Mapping[str, int] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    others: tuple[str, ...] = ()  # nodes of a second partition

    def state(self) -> ClusterState:
        """Return what the scheduler sees."""
        state = self.cluster.state()
        nodes = {name: replace(node, devices=self.devices) for name, node in state.nodes.items()}
        partitions = dict(state.partitions)
        if self.others:
            partitions["other"] = LivePartition("other", self.others, is_up=True)
        named = {each.name: each for each in self.reservations}
        full = replace(
            state,
            nodes=nodes,
            partitions=partitions,
            reservations=named,
            licenses=self.licenses,
        )
        return chosen(full, self.site)

    def copy(self) -> ShadowWorld:
        """Return the shadow of the cluster as it is now."""
        return ShadowWorld(self.state(), self.site)

    def look(self, world: ShadowWorld | LiveWorld, after_s: float = 0.0) -> list[Event]:
        """Let time pass in reality and in the copy, and return the events."""
        self.cluster.advance(self.cluster.now_s + after_s)
        world.note(difference(world.state, self.state(), self.cluster.now_s))
        return world.engine.outbox.take()


def request_of(world: ShadowWorld | LiveWorld, job_id: int) -> JobRequest:
    """Return the request of a waiting job."""
    request = world.engine.jobs.waiting[job_id].spec.request
    assert request is not None
    return request


def codes(world: ShadowWorld, *decisions: AllocateJob | KillJob) -> list[str]:
    """Let the scheduler decide; return the code of each rejection."""
    for at, decision in enumerate(decisions):
        world.carry_out(decision, 1, at)
    return [event.code for event in world.engine.outbox.take() if hasattr(event, "code")]


# Reservations


def test_reservations_keep_nodes_for_their_users() -> None:
    """A job of the reservation starts on its node, another job does not."""
    scene = Scene(reservations=[reservation("r", "node0", "DAILY", "FLEX", "SPEC_NODES")])
    inside, outside = scene.cluster.submit(reservation="r"), scene.cluster.submit()
    world = scene.copy()
    (shown,) = world.engine.cluster.platform.reservations
    assert (shown.nodes, shown.repeat_s, shown.flags) == (((0, 0),), 86400.0, ("flex",))
    world.engine.outbox.take()
    assert codes(world, AllocateJob(outside, [0]), AllocateJob(inside, [0])) == ["reserved"]
    assert inside in world.engine.jobs.running


@pytest.mark.parametrize(
    "of", [{"users": ("bob",)}, {"users": ("-bob",)}, {"users": (), "accounts": ("x",)}]
)
def test_a_job_waits_if_its_reservation_may_be_for_others(of: dict[str, object]) -> None:
    """Slurm has accepted it, but the protocol cannot say why."""
    scene = Scene(reservations=[reservation("r", "node0", **of)])
    job = scene.cluster.submit(reservation="r")
    assert request_of(scene.copy(), job).hold


def test_a_new_reservation_drains_its_nodes_while_it_lasts() -> None:
    """The platform of a session does not change."""
    scene = Scene(reservations=[reservation("r", "node0", "WEEKLY")])
    world = scene.copy()
    world.engine.outbox.take()
    scene.reservations.append(reservation("later", "node1", is_active=False))
    assert scene.look(world, 1.0) == []
    scene.reservations[1] = replace(scene.reservations[1], is_active=True)
    assert scene.look(world, 1.0) == [NodeDrained(EPOCH_S + 2.0, 1)]
    week_s = 7 * 86400.0
    scene.reservations = [
        replace(
            scene.reservations[0], start_s=EPOCH_S - 60.0 + week_s, end_s=EPOCH_S + 3540.0 + week_s
        )
    ]
    assert scene.look(world, 1.0) == [NodeRepaired(EPOCH_S + 3.0, 1)]


def test_a_job_runs_where_a_reservation_has_begun_since() -> None:
    """What runs in reality runs in the copy, with `IGNORE_JOBS`."""
    scene = Scene(cluster=FakeCluster(nodes=1))
    job = scene.cluster.submit(run_s=100.0)
    scene.reservations = [reservation("m", "node0", "MAINT", "IGNORE_JOBS")]
    assert job in scene.copy().engine.jobs.running


# Licences and devices


def test_licences_are_counted() -> None:
    """A job that runs has its own, and one that needs more than there are waits."""
    scene = Scene(cluster=FakeCluster(nodes=2), licenses={"matlab": 3})
    running = scene.cluster.submit(run_s=100.0, licenses={"matlab": 2})
    scene.cluster.starts = False
    waiting = scene.cluster.submit(licenses={"matlab": 2})
    impossible = scene.cluster.submit(licenses={"matlab": 4})
    world = scene.copy()
    world.engine.outbox.take()
    assert running in world.engine.jobs.running
    assert codes(world, AllocateJob(waiting, [1])) == ["insufficient_licenses"]
    assert request_of(world, impossible).hold


def test_devices_have_types() -> None:
    """A job that runs has the devices of its type, and the next one does not get them."""
    scene = Scene(
        cluster=FakeCluster(nodes=1, cpus=4), devices={"gpu:a100": 1, "gpu:v100": 2, "shard": 4}
    )
    scene.cluster.submit(run_s=100.0, devices={"gpu:v100": 1})
    scene.cluster.starts = False
    wants = [{"gpu:a100": 1}, {"gpu:v100": 2}, {"tape": 1}]
    first, second, unknown = (scene.cluster.submit(devices=each) for each in wants)
    together = scene.cluster.submit(devices_together={"gpu": 1})
    world = scene.copy()
    assert request_of(world, unknown).gres_per_node == {}
    assert request_of(world, together).gres_per_job == {"gpu": 1.0}
    decisions = [AllocateJob(job, [0]) for job in (first, second, together)]
    world.engine.outbox.take()
    assert codes(world, *decisions) == ["insufficient_gres"]


# Arrays and dependencies


def task(scene: Scene, index: int, **more: Any) -> int:
    """Submit a task of array 50, and return its number."""
    submitted = scene.cluster.submit(array=50, task=index, label=f"50_{index}", **more)
    job = replace(scene.cluster.jobs.pop(submitted), id=task_id(50, index))
    scene.cluster.jobs[job.id] = job
    scene.cluster.hidden[job.id] = scene.cluster.hidden.pop(submitted)
    return job.id


def test_as_many_tasks_as_the_array_allows_are_eligible() -> None:
    """An operator may raise the number."""
    scene = Scene()
    tasks = [task(scene, index, array_limit=1) for index in range(3)]
    world = scene.copy()
    waiting = world.engine.jobs.waiting
    assert [bool(waiting[each].blocked) for each in tasks] == [False, True, True]
    for each in tasks:
        scene.cluster.jobs[each] = replace(scene.cluster.jobs[each], array_limit=2)
    scene.look(world)
    assert [bool(waiting[each].blocked) for each in tasks] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("afterok:50_1(unfulfilled)", (Dependency("afterok", (task_id(50, 1),)),)),
        (
            "afterany:50_*(unfulfilled),after:1+2(unfulfilled)",
            (
                Dependency("afterany", (task_id(50, 1), task_id(50, 2))),
                Dependency("after", (1,), 120.0),
            ),
        ),
        ("aftercorr:50_*(unfulfilled)", (Dependency("afterok", (task_id(50, 2),)),)),
        ("afternotok:1(failed),singleton(unfulfilled)", None),
        ("afterok:1(unfulfilled),afterok:77(unfulfilled)", (Dependency("afterok", (1,)),)),
        ("afterok:1(unfulfilled)?afterok:77(unfulfilled)", ()),
    ],
)
def test_dependencies_name_the_jobs_that_are_shown(
    text: str, expected: tuple[Dependency, ...] | None
) -> None:
    """A job is held while it waits for others: 77 is in no partition that the scheduler sees."""
    scene = Scene()
    scene.cluster.submit()
    task(scene, 1)
    task(scene, 2)
    job = scene.cluster.submit(dependency=text, array=60, task=2)
    request = request_of(scene.copy(), job)
    singleton = (Dependency("afternotok", (1,)), Dependency("singleton"))
    assert request.dependencies == (singleton if expected is None else expected)
    assert request.hold == ("77" in text)


# Other partitions


def shared(**more: Any) -> Scene:
    """Return a scene in which node1 belongs to a second partition that is not shown."""
    return Scene(
        cluster=FakeCluster(nodes=2, cpus=4, starts=False),
        site=Site(partitions=("main",)),
        others=("node1", "node9"),
        **more,
    )


def start_other(scene: Scene, **more: Any) -> int:
    """Let a job of the second partition start on node1 and on a node that is not shown."""
    job = scene.cluster.submit(cpus=6, run_s=100.0, limit_s=600.0, **more)
    scene.cluster.jobs[job] = replace(
        scene.cluster.jobs[job],
        partition="other",
        state="running",
        slurm_state="RUNNING",
        started_s=scene.cluster.now_s,
        nodes=("node1", "node9"),
    )
    return job


def test_jobs_of_other_partitions_take_room_on_shared_nodes() -> None:
    """Those that run at the start, and those that start later; they end as in reality."""
    scene = shared(devices={"gpu": 2}, licenses={"matlab": 1})
    first = start_other(scene, devices={"gpu": 2}, licenses={"matlab": 1})
    world = scene.copy()
    assert (world.engine.cluster.free, world.engine.resources.free_licenses) == (
        [4, 1],
        {"matlab": 0},
    )
    assert world.engine.resources.free_devices[1] == {"gpu": [0, 0]}
    world.engine.outbox.take()
    scene.cluster.advance(EPOCH_S + 10.0)
    scene.cluster.cancel(first)
    second = start_other(scene)
    ended, submitted, started = scene.look(world)
    assert ended == JobCompleted(EPOCH_S + 10.0, first, "cancelled")
    assert isinstance(submitted, JobSubmitted)
    assert started == JobStarted(EPOCH_S + 10.0, second, [1], [3])
    (ended,) = scene.look(world, 100.0)
    assert ended == JobCompleted(EPOCH_S + 110.0, second, "completed")
    assert world.engine.cluster.free == [4, 4]
    world.engine.validate()


def test_the_scheduler_does_not_decide_on_jobs_of_other_partitions() -> None:
    """Neither in the shadow nor in reality."""
    scene = shared()
    other = start_other(scene)
    world = scene.copy()
    assert codes(world, KillJob(other)) == ["not_allowed"]
    live = LiveWorld(scene.state(), Site(mode="place", partitions=("main",), waiting=("queue",)))
    live.carry_out(KillJob(other), 1, 0)
    assert live.take_orders() == []


def test_components_of_heterogeneous_jobs_wait_for_an_operator() -> None:
    """A bridge that acts holds them; in the shadow they are independent jobs."""
    scene = Scene()
    job = scene.cluster.submit(heterogeneous=1)
    assert not request_of(scene.copy(), job).hold
    live = LiveWorld(scene.state(), Site(mode="place", partitions=("main",), waiting=("queue",)))
    assert request_of(live, job).hold


def test_a_hold_ends_when_slurm_waits_for_nothing_more() -> None:
    """The text of a dependency becomes empty."""
    scene = Scene()
    job = scene.cluster.submit(dependency="afterok:77(unfulfilled)")
    world = scene.copy()
    world.engine.outbox.take()
    scene.cluster.jobs[job] = replace(scene.cluster.jobs[job], dependency="")
    assert scene.look(world) == [JobEligible(EPOCH_S, job)]


def test_the_first_state_is_that_of_the_chosen_partitions() -> None:
    """Nodes, licences and reservations of one of two partitions."""
    scene = shared(reservations=[reservation("r", "node1 node9"), reservation("s", "node9")])
    platform = platform_of(scene.state(), scene.site)
    assert [(each.name, each.nodes) for each in platform.reservations] == [("r", ((1, 1),))]
