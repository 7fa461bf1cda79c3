"""Follows a cluster: one picture of it, changed by what happens, checked, and kept over restarts.

Between full readings the picture takes what changes, as a `Change`. A full reading is compared with
it: what differs is counted by kind, and repaired.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace as replaced

from hpcosim_protocol.errors import HpcosimError
from hpcosim_protocol.files import draft_of
from hpcosim_server import log
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.difference import Change, applied, difference
from hpcosim_twin.cluster.observation import (
    MAX_BYTES,
    EndedJob,
    ForecastError,
    Observation,
    Site,
    read_json,
)
from hpcosim_twin.cluster.observer import MOST_PAST, remembered_history, with_past
from hpcosim_twin.cluster.sources import UNKNOWN_END, Source, warn


class FollowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a cluster is followed.

    Attributes:
        poll_s: time between two changes, s.
        check_s: time between two full readings, s. Slurm remembers jobs that ended for `MinJobAge`,
            by default 300 s; what ended within is known.
        learn_s: time between two readings of the site and its usage, s.
        history_s: time between two readings of the accounting of ended jobs, s. Between them, the
            history grows by the jobs that end.
        fresh_s: time after which a picture without changes counts as a new one, s.
        most_past: largest number of ended jobs that the picture has, as patterns of submissions.
        most_history: largest number of ended jobs of which user, limit and run time are known.
    """

    poll_s: float = 10.0
    check_s: float = 120.0
    learn_s: float = 3600.0
    history_s: float = 86_400.0
    fresh_s: float = 60.0
    most_past: int = MOST_PAST
    most_history: int = 20_000


Kind = Literal[
    "missing job", "unknown job", "wrong state", "wrong nodes", "wrong start", "wrong request",
    "node", "partition", "reservation", "licence",
]  # fmt: skip


class Difference(NamedTuple):
    """A difference between a picture and the controller.

    Attributes:
        kind: what differs. A `missing job` is not in the picture, an `unknown job` only there.
        name: the job or the node, such as `17` or `node3`.
    """

    kind: Kind
    name: str


def differences(picture: ClusterState, truth: ClusterState) -> set[Difference]:
    """Return what differs between a picture and the state that the controller shows.

    How and when jobs ended is no difference, as only the controller knows it, and neither is what
    `hpcosim_slurm.worlds.difference.difference` does not count.
    """
    found = difference(replace(picture, jobs={}), replace(truth, jobs={}), truth.at_s)
    result: set[Difference] = set(_of_jobs(picture.jobs, truth.jobs))
    result |= {Difference("node", each.name) for each in found.nodes}
    result |= {Difference("node", name) for name in found.lost_nodes}
    result |= {Difference("partition", each.name) for each in found.partitions}
    result |= {Difference("partition", name) for name in found.lost_partitions}
    result |= {Difference("reservation", each.name) for each in found.reservations}
    result |= {Difference("reservation", name) for name in found.lost_reservations}
    if found.licenses is not None:
        result.add(Difference("licence", ",".join(sorted(found.licenses))))
    return result


def _of_jobs(picture: Mapping[int, LiveJob], truth: Mapping[int, LiveJob]) -> Iterator[Difference]:
    for number in picture.keys() | truth.keys():
        before, job = picture.get(number), truth.get(number)
        kind: Kind | None = None
        if before is None or job is None:
            if (before or job).state != "over":  # type: ignore[union-attr]
                kind = "missing job" if before is None else "unknown job"
        elif before.state != job.state:
            kind = "wrong state"
        elif job.state != "over":
            kind = _of_job(before, job)
        if kind is not None:
            yield Difference(kind, str(number))


def _of_job(before: LiveJob, job: LiveJob) -> Kind | None:
    if before == job:
        return None
    if before.nodes != job.nodes:
        return "wrong nodes"
    if before.started_s != job.started_s:
        return "wrong start"
    if difference(_only(before), _only(job), 0.0):
        return "wrong request"
    return None


def _only(job: LiveJob) -> ClusterState:
    return ClusterState(0.0, {job.id: job}, {}, {})


