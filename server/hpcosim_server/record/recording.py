"""The recording of a run: jobs and changes of jobs and nodes, as compact columns."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import get_args

from hpcosim_protocol import JobState, NodeGroup, PowerState
from hpcosim_server.record.explanations import Explanations
from hpcosim_server.record.names import Names
from hpcosim_workloads.table import PLACEMENTS, JobSpec

# The first two states are those of a job that is not over.
STATES: tuple[str, ...] = (
    "waiting",
    "running",
    "completed",
    "timeout",
    "killed",
    "node_failed",
    "rejected",
    "failed",
    "cancelled",
    "preempted",
    "deadline",
)
_CODES: Mapping[str, int] = {state: code for code, state in enumerate(STATES)}
POWER_STATES: tuple[PowerState, ...] = get_args(PowerState)
NAN = float("nan")


class Recording:
    """Columns of a run.

    The columns of jobs have one row for each job, in order of submission. The columns of changes
    are in chronological order.

    Attributes:
        job_id: job id, by row.
        submit_s, start_s, end_s: simulation times, s, by row; NaN before the event.
        state: index into `STATES`, by row.
        requested_s: requested run time, s, by row.
        deadline_s: deadline, s, by row; infinity: none.
        cores: requested cores, by row.
        user, group, partition, account, qos, name: names of the job's user, of its group, of its
            partitions, of its account, of its quality of service and of the job, by row.
        placement: index into `PLACEMENTS`, by row.
        first_place: index of the job's first entry in `nodes` and `tasks`, by row; -1 before its
            start.
        places: number of the job's entries in `nodes` and `tasks`, by row.
        nodes, tasks: a node number and the number of tasks on the node; the entries of a job are
            consecutive.
        reasons: why a job did not run, by row: as the server said at its submission or at the end
            of its dependencies, or as the scheduler said.
        declined: rows whose reason is the scheduler's.
        explanations: why jobs waited, as the scheduler said.
        over: number of jobs that are over.
        changes: starts and ends of jobs: the row for a start, its complement ~row for an end.
        not_started: rows of jobs that were over before a start, in chronological order.
        power_at, power_s, power_node, power_state: changes of power states: index of the next
            entry of `changes`, simulation time, node, and index into `POWER_STATES`.
        kinds: node kinds beyond the groups of the platform, in order of their numbers.
        kind_at, kind_s, kind_node, kind_number: changes of node kinds: index of the next entry of
            `changes`, simulation time, node, and index into `Cluster.kinds`.
    """

    def __init__(self) -> None:
        self.job_id = array("q")
        self.submit_s = array("d")
        self.start_s = array("d")
        self.end_s = array("d")
        self.state = array("b")
        self.requested_s = array("d")
        self.deadline_s = array("d")
        self.cores = array("q")
        self.user = Names()
        self.group = Names()
        self.partition = Names()
        self.account = Names()
        self.qos = Names()
        self.name = Names()
        self.placement = array("b")
        self.first_place = array("q")
        self.places = array("i")
        self.nodes = array("i")
        self.tasks = array("i")
        self.changes = array("q")
        self.not_started = array("q")
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
        self.declined: set[int] = set()
        self.explanations = Explanations()
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
        self.deadline_s.append(job.deadline_s)
        self.cores.append(job.cores)
        self.user.append(job.user)
        self.group.append(job.group)
        self.partition.append(job.partition)
        self.account.append(job.account)
        self.qos.append(job.qos)
        self.name.append("" if job.request is None else job.request.name)
        self.placement.append(PLACEMENTS.index(job.placement))
        self.first_place.append(-1)
        self.places.append(0)
        return len(self.job_id) - 1

    def started(self, row: int, now_s: float, nodes: list[int], tasks: list[int]) -> None:
        """Record the start of a job.

        Args:
            row: row of the job.
            now_s: simulation time, s.
            nodes: allocated nodes, in the order of the allocation.
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
            row: row of the job.
            now_s: simulation time, s.
            state: final state.
            reason: why the job did not run; empty: no reason is known, or it ran.
        """
        self.end_s[row] = now_s
        if self.state[row] == 1:
            self.changes.append(~row)
        else:
            self.not_started.append(row)
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
        """Record that a node changed its kind.

        Args:
            now_s: simulation time, s.
            node: node number.
            kind: the new kind, an index into `Cluster.kinds`.
        """
        self.kind_at.append(len(self.changes))
        self.kind_s.append(now_s)
        self.kind_node.append(node)
        self.kind_number.append(kind)

    def count_shutdowns(self) -> int:
        """Return the number of times that a node began to switch off, over all nodes."""
        return self.power_state.count(POWER_STATES.index("switching_off"))

    def nodes_of(self, row: int) -> list[int]:
        """Return the nodes of a job in the order of its allocation; empty before its start."""
        first = self.first_place[row]
        return self.nodes[first : first + self.places[row]].tolist() if first >= 0 else []

    def tasks_of(self, row: int) -> list[int]:
        """Return the number of tasks on each of `nodes_of(row)`."""
        first = self.first_place[row]
        return self.tasks[first : first + self.places[row]].tolist() if first >= 0 else []
