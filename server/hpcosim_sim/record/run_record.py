"""A run as plain data, without its simulation: the input of metrics, result files and timelines."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from hpcosim_protocol import Platform
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.power import NODE_STATES, NodeState
from hpcosim_sim.record.attribution import job_energies_j
from hpcosim_sim.record.economics import UNKNOWN, Rates, rated_by_state
from hpcosim_sim.record.recording import Recording


@dataclass(frozen=True)
class RunRecord:
    """A run up to `end_s`, complete or not. Readers leave it unchanged.

    The record shares the recording with the simulation. It is valid until the simulation advances.

    Attributes:
        platform: description of the cluster.
        recording: jobs and changes of jobs and nodes.
        start_s: initial simulation time, s.
        end_s: simulation time up to which the run is recorded, s.
        metered_j: [node kinds, node states], metered energy, J; see `Cluster.kinds` and
            `NODE_STATES`.
        metered_node_s: [node kinds, node states], node-seconds.
        peak_power_w: greatest power of all nodes at any time, W.
        rates: price and carbon intensity of the energy.
    """

    platform: Platform
    recording: Recording
    start_s: float
    end_s: float
    metered_j: tuple[tuple[float, ...], ...]
    metered_node_s: tuple[tuple[float, ...], ...]
    peak_power_w: float
    rates: Rates = UNKNOWN

    @property
    def duration_s(self) -> float:
        """Simulated duration, `end_s` - `start_s`, s."""
        return self.end_s - self.start_s

    @property
    def energy_j(self) -> float:
        """Energy of all nodes over the duration, J."""
        return sum(map(sum, self.metered_j))

    @property
    def state_energy_j(self) -> Mapping[NodeState, float]:
        """Energy of all nodes by node state, J."""
        return _by_state(self.metered_j)

    @property
    def state_node_s(self) -> Mapping[NodeState, float]:
        """Node-seconds by node state."""
        return _by_state(self.metered_node_s)

    @cached_property
    def state_cost(self) -> Mapping[NodeState, float]:
        """Cost of the energy by node state, in the currency of the rates; empty: no price."""
        return rated_by_state(self, self.rates.price_per_kwh)

    @cached_property
    def state_co2_g(self) -> Mapping[NodeState, float]:
        """CO2 emissions of the energy by node state, g; empty: no carbon intensity."""
        return rated_by_state(self, self.rates.co2_g_per_kwh)

    @cached_property
    def job_energies_j(self) -> array[float]:
        """Energy attributed to each job, J, by row of the recording; see `attribution`."""
        return job_energies_j(self.platform, self.recording, self.end_s)


def record_of(
    cluster: Cluster, recording: Recording, start_s: float, end_s: float, rates: Rates = UNKNOWN
) -> RunRecord:
    """Return the record of a run.

    Args:
        cluster: the cluster; the function settles its meters up to `end_s`.
        recording: the recording so far.
        start_s: initial simulation time, s.
        end_s: current simulation time, s.
        rates: price and carbon intensity of the energy.
    """
    cluster.settle(end_s)
    return RunRecord(
        platform=cluster.platform,
        recording=recording,
        start_s=start_s,
        end_s=end_s,
        metered_j=tuple(tuple(meter.state_energy_j) for meter in cluster.meters),
        metered_node_s=tuple(tuple(meter.state_node_s) for meter in cluster.meters),
        peak_power_w=cluster.peak_w,
        rates=rates,
    )


def _by_state(rows: tuple[tuple[float, ...], ...]) -> dict[NodeState, float]:
    return dict(zip(NODE_STATES, map(sum, zip(*rows, strict=True)), strict=True))