class Snapshot(NamedTuple):
    """The picture at an instant; it does not change.

    Attributes:
        version: number of the picture; another number means another cluster or another time.
        read_s: the instant of its last change or reading on the clock of its source, s.
    """

    observation: Observation
    version: int
    read_s: float


class _Saved(msgspec.Struct, frozen=True, kw_only=True):
    format: Literal["hpcosim twin 1"] = "hpcosim twin 1"
    observation: Observation


@dataclass
class FollowCounts:
    """What a follower has done, for its metrics.

    Attributes:
        differences: number of differences that full readings have found and repaired, by kind.
        failures: number of readings that could not be done.
        clock_jumps: number of readings older than the one before: the clock was set back.
    """

    polls: int = 0
    checks: int = 0
    failures: int = 0
    clock_jumps: int = 0

    def __post_init__(self) -> None:
        self.differences: Counter[Kind] = Counter()


class Follower:
    """Keeps the picture of a cluster.

    One thread calls `step` or `run`; any thread may read `snapshot`.

    Args:
        state_file: where the picture is kept over restarts; None: nowhere. One that is damaged is
            left out with a warning.

    Attributes:
        failure: why the last reading could not be done; empty: it was done.
    """

    def __init__(
        self,
        source: Source,
        settings: FollowSettings = FollowSettings(),  # noqa: B008 (immutable)
        state_file: Path | None = None,
    ) -> None:
        self._source, self._settings, self._file = source, settings, state_file
        self.counts, self.failure = FollowCounts(), ""
        self._known: Observation | None = None
        self._history: deque[EndedJob] = deque(maxlen=settings.most_history)
        self._snapshot: Snapshot | None = None
        self._checked_s = self._learn_at_s = self._history_at_s = -float("inf")
        if state_file is not None and state_file.exists():
            self._load(state_file)

    @property
    def snapshot(self) -> Snapshot | None:
        """The present picture; None: there is none yet."""
        return self._snapshot

    @property
    def age_s(self) -> float:
        """Time since the last reading of the cluster, s; infinity: there was none yet."""
        found = self._snapshot
        return float("inf") if found is None else self._source.clock_s() - found.read_s

    def run(self, over: threading.Event) -> None:
        """Follow until it is over, then write the state file."""
        try:
            while not over.is_set():
                self.step()
                self._source.wait(self._settings.poll_s, over)
        finally:
            self.save()

    def step(self) -> None:
        """Bring the picture up to date, as far as the cluster can be read now."""
        now_s = self._source.clock_s()
        try:
            if now_s >= self._learn_at_s:
                self._learn(now_s)
            assert self._known is not None
            self._take(self._source.change(self._known.state))
            self.counts.polls += 1
            if now_s - self._checked_s >= self._settings.check_s:
                self._check()
                self._checked_s = now_s
                self.save()
        except (HpcosimError, OSError) as error:
            self.counts.failures += 1
            if not self.failure:
                log.warning("twin_cannot_read", error=str(error), hint="the last picture is kept")
            self.failure = " ".join(str(error).split())
            return
        if self.failure:
            log.info("twin_reads_again")
            self.failure = ""

    def save(self) -> None:
        """Write the state file, as a whole or not at all; a failure is logged."""
        if self._file is None or self._known is None:
            return
        seen = replaced(self._known, history=tuple(self._history))
        try:
            with draft_of(self._file) as draft:
                draft.touch(0o600)  # it has names of users
                draft.write_bytes(msgspec.json.encode(_Saved(observation=seen)) + b"\n")
        except OSError as error:
            log.error("twin_cannot_save", file=str(self._file), error=error.strerror or str(error))

    def _load(self, path: Path) -> None:
        try:
            saved = read_json(path, MAX_BYTES, _Saved, "the state file of `hpcosim twin`")
        except (OSError, ForecastError) as error:
            warn(f"the picture of an earlier twin is left out: {error}")
            return
        self._known = replaced(saved.observation, history=())
        self._history.extend(saved.observation.history)
        age_s = max(self._source.unix_s() - saved.observation.state.at_s, 0.0)
        self._snapshot = Snapshot(saved.observation, 1, self._source.clock_s() - age_s)

    def _learn(self, now_s: float) -> None:
        """Read the site, its usage and its history; what cannot be read now stays as it was."""
        try:
            found = self._source.learn()
            site = Site(found.platform, found.settings)
            accounted = self._source.accounted(site) if now_s >= self._history_at_s else None
        except (HpcosimError, OSError) as error:
            if self._known is None:
                raise
            warn(f"the site cannot be read, and stays as it was: {error}")
            self._learn_at_s = now_s + self._settings.check_s
            return
        state = found.state if self._known is None else self._known.state
        if accounted is not None:
            self._history = deque(accounted.history, self._settings.most_history)
            state = with_past(state, accounted.past)
            state = replace(state, jobs=_bounded(state.jobs, self._settings.most_past))
            self._history_at_s = now_s + self._settings.history_s
        elif self._known is None:
            self._history.extend(remembered_history(found.state))
        self._known = replaced(found, state=state, history=())
        self._learn_at_s = now_s + self._settings.learn_s

    def _check(self) -> None:
        """Compare the picture with a full reading, and take what that says.

        What changed between two readings is no difference: only what two comparisons find, with a
        change between them, counts.
        """
        assert self._known is not None
        truth = self._source.read()
        found = differences(self._known.state, truth)
        if found:
            self._take(self._source.change(self._known.state))
            truth = self._source.read()
            found &= differences(self._known.state, truth)
        self.counts.checks += 1
        self.counts.differences.update(each.kind for each in found)
        if found:
            kinds = Counter(each.kind for each in found)
            log.warning("twin_repaired", **{kind.replace(" ", "_"): n for kind, n in kinds.items()})
        self._note_ends(truth.jobs.values())
        past = {
            number: job for number, job in self._known.state.jobs.items() if job.state == "over"
        }
        state = replace(truth, jobs=_bounded({**past, **truth.jobs}, self._settings.most_past))
        self._publish(replaced(self._known, state=state, slurm_s=self._source.starts()))

    def _take(self, change: Change) -> None:
        """Apply a change to the picture."""
        assert self._known is not None
        before = self._known.state
        if change.at_s < before.at_s:
            self.counts.clock_jumps += 1
            warn(f"the clock was set back by {before.at_s - change.at_s:.0f} s")
        self._note_ends(change.jobs)
        after = applied(before, change)
        after = replace(after, jobs=_bounded(after.jobs, self._settings.most_past))
        self._publish(replaced(self._known, state=after))

    def _note_ends(self, jobs: Iterable[LiveJob]) -> None:
        """Add jobs to the history whose ends are new."""
        assert self._known is not None
        known = self._known.state.jobs
        ended = {
            job.id: job
            for job in jobs
            if job.state == "over" and job.slurm_state != UNKNOWN_END and not _has_end(known, job)
        }
        self._history.extend(remembered_history(ClusterState(0.0, ended, {}, {})))

    def _publish(self, seen: Observation) -> None:
        """Make a picture the present one; it has a new version if it differs, or is old."""
        last, now_s = self._snapshot, self._source.clock_s()
        version = 1 if last is None else last.version
        self._known = seen
        if last is not None:
            before = last.observation.state
            is_old = abs(seen.state.at_s - before.at_s) >= self._settings.fresh_s
            is_old = is_old or last.observation.settings is not seen.settings  # the site was read
            if not is_old and not difference(before, seen.state, 0.0):
                self._snapshot = last._replace(read_s=now_s)
                return
            version += 1
        self._snapshot = Snapshot(replaced(seen, history=tuple(self._history)), version, now_s)


def _has_end(known: Mapping[int, LiveJob], job: LiveJob) -> bool:
    """Return whether the end of this run of a job is known."""
    before = known.get(job.id)
    if before is None or before.state != "over" or before.slurm_state == UNKNOWN_END:
        return False
    return before.started_s == job.started_s


def _bounded(jobs: Mapping[int, LiveJob], most_past: int) -> Mapping[int, LiveJob]:
    """Return jobs with at most so many that are over, the last ones."""
    over = [job for job in jobs.values() if job.state == "over"]
    if len(over) <= most_past:
        return jobs
    over.sort(key=lambda job: (job.ended_s or 0.0, job.id))
    dropped = {job.id for job in over[: len(over) - most_past]}
    return {number: job for number, job in jobs.items() if number not in dropped}
