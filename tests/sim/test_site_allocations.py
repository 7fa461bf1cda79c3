"""Allocations of jobs with requests: what the server accepts, and what the jobs then hold."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_protocol import (
    AllocateJob,
    DecisionRejected,
    JobCompleted,
    JobRequest,
    JobStarted,
    KillJob,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    Processor,
)
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_workloads.table import JobSpec
from support.allocation_oracle import (
    Held,
    can_ever_run,
    fault,
    is_whole,
    memory_of,
    stated_devices_are_right,
)
from support.site_scenes import job, table
from support.site_worlds import node_groups, partitions

FEATURES = ("", "ib", "ib&fast", "ib|fast", "[ib*1&fast*1]", "[ib|fast]", "fast*2")


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """Return a cluster of one to three groups with devices, partitions and licences."""
    groups = draw(node_groups())
    last = sum(group.count for group in groups) - 1
    parts = draw(partitions(last))
    reservations: tuple[NodeReservation, ...] = ()
    if draw(st.booleans()):
        reservations = (
            NodeReservation(
                name="m",
                nodes=((0, 0),),
                start_s=draw(st.sampled_from([5.0, 12.0])),
                end_s=20.0,
                repeat_s=draw(st.sampled_from([None, 30.0])),
            ),
        )
    consumable: Any = draw(st.sampled_from([("cores",), ("cores", "memory"), ("memory",)]))
    return Platform(groups, consumable, parts, reservations, {"matlab": 2})


@st.composite
def jobs(draw: st.DrawFn, platform: Platform, job_id: int = 1) -> JobSpec:
    """Return a small job with a request."""
    nodes = st.sampled_from([(), (), (), (0,), (1,)])
    each = draw(st.sampled_from([1, 1, 2]))
    gres = draw(st.sampled_from(["", "", "gres_per_node", "gres_per_task", "gres_per_job"]))
    amounts: dict[str, Any] = {
        draw(st.sampled_from(["gpu", "gpu:a", "gpu:b"])): draw(st.sampled_from([0.5, 0.6, 1, 2]))
    }
    more: dict[str, Any] = {gres: amounts} if gres else {}
    return JobSpec(
        job_id,
        0.0,
        draw(st.sampled_from([4.0, 8.0])),
        8.0,
        draw(st.integers(1, 4)) * each,
        draw(st.sampled_from(["cores", "cores", "one_node", "whole_nodes"])),
        memory_mb=draw(st.sampled_from([0.0, 4.0, 10.0])),
        partition=draw(st.sampled_from(["", "p", "q", "q,p"])) if platform.partitions else "",
        request=JobRequest(
            required_nodes=draw(nodes) if platform.node_count > 1 else (),
            excluded_nodes=draw(nodes) if platform.node_count > 1 else (),
            nodes_min=draw(st.sampled_from([0, 0, 2])),
            nodes_max=draw(st.sampled_from([0, 0, 1, 2])),
            tasks_per_node=draw(st.sampled_from([0, 0, 1, 2])),
            cores_per_task=each,
            features=draw(st.sampled_from(FEATURES)),
            memory_per_node_mb=draw(st.sampled_from([0.0, 0.0, 10.0, 15.0])),
            all_memory=draw(st.sampled_from([False, False, True])),
            licenses=draw(st.sampled_from([{}, {}, {"matlab": 1}, {"matlab": 2}])),
            **more,
        ),
    )


@settings(max_examples=150)
@given(st.data())
def test_job_is_feasible_exactly_if_some_allocation_is_right(data: st.DataObject) -> None:
    """A job is rejected at submission exactly if the slow search over allocations finds none."""
    platform = data.draw(platforms())
    spec = data.draw(jobs(platform))
    reason = infeasibility(Cluster(platform, 0.0), spec)
    assert (not reason) == can_ever_run(platform, spec), reason


class Bookkeeper:
    """Checks every event of a simulation against the slow rules."""

    def __init__(self, platform: Platform, specs: list[JobSpec]) -> None:
        self.held = Held(platform)
        self.specs = {spec.job_id: spec for spec in specs}
        self.simulation = Simulation(platform, table(*specs), Rules(validate=True))

    def try_allocation(self, spec: JobSpec, wanted: AllocateJob) -> None:
        """Check the server's answer to an allocation with stated cores."""
        expected = fault(self.held, spec, wanted.nodes, wanted.cores, self.simulation.now_s)
        events = self.simulation.advance([wanted], wake_on=["job_started"]).events
        answer = [event for event in events if isinstance(event, DecisionRejected)]
        code = answer[0].code if answer else ""
        if code != "insufficient_gres":  # devices: see `on_start`
            assert code == expected, answer
        for event in events:
            self.on_event(event)

    def on_event(self, event: object) -> None:
        """Note a start or an end."""
        if isinstance(event, JobCompleted):
            self.held.allocations.pop(event.job_id, None)
        elif isinstance(event, JobStarted):
            self.on_start(event)

    def on_start(self, event: JobStarted) -> None:
        """Check that the devices are those of the request, and note what the job holds."""
        spec, held = self.specs[event.job_id], self.held
        request = spec.request or JobRequest()
        counts = [cores // request.cores_per_task for cores in event.cores]
        devices = stated_devices_are_right(held, request, event.nodes, counts, event.gres)
        assert devices is not None
        whole = is_whole(held.platform, spec, event.nodes)
        held.allocations[event.job_id] = {
            "cores": {
                node: held.groups[node].cores if whole else cores
                for node, cores in zip(event.nodes, event.cores, strict=True)
            },
            "memory": {
                node: memory_of(held, spec, node, cores)
                for node, cores in zip(event.nodes, event.cores, strict=True)
                if held.groups[node].memory_mb
            },
            "devices": devices,
            "licenses": request.licenses,
        }


@settings(max_examples=60)
@given(st.data())
def test_allocations_are_judged_as_by_the_slow_rules(data: st.DataObject) -> None:
    """Random allocations are accepted or rejected by name as the reference does."""
    platform = data.draw(platforms())
    specs = [data.draw(jobs(platform, job_id)) for job_id in range(1, 6)]
    keeper = Bookkeeper(platform, specs)
    simulation = keeper.simulation
    if simulation.advance().ended:
        return
    for job_id in list(simulation.jobs.waiting):
        spec = keeper.specs[job_id]
        nodes = data.draw(
            st.lists(st.integers(0, platform.node_count - 1), min_size=1, unique=True, max_size=3)
        )
        if spec.placement == "one_node" or len(nodes) > spec.cores:
            nodes = nodes[:1]
        cuts = data.draw(
            st.lists(
                st.integers(1, max(spec.cores - 1, 1)),
                min_size=len(nodes) - 1,
                max_size=len(nodes) - 1,
                unique=True,
            )
            if len(nodes) > 1
            else st.just([])
        )
        edges = [0, *sorted(cuts), spec.cores]
        tasks = [b - a for a, b in itertools.pairwise(edges)]
        keeper.try_allocation(spec, AllocateJob(job_id, nodes, tasks))
        if data.draw(st.booleans()):
            batch = (
                simulation.advance(wake_on=["job_completed"]) if simulation.jobs.running else None
            )
            for event in batch.events if batch else ():
                keeper.on_event(event)
        if simulation.is_over:
            return


GPU_NODE = NodeGroup(2, (Processor(8),), 64.0, gres={"gpu:a100": 2, "gpu:v100": 1})
GPUS = Platform((GPU_NODE,), ("cores", "memory"), licenses={"matlab": 1})


def started(*jobs_: JobSpec, platform: Platform = GPUS) -> Simulation:
    """Return a simulation in which the jobs wait."""
    simulation = Simulation(platform, table(*jobs_), Rules(validate=True))
    simulation.advance()
    return simulation


def gres_of(simulation: Simulation, *decisions: AllocateJob) -> list[list[dict[str, list[int]]]]:
    """Return the devices of the jobs that the decisions start."""
    events = simulation.advance(decisions, wake_on=["job_started"]).events
    return [event.gres for event in events if isinstance(event, JobStarted)]


def test_server_chooses_lowest_devices_and_fullest_shares() -> None:
    """Whole devices are the lowest free ones; shares go to the fullest device that has room."""
    simulation = started(
        job(1, gres_per_node={"gpu": 1}),
        job(2, gres_per_node={"gpu": 0.5}),
        job(3, gres_per_node={"gpu": 0.4}),
        job(4, gres_per_node={"gpu:a100": 0.2}),
    )
    assert gres_of(simulation, *(AllocateJob(n, [0]) for n in (1, 2, 3))) == [
        [{"gpu:a100": [0]}],
        [{"gpu:a100": [1]}],
        [{"gpu:a100": [1]}],
    ]
    rejected = simulation.advance([AllocateJob(4, [0])], wake_on=[]).events[0]
    assert isinstance(rejected, DecisionRejected)
    assert rejected.code == "insufficient_gres"


def test_devices_of_the_whole_job_fill_the_nodes_in_order() -> None:
    """`gres_per_job` takes all devices of the first node, then those of the next."""
    simulation = started(job(1, cores=2, gres_per_job={"gpu": 4}))
    assert gres_of(simulation, AllocateJob(1, [1, 0], [1, 1])) == [
        [{"gpu:a100": [0, 1], "gpu:v100": [0]}, {"gpu:a100": [0]}]
    ]


def test_stated_devices_are_held() -> None:
    """A scheduler may choose the devices; they are held exactly."""
    simulation = started(job(1, gres_per_node={"gpu": 2}), job(2, gres_per_node={"gpu": 0.5}))
    chosen = [{"gpu:v100": [0], "gpu:a100": [1]}]
    assert gres_of(simulation, AllocateJob(1, [0], gres=chosen)) == [chosen]
    assert simulation.resources.free_devices[0] == {"gpu:a100": [1000, 0], "gpu:v100": [0]}
    simulation.advance([KillJob(1)])
    assert simulation.resources.free_devices[0] == {"gpu:a100": [1000, 1000], "gpu:v100": [1000]}


@pytest.mark.parametrize(
    ("gres", "code"),
    [
        ([{"gpu:a100": [0]}], "insufficient_gres"),
        ([{"gpu:a100": [0, 0]}], "insufficient_gres"),
        ([{"gpu:a100": [0, 1], "gpu:v100": [0]}], "insufficient_gres"),
        ([{"gpu:a100": [0, 2]}], "insufficient_gres"),
        ([{"gpu:a100": [0, -1]}], "insufficient_gres"),
        ([{"tpu": [0, 1]}], "insufficient_gres"),
        ([{}, {}], "bad_allocation"),
        ([{}], "insufficient_gres"),
    ],
)
def test_wrong_stated_devices_are_rejected(gres: list[dict[str, list[int]]], code: str) -> None:
    """Devices must exist, be free, and be as many as the request says."""
    simulation = started(job(1, gres_per_node={"gpu": 2}))
    (event,) = simulation.advance([AllocateJob(1, [0], gres=gres)], wake_on=[]).events
    assert isinstance(event, DecisionRejected)
    assert event.code == code


def test_devices_for_a_job_that_requests_none_are_rejected() -> None:
    """A job without a request gets no devices."""
    simulation = started(job(1), platform=Platform((GPU_NODE,)))
    wanted = AllocateJob(1, [0], gres=[{"gpu:a100": [0]}])
    (event,) = simulation.advance([wanted], wake_on=[]).events
    assert isinstance(event, DecisionRejected)
    assert event.code == "insufficient_gres"


def test_memory_and_licences_are_limited() -> None:
    """Jobs without free memory or licences are rejected; the end of a job frees both."""
    simulation = started(
        job(1, cores=2, spec={"memory_mb": 30.0}, licenses={"matlab": 1}),
        job(2, spec={"memory_mb": 5.0}),
        job(3, licenses={"matlab": 1}),
    )
    simulation.advance([AllocateJob(1, [0])], wake_on=["job_started"])
    for job_id, code in ((2, "insufficient_memory"), (3, "insufficient_licenses")):
        (event,) = simulation.advance([AllocateJob(job_id, [0], [1])], wake_on=[]).events
        assert isinstance(event, DecisionRejected)
        assert event.code == code
    simulation.advance(
        [KillJob(1), AllocateJob(2, [0]), AllocateJob(3, [0])], wake_on=["job_started"]
    )
    assert set(simulation.jobs.running) == {2, 3}


def test_cores_are_filled_as_far_as_memory_devices_and_tasks_permit() -> None:
    """Without stated cores, each node gets as many tasks as it has room for."""
    simulation = started(
        job(1, cores=8, cores_per_task=2, tasks_per_node=3),
        job(2, cores=4, gres_per_task={"gpu:a100": 1}),
        job(3, cores=5, spec={"memory_mb": 16.0}),
    )
    simulation.advance([AllocateJob(1, [0, 1])], wake_on=["job_started"])
    assert simulation.jobs.running[1].tasks == [6, 2]
    simulation.advance([AllocateJob(2, [1, 0])], wake_on=["job_started"])
    assert simulation.jobs.running[2].tasks == [2, 2]
    simulation.advance([KillJob(1), AllocateJob(3, [1, 0])], wake_on=["job_started"])
    assert simulation.jobs.running[3].tasks == [4, 1]


def test_job_runs_in_its_reservation_only() -> None:
    """A job of a reservation runs on its nodes and in its window; others stay out."""
    platform = Platform(
        (NodeGroup(2, (Processor(1),)),),
        reservations=(
            NodeReservation(name="r", nodes=((1, 1),), start_s=0.0, end_s=20.0, users=("ada",)),
        ),
    )
    simulation = started(
        job(1, reservation="r", spec={"user": "ada"}),
        job(2),
        job(3, run_s=30.0, reservation="r", spec={"user": "ada"}),
        job(4, reservation="r", spec={"user": "bob"}),
        platform=platform,
    )
    assert 4 not in simulation.jobs.waiting
    for job_id, node in ((1, 0), (2, 1), (3, 1)):
        (event,) = simulation.advance([AllocateJob(job_id, [node])], wake_on=[]).events
        assert isinstance(event, DecisionRejected)
        assert event.code == "reserved"
    simulation.advance([AllocateJob(1, [1]), AllocateJob(2, [0])], wake_on=["job_started"])
    assert set(simulation.jobs.running) == {1, 2}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"gres_per_node": {"gpu:h100": 1}}, "too few nodes have the devices gpu:h100:1"),
        ({"gres_per_node": {"gpu": 4}}, "too few nodes have the devices gpu:4"),
        ({"gres_per_node": {"gpu": 1.5}}, "got 1.5"),
        ({"features": "ib"}, "too few nodes have the features 'ib'"),
        ({"features": "ib&"}, "has an invalid request: expected a feature expression"),
        ({"memory_per_node_mb": 65.0}, "too few nodes have 65 MB"),
        ({"nodes_min": 3}, "it cannot run on 3 to all nodes"),
        ({"licenses": {"matlab": 2}}, "requests 2 licences of 'matlab'; the platform has 1"),
        ({"reservation": "x"}, "names the reservation 'x'; the platform has no such one"),
        ({"required_nodes": (5,)}, "names node 5; the platform has 2 nodes"),
        ({"cores_per_task": 2}, "expected a multiple of cores_per_task 2"),
        ({"excluded_nodes": (0, 1)}, "required and excluded nodes leave too few"),
    ],
)
def test_reason_of_an_impossible_job_names_the_part(request_: dict[str, Any], reason: str) -> None:
    """The reason names the first part of the request that no node set meets."""
    assert reason in infeasibility(Cluster(GPUS, 0.0), job(1, **request_))


def test_unknown_partition_is_a_reason() -> None:
    """A job of an unknown partition is rejected at submission."""
    platform = Platform((GPU_NODE,), partitions=(Partition(name="p", nodes=((0, 1),)),))
    reason = infeasibility(Cluster(platform, 0.0), job(1, spec={"partition": "x"}))
    assert reason == "has an invalid request: unknown partition 'x'; the partitions are p"


def test_shares_are_exact() -> None:
    """Ten tenths of a device are one device: no rounding error remains."""
    platform = Platform((NodeGroup(1, (Processor(20),), gres={"gpu": 1}),))
    tenths = [job(n, gres_per_node={"gpu": 0.1}) for n in range(1, 12)]
    simulation = started(*tenths, platform=platform)
    simulation.advance([AllocateJob(n, [0]) for n in range(1, 12)], wake_on=[])
    assert len(simulation.jobs.running) == 10
    assert Fraction(simulation.resources.free_devices[0]["gpu"][0]) == 0
