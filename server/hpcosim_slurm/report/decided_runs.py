"""A journal of mode hold or place: what the scheduler decided, and what became of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from hpcosim_protocol import (
    AllocateJob,
    Decision,
    DecisionRejected,
    KillJob,
    Platform,
    RejectJob,
    RequeueJob,
    ResumeJob,
    SetNodePower,
    SuspendJob,
)
from hpcosim_protocol import JobState as RunState
from hpcosim_protocol import PowerState as NodePower
from hpcosim_protocol.requests import snake_case
from hpcosim_slurm.bridge.session import BridgeState
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.journal import AnyRecord, Asked, Began, Closed, FellBack, Opened, Refused, Seen
from hpcosim_slurm.report.figures import Explanation, JobRow, OneRun, PowerChange, SessionRows
from hpcosim_slurm.state import ClusterState, JobState, LiveJob, LiveNode, PowerState
from hpcosim_slurm.worlds.cluster_copy import ClusterCopy
from hpcosim_slurm.worlds.difference import is_down
from hpcosim_slurm.worlds.live import ON_NODES, LiveWorld
from hpcosim_slurm.worlds.site import Site, starts_in, with_off_state
from hpcosim_slurm.worlds.specs import final_state_of, is_cancelled, requested_s
from hpcosim_workloads.table import JobSpec

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

POWER: dict[str, NodePower] = {
    "on": "on",
    "off": "sleeping",
    "switching_on": "switching_on",
    "switching_off": "switching_off",
}
"""Power state of the protocol by that of `LiveNode`."""


class DecidedRuns(NamedTuple):
    """Everything that a report needs of the time in which a bridge acted.

    Attributes:
        mode: `hold` or `place`.
        nodes: names of the nodes, by number.
        fell_back: the fall-back to shadow; None: there was none.
    """

    mode: str
    nodes: tuple[str, ...]
    rows: SessionRows
    outcomes: list[Outcome]
    sessions: int
    fell_back: FellBack | None


class _Replay:
    """Lets the records of a journal happen, and collects what a report needs."""

    def __init__(self, began: Began) -> None:
        self.began = began
        self.outcomes, self.said = Outcomes(), list[Explanation]()
        self.schedulers: dict[str, None] = {}  # in the order of their sessions
        self.witness: ObservedCluster | None = None
        self.platform: Platform | None = None
        self.fell_back: FellBack | None = None
        self.end_s = began.at_s
        self.sessions = self.requests = self.decisions = 0
        self._course = BridgeState(began.site, self._make_world)
        self._record: AnyRecord = began

    @property
    def state(self) -> ClusterState:
        """The cluster as it was last seen."""
        return self._course.state

    def happen(self, record: AnyRecord) -> None:
        """Let a record happen."""
        self._record = record
        if isinstance(record, Opened):
            self.sessions += 1
            self.schedulers.setdefault(record.hello.client)
            if self.witness is None:
                self.witness = ObservedCluster(self.state, record.at_s)
        if isinstance(record, Closed | FellBack | Opened):
            self.collect()
        if self.witness is not None:
            self.end_s = record.at_s
            self.outcomes.note(record, self.witness.number)
            if isinstance(record, Seen):
                self.witness.see(record)
        if isinstance(record, Asked):
            self.requests += 1
            self.decisions += len(record.request.decisions)
        if isinstance(record, FellBack):
            self.fell_back = record
        self._course.happen(record)
        session = self._course.session
        if session is not None and isinstance(session.world, LiveWorld):
            session.world.take_orders()  # the bridge has carried them out

    def collect(self) -> None:
        """Collect what the scheduler said in the session that ends."""
        session = self._course.session
        if session is not None and isinstance(session.world, LiveWorld):
            self.said += said_in(session.world)

    def _make_world(self, state: ClusterState, site: Site) -> LiveWorld:
        world = LiveWorld(state, site)
        world.engine.on_rejected = lambda event: self.outcomes.reject(event, self._record)
        self.platform = self.platform or with_off_state(world.engine.cluster.platform, site.power)
        return world


def acted(records: Iterable[AnyRecord]) -> DecidedRuns:
    """Return what a bridge did from its first session to its fall-back or the end of its journal.

    Raises:
        JournalError: no scheduler has opened a session.
    """
    replay: _Replay | None = None
    for record in records:
        if replay is None:
            assert isinstance(record, Began), "`read` checks it"
            replay = _Replay(record)
        replay.happen(record)
        if replay.fell_back is not None:
            break
    if replay is None or replay.witness is None or replay.platform is None:
        raise JournalError("the journal has no session: no scheduler has connected")
    replay.collect()
    rows = _rows(replay, replay.witness, replay.platform)
    return DecidedRuns(
        replay.began.mode,
        tuple(replay.witness.number),
        rows,
        replay.outcomes.found,
        replay.sessions,
        replay.fell_back,
    )


def _rows(replay: _Replay, witness: ObservedCluster, platform: Platform) -> SessionRows:
    decided = {
        outcome.decision.job_id: outcome
        for outcome in replay.outcomes.found
        if isinstance(outcome.decision, AllocateJob) and outcome.fate == "carried_out"
    }
    rows = []
    for job in sorted(witness.jobs.values(), key=lambda job: (job.submitted_s, job.id)):
        real = real_run(witness, job)
        in_start = replace(job, partition=starts_in(replay.began.site, job.partition))
        limit_s = requested_s(in_start, replay.state)
        spec = shown_spec(job, job.submitted_s, limit_s, max(job.cpus, 1))
        run = _decided_run(decided.get(job.id), real)
        rows.append(JobRow(spec, job.id in witness.running or job.is_outside, run, real))
    known = {row.spec.job_id for row in rows}
    return SessionRows(
        ", ".join(replay.schedulers),
        replay.began.site.name,
        platform,
        witness.begin_s,
        replay.end_s,
        rows,
        witness.power,
        witness.power,
        replay.decisions,
        replay.requests,
        0,
        [said for said in replay.said if said.job_id in known],
    )


def _decided_run(outcome: Outcome | None, real: OneRun) -> OneRun:
    """Return the run of a job as if Slurm had started it at the decision, on the nodes decided."""
    if outcome is None or not isinstance(outcome.decision, AllocateJob) or not real.has_started:
        return real
    start_s = outcome.decided_s
    return OneRun(
        start_s,
        start_s + (real.end_s - real.start_s),
        tuple(outcome.decision.nodes),
        (),
        real.state,
    )


@dataclass(slots=True)
class Outcome:
    """What became of a decision.

    Attributes:
        decided_s: when the bridge got it, Unix time, s.
        seq, index: number of the request, and position in it.
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
        """Note a record, before it happens."""
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
        """Note the rejection of a decision."""
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


