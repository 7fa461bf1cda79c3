"""The calibration of a cluster: fits of its accounting, and how good forecasts of the rest are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from hpcosim_experiments.executors import ParallelMap
from hpcosim_slurm.files.output import write_files
from hpcosim_slurm.texts import zone_of
from hpcosim_twin.answers.calibration import LEVELS, AdaptiveRanges
from hpcosim_twin.cluster.observation import ForecastError, Observation, read_json
from hpcosim_twin.cluster.recorded import Accounting, RecordedJob
from hpcosim_twin.fits import run_times
from hpcosim_twin.fits.finding import Finding
from hpcosim_twin.fits.outcomes import giving_up, outcomes
from hpcosim_twin.fits.periods import periods, start_delay
from hpcosim_twin.fits.replay import (
    Judged,
    Quality,
    asked_about,
    by_group,
    judged,
    reliability,
    sampled,
)
from hpcosim_twin.fits.run_times import RunTimeChoice
from hpcosim_twin.fits.submissions import Rhythm, rhythm, waiting_users

MAX_BYTES = 1 << 26
WANTED = "a file of `hpcosim calibrate`"
KEPT_S = 28 * 86_400.0
KEPT_SHARE = 0.2
"""The kept part is the last `KEPT_S` of the submissions, or the last fifth if that is shorter."""
LEAST_JOBS = 50
MOST_SCORES = 1000


class CalibrationSettings(NamedTuple):
    """How a cluster is calibrated.

    Attributes:
        questions: most jobs of the kept part that are asked about; half as many of the time before.
        futures: simulations of each question.
        seed: seed of all draws.
        time_zone: that of the cluster, for the rhythm.
        parallel: runs the simulations; None: one after another, in this process.
    """

    questions: int = 100
    futures: int = 50
    seed: int = 0
    time_zone: str = "UTC"
    parallel: ParallelMap | None = None


class ClusterCalibration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the accounting says of a cluster. Times are Unix times, s.

    Attributes:
        first_s, kept_s, last_s: begin of the accounting, of the kept part, and end.
        findings: the fits of the time before the kept part.
        run_times: what run times depend on.
        rhythm: factors of the rate of submissions.
        scores: scores of the answers, the oldest first: the prior of `AdaptiveRanges`.
        kept: quality of the answers about jobs of the kept part.
        levels, reached: reliability: level of each calibrated quantile, and the share of the waits
            up to it.
        warnings: what was dropped, guessed or left out, with counts.
    """

    format: Literal["hpcosim calibration 1"] = "hpcosim calibration 1"
    jobs: int
    first_s: float
    kept_s: float
    last_s: float
    time_zone: str
    findings: tuple[Finding, ...]
    run_times: RunTimeChoice
    rhythm: Rhythm
    scores: tuple[float, ...]
    kept: tuple[Quality, ...]
    levels: tuple[float, ...]
    reached: tuple[float, ...]
    warnings: tuple[str, ...] = ()


def calibrated(
    accounting: Accounting,
    settings: CalibrationSettings,
    warnings: Sequence[str] = (),
    tell: Callable[[str], object] = lambda _: None,
) -> ClusterCalibration:
    """Return the calibration of a cluster.

    The fits use the time before the kept part. The answers about jobs of the kept part, and about
    jobs of the time before, use what was known at each submission; the latter are the first scores.

    Args:
        warnings: what reading the accounting dropped and guessed.
        tell: gets the progress.

    Raises:
        ForecastError: there are too few jobs.
    """
    first_s, last_s = float(accounting.submit_s[0]), accounting.last_s
    submitted_s = float(accounting.submit_s[-1])
    kept_s = submitted_s - min(KEPT_S, KEPT_SHARE * (submitted_s - first_s))
    before = accounting.until(kept_s)
    ended = [job for job in before.jobs if job.runs and math.isfinite(job.over_s)]
    if len(ended) < LEAST_JOBS:
        raise ForecastError(
            f"{len(ended)} jobs ended before {_date(kept_s)}, where the part begins that is kept "
            f"for the test; expected at least {LEAST_JOBS}: read more months"
        )
    tell(f"fits of {len(before.jobs):,} jobs up to {_date(kept_s)}")
    history = [job.ended for job in before.ended_by(kept_s) if job.ended is not None]
    choice, of_run_times = run_times.chosen(history)
    found_rhythm, of_rhythm = rhythm(before.submit_s, zone_of(settings.time_zone))
    findings = [
        *of_run_times,
        *of_rhythm,
        *waiting_users(before.jobs),
        *outcomes(before.jobs),
        *giving_up(before.jobs, kept_s),
        *start_delay(before.jobs),
        *periods(before.jobs, accounting.site.settings),
    ]
    noted = list(warnings)
    split_s = first_s + 0.5 * (kept_s - first_s)
    earlier = sampled(accounting, split_s, kept_s, settings.questions // 2, settings.seed)
    later = sampled(accounting, kept_s, last_s, settings.questions, settings.seed)
    answers = _judged(accounting, [*earlier, *later], choice, settings, noted.append, tell)
    kept = [each for each in answers.found if each.asked.asked_s >= kept_s]
    if not kept:
        noted.append("no job of the kept part waited for a minute: nothing is known of ranges")
    return ClusterCalibration(
        jobs=len(accounting.jobs),
        first_s=first_s,
        kept_s=kept_s,
        last_s=last_s,
        time_zone=settings.time_zone,
        findings=tuple(findings),
        run_times=choice,
        rhythm=found_rhythm,
        scores=tuple(answers.scores[-MOST_SCORES:]),
        kept=tuple(by_group(kept)) if kept else (),
        levels=LEVELS,
        reached=tuple(reliability(kept, LEVELS)) if kept else (),
        warnings=tuple(noted),
    )


class _Answers(NamedTuple):
    found: list[Judged]
    scores: list[float]


def _judged(
    accounting: Accounting,
    jobs: Sequence[RecordedJob],
    choice: RunTimeChoice,
    settings: CalibrationSettings,
    warn: Callable[[str], object],
    tell: Callable[[str], object],
) -> _Answers:
    tell(f"{len(jobs)} jobs, {settings.futures} futures each")
    ranges = AdaptiveRanges()
    asked = asked_about(
        accounting, jobs, choice, settings.futures, settings.seed, settings.parallel, warn
    )
    found = judged(list(asked), ranges)
    return _Answers(found, ranges.scores)


def write_calibration(found: ClusterCalibration, path: Path, *, force: bool = False) -> None:
    """Write a calibration as JSON.

    Raises:
        InputError: the file exists, or cannot be written.
    """
    content = msgspec.json.format(msgspec.json.encode(found), indent=1)
    write_files({path: content + b"\n"}, force=force)


def read_calibration(path: Path) -> ClusterCalibration:
    """Return the calibration in a file.

    Raises:
        OSError: the file cannot be read.
        ForecastError: it is no calibration.
    """
    return read_json(path, MAX_BYTES, ClusterCalibration, WANTED)


def prepared(seen: Observation, found: ClusterCalibration) -> Observation:
    """Return an observation whose history has what run times depend on in this cluster."""
    return replace(seen, history=run_times.prepared(seen.history, found.run_times))


def _date(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).date().isoformat()
