"""Metrics of a run, in groups. The docstring of a group defines each of its metrics.

To add a metric, add it to a group: its definition to the docstring, its value to the dictionary.

Unless a definition says otherwise, times are simulated seconds; a job's wait is its start less
its submission, its run time its end less its start. Jobs "that ran" have both started and
ended, whether completed or killed. A mean over no jobs is 0.

Sources that several definitions name: Feitelson, Rudolph 1998, "Metrics and Benchmarking for
Parallel Job Scheduling"; Lopez, Stafford, Bosque 2025; "curriculum learning": "Improving the
Efficiency of a Deep Reinforcement Learning-Based Power Management System for HPC Clusters Using
Curriculum Learning".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_server.record.recording import STATES
from hpcosim_server.record.run_record import RunRecord

Floats = NDArray[np.float64]
Metrics = dict[str, int | float]
BOUND_S = 10.0  # of bounded slowdown
LEAST_REQUEST_S = 1e-9  # of normalised energy-delay product; a client may ask for any above 0


def measure(record: RunRecord, skipped: int = 0) -> Metrics:
    """Return every metric by name.

    Args:
        record: a run, finished or not.
        skipped: jobs of the source that are not in the workload.
    """
    ran = jobs_that_ran(record)
    return {
        **job_counts(record, skipped),
        "makespan_s": makespan_s(record),
        **waits(ran),
        **slowdowns(ran),
        "utilization": utilization(record, ran),
        **energies(record),
        "mean_normalised_edp": mean_normalised_edp(record, ran),
        **node_use(record),
    }


class JobsThatRan(NamedTuple):
    """Columns of the jobs that ran, in order of submission.

    Attributes:
        row: int64[jobs], row in the recording.
        wait_s: float64[jobs].
        run_s: float64[jobs].
    """

    row: NDArray[np.int64]
    wait_s: Floats
    run_s: Floats

    @property
    def response_s(self) -> Floats:
        """Wait + run time, s: float64[jobs]."""
        return self.wait_s + self.run_s


def job_counts(record: RunRecord, skipped: int = 0) -> Metrics:
    """Count the jobs by how they ended.

    Args:
        record: the run.
        skipped: value of `jobs_skipped`.

    Returns:
        jobs: jobs submitted (field 1 of the Standard Workload Format has one for each).
        jobs_completed: jobs that ran to their end.
        jobs_killed: jobs ended before their end: at their requested time, by a decision, by a
            failed node.
        jobs_rejected: jobs that never ran: by a decision, or because no empty cluster could hold
            them.
        jobs_skipped: jobs of the whole source that the reader's rules left out; `run.json` has
            each rule.
    """
    counts = np.bincount(np.array(record.recording.state), minlength=len(STATES)).tolist()
    by_state = dict(zip(STATES, counts, strict=True))
    return {
        "jobs": len(record.recording),
        "jobs_completed": by_state["completed"],
        "jobs_killed": by_state["timeout"] + by_state["killed"] + by_state["node_failed"],
        "jobs_rejected": by_state["rejected"],
        "jobs_skipped": skipped,
    }


def makespan_s(record: RunRecord) -> float:
    """Return the time from the first submission to the last event (Feitelson, Rudolph 1998), s."""
    return record.duration_s


def waits(ran: JobsThatRan) -> Metrics:
    """Return how long jobs waited.

    Returns:
        mean_wait_s: mean wait of the jobs that ran (Feitelson, Rudolph 1998, section 2.2).
        median_wait_s: half of the jobs that ran waited no longer; this and the other percentiles
            are linear between neighbours.
        p90_wait_s: 90 % of the jobs that ran waited no longer.
        p95_wait_s: 95 % of the jobs that ran waited no longer.
        p99_wait_s: 99 % of the jobs that ran waited no longer.
        max_wait_s: longest wait of a job that ran.
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
    """Return how much longer jobs took than they ran.

    Returns:
        mean_response_s: mean of wait + run time, also called turnaround or flow time (Feitelson,
            Rudolph 1998).
        mean_slowdown: mean of (wait + run time) / run time over run times above 0 (Feitelson,
            Rudolph 1998).
        mean_bounded_slowdown: mean of max(1, (wait + run time) / max(run time, 10 s)) (Feitelson
            2001).
    """
    took_time = ran.run_s > 0
    bounded = np.maximum(1.0, ran.response_s / np.maximum(ran.run_s, BOUND_S))
    return {
        "mean_response_s": _mean(ran.response_s),
        "mean_slowdown": _mean(ran.response_s[took_time] / ran.run_s[took_time]),
        "mean_bounded_slowdown": _mean(bounded),
    }


