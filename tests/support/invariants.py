"""What must hold in every simulation, at any time."""

from __future__ import annotations

import math
from collections import Counter

from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.physics.power import NODE_STATES
from hpcosim_server.record.recording import STATES
from hpcosim_server.record.timeline import node_spans


def check_invariants(simulation: Simulation) -> None:
    """Fail if anything in a simulation can't be."""
    simulation.settle()
    _check_cores(simulation)
    _check_jobs(simulation)
    _check_nodes_over_time(simulation)


def _check_cores(simulation: Simulation) -> None:
    """No core is held twice, none is lost."""
    cluster = simulation.cluster
    held: Counter[int] = Counter()
    for job in (*simulation._running.values(), *simulation._allocated.values()):
        for node, cores in zip(job.nodes, job.held, strict=True):
            held[node] += cores
    for node, capacity in enumerate(cluster.capacity):
        assert 0 <= cluster.free[node] <= capacity
        assert cluster.free[node] + held[node] == capacity, f"node {node} lost or won cores"


def _check_jobs(simulation: Simulation) -> None:
    """Every job submitted is in one place, and its times are in order."""
    recording = simulation.recording
    states = Counter(STATES[code] for code in recording.state)
    assert states["waiting"] == len(simulation._waiting) + len(simulation._allocated)
    assert states["running"] == len(simulation._running)
    assert states.total() - states["waiting"] - states["running"] == recording.over
    for row in range(len(recording)):
        submit_s, start_s = recording.submit_s[row], recording.start_s[row]
        end_s = recording.end_s[row]
        assert submit_s <= simulation.now_s
        assert math.isnan(start_s) or submit_s <= start_s
        assert math.isnan(end_s) or math.isnan(start_s) or start_s <= end_s
        if not math.isnan(start_s):
            assert sum(recording.tasks_of(row)) == recording.cores[row]


def _check_nodes_over_time(simulation: Simulation) -> None:
    """Every node is in one state at any time; times and energies by state are the metered ones."""
    cluster = simulation.cluster
    energy_j, time_s = dict.fromkeys(NODE_STATES, 0.0), dict.fromkeys(NODE_STATES, 0.0)
    spans = node_spans(simulation.record())
    last_end_s = dict.fromkeys(range(len(cluster.capacity)), simulation.start_s)
    for span in spans:
        assert span.start_s < span.end_s
        node_s = (span.end_s - span.start_s) * len(span.nodes)
        energy_j[span.state] += span.power_w * node_s
        time_s[span.state] += node_s
        for node in span.nodes:
            assert last_end_s[node] == span.start_s, f"node {node} has a gap or an overlap"
            last_end_s[node] = span.end_s
    assert set(last_end_s.values()) == {simulation.now_s}
    for place, state in enumerate(NODE_STATES):
        metered_j = sum(meter.state_energy_j[place] for meter in cluster.meters)
        metered_s = sum(meter.state_node_s[place] for meter in cluster.meters)
        assert math.isclose(energy_j[state], metered_j, rel_tol=1e-11, abs_tol=1e-6), state
        assert math.isclose(time_s[state], metered_s, rel_tol=1e-11, abs_tol=1e-6), state
    all_s = (simulation.now_s - simulation.start_s) * len(cluster.capacity)
    assert math.isclose(sum(time_s.values()), all_s, rel_tol=1e-11, abs_tol=1e-6)
