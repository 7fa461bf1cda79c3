"""What a scheduler is shown of a cluster, as the translation of its jobs needs it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cached_property

from hpcosim_protocol import NodeReservation, Platform
from hpcosim_slurm.state import ClusterState


class Shown:
    """The part of a cluster that a scheduler sees, and its model.

    Args:
        state: that part.
        platform: the model of its nodes.
    """

    def __init__(self, state: ClusterState, platform: Platform) -> None:
        self.state = state
        self.platform = platform

    @cached_property
    def partitions(self) -> frozenset[str]:
        """Names of the partitions of the model."""
        return frozenset(each.name for each in self.platform.partitions)

    @cached_property
    def reservations(self) -> Mapping[str, NodeReservation]:
        """The reservations of the model, by name."""
        return {each.name: each for each in self.platform.reservations}

    @cached_property
    def devices(self) -> frozenset[str]:
        """Names of the devices of the model, with their types."""
        return frozenset(name for group in self.platform.nodes for name in group.gres)

    @cached_property
    def tasks(self) -> Mapping[int, list[int]]:
        """Numbers of the tasks of each array that are not over, by Slurm's number of the array."""
        found: dict[int, list[int]] = defaultdict(list)
        for job in self.state.jobs.values():
            if job.array is not None and job.state != "over":
                found[job.array].append(job.id)
        return found
