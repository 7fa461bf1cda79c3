"""Measures of a run, each defined once, in the docstring of the function of its name.

Unless a definition says otherwise, times are simulated seconds; a job's wait is its start less
its submission, its run time its end less its start. Jobs "that ran" have both started and
ended, whether completed or killed. A mean over no jobs is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hpcosim_server.engine.simulation import Simulation
from hpcosim_server.physics.power import NODE_STATES, NodeState
from hpcosim_server.record.recording import STATES

Floats = NDArray[np.float64]
BOUND_S = 10.0  # of bounded slowdown
LEAST_REQUEST_S = 1e-9  # of normalised energy-delay product; a client may ask for any above 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """All that metrics are computed from.

    Attributes:
        state: int8[jobs], index into `STATES`.
        wait_s: float64[jobs that ran].
        run_s: float64[jobs that ran].
        cores: float64[jobs that ran], cores computing.
        job_energy_j: float64[jobs that ran], what is attributed to each, see `attribution`.
        least_run_s: float64[jobs that ran], expected run time on the fastest node, see
            `mean_normalised_edp`.
        duration_s: from the first submission to the last event.
        core_count: cores of the platform.
        node_count: nodes of the platform.
        energy_j: of all nodes over the duration.
        state_energy_j: the same by what the nodes did, see `power.NODE_STATES`.
        state_node_s: node-seconds by what they did.
        shutdowns: how often a node began to be switched off.
        skipped: jobs of the source left out of the workload.
    """

    state: NDArray[np.int8]
    wait_s: Floats
    run_s: Floats
    cores: Floats
    job_energy_j: Floats
    least_run_s: Floats
    duration_s: float
    core_count: int
    node_count: int
    energy_j: float
    state_energy_j: Mapping[NodeState, float]
    state_node_s: Mapping[NodeState, float]
    shutdowns: int
    skipped: int


def outcome_of(simulation: Simulation, skipped: int = 0) -> Outcome:
    """Return what happened so far, energies integrated up to now."""
    simulation.settle()
    recording, cluster = simulation.recording, simulation.cluster
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    ran = ~np.isnan(start_s) & ~np.isnan(end_s)
    submit_s = np.array(recording.submit_s)
    return Outcome(
        state=np.array(recording.state),
        wait_s=(start_s - submit_s)[ran],
        run_s=(end_s - start_s)[ran],
        cores=np.array(recording.cores, dtype=np.float64)[ran],
        job_energy_j=np.array(simulation.job_energies_j())[ran],
        least_run_s=np.array(recording.requested_s)[ran] * _least_scale(simulation),
        duration_s=simulation.now_s - simulation.start_s,
        core_count=cluster.core_count,
        node_count=len(cluster.capacity),
        energy_j=sum(meter.energy_j for meter in cluster.meters),
        state_energy_j=_by_state(meter.state_energy_j for meter in cluster.meters),
        state_node_s=_by_state(meter.state_node_s for meter in cluster.meters),
        shutdowns=simulation.power.shutdowns,
        skipped=skipped,
    )


def measure(outcome: Outcome) -> dict[str, int | float]:
    """Return every metric by name."""
    return {name: metric(outcome) for name, metric in METRICS.items()}


def jobs(outcome: Outcome) -> int:
    """Jobs submitted (field 1 of the Standard Workload Format has one for each)."""
    return len(outcome.state)


def jobs_completed(outcome: Outcome) -> int:
    """Jobs that ran to their end."""
    return _count(outcome, "completed")


def jobs_killed(outcome: Outcome) -> int:
    """Jobs ended before their end: at their requested time, by a decision, by a failed node."""
    return sum(_count(outcome, state) for state in ("timeout", "killed", "node_failed"))


def jobs_rejected(outcome: Outcome) -> int:
    """Jobs that never ran: by a decision, or because no empty cluster could hold them."""
    return _count(outcome, "rejected")


def jobs_skipped(outcome: Outcome) -> int:
    """Jobs of the whole source that the reader's rules left out; `run.json` has each rule."""
    return outcome.skipped


def makespan_s(outcome: Outcome) -> float:
    """From the first submission to the last event (Feitelson, Rudolph 1998)."""
    return outcome.duration_s


def mean_wait_s(outcome: Outcome) -> float:
    """Mean wait of the jobs that ran (Feitelson, Rudolph 1998, section 2.2)."""
    return _mean(outcome.wait_s)


def max_wait_s(outcome: Outcome) -> float:
    """Longest wait of a job that ran."""
    return float(outcome.wait_s.max(initial=0.0))


def median_wait_s(outcome: Outcome) -> float:
    """Half of the jobs that ran waited no longer (linear between neighbours)."""
    return _percentile(outcome.wait_s, 50)


def p90_wait_s(outcome: Outcome) -> float:
    """90 % of the jobs that ran waited no longer."""
    return _percentile(outcome.wait_s, 90)


def p95_wait_s(outcome: Outcome) -> float:
    """95 % of the jobs that ran waited no longer."""
    return _percentile(outcome.wait_s, 95)


def p99_wait_s(outcome: Outcome) -> float:
    """99 % of the jobs that ran waited no longer."""
    return _percentile(outcome.wait_s, 99)


def mean_response_s(outcome: Outcome) -> float:
    """Mean of wait + run time, also: turnaround, flow time (Feitelson, Rudolph 1998)."""
    return _mean(outcome.wait_s + outcome.run_s)


