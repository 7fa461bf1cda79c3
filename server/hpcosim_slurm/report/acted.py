"""A journal of mode hold or place: what the scheduler decided, and what Slurm did."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from hpcosim_protocol import AllocateJob, Platform
from hpcosim_slurm.bridge.course import Course
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.ledger.records import AnyRecord, Asked, Began, Closed, FellBack, Opened, Seen
from hpcosim_slurm.report.outcomes import Outcome, Outcomes
from hpcosim_slurm.report.rows import JobRow, OneRun, Said, SessionRows
from hpcosim_slurm.report.witness import Witness, real_run, said_in, shown_spec
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.shadow import World
from hpcosim_slurm.worlds.site import Site, starts_in, with_off_state
from hpcosim_slurm.worlds.specs import requested_s


class ActedRows(NamedTuple):
    """Everything that a report needs of the time in which a bridge acted.

    Attributes:
        mode: `hold` or `place`.
        nodes: names of the nodes, by number.
        rows: the jobs, as they were decided and as they ran.
        outcomes: what became of each decision.
        sessions: number of sessions.
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
        self.outcomes, self.said = Outcomes(), list[Said]()
        self.schedulers: dict[str, None] = {}  # in the order of their sessions
        self.witness: Witness | None = None
        self.platform: Platform | None = None
        self.fell_back: FellBack | None = None
        self.end_s = began.at_s
        self.sessions = self.requests = self.decisions = 0
        self._course = Course(began.site, self._make_world)
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
                self.witness = Witness(self.state, record.at_s)
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

    def _make_world(self, state: ClusterState, site: Site) -> World:
        world = LiveWorld(state, site)
        world.engine.on_rejected = lambda event: self.outcomes.reject(event, self._record)
        self.platform = self.platform or with_off_state(world.engine.cluster.platform, site.power)
        return world


def acted(records: Iterable[AnyRecord]) -> ActedRows:
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
    return ActedRows(
        replay.began.mode,
        tuple(replay.witness.number),
        rows,
        replay.outcomes.found,
        replay.sessions,
        replay.fell_back,
    )


def _rows(replay: _Replay, witness: Witness, platform: Platform) -> SessionRows:
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
