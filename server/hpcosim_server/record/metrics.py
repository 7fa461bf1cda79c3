"""Metrics of a run, in groups. The docstring of each group defines its metrics.

To add a metric, add its value to the dictionary of a group and its definition to the docstring.

Times are in simulated seconds. For a job, response = end - submission, run time = time from the
start of its last run to its end without suspensions, and wait = response - run time: the wait of a
job that was requeued or suspended includes its earlier runs and its suspensions. The jobs that ran
are the jobs that have started and ended, completed or killed. The mean, percentile or maximum over
no jobs is 0, and so is a ratio with denominator 0.

The definitions cite these sources:

- Feitelson, Rudolph 1998: "Metrics and Benchmarking for Parallel Job Scheduling".

- Feitelson 2001: "Metrics for Parallel Job Scheduling and Their Convergence".

- Lopez, Stafford, Bosque 2025: the platform model; see the specification of the protocol.

- Curriculum learning: "Improving the Efficiency of a Deep Reinforcement Learning-Based Power
  Management System for HPC Clusters Using Curriculum Learning".

- Esmaili, Pedram: "Energy-aware scheduling of jobs in heterogeneous cluster systems using deep
  reinforcement learning".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hpcosim_server.physics.power import NodeState
from hpcosim_server.record.economics import J_PER_KWH
from hpcosim_server.record.forecasts import start_forecasts
from hpcosim_server.record.interruptions import interruptions
from hpcosim_server.record.jobs_that_ran import Floats, JobsThatRan, Mask, jobs_that_ran
from hpcosim_server.record.recording import STATES
from hpcosim_server.record.run_record import RunRecord

Metrics = dict[str, int | float]
BOUND_S = 10.0
"""Threshold of the bounded slowdown, s."""

MIN_EXPECTED_S = 1e-9
"""Minimum expected run time in the normalised energy-delay product, s: it avoids overflow."""


def measure(record: RunRecord, skipped: int = 0) -> Metrics:
    """Return all metrics by name, in the order of `metrics.json`.

    Args:
        record: a run, complete or not.
        skipped: value of `jobs_skipped`.
    """
    ran = jobs_that_ran(record)
    return {
        **job_counts(record, skipped),
        "makespan_s": makespan_s(record),
        **waits(ran),
        **slowdowns(ran),
        "utilization": utilization(record, ran),
        **energies(record),
        **costs(record),
        "peak_power_w": peak_power_w(record),
        **lateness(record, ran),
        "mean_normalised_edp": mean_normalised_edp(record, ran),
        **node_use(record),
        **start_forecasts(record),
        **interruptions(record),
    }


def job_counts(record: RunRecord, skipped: int = 0, among: Mask | None = None) -> Metrics:
    """Return the numbers of jobs by final state.

    Args:
        record: a run, complete or not.
        skipped: value of `jobs_skipped`.
        among: bool[jobs], the jobs to count, by row of the recording. None: all jobs.

    Returns:
        jobs: Number of submitted jobs, including rejected jobs and jobs that are not over.
        jobs_completed: Number of jobs with final state `completed`.
        jobs_killed: Number of jobs with final state `timeout` (killed at the requested time),
            `killed` (by a decision, also before the start) or `node_failed`.
        jobs_rejected: Number of jobs with final state `rejected`: by a decision, or at submission
            because the empty cluster cannot run them.
        jobs_skipped: Number of jobs that the workload reader dropped in the selected window.
            `skipped` in `run.json` has the counts by rule of the reader.
    """
    states = np.array(record.recording.state)
    states = states if among is None else states[among]
    by_state = dict(zip(STATES, np.bincount(states, minlength=len(STATES)).tolist(), strict=True))
    return {
        "jobs": len(states),
        "jobs_completed": by_state["completed"],
        "jobs_killed": by_state["timeout"] + by_state["killed"] + by_state["node_failed"],
        "jobs_rejected": by_state["rejected"],
        "jobs_skipped": skipped,
    }


def makespan_s(record: RunRecord) -> float:
    """Return the makespan: last event - start of the simulation, s.

    The simulation starts at the first submission, or earlier at the scenario's initial time. In an
    incomplete run, the current time replaces the last event. Source: Feitelson, Rudolph 1998.
    """
    return record.duration_s


def waits(ran: JobsThatRan) -> Metrics:
    """Return statistics of the wait.

    The wait is (start of the last run - submission) + time for which the last run was suspended.
    Percentiles interpolate linearly between order statistics.

    Returns:
        mean_wait_s: Mean wait of the jobs that ran, s. Source: Feitelson, Rudolph 1998, section
            2.2.
        median_wait_s: Median wait of the jobs that ran, s.
        p90_wait_s: 90th percentile of the wait of the jobs that ran, s.
        p95_wait_s: 95th percentile of the wait of the jobs that ran, s.
        p99_wait_s: 99th percentile of the wait of the jobs that ran, s.
        max_wait_s: Maximum wait of the jobs that ran, s.
    """
    return {
        "mean_wait_s": _mean(ran.wait_s),
        "median_wait_s": _percentile(ran.wait_s, 50),
        "p90_wait_s": _percentile(ran.wait_s, 90),
        "p95_wait_s": _percentile(ran.wait_s, 95),
        "p99_wait_s": _percentile(ran.wait_s, 99),
        "max_wait_s": float(ran.wait_s.max(initial=0.0)),
    }


def slowdowns(ran: JobsThatRan) -> Metrics:
    """Return statistics of the response and the slowdown.

    Returns:
        mean_response_s: Mean response (wait + run time) of the jobs that ran, s; also called
            turnaround time or flow time. Source: Feitelson, Rudolph 1998.
        mean_slowdown: Mean of response / run time over the jobs that ran for more than 0 s; at
            least 1. Source: Feitelson, Rudolph 1998.
        mean_bounded_slowdown: Mean of max(1, response / max(run time, 10 s)) over the jobs that
            ran. Source: Feitelson 2001.
    """
    took_time = ran.run_s > 0
    bounded = np.maximum(1.0, ran.response_s / np.maximum(ran.run_s, BOUND_S))
    return {
        "mean_response_s": _mean(ran.response_s),
        "mean_slowdown": _mean(ran.response_s[took_time] / ran.run_s[took_time]),
        "mean_bounded_slowdown": _mean(bounded),
    }


def utilization(record: RunRecord, ran: JobsThatRan) -> float:
    """Return the utilization of the platform, 0 to 1.

    sum(requested cores * run time) over the jobs that ran / (cores of the platform * makespan).
    Requested cores count, also if a job holds whole nodes. If jobs were requeued or suspended, all
    their runs count, also those without success. Source: Feitelson, Rudolph 1998.
    """
    recording = record.recording
    cores, run_s = np.array(recording.cores, dtype=np.float64), ran.run_s
    if recording.has_single_runs:
        cores = cores[ran.row]
    else:
        periods = recording.periods
        run_s = np.array(periods.end_s) - np.array(periods.start_s)
        ended = ~np.isnan(run_s)
        cores, run_s = cores[np.array(periods.row)[ended]], run_s[ended]
    return _ratio(float(cores @ run_s), record.platform.core_count * record.duration_s)


def energies(record: RunRecord) -> Metrics:
    """Return the energy of all nodes, in total and by node state, and the energy-delay product.

    A node that is on is computing while it runs a task and idle otherwise. The five node states
    add up to the total.

    Returns:
        energy_j: Integral of the power of all nodes over the makespan, J. Source: Lopez, Stafford,
            Bosque 2025.
        computing_energy_j: Energy of all nodes while computing, J.
        idle_energy_j: Energy of all nodes while idle, J. A node is also idle between its
            allocation to a job and the start of the job.
        sleeping_energy_j: Energy of all nodes while sleeping, J.
        switching_on_energy_j: Energy of all nodes while being switched on, J.
        switching_off_energy_j: Energy of all nodes while being switched off, J.
        wasted_energy_j: Energy of all nodes while not computing, J: energy_j - computing_energy_j.
            Source: curriculum learning, section 5.
        energy_kwh: The energy of energy_j in kWh: energy_j / 3,600,000.
        wasted_energy_kwh: The energy of wasted_energy_j in kWh.
        edp_js: Energy-delay product, energy_j * makespan_s, J s. Source: Lopez, Stafford, Bosque
            2025.
    """
    by_state = record.state_energy_j
    wasted_j = _wasted(by_state)
    return {
        "energy_j": record.energy_j,
        **{f"{state}_energy_j": by_state[state] for state in by_state if state != "down"},
        "wasted_energy_j": wasted_j,
        "energy_kwh": record.energy_j / J_PER_KWH,
        "wasted_energy_kwh": wasted_j / J_PER_KWH,
        "edp_js": record.energy_j * record.duration_s,
    }


def costs(record: RunRecord) -> Metrics:
    """Return the cost and the CO2 emissions of the energy of all nodes.

    The metrics are there if the scenario states a price or a carbon intensity.

    Returns:
        energy_cost: Integral of power * price over the makespan, in the currency of the scenario
            (`economics` in `run.json`). Only with `economics.price_per_kwh` or `tariff`.
        wasted_energy_cost: Part of energy_cost while nodes are not computing, see wasted_energy_j.
        co2_kg: Integral of power * carbon intensity over the makespan, kg of CO2. Only with
            `economics.co2_g_per_kwh` or `series`.
        wasted_co2_kg: Part of co2_kg while nodes are not computing, kg.
    """
    found: Metrics = {}
    if cost := record.state_cost:
        found |= {"energy_cost": sum(cost.values()), "wasted_energy_cost": _wasted(cost)}
    if co2_g := record.state_co2_g:
        found |= {"co2_kg": sum(co2_g.values()) / 1000, "wasted_co2_kg": _wasted(co2_g) / 1000}
    return found


def peak_power_w(record: RunRecord) -> float:
    """Return the greatest power of all nodes together at any time, W."""
    return record.peak_power_w


def lateness(record: RunRecord, ran: JobsThatRan) -> Metrics:
    """Return how jobs met their deadlines. The metrics are there if a job has a deadline.

    Returns:
        jobs_late: Number of the jobs that ran and ended after their deadline.
        max_lateness_s: Maximum of end - deadline over the jobs that ran and have a deadline, s;
            below 0 if all ended before their deadlines, 0 if none ran.
    """
    deadline_s = np.array(record.recording.deadline_s)
    if not (deadline_s < np.inf).any():
        return {}
    late_s = (np.array(record.recording.end_s) - deadline_s)[ran.row]
    late_s = late_s[late_s > -np.inf]
    return {
        "jobs_late": int((late_s > 0.0).sum()),
        "max_lateness_s": float(late_s.max()) if len(late_s) else 0.0,
    }


def mean_normalised_edp(record: RunRecord, ran: JobsThatRan) -> float:
    """Return the mean normalised energy-delay product of jobs, W.

    Mean of (energy / t) * (response / t) over the jobs that ran with t >= 1 ns. The energy of a
    job is its `energy_j` in `jobs.csv`. t is its expected run time on the fastest node: requested
    time * speed of the slowest node / speed of the fastest node, because requested times hold on
    the slowest node (section 5.3 of the specification). Source: Esmaili, Pedram, section II-A.
    """
    platform = record.platform
    scale = platform.slowest_ops_per_s / max(group.ops_per_s for group in platform.nodes)
    expected_s = np.array(record.recording.requested_s)[ran.row] * scale
    counted = expected_s >= MIN_EXPECTED_S
    expected_s, response_s = expected_s[counted], ran.response_s[counted]
    energy_j = np.array(record.job_energies_j)[ran.row][counted]
    return _mean(energy_j / expected_s * (response_s / expected_s))


def node_use(record: RunRecord) -> Metrics:
    """Return statistics of the node states.

    Returns:
        node_shutdowns: Number of times that a node began to switch off, over all nodes. Source:
            curriculum learning.
        job_filling_rate: Node-seconds computing / (node-seconds computing + node-seconds idle), 0
            to 1. Source: curriculum learning.
    """
    node_s = record.state_node_s
    return {
        "node_shutdowns": record.recording.count_shutdowns(),
        "job_filling_rate": _ratio(node_s["computing"], node_s["computing"] + node_s["idle"]),
    }


def _wasted(by_state: Mapping[NodeState, float]) -> float:
    """Return the part of a sum over node states that is not computing."""
    return sum(part for state, part in by_state.items() if state != "computing")


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, percent: float) -> float:
    """Return a percentile with the bits of `np.percentile`, which imports `numpy.ma` for it."""
    if not len(values):
        return 0.0
    at = percent / 100 * (len(values) - 1)
    below = int(at)
    above = min(below + 1, len(values) - 1)
    ordered = np.partition(values, (below, above))
    low, high, share = float(ordered[below]), float(ordered[above]), at - below
    if share < 0.5:
        return low + (high - low) * share
    return high - (high - low) * (1 - share)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
