"""What metrics, result files and timelines read: a run as plain data, without its simulation."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcosim_protocol import Platform
from hpcosim_server.physics.cluster import Cluster
from hpcosim_server.physics.power import NODE_STATES, NodeState
from hpcosim_server.record.attribution import job_energies_j
from hpcosim_server.record.recording import Recording


@dataclass(frozen=True)
class RunRecord:
    """A run up to `end_s`, finished or not. No reader changes it.

    The recording is shared with the simulation, not copied: a record is valid until the
    simulation goes on.

    Attributes:
        platform: the cluster.
        recording: every job, and every change of a job or a node.
        start_s: simulated second at which the run began.
        end_s: simulated second up to which it is recorded.
        metered_j: metered energy, J; one row per node kind (see `Cluster.kinds`), one column per
            state of `NODE_STATES`.
        metered_node_s: node-seconds, in the same rows and columns.
    """

    platform: Platform
    recording: Recording
    start_s: float
    end_s: float
    metered_j: tuple[tuple[float, ...], ...]
    metered_node_s: tuple[tuple[float, ...], ...]

    @property
    def duration_s(self) -> float:
        """Simulated seconds from `start_s` to `end_s`."""
        return self.end_s - self.start_s

    @property
    def energy_j(self) -> float:
        """Energy of all nodes over the duration, J."""
        return sum(map(sum, self.metered_j))

    @property
    def state_energy_j(self) -> Mapping[NodeState, float]:
        """Energy of all nodes by what they were doing, J."""
        return _by_state(self.metered_j)

    @property
    def state_node_s(self) -> Mapping[NodeState, float]:
        """Node-seconds by what the nodes were doing."""
        return _by_state(self.metered_node_s)

    @cached_property
    def job_energies_j(self) -> array[float]:
        """Energy attributed to each job, J, by row of the recording; see `attribution`."""
        return job_energies_j(self.platform, self.recording, self.end_s)


def record_of(cluster: Cluster, recording: Recording, start_s: float, end_s: float) -> RunRecord:
    """Return the record of a run.

    Args:
        cluster: its meters are settled up to `end_s`.
        recording: what happened so far.
        start_s: simulated second at which the run began.
        end_s: the simulated second it is now.
    """
    cluster.settle(end_s)
    return RunRecord(
        platform=cluster.platform,
        recording=recording,
        start_s=start_s,
        end_s=end_s,
        metered_j=tuple(tuple(meter.state_energy_j) for meter in cluster.meters),
        metered_node_s=tuple(tuple(meter.state_node_s) for meter in cluster.meters),
    )


def _by_state(rows: tuple[tuple[float, ...], ...]) -> dict[NodeState, float]:
    return dict(zip(NODE_STATES, map(sum, zip(*rows, strict=True)), strict=True))