def mean_slowdown(outcome: Outcome) -> float:
    """Mean of (wait + run time) / run time (Feitelson, Rudolph 1998), over run times above 0."""
    ran = outcome.run_s > 0
    return _mean((outcome.wait_s[ran] + outcome.run_s[ran]) / outcome.run_s[ran])


def mean_bounded_slowdown(outcome: Outcome) -> float:
    """Mean of max(1, (wait + run time) / max(run time, 10 s)) (Feitelson 2001)."""
    response_s = outcome.wait_s + outcome.run_s
    return _mean(np.maximum(1.0, response_s / np.maximum(outcome.run_s, BOUND_S)))


def utilization(outcome: Outcome) -> float:
    """Core-seconds of the jobs that ran / core-seconds of the platform over the makespan.

    A job's cores are those it asked for, also where it holds whole nodes
    (Feitelson, Rudolph 1998).
    """
    return _ratio(float(outcome.cores @ outcome.run_s), outcome.core_count * outcome.duration_s)


def energy_j(outcome: Outcome) -> float:
    """Integral of the power of all nodes over the makespan (Lopez, Stafford, Bosque 2025)."""
    return outcome.energy_j


def wasted_energy_j(outcome: Outcome) -> float:
    """All energy not spent computing: that of nodes while idle, asleep or on the way.

    As in "Improving the Efficiency of a Deep Reinforcement Learning-Based Power Management
    System for HPC Clusters Using Curriculum Learning", section 5.
    """
    return sum(
        energy_j for state, energy_j in outcome.state_energy_j.items() if state != "computing"
    )


def computing_energy_j(outcome: Outcome) -> float:
    """Energy of nodes on which a job ran."""
    return outcome.state_energy_j["computing"]


def idle_energy_j(outcome: Outcome) -> float:
    """Energy of nodes that were on while no job ran on them, held for one or not."""
    return outcome.state_energy_j["idle"]


def sleeping_energy_j(outcome: Outcome) -> float:
    """Energy of sleeping nodes."""
    return outcome.state_energy_j["sleeping"]


def switching_on_energy_j(outcome: Outcome) -> float:
    """Energy of nodes that were being switched on."""
    return outcome.state_energy_j["switching_on"]


def switching_off_energy_j(outcome: Outcome) -> float:
    """Energy of nodes that were being switched off."""
    return outcome.state_energy_j["switching_off"]


def edp_js(outcome: Outcome) -> float:
    """Energy-delay product: energy x makespan (Lopez, Stafford, Bosque 2025)."""
    return outcome.energy_j * outcome.duration_s


def mean_normalised_edp(outcome: Outcome) -> float:
    """Mean of energy / t x response / t, in W, where t is the least expected run time of a job.

    Esmaili, Pedram, "Energy-aware scheduling of jobs in heterogeneous cluster systems using deep
    reinforcement learning", section II-A. The energy is what `jobs.csv` attributes to the job, the
    response its wait + run time, and t its requested time on the fastest node: times the speed of
    the slowest node, where requested times hold, over that of the fastest (section 5.3 of the
    specification). Jobs with a t below 1 ns are left out.
    """
    known = outcome.least_run_s >= LEAST_REQUEST_S
    response_s = (outcome.wait_s + outcome.run_s)[known]
    least_s = outcome.least_run_s[known]
    return _mean(outcome.job_energy_j[known] / least_s * (response_s / least_s))


def node_shutdowns(outcome: Outcome) -> int:
    """How often a node was switched off, as in the paper of `wasted_energy_j`."""
    return outcome.shutdowns


def job_filling_rate(outcome: Outcome) -> float:
    """Node-seconds computing / node-seconds switched on, computing or idle.

    As in the paper of `wasted_energy_j`.
    """
    on_s = outcome.state_node_s["computing"] + outcome.state_node_s["idle"]
    return _ratio(outcome.state_node_s["computing"], on_s)


def _least_scale(simulation: Simulation) -> float:
    """Return what a requested time is multiplied by on the fastest node."""
    platform = simulation.cluster.platform
    return platform.slowest_ops_per_s / max(group.ops_per_s for group in platform.nodes)


def _by_state(of_meters: Iterable[list[float]]) -> dict[NodeState, float]:
    return dict(zip(NODE_STATES, map(sum, zip(*of_meters, strict=True)), strict=True))


def _count(outcome: Outcome, state: str) -> int:
    return int((outcome.state == STATES.index(state)).sum())


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


METRICS: Mapping[str, Callable[[Outcome], int | float]] = {
    metric.__name__: metric
    for metric in (
        jobs,
        jobs_completed,
        jobs_killed,
        jobs_rejected,
        jobs_skipped,
        makespan_s,
        mean_wait_s,
        median_wait_s,
        p90_wait_s,
        p95_wait_s,
        p99_wait_s,
        max_wait_s,
        mean_response_s,
        mean_slowdown,
        mean_bounded_slowdown,
        utilization,
        energy_j,
        computing_energy_j,
        idle_energy_j,
        sleeping_energy_j,
        switching_on_energy_j,
        switching_off_energy_j,
        wasted_energy_j,
        edp_js,
        mean_normalised_edp,
        node_shutdowns,
        job_filling_rate,
    )
}
