"""What was seen of the real cluster during a session, and what the scheduler said."""

from __future__ import annotations

import math

from hpcosim_protocol import JobState, PowerState
from hpcosim_slurm.ledger.records import Seen
from hpcosim_slurm.report.rows import OneRun, PowerChange, Said
from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode
from hpcosim_slurm.worlds.availability import is_down
from hpcosim_slurm.worlds.copied import CopiedCluster
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled
from hpcosim_workloads.table import JobSpec

POWER: dict[str, PowerState] = {
    "on": "on",
    "off": "sleeping",
    "switching_on": "switching_on",
    "switching_off": "switching_off",
}
"""Power state of the protocol by that of `LiveNode`."""


class Witness:
    """Collects what was seen of the real cluster.

    Args:
        state: the cluster at the begin.
        begin_s: the begin, Unix time, s.

    Attributes:
        begin_s: see above.
        jobs: each job as it was last seen, by number; without those that were over at the begin.
        running: the jobs that ran at the begin.
        number: numbers of the nodes by name.
        power: changes of power states.
    """

    def __init__(self, state: ClusterState, begin_s: float) -> None:
        self.begin_s = begin_s
        self._over = {job.id for job in state.jobs.values() if job.state == "over"}
        self.jobs = {job.id: job for job in state.jobs.values() if job.id not in self._over}
        self.running = {job.id for job in self.jobs.values() if job.started_s is not None}
        self.number = {name: at for at, name in enumerate(state.nodes)}
        self.power: list[PowerChange] = []
        self._before = {name: _power_of(node) for name, node in state.nodes.items()}
        for name, power in self._before.items():
            if power != "on":
                self.power.append(PowerChange(begin_s, self.number[name], power))

    def see(self, record: Seen) -> None:
        """Note what changed."""
        for job in record.change.jobs:
            if job.state != "over" or job.id not in self._over:
                self.jobs[job.id] = job
        for node in record.change.nodes:
            power = _power_of(node)
            if node.name in self.number and power != self._before.get(node.name):
                self._before[node.name] = power
                self.power.append(PowerChange(record.at_s, self.number[node.name], power))


def _power_of(node: LiveNode) -> PowerState:
    """Return the power state of a node; a node that is down draws the power of one that is off."""
    return "sleeping" if is_down(node) else POWER[node.power]


def shown_spec(job: LiveJob, submit_s: float, requested_s: float, cores: int) -> JobSpec:
    """Return a job as a report shows it."""
    return JobSpec(
        job.id,
        min(job.submitted_s, submit_s),
        math.inf,
        requested_s,
        cores,
        "whole_nodes" if job.is_exclusive else "cores",
        user=job.user[:200],
        account=job.account[:200],
        qos=job.qos[:200],
    )


def real_run(witness: Witness, job: LiveJob) -> OneRun:
    """Return the real run of a job, the last one if it was requeued."""
    nodes = tuple(witness.number[name] for name in job.nodes if name in witness.number)
    state: JobState | None = None
    if job.state == "over":
        state = "cancelled" if is_cancelled(job) else final_state_of(job)
    end_s = math.nan if job.ended_s is None or state is None else job.ended_s
    if job.started_s is None or not nodes:  # a cancelled job has a start without nodes
        return OneRun(end_s=end_s, state=state)
    return OneRun(job.started_s, end_s, nodes, (), state)


def said_in(world: CopiedCluster) -> list[Said]:
    """Return what the scheduler said of waiting jobs in a session."""
    recording = world.engine.recording
    told = recording.explanations
    columns = zip(told.row, told.time_s, told.reason, told.expected_start_s, strict=True)
    return [
        Said(recording.job_id[row], at_s, told.reasons[reason], expected_s)
        for row, at_s, reason, expected_s in columns
        if recording.job_id[row] not in world.not_copied
    ]
