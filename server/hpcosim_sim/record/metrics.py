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
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.physics.power import RECORDED_STATES, NodeState
from hpcosim_sim.record.economics import J_PER_KWH
from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.run_record import RunRecord

# Metrics of interruptions: requeues, suspensions, lost work, and failures of nodes.

INTERRUPTED_STATES = ("failed", "cancelled", "preempted", "deadline")
"""Final states whose numbers of jobs are metrics if there are such jobs."""

SUSPENDED = [code for code, why in enumerate(PERIOD_ENDS) if why.startswith("suspended")]
DOWN = RECORDED_STATES.index("down")


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


LEAD_CLASSES_S: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "up_to_1h": (-np.inf, 3600.0),
        "1h_to_6h": (3600.0, 21_600.0),
        "6h_to_24h": (21_600.0, 86_400.0),
        "over_24h": (86_400.0, np.inf),
    }
)
"""Classes of lead times, s, by name: above the first bound, up to the second one."""


def interruptions(record: RunRecord) -> dict[str, int | float]:
    """Return how jobs and nodes were interrupted. A metric is there if it has something to count.

    Returns:
        jobs_failed: Number of jobs with final state `failed`: they ran to their end and failed.
        jobs_cancelled: Number of jobs with final state `cancelled`: by their user or an
            administrator, or because a dependency could never be met.
        jobs_preempted: Number of jobs with final state `preempted`.
        jobs_deadline: Number of jobs with final state `deadline`: they could not meet it.
        requeues: Number of requeues of all jobs, whatever the cause.
        requeues_node_failed: Number of requeues after a failure of a node.
        preemptions: Number of requeues by the scheduler, plus jobs_preempted.
        suspensions: Number of suspensions of all jobs.
        mean_suspended_s: Mean suspended time of the jobs that were suspended, s.
        lost_core_s: Sum of `lost_core_s` in `jobs.csv`, core-seconds: computing that was lost in
            requeues, in failures of nodes and by preemption. Checkpoints reduce it.
        node_failures: Number of failures of nodes.
        node_availability: Node-seconds in which nodes were not down / node-seconds of the run, 0 to
            1. Only if a node failed.
    """
    recording = record.recording
    counts: dict[str, int | float] = {
        f"jobs_{state}": recording.state.count(STATES.index(state)) for state in INTERRUPTED_STATES
    }
    requeues, suspended_s = recording.requeues, recording.suspended_until(record.end_s)
    failures = recording.power_state.count(DOWN)
    counts |= {
        "requeues": sum(requeues.values()),
        "requeues_node_failed": requeues.get("node_failed", 0),
        "preemptions": requeues.get("decision", 0) + counts["jobs_preempted"],
        "suspensions": sum(map(recording.periods.why.count, SUSPENDED)),
        "mean_suspended_s": sum(suspended_s.values()) / max(len(suspended_s), 1),
        "lost_core_s": sum(recording.lost_core_s.values()),
        "node_failures": failures,
    }
    found = {name: value for name, value in counts.items() if value}
    if failures:
        node_s = record.platform.node_count * record.duration_s
        down_s = record.state_node_s["down"]
        found["node_availability"] = 1.0 - down_s / node_s if node_s else 0.0
    return found


Metrics = dict[str, int | float]
BOUND_S = 10.0
"""Threshold of the bounded slowdown, s."""

TIMER_ERROR_S = 1e-6
"""Rounding error of run times, which are differences of simulation times, s."""

MIN_EXPECTED_S = 1e-9
"""Minimum expected run time in the normalised energy-delay product, s: it avoids overflow."""


def measure(record: RunRecord, skipped: int = 0) -> Metrics:
    """Return all metrics by name, in the order of `metrics.json`."""
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
        **{name: count for name, count in overruns(record, ran).items() if count},
        "mean_normalised_edp": mean_normalised_edp(record, ran),
        **node_use(record),
        **start_forecasts(record),
        **interruptions(record),
    }


