"""What became of each decision that a live world makes an order of Slurm."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    DecisionRejected,
    KillJob,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetNodePower,
    SuspendJob,
)
from hpcosim_protocol.tags import snake_case
from hpcosim_slurm.ledger.records import AnyRecord, Asked, Opened, Refused, Seen
from hpcosim_slurm.report.witness import POWER
from hpcosim_slurm.state import JobState, LiveJob, PowerState
from hpcosim_slurm.worlds.live import ON_NODES

Fate = Literal["carried_out", "invalid", "refused", "not_carried_out", "overtaken", "open"]
"""What became of a decision.

* `carried_out`: it was seen in Slurm.
* `invalid`: the bridge rejected it; no command was run.
* `refused`: Slurm refused the command.
* `not_carried_out`: Slurm accepted the command and did not do it in time; it was taken back.
* `overtaken`: the job ended before, for example because its user cancelled it.
* `open`: none of these, up to the end of the report.
"""

DONE: Mapping[type[Decision], frozenset[JobState]] = {
    AllocateJob: frozenset(ON_NODES),
    KillJob: frozenset(("over",)),
    RejectJob: frozenset(("over",)),
    RequeueJob: frozenset(("pending",)),
    SuspendJob: frozenset(("suspended",)),
    ResumeJob: frozenset(("running",)),
}
"""States of a job in Slurm that show that a decision was carried out."""


@dataclass(slots=True)
class Outcome:
    """What became of a decision.

    Attributes:
        decision: the decision.
        scheduler: name of the scheduler.
        decided_s: when the bridge got it, Unix time, s.
        seq, index: number of the request, and position in it.
        fate: what became of it.
        done_s: when the bridge saw that it was carried out, Unix time, s; NaN: it was not.
        nodes: names of the nodes that the job had then.
        words: why it was not carried out, in words of the bridge or of Slurm.
    """

    decision: Decision
    scheduler: str
    decided_s: float
    seq: int
    index: int
    fate: Fate = "open"
    done_s: float = math.nan
    nodes: tuple[str, ...] = ()
    words: str = ""

    @property
    def name(self) -> str:
        """Name of the decision, such as `allocate_job`."""
        return snake_case(type(self.decision).__name__)


@dataclass(slots=True)
class Outcomes:
    """The outcomes of decisions, from the records of a journal and the rejections of its worlds.

    Attributes:
        found: the outcomes, in the order of the decisions. Alarms and explanations have none.
    """

    found: list[Outcome] = field(default_factory=list)
    _scheduler: str = ""
    _numbered: dict[tuple[int, int], Outcome] = field(default_factory=dict)  # of the session
    _jobs: dict[int, list[Outcome]] = field(default_factory=dict)  # that are open
    _nodes: dict[int, list[Outcome]] = field(default_factory=dict)

    def note(self, record: AnyRecord, number: Mapping[str, int]) -> None:
        """Note a record, before it happens.

        Args:
            record: the record.
            number: numbers of the nodes by name.
        """
        if isinstance(record, Opened):
            self._scheduler = record.hello.client
            self._numbered.clear()
        elif isinstance(record, Asked):
            for index, decision in enumerate(record.request.decisions):
                if type(decision) in DONE or isinstance(decision, SetNodePower):
                    self._add(decision, record, index)
        elif isinstance(record, Seen):
            for job in record.change.jobs:
                self._seen(job, record.at_s)
            for node in record.change.nodes:
                self._switched(number.get(node.name, -1), node.power, record.at_s)

    def reject(self, event: DecisionRejected, record: AnyRecord) -> None:
        """Note the rejection of a decision.

        Args:
            event: the rejection.
            record: the record that has caused it.
        """
        outcome = self._numbered.get((event.seq, event.index))
        if outcome is None or outcome.fate != "open":
            return
        if isinstance(record, Refused):
            outcome.fate = "refused"
        elif isinstance(record, Asked) and record.request.seq == event.seq:
            outcome.fate = "invalid"
        else:
            outcome.fate = "not_carried_out"
        outcome.words = event.reason

    def _add(self, decision: Decision, record: Asked, index: int) -> None:
        outcome = Outcome(decision, self._scheduler, record.at_s, record.request.seq, index)
        self.found.append(outcome)
        self._numbered[outcome.seq, index] = outcome
        if isinstance(decision, SetNodePower):
            self._nodes.setdefault(decision.node, []).append(outcome)
        else:
            job_id: int = decision.job_id  # type: ignore[union-attr]
            self._jobs.setdefault(job_id, []).append(outcome)

    def _seen(self, job: LiveJob, at_s: float) -> None:
        for outcome in self._open(self._jobs, job.id):
            has_run = isinstance(outcome.decision, AllocateJob) and bool(job.nodes)
            if job.state in DONE[type(outcome.decision)] or (job.state == "over" and has_run):
                outcome.fate, outcome.done_s, outcome.nodes = "carried_out", at_s, job.nodes
            elif job.state == "over":
                outcome.fate, outcome.words = "overtaken", f"Slurm: {job.slurm_state}"

    def _switched(self, node: int, power: PowerState, at_s: float) -> None:
        for outcome in self._open(self._nodes, node):
            assert isinstance(outcome.decision, SetNodePower)
            if outcome.decision.state == POWER[power]:
                outcome.fate, outcome.done_s = "carried_out", at_s

    def _open(self, by: dict[int, list[Outcome]], key: int) -> Iterable[Outcome]:
        """Return the open outcomes of a job or a node, and forget the others."""
        found = [outcome for outcome in by.pop(key, ()) if outcome.fate == "open"]
        if found:
            by[key] = found
        return found
