"""Metrics of interruptions: requeues, suspensions, lost work, and failures of nodes."""

from __future__ import annotations

from hpcosim_sim.physics.power import RECORDED_STATES
from hpcosim_sim.record.periods import PERIOD_ENDS
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.run_record import RunRecord

INTERRUPTED_STATES = ("failed", "cancelled", "preempted", "deadline")
"""Final states whose numbers of jobs are metrics if there are such jobs."""

SUSPENDED = [code for code, why in enumerate(PERIOD_ENDS) if why.startswith("suspended")]
DOWN = RECORDED_STATES.index("down")


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
