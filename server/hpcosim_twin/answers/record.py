"""The record of a twin: its answers about waiting jobs, and what became of them.

Answers about the queue are appended to a file, and later the starts. From the starts follow the
errors of the answers, and the ranges of the next ones (`calibration.AdaptiveRanges`). The file has
a largest size: its older half is dropped.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hpcosim_protocol.files import draft_of, open_regular
from hpcosim_server import log
from hpcosim_slurm.journal import Journal
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_twin.answers.calibration import (
    GRAIN_S,
    PROBABILITY,
    AdaptiveRanges,
    Forecasted,
    calibrated,
    past_range,
    score_of,
)
from hpcosim_twin.answers.table import RANGES

MOST_BYTES = 1 << 26
"""Largest size of the file: about 300,000 answers of a job."""
MAX_LINE_BYTES = 1 << 24
MOST_OPEN = 50_000
"""Largest number of answers whose jobs still wait; the oldest are dropped."""
MOST_CLOSED = 10_000
"""Number of last answers, whose jobs have started, that the figures are of."""
AGAIN_S = 300.0
"""Shortest time between two answers of a job that are kept, s."""


class Given(msgspec.Struct, frozen=True, array_like=True):
    """The answer about a job; Unix times, s; infinity is None in the file.

    Attributes:
        drawn: 10 % quantile, median and 90 % quantile of what was drawn.
        ranges: lower and upper end of each range of `RANGES`, as it was given.
        slurm_s: what `squeue --start` said; None: nothing.
    """

    job_id: int
    drawn: tuple[float | None, float | None, float | None]
    ranges: tuple[tuple[float | None, float | None], ...]
    slurm_s: float | None


class Answered(msgspec.Struct, frozen=True, tag_field="record", tag="answered"):
    """Answers about the queue at an instant.

    Attributes:
        is_own: whether the twin has asked, about all jobs; otherwise somebody else.
    """

    at_s: float
    jobs: tuple[Given, ...]
    is_own: bool = True


class Resolved(msgspec.Struct, frozen=True, tag_field="record", tag="resolved"):
    """Jobs that have started, with their starts, and jobs that will not start."""

    at_s: float
    started: dict[int, float] = {}
    gone: tuple[int, ...] = ()


_decoder: msgspec.json.Decoder[Answered | Resolved] = msgspec.json.Decoder(Answered | Resolved)


class _Open(NamedTuple):
    at_s: float
    given: Given
    is_own: bool


class _Closed(NamedTuple):
    at_s: float
    given: Given
    start_s: float


class Record:
    """Keeps answers and starts.

    Args:
        path: the file; None: they are kept in memory only.
        most_bytes: largest size of the file, bytes.
        prior: scores of earlier answers, such as those of a calibration; empty: none.

    Raises:
        OSError: the file cannot be read or written.
        JournalError: another twin writes to it.
    """

    def __init__(
        self,
        path: Path | None = None,
        most_bytes: int = MOST_BYTES,
        prior: Sequence[float] = (),
    ) -> None:
        self._path, self._most_bytes = path, most_bytes
        self._ranges = AdaptiveRanges(prior)
        self._open: OrderedDict[int, list[_Open]] = OrderedDict()
        self._closed: deque[_Closed] = deque(maxlen=MOST_CLOSED)
        self._count = 0
        self.answers = 0
        self._changes = 0
        self._summary: tuple[tuple[int, float], dict[str, Any]] = ((-1, 0.0), {})
        if path is not None and path.exists():
            for each in _read(path):
                self._take(each)
        self._file = Journal(path, "twin")

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def calibrated(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer to a question about the queue with ranges that have held until now.

        See `calibration.calibrated`.
        """
        return calibrated(answer, self._ranges.ranges(answer["at_s"]))

    def note(self, answer: Mapping[str, Any], *, is_own: bool = True) -> None:
        """Keep a calibrated answer about the queue.

        The ranges of the next answers follow from the twin's own questions only, so that nobody
        changes them by asking.

        Args:
            answer: what `calibrated` returns, for all who ask.
            is_own: whether the twin has asked.
        """
        at_s: float = answer["at_s"]
        jobs = tuple(
            Given(
                row["job_id"],
                (row["drawn_low_s"], row["median_s"], row["drawn_high_s"]),
                tuple(tuple(row["ranges"][str(each)]) for each in RANGES),
                row["squeue_s"],
            )
            for row in answer["jobs"]
            if row["median_s"] is not None and self._is_due(row["job_id"], at_s, is_own)
        )
        if jobs:
            self._append(Answered(at_s, jobs, is_own))

    def observe(self, state: ClusterState) -> None:
        """Compare the answers with a state of the cluster."""
        started: dict[int, float] = {}
        gone: list[int] = []
        for number, answers in self._open.items():
            job = state.jobs.get(number)
            if job is None or _is_gone(job):
                gone.append(number)
            elif job.started_s is not None and job.started_s >= answers[0].at_s - GRAIN_S:
                started[number] = job.started_s
        if started or gone:
            self._append(Resolved(state.at_s, started, tuple(gone)))

    def summary(self, now_s: float) -> dict[str, Any]:
        """Return how good the answers were: times in s; None: nothing is known yet.

        A job that still waits beyond a range counts as a miss of it. It is computed once for each
        state of the record and time.
        """
        key = (self._changes, now_s)
        if self._summary[0] != key:
            self._summary = (key, self._summarized(now_s))
        return self._summary[1]

    def _summarized(self, now_s: float) -> dict[str, Any]:
        closed = list(self._closed)
        waiting = [each for answers in self._open.values() for each in answers]
        coverage = {}
        for at, each in enumerate(RANGES):
            held = [_holds(answer.given.ranges[at], answer.start_s) for answer in closed]
            late = sum(_is_over(answer.given.ranges[at], now_s) for answer in waiting)
            coverage[str(each)] = sum(held) / (len(held) + late) if held or late else None
        score = score_of(_forecasted(closed)) if closed else None
        return {
            "answers": self.answers,
            "started": len(closed),
            "waiting": len(waiting),
            "since_s": closed[0].at_s if closed else None,
            "median_error_s": score.error_s if score else None,
            "coverage": coverage,
            "beside_slurm": {
                "answers": score.compared if score else 0,
                "median_error_s": _finite(score.compared_error_s) if score else None,
                "slurm_median_error_s": _finite(score.slurm_error_s) if score else None,
            },
            "reliability": _reliability(closed),
        }

    def short(self, now_s: float) -> str:
        """Return the record in a sentence, to stand beside each answer."""
        found = self.summary(now_s)
        if not found["started"]:
            return "no answer of this twin could be compared with a start yet"
        share = found["coverage"][str(PROBABILITY)]
        return (
            f"of {found['started']:,} answers of this twin, starts lay in the range of "
            f"{PROBABILITY:.0%} in {share:.0%}; median error {found['median_error_s']:.0f} s"
        )

    def _is_due(self, number: int, at_s: float, is_own: bool) -> bool:
        answers = [each for each in self._open.get(number, ()) if each.is_own == is_own]
        return not answers or abs(at_s - answers[-1].at_s) >= AGAIN_S

    def _append(self, record: Answered | Resolved) -> None:
        self._take(record)
        self._file.append(record)
        path = self._path
        if path is not None and path.exists() and path.stat().st_size > self._most_bytes:
            self._halve(path)

    def _take(self, record: Answered | Resolved) -> None:
        self._changes += 1
        if isinstance(record, Answered):
            self._take_answers(record)
            return
        for number, start_s in record.started.items():
            for each in self._open.pop(number, ()):
                self._count -= 1
                self._closed.append(_Closed(each.at_s, each.given, start_s))
            self._ranges.started(number, start_s)
        for number in record.gone:
            self._forget(number)

    def _take_answers(self, record: Answered) -> None:
        given = self._ranges.ranges(record.at_s)
        for each in record.jobs:
            found = _Open(record.at_s, each, record.is_own)
            self._open.setdefault(each.job_id, []).append(found)
            self._count += 1
            self.answers += 1
            if not record.is_own:
                continue
            drawn = past_range(each.drawn, record.at_s)
            weight = 1.0 / len(record.jobs)
            self._ranges.answered(each.job_id, drawn.drawn(), record.at_s, given, weight)
        while self._count > MOST_OPEN:
            self._forget(next(iter(self._open)))

    def _forget(self, number: int) -> None:
        self._count -= len(self._open.pop(number, ()))
        self._ranges.gone(number)

    def _halve(self, path: Path) -> None:
        """Drop the older half of the file."""
        self._file.close()
        try:
            with open_regular(path, 4 * self._most_bytes) as file, draft_of(path) as draft:
                file.seek(-self._most_bytes // 2, 2)
                file.readline()
                draft.touch(0o600)
                draft.write_bytes(file.read())
            self._file = Journal(path, "twin")
        except OSError as error:
            log.error("record_failed", error=error.strerror or str(error))
            self._file = Journal(None)


def _read(path: Path) -> Iterator[Answered | Resolved]:
    """Read a record; lines that are damaged or cut off are left out with a warning."""
    damaged = 0
    with open_regular(path) as file:
        while line := file.readline(MAX_LINE_BYTES):
            try:
                yield _decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                damaged += 1
    if damaged:
        log.warning("record_damaged", file=str(path), lines_left_out=damaged)


def _is_gone(job: LiveJob) -> bool:
    """Return whether a job is over and has not started."""
    return job.state == "over" and job.started_s is None


def _holds(ends: tuple[float | None, float | None], start_s: float) -> bool:
    low_s, high_s = ends
    is_late = high_s is not None and start_s > high_s + GRAIN_S
    return not is_late and low_s is not None and low_s - GRAIN_S <= start_s


def _is_over(ends: tuple[float | None, float | None], now_s: float) -> bool:
    return ends[1] is not None and ends[1] + GRAIN_S < now_s


def _forecasted(closed: list[_Closed]) -> Iterator[Forecasted]:
    for each in closed:
        low_s, high_s = each.given.ranges[RANGES.index(PROBABILITY)]
        median_s = each.given.drawn[1]
        assert median_s is not None
        ends = (-math.inf if low_s is None else low_s, math.inf if high_s is None else high_s)
        yield Forecasted(each.start_s, median_s, *ends, each.given.slurm_s)


def _reliability(closed: list[_Closed]) -> list[dict[str, Any]]:
    """Return, by how long a job was to wait, the median wait that was said and those that came."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for each in closed:
        median_s = each.given.drawn[1]
        assert median_s is not None
        said_s = median_s - each.at_s
        group = int(math.log10(max(said_s, 1.0)) * 2)
        groups.setdefault(group, []).append((said_s, each.start_s - each.at_s))
    found = []
    for _, pairs in sorted(groups.items()):
        said_s, waited_s = np.median(pairs, axis=0).tolist()
        low_s, high_s = np.quantile([pair[1] for pair in pairs], (0.1, 0.9)).tolist()
        found.append(
            {
                "answers": len(pairs),
                "said_s": said_s,
                "waited_s": waited_s,
                "low_s": low_s,
                "high_s": high_s,
            }
        )
    return found


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