def utilization(record: RunRecord, ran: JobsThatRan) -> float:
    """Return the share of the platform that the jobs that ran used, from 0 to 1.

    Core-seconds of the jobs that ran / core-seconds of the platform over the makespan. A job's
    cores are those it asked for, also where it holds whole nodes (Feitelson, Rudolph 1998).
    """
    cores = np.array(record.recording.cores, dtype=np.float64)[ran.row]
    return _ratio(float(cores @ ran.run_s), record.platform.core_count * record.duration_s)


def energies(record: RunRecord) -> Metrics:
    """Return the energy of all nodes, J, and the energy-delay product.

    Returns:
        energy_j: integral of the power of all nodes over the makespan (Lopez, Stafford, Bosque
            2025).
        computing_energy_j: energy of nodes on which a job ran.
        idle_energy_j: energy of nodes that were on while no job ran on them, held for one or not.
        sleeping_energy_j: energy of sleeping nodes.
        switching_on_energy_j: energy of nodes that were being switched on.
        switching_off_energy_j: energy of nodes that were being switched off.
        wasted_energy_j: energy of nodes that were not computing: idle, asleep or being switched
            (curriculum learning, section 5).
        edp_js: energy-delay product, J s: energy x makespan (Lopez, Stafford, Bosque 2025).
    """
    by_state = record.state_energy_j
    return {
        "energy_j": record.energy_j,
        **{f"{state}_energy_j": state_j for state, state_j in by_state.items()},
        "wasted_energy_j": sum(j for state, j in by_state.items() if state != "computing"),
        "edp_js": record.energy_j * record.duration_s,
    }


def mean_normalised_edp(record: RunRecord, ran: JobsThatRan) -> float:
    """Return the mean of energy / t x response / t, W; t: least expected run time of a job.

    Esmaili, Pedram, "Energy-aware scheduling of jobs in heterogeneous cluster systems using deep
    reinforcement learning", section II-A. The energy is what `jobs.csv` attributes to the job, the
    response its wait + run time, and t its requested time on the fastest node: times the speed of
    the slowest node, where requested times hold, over that of the fastest (section 5.3 of the
    specification). Jobs with a t below 1 ns are left out.
    """
    platform = record.platform
    scale = platform.slowest_ops_per_s / max(group.ops_per_s for group in platform.nodes)
    least_s = np.array(record.recording.requested_s)[ran.row] * scale
    known = least_s >= LEAST_REQUEST_S
    least_s, response_s = least_s[known], ran.response_s[known]
    energy_j = np.array(record.job_energies_j)[ran.row][known]
    return _mean(energy_j / least_s * (response_s / least_s))


def node_use(record: RunRecord) -> Metrics:
    """Return how nodes were used.

    Returns:
        node_shutdowns: how often a node was switched off (curriculum learning).
        job_filling_rate: node-seconds computing / node-seconds switched on, computing or idle
            (curriculum learning).
    """
    node_s = record.state_node_s
    return {
        "node_shutdowns": record.recording.count_shutdowns(),
        "job_filling_rate": _ratio(node_s["computing"], node_s["computing"] + node_s["idle"]),
    }


def jobs_that_ran(record: RunRecord) -> JobsThatRan:
    """Return the jobs of a run that have both started and ended."""
    recording = record.recording
    start_s, end_s = np.array(recording.start_s), np.array(recording.end_s)
    row = np.flatnonzero(~np.isnan(start_s) & ~np.isnan(end_s))
    submit_s = np.array(recording.submit_s)
    return JobsThatRan(row, (start_s - submit_s)[row], (end_s - start_s)[row])


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def _percentile(values: Floats, percent: float) -> float:
    return float(np.percentile(values, percent)) if len(values) else 0.0


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
