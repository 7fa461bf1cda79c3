"""Random clusters with partitions, devices and reservations, and jobs for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from hypothesis import strategies as st

from hpcosim_protocol import (
    Event,
    JobRequest,
    JobSubmitted,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    Processor,
)
from hpcosim_workloads.table import JobSpec

FEATURES = ("", "", "ib", "ib|fast", "[ib*1&fast*1]", "[ib|fast]", "fast*2")


@st.composite
def node_groups(draw: st.DrawFn) -> tuple[NodeGroup, ...]:
    """Return one to three groups of one or two nodes."""
    return tuple(
        NodeGroup(
            draw(st.integers(1, 2)),
            (Processor(draw(st.integers(1, 3))),),
            memory_mb=draw(st.sampled_from([0.0, 10.0, 20.0])),
            features=draw(st.sampled_from([(), ("ib",), ("fast",), ("ib", "fast")])),
            gres=draw(st.sampled_from([{}, {"gpu:a": 1}, {"gpu:a": 2, "gpu:b": 1}, {"gpu": 2}])),
        )
        for _ in range(draw(st.integers(1, 3)))
    )


@st.composite
def partitions(draw: st.DrawFn, last: int) -> tuple[Partition, ...]:
    """Return no partitions, or two that share a node of the nodes 0 to `last`."""
    if not draw(st.booleans()):
        return ()
    split = draw(st.integers(0, last))
    return (
        Partition(name="p", nodes=((0, split),), default=draw(st.booleans())),
        Partition(name="q", nodes=((split, last),), exclusive=draw(st.booleans())),
    )


@st.composite
def platforms(draw: st.DrawFn, *, reserves: bool = True) -> Platform:
    """Return a cluster of one to three groups."""
    groups = draw(node_groups())
    last = sum(group.count for group in groups) - 1
    parts = draw(partitions(last))
    reservations: tuple[NodeReservation, ...] = ()
    if reserves and draw(st.booleans()):
        window = NodeReservation(
            name="window",
            nodes=((last, last),),
            start_s=draw(st.sampled_from([5.0, 12.0])),
            end_s=20.0,
            repeat_s=draw(st.sampled_from([None, 30.0])),
            users=("ann",),
        )
        reservations = (window,)
    consumable: tuple[Literal["cores", "memory"], ...] = draw(
        st.sampled_from([("cores",), ("cores", "memory"), ("memory",)])
    )
    return Platform(groups, consumable, parts, reservations, {"matlab": 2})


@st.composite
def jobs(draw: st.DrawFn, platform: Platform, job_id: int) -> JobSpec:
    """Return a small job, often with a request."""
    each = draw(st.sampled_from([1, 1, 1, 2]))
    gres = draw(st.sampled_from(["", "", "gres_per_node", "gres_per_task", "gres_per_job"]))
    amounts = {draw(st.sampled_from(["gpu", "gpu:a"])): draw(st.sampled_from([0.5, 0.6, 1.0, 2.0]))}
    request = JobRequest(
        cores_per_task=each,
        nodes_min=draw(st.sampled_from([0, 0, 0, 2])),
        nodes_max=draw(st.sampled_from([0, 0, 0, 1, 2])),
        tasks_per_node=draw(st.sampled_from([0, 0, 0, 1])),
        features=draw(st.sampled_from(FEATURES)),
        memory_per_node_mb=draw(st.sampled_from([0.0, 0.0, 10.0])),
        all_memory=draw(st.sampled_from([False, False, False, True])),
        licenses=draw(st.sampled_from([{}, {}, {"matlab": 1}])),
        required_nodes=draw(st.sampled_from([(), (), (), (0,)])),
        excluded_nodes=draw(st.sampled_from([(), (), (), (1,)])),
        **({gres: amounts} if gres else {}),  # type: ignore[arg-type]
    )
    return JobSpec(
        job_id,
        draw(st.sampled_from([0.0, 0.0, 1.0, 6.0])),
        draw(st.sampled_from([2.0, 4.0, 7.0])),
        draw(st.sampled_from([7.0, 8.0])),
        draw(st.integers(1, 4)) * each,
        draw(st.sampled_from(["cores", "cores", "one_node", "whole_nodes"])),
        memory_mb=draw(st.sampled_from([0.0, 4.0, 10.0])),
        partition=draw(st.sampled_from(["", "p", "q", "q,p"])) if platform.partitions else "",
        request=request if draw(st.booleans()) else None,
    )


def submissions(specs: Sequence[JobSpec]) -> list[Event]:
    """Return the events that submit jobs to a scheduler."""
    return [
        JobSubmitted(
            0.0,
            spec.job_id,
            spec.cores,
            spec.requested_s,
            spec.placement,
            spec.memory_mb,
            partitions=tuple(filter(None, spec.partition.split(","))),
            request=spec.request,
        )
        for spec in specs
    ]