class ObservedCluster:
    """Collects what was seen of the real cluster.

    Attributes:
        jobs: each job as it was last seen, by number; without those that were over at the begin.
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


def _power_of(node: LiveNode) -> NodePower:
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


def real_run(witness: ObservedCluster, job: LiveJob) -> OneRun:
    """Return the real run of a job, the last one if it was requeued."""
    nodes = tuple(witness.number[name] for name in job.nodes if name in witness.number)
    state: RunState | None = None
    if job.state == "over":
        state = "cancelled" if is_cancelled(job) else final_state_of(job)
    end_s = math.nan if job.ended_s is None or state is None else job.ended_s
    if job.started_s is None or not nodes:  # a cancelled job has a start without nodes
        return OneRun(end_s=end_s, state=state)
    return OneRun(job.started_s, end_s, nodes, (), state)


def said_in(world: ClusterCopy) -> list[Explanation]:
    """Return what the scheduler said of waiting jobs in a session."""
    recording = world.engine.recording
    told = recording.explanations
    columns = zip(told.row, told.time_s, told.reason, told.expected_start_s, strict=True)
    return [
        Explanation(recording.job_id[row], at_s, told.reasons[reason], expected_s)
        for row, at_s, reason, expected_s in columns
        if recording.job_id[row] not in world.not_copied
    ]
