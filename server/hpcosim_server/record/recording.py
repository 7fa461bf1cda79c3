"""The recording of a run: every job and every change of a job or a node, as compact columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import get_args

from hpcosim_protocol import JobState, NodeGroup, PowerState
from hpcosim_workloads.table import PLACEMENTS, JobSpec

# A job's state by code; the first two are those of a job that is not over.
STATES: tuple[str, ...] = (
    "waiting",
    "running",
    "completed",
    "timeout",
    "killed",
    "node_failed",
    "rejected",
)
_CODES: Mapping[str, int] = {state: code for code, state in enumerate(STATES)}
POWER_STATES: tuple[PowerState, ...] = get_args(PowerState)
NAN = float("nan")


class Recording:
    """Columns of a run; those of jobs have a row for each job, in the order of submission.

    Attributes:
        job_id: number of the job.
        submit_s, start_s, end_s: simulated seconds; NaN: it has not happened yet.
        state: index into `STATES`.
        requested_s: run time asked for, s.
        cores: cores asked for.
        placement: index into `PLACEMENTS`.
        over: number of jobs that are over.
        first_place: where in `nodes` and `tasks` the job's begin; -1: never started.
        places: how many it has there.
        nodes, tasks: for all jobs, one after the other: a node, and the tasks on it.
        reasons: why a job was rejected at its submission, by row.
        power_at, power_s, power_node, power_state: every change of a node's power state, in order:
            before which of `changes`, when, which, and an index into `POWER_STATES`.
        changes: every start (the job's row) and end (its complement, ~row) of a job that was
            given nodes, in the order they came.
        kinds: kinds of nodes that came after the platform's groups, in the order of their numbers.
        kind_at, kind_s, kind_node, kind_number: every change of a node's kind, in order: before
            which of `changes`, when, which, and the new kind, an index into `Cluster.kinds`.
    """

    def __init__(self) -> None:
        self.job_id = array("q")
        self.submit_s = array("d")
        self.start_s = array("d")
        self.end_s = array("d")
        self.state = array("b")
        self.requested_s = array("d")
        self.cores = array("q")
        self.placement = array("b")
        self.first_place = array("q")
        self.places = array("i")
        self.nodes = array("i")
        self.tasks = array("i")
        self.changes = array("q")
        self.power_at = array("q")
        self.power_s = array("d")
        self.power_node = array("i")
        self.power_state = array("b")
        self.kinds: list[NodeGroup] = []
        self.kind_at = array("q")
        self.kind_s = array("d")
        self.kind_node = array("i")
        self.kind_number = array("i")
        self.reasons: dict[int, str] = {}
        self.over = 0

    def __len__(self) -> int:
        return len(self.job_id)

    def submitted(self, job: JobSpec) -> int:
        """Record a submission and return the job's row."""
        self.job_id.append(job.job_id)
        self.submit_s.append(job.submit_s)
        self.start_s.append(NAN)
        self.end_s.append(NAN)
        self.state.append(0)
        self.requested_s.append(job.requested_s)
        self.cores.append(job.cores)
        self.placement.append(PLACEMENTS.index(job.placement))
        self.first_place.append(-1)
        self.places.append(0)
        return len(self.job_id) - 1

    def started(self, row: int, now_s: float, nodes: list[int], tasks: list[int]) -> None:
        """Record the start of a job.

        Args:
            row: the job's row.
            now_s: simulated second.
            nodes: the nodes it was given, in the order of the allocation.
            tasks: number of tasks on each of `nodes`.
        """
        self.start_s[row] = now_s
        self.state[row] = 1
        self.first_place[row] = len(self.nodes)
        self.places[row] = len(nodes)
        self.nodes.fromlist(nodes)
        self.tasks.fromlist(tasks)
        self.changes.append(row)

    def ended(self, row: int, now_s: float, state: JobState, reason: str = "") -> None:
        """Record that a job is over.

        Args:
            row: the job's row.
            now_s: simulated second.
            state: how it ended.
            reason: why it was rejected at its submission; empty: it was not.
        """
        self.end_s[row] = now_s
        if self.state[row] == 1:
            self.changes.append(~row)
        self.state[row] = _CODES[state]
        if reason:
            self.reasons[row] = reason
        self.over += 1

    def powered(self, now_s: float, node: int, state: PowerState) -> None:
        """Record that a node entered a power state."""
        self.power_at.append(len(self.changes))
        self.power_s.append(now_s)
        self.power_node.append(node)
        self.power_state.append(POWER_STATES.index(state))

    def changed_kind(self, now_s: float, node: int, kind: int) -> None:
        """Record that a node changed into another kind, an index into `Cluster.kinds`."""
        self.kind_at.append(len(self.changes))
        self.kind_s.append(now_s)
        self.kind_node.append(node)
        self.kind_number.append(kind)

    def count_shutdowns(self) -> int:
        """Return how often a node began to be switched off."""
        return self.power_state.count(POWER_STATES.index("switching_off"))

    def power_history(self, node: int) -> list[tuple[float, PowerState]]:
        """Return when a node entered which power state; it began as on."""
        return [
            (time_s, POWER_STATES[state])
            for time_s, which, state in zip(
                self.power_s, self.power_node, self.power_state, strict=True
            )
            if which == node
        ]

    def nodes_of(self, row: int) -> list[int]:
        """Return the nodes a job was given, in the order of the allocation."""
        first = self.first_place[row]
        return self.nodes[first : first + self.places[row]].tolist() if first >= 0 else []

    def tasks_of(self, row: int) -> list[int]:
        """Return how many tasks ran on each of `nodes_of(row)`."""
        first = self.first_place[row]
        return self.tasks[first : first + self.places[row]].tolist() if first >= 0 else []
