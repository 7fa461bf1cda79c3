"""A cluster in memory that a twin follows, with the faults of a real one."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from hpcosim_protocol import Platform
from hpcosim_slurm.errors import UnreachableError
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.difference import Change
from hpcosim_twin.cluster.observation import Observation, Site
from hpcosim_twin.cluster.observer import Accounted
from hpcosim_twin.cluster.sources import change_of
from support.fake_cluster import FakeCluster

PROCESSORS = [{"cores": 1, "static_w": 5, "dynamic_w": 5}]


def platform_of(nodes: int) -> Platform:
    """Return the platform of a `FakeCluster` of so many nodes with one core each."""
    group = {"names": f"node[0-{nodes - 1}]", "count": nodes, "processors": PROCESSORS}
    return msgspec.convert({"nodes": [group]}, Platform)


class FakeSource:
    """A `FakeCluster` as the source of a follower.

    Attributes:
        lost: numbers of jobs of which no change is told.
        is_down: whether no reading can be done.
        is_site_unreadable: whether slurm.conf has an error.
        accounting: what it knows; None: there is none.
        readings_of_history: how often it was read.
        elapsed_s: time of the monotonic clock, s.
    """

    def __init__(self, cluster: FakeCluster, settings: Mapping[str, Any] | None = None) -> None:
        self.cluster, self.settings = cluster, dict(settings or {})
        self.lost: set[int] = set()
        self.is_down, self.elapsed_s = False, 0.0
        self.is_site_unreadable, self.readings_of_history = False, 0
        self.accounting: Accounted | None = None

    def clock_s(self) -> float:
        """See `Source`."""
        return self.elapsed_s

    def unix_s(self) -> float:
        """See `Source`."""
        return self.cluster.now_s

    def wait(self, timeout_s: float, over: threading.Event) -> None:
        """Let the time pass."""
        self.elapsed_s += timeout_s
        self.cluster.advance(self.cluster.now_s + timeout_s)

    def learn(self) -> Observation:
        """See `Source`."""
        if self.is_site_unreadable:
            raise InputError("line 7: expected NAME=VALUE", Path("slurm.conf"))
        state = self.read()
        return Observation(
            state=state, platform=platform_of(self.cluster.nodes), settings=self.settings
        )

    def accounted(self, _: Site) -> Accounted | None:
        """See `Source`."""
        self.readings_of_history += 1
        return self.accounting

    def change(self, before: ClusterState) -> Change:
        """See `Source`."""
        state = self.read()
        queue = {
            number: job
            for number, job in state.jobs.items()
            if job.state != "over" and number not in self.lost
        }
        old = {number: job for number, job in before.jobs.items() if number in self.lost}
        queue |= {number: job for number, job in old.items() if job.state != "over"}
        return change_of(before, replace(state, jobs=queue))

    def read(self) -> ClusterState:
        """See `Source`."""
        if self.is_down:
            raise UnreachableError(("squeue",), "Unable to contact slurm controller")
        return self.cluster.state()

    def starts(self) -> Mapping[int, float]:
        """See `Source`."""
        return {}