def job_counts(record: RunRecord, skipped: int = 0, among: Mask | None = None) -> Metrics:
    """Return the numbers of jobs by final state.

    Args:
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


OVERRUNS = ("jobs_timed_out", "jobs_over_requested_time")
"""Names of the metrics of `overruns`. They are left out of `metrics.json` if they are 0."""


def overruns(record: RunRecord, ran: JobsThatRan) -> Metrics:
    """Return how many jobs needed more than their requested time.

    Returns:
        jobs_timed_out: Number of jobs with final state `timeout`: killed at the requested time.
        jobs_over_requested_time: Number of jobs that ran longer than requested and were not killed
            for it.
    """
    recording = record.recording
    timed_out = np.array(recording.state)[ran.row] == STATES.index("timeout")
    over = ran.run_s > np.array(recording.requested_s)[ran.row] + TIMER_ERROR_S
    counts = int(timed_out.sum()), int((over & ~timed_out).sum())
    return dict(zip(OVERRUNS, counts, strict=True))


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


def energies(record: RunRecord) -> dict[str, int | float]:
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


def costs(record: RunRecord) -> dict[str, int | float]:
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
    found: dict[str, int | float] = {}
    if cost := record.state_cost:
        found |= {"energy_cost": sum(cost.values()), "wasted_energy_cost": _wasted(cost)}
    if co2_g := record.state_co2_g:
        found |= {"co2_kg": sum(co2_g.values()) / 1000, "wasted_co2_kg": _wasted(co2_g) / 1000}
    return found


def _wasted(by_state: Mapping[NodeState, float]) -> float:
    """Return the part of a sum over node states that is not computing."""
    return sum(part for state, part in by_state.items() if state != "computing")


class JobsThatRan(NamedTuple):
    """Columns of the jobs that ran, in order of submission.

    Attributes:
        row: int64[jobs], row in the recording.
        wait_s: float64[jobs], wait, s.
        run_s: float64[jobs], run time, s.
    """

    row: NDArray[np.int64]
    wait_s: Floats
    run_s: Floats

    @property
    def response_s(self) -> Floats:
        """float64[jobs], response = wait + run time, s."""
        return self.wait_s + self.run_s


def jobs_that_ran(record: RunRecord, among: Mask | None = None) -> JobsThatRan:
    """Return the jobs of a run that have started and ended.

    Args:
        among: bool[jobs], the jobs to choose from, by row of the recording. None: all jobs.
    """
    recording = record.recording
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    ran = ~np.isnan(start_s) & ~np.isnan(end_s)
    row = np.flatnonzero(ran if among is None else ran & among)
    submit_s = np.array(recording.submit_s)
    wait_s, run_s = (start_s - submit_s)[row], (end_s - start_s)[row]
    if in_last_run_s := recording.last_run_suspended_s:
        suspended_s = np.array([in_last_run_s.get(each, 0.0) for each in row.tolist()])
        wait_s, run_s = wait_s + suspended_s, run_s - suspended_s
    return JobsThatRan(row, wait_s, run_s)


def start_forecasts(record: RunRecord) -> dict[str, int | float]:
    """Return the errors of the forecasts of start times.

    A forecast is an explanation with an expected start, of a job that has started. Its error is
    start - expected start: above 0 if the job started later than expected. Its lead time is
    expected start - time of the explanation, known when the forecast is made: classes by the real
    start would collect late jobs in the classes of long lead times. Every forecast counts once, so
    a job with several forecasts counts several times. The metrics are there if the scheduler sent
    an expected start (`--explain`) of a job that has started, and those of a class if it has a
    forecast.

    Returns:
        start_forecasts: Number of forecasts.
        mean_start_error_s: Mean error (bias) of the forecasts, s. Above 0: jobs started later than
            expected.
        mean_abs_start_error_s: Mean absolute error of the forecasts, s.
        start_forecasts_up_to_1h: Number of forecasts with a lead time of 1 h or less.
        mean_start_error_up_to_1h_s: Mean error of these forecasts, s.
        mean_abs_start_error_up_to_1h_s: Mean absolute error of these forecasts, s.
        start_forecasts_1h_to_6h: Number of forecasts with a lead time above 1 h and up to 6 h.
        mean_start_error_1h_to_6h_s: Mean error of these forecasts, s.
        mean_abs_start_error_1h_to_6h_s: Mean absolute error of these forecasts, s.
        start_forecasts_6h_to_24h: Number of forecasts with a lead time above 6 h and up to 24 h.
        mean_start_error_6h_to_24h_s: Mean error of these forecasts, s.
        mean_abs_start_error_6h_to_24h_s: Mean absolute error of these forecasts, s.
        start_forecasts_over_24h: Number of forecasts with a lead time above 24 h.
        mean_start_error_over_24h_s: Mean error of these forecasts, s.
        mean_abs_start_error_over_24h_s: Mean absolute error of these forecasts, s.
    """
    said = record.recording.explanations
    expected_s = np.array(said.expected_start_s)
    if np.isnan(expected_s).all():
        return {}
    start_s = np.array(record.recording.start_s)[np.array(said.row)]
    counted = ~np.isnan(expected_s) & ~np.isnan(start_s)
    lead_s = expected_s - np.array(said.time_s)
    return errors_by_lead((start_s - expected_s)[counted], lead_s[counted])


def errors_by_lead(error_s: Floats, lead_s: Floats) -> dict[str, int | float]:
    """Return the metrics of `start_forecasts` for forecasts.

    Args:
        error_s: float64[forecasts], start - expected start, s.
        lead_s: float64[forecasts], expected start - time of the forecast, s.
    """
    found = _errors(error_s)
    for name, (above_s, to_s) in LEAD_CLASSES_S.items():
        found |= _errors(error_s[(lead_s > above_s) & (lead_s <= to_s)], name)
    return found


def _errors(error_s: Floats, lead: str = "") -> dict[str, int | float]:
    """Return number, mean and mean absolute value of errors, with the lead time in the names."""
    if not len(error_s):
        return {}
    of = f"_{lead}" if lead else ""
    return {
        f"start_forecasts{of}": len(error_s),
        f"mean_start_error{of}_s": float(error_s.mean()),
        f"mean_abs_start_error{of}_s": float(np.abs(error_s).mean()),
    }
