"""Scores forecasts of starts on the recorded runs of a real Slurm.

`PYTHONPATH=tests python -m benchmarks.slurm_forecasts` prints tables of
scenarios/papers/power/forecasts.md, with `--knowledge` another one. The recorded runs are in
../shared/golden/slurm.
"""

from __future__ import annotations

import argparse
import gzip
import math
import re
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_experiments.executors import Local, ParallelMap, parallel_map
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_twin.answers.calibration import (
    PROBABILITY,
    AdaptiveRanges,
    Forecasted,
    PastRange,
    Score,
    learned_ranges,
    range_of,
    score_of,
)
from hpcosim_twin.cluster.observation import DrawnRunTimes, EndedJob, JobRunTimes
from hpcosim_twin.cluster.queue_state import QueuedJob, QueueState, SlurmAt
from hpcosim_twin.fits.replay import Asked, Judged, drawn_waits, judged
from hpcosim_twin.futures.compiled import compile_engine, starts_of
from hpcosim_twin.futures.forecast import (
    LONGEST_S,
    StartForecast,
    Submissions,
    drawn_run_times,
    forecast_starts,
)
from hpcosim_workloads.table import JobSpec
from support.golden_slurm import (
    GOLDEN_SLURM,
    RecordedJob,
    RecordedRun,
    micro_cluster,
    micro_settings,
    recorded_run,
    run_of_events,
)
from support.sbatch_jobs import NODES

EVERY_S = 300.0
SAMPLES = 20
FUTURES = 10
"""Simulations of each job that is asked about at its submission."""
SEED = 7
FEW = 20
"""Number of answers before the engine is compiled, so that it knows most kinds of jobs."""
KNOWN = {
    "nothing": (False, False),
    "run times": (False, True),
    "submissions": (True, False),
    "both": (True, True),
}
"""What answers know of the future: whether its submissions, and its run times."""


def expected_starts(folder: Path) -> Iterator[tuple[float, dict[int, float]]]:
    """Yield the times at which `squeue --start` was recorded, and what it said by job."""
    at_s, found = 0.0, dict[int, float]()
    with gzip.open(folder / "squeue.txt.gz", "rt", encoding="utf-8") as file:
        for line in file:
            if line.startswith("## t="):
                if found:
                    yield at_s, found
                at_s, found = float(line[5:]), {}
            elif (words := line.split())[1:2] == ["PD"] and len(words) == 7:
                found[int(words[0])] = float(words[6])
    if found:
        yield at_s, found


def usage_at(folder: Path, at_s: float) -> dict[str, float]:
    """Return the raw usage of each user at a time, from `sshare`."""
    found: dict[str, float] = {}
    for line in (folder / "sshare.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"## t=(\S+)", line):
            if float(match[1]) > at_s:
                break
        elif (fields := line.split("|"))[1:2] not in ([], [""], ["User"]):
            found[fields[1]] = float(fields[4])
    return found


def state_at(
    run: RecordedRun, jobs: dict[int, JobSpec], usage: dict[str, float], now_s: float
) -> QueueState:
    """Return the cluster at an instant of a recorded run."""
    queued, past = [], []
    for number, job in run.jobs.items():
        spec = jobs[number]
        if job.submit_s > now_s:
            continue
        if job.end_s <= now_s:
            past.append(spec)
            continue
        if job.start_s > now_s:
            queued.append(QueuedJob(spec))
            continue
        nodes = tuple(NODES.index(name) for name in job.nodes)
        queued.append(QueuedJob(spec, job.start_s, nodes, spread(spec, nodes)))
    settings = micro_settings(run)
    for account in settings["accounts"].values():
        for user, rules in account["users"].items():
            rules["usage_s"] = usage.get(user, 0.0)
    policy = SlurmAt(parse_site(settings), now_s, now_s - run.ctld_start_s)
    return QueueState(now_s, micro_cluster(), queued, policy, past=past)


def spread(spec: JobSpec, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the cores of a job on each of its nodes."""
    each, rest = divmod(spec.cores, len(nodes))
    return tuple(each + (at < rest) for at in range(len(nodes)))


class Compared(NamedTuple):
    """A forecast beside what happened.

    Attributes:
        at_s: time of the forecast, s.
        drawn: the forecast with the range as it was drawn.
        widened: the same with a range that earlier forecasts have widened.
    """

    at_s: float
    drawn: Forecasted
    widened: Forecasted


def forecasts_of(name: str, parallel: ParallelMap) -> Iterator[Compared]:
    """Yield the forecasts in a recorded run."""
    folder = GOLDEN_SLURM / name
    run, specs = run_of_events(name, "jobs500_shrinked")
    jobs = {spec.job_id: spec for spec in specs}
    due_s, made = 0.0, list[tuple[float, StartForecast]]()
    for at_s, expected in expected_starts(folder):
        if at_s < due_s:
            continue
        due_s = at_s + EVERY_S
        history = [
            ended_job(jobs[number], job)
            for number, job in sorted(run.jobs.items(), key=lambda item: item[1].end_s)
            if job.end_s <= at_s
        ]
        state = state_at(run, jobs, usage_at(folder, at_s), at_s)
        drawn = forecast_starts(state, history, SAMPLES, SEED, parallel)
        by = learned_ranges(past_ranges(run, made, at_s)).ranges(at_s)[PROBABILITY]
        for each in drawn:
            start_s, said_s = run.jobs[each.job_id].start_s, expected.get(each.job_id)
            times_s = (each.low_s, each.median_s, each.high_s)
            low_s, high_s = range_of(PastRange(at_s, *times_s, None), by)
            yield Compared(
                at_s,
                Forecasted(start_s, each.median_s, each.low_s, each.high_s, said_s),
                Forecasted(start_s, each.median_s, low_s, high_s, said_s),
            )
        made += [(at_s, each) for each in drawn]


def past_ranges(
    run: RecordedRun, made: list[tuple[float, StartForecast]], at_s: float
) -> Iterator[PastRange]:
    """Yield earlier forecasts, with their times, and the starts that are known at a time."""
    for asked_s, each in made:
        start_s = run.jobs[each.job_id].start_s
        known_s = start_s if start_s <= at_s else None
        yield PastRange(asked_s, each.low_s, each.median_s, each.high_s, known_s)


class AtSubmission(NamedTuple):
    """An answer about a job at its submission, beside the first that Slurm gave.

    Attributes:
        said_s: start that `squeue --start` first said, s; None: none before the start.
    """

    judged: Judged
    said_s: float | None


class Submitted(NamedTuple):
    """A job of a recorded run at its submission.

    Attributes:
        state: the cluster without the job.
        model: the run times that are known then; the next job learns further ones.
        later: the jobs that are submitted after it.
    """

    number: int
    state: QueueState
    own: QueuedJob
    model: JobRunTimes
    later: list[QueuedJob]


def submitted(name: str) -> Iterator[Submitted]:
    """Yield the jobs of a recorded run at their submissions."""
    run, specs = run_of_events(name, "jobs500_shrinked")
    jobs = {spec.job_id: spec for spec in specs}
    by_end = sorted(run.jobs.items(), key=lambda item: item[1].end_s)
    order = sorted(run.jobs.items(), key=lambda item: item[1].submit_s)
    model, ended = JobRunTimes(), 0
    for number, job in order:
        now_s = job.submit_s
        while by_end[ended][1].end_s <= now_s:
            model.learn(ended_job(jobs[by_end[ended][0]], by_end[ended][1]))
            ended += 1
        state = state_at(run, jobs, usage_at(GOLDEN_SLURM / name, now_s), now_s)
        others = [each for each in state.jobs if each.spec.job_id != number]
        later = [QueuedJob(jobs[each]) for each, found in order if found.submit_s > now_s]
        yield Submitted(number, replace(state, jobs=others), QueuedJob(jobs[number]), model, later)


def at_submission(name: str, futures: int) -> list[AtSubmission]:
    """Return the answers about each job of a recorded run at its submission."""
    run, _ = run_of_events(name, "jobs500_shrinked")
    said: dict[int, float] = {}
    for at_s, expected in expected_starts(GOLDEN_SLURM / name):
        for number, start_s in expected.items():
            if at_s < run.jobs[number].start_s:
                said.setdefault(number, start_s)
    asked, numbers = list[Asked](), list[int]()
    for number, state, own, model, _ in submitted(name):
        if len(asked) == FEW:
            compile_engine(state, own)
        waits_s = drawn_waits(state, own, model, futures, (SEED, number))
        wait_s = run.jobs[number].start_s - state.now_s
        asked.append(Asked("", "", state.now_s, wait_s, waits_s))
        numbers.append(number)
    found = judged(asked, AdaptiveRanges())
    return [AtSubmission(*each) for each in zip(found, map(said.get, numbers), strict=True)]


def with_knowledge(name: str, every: int, futures: int) -> dict[str, float]:
    """Return the median errors, s, of answers at submission that know more or less of the future.

    Args:
        every: one of so many jobs is asked about.
        futures: simulations of each answer.
    """
    run, _ = run_of_events(name, "jobs500_shrinked")
    real_s = {
        number: math.inf if job.end_by == "timelimit" else job.end_s - job.start_s
        for number, job in run.jobs.items()
    }
    errors: dict[str, list[float]] = {each: [] for each in KNOWN}
    for number, state, own, model, later in islice(submitted(name), 0, None, every):
        compile_engine(state, own)
        submissions = Submissions(state, beside=1)
        least_s = {
            job.spec.job_id: state.now_s - job.started_s + 0.5  # recorded times are whole seconds
            for job in state.jobs
            if job.started_s is not None
        }
        for what, (knows_submissions, knows_run_times) in KNOWN.items():
            starts_s = []
            for seed in range(futures):
                generator = np.random.default_rng((SEED, seed, number))
                drawn = submissions.drawn(LONGEST_S, generator)
                future = later if knows_submissions else drawn
                times = DrawnRunTimes(model, generator)
                run_s = drawn_run_times(times, [*state.jobs, *future, own], state.now_s)
                if knows_run_times:
                    run_s |= {each: real_s[each] for each in run_s.keys() & real_s.keys()}
                run_s |= {each: max(run_s[each], least_s[each]) for each in least_s}
                found = starts_of(state, run_s, generator, future, own)
                starts_s.append(found.get(number, math.inf))
            errors[what].append(abs(statistics.median(starts_s) - run.jobs[number].start_s))
    return {what: statistics.median(found) for what, found in errors.items()}


def ended_job(spec: JobSpec, job: RecordedJob) -> EndedJob:
    """Return what the history has of a job."""
    run_s = None if job.end_by == "timelimit" else job.end_s - job.start_s
    return EndedJob(spec.user, spec.requested_s, run_s, "", spec.cores)


def submission_row(name: str, found: Sequence[AtSubmission]) -> str:
    """Return the cells of the answers of a run."""
    answers = []
    for each in found:
        asked_s, wait_s = each.judged.asked.asked_s, each.judged.asked.wait_s
        low_s, high_s = each.judged.range_s(PROBABILITY)
        median_s = asked_s + each.judged.drawn.wait_s(0.0)
        range_s = asked_s + low_s, asked_s + high_s
        answers.append(Forecasted(asked_s + wait_s, median_s, *range_s, each.said_s))
    widths = [answer.high_s - answer.low_s for answer in answers]
    return f"| {name} | {row(score_of(answers))} | {statistics.median(widths):.0f} s |"


def main() -> None:
    """Print the tables of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--knowledge", action="store_true", help="errors of answers that know more of the future"
    )
    if parser.parse_args().knowledge:
        for name in ("run1", "run2"):
            print(name, with_knowledge(name, every=12, futures=20), flush=True)
        return
    print(
        "| run | forecasts made | number | median error | of these | of `squeue --start` "
        "| 10-90 % covers | widened |"
    )
    print("|---|---|---|---|---|---|---|---|")
    with parallel_map(Local()) as parallel:
        for name in ("run1", "run2"):
            run = recorded_run(GOLDEN_SLURM / name)
            last_s = max(job.submit_s for job in run.jobs.values())
            found = list(forecasts_of(name, parallel))
            for when, chosen in (
                ("while jobs are submitted", [each for each in found if each.at_s < last_s]),
                ("after the last submission", [each for each in found if each.at_s >= last_s]),
            ):
                wider = score_of(each.widened for each in chosen).coverage
                cells = row(score_of(each.drawn for each in chosen))
                print(f"| {name} | {when} | {cells} | {wider:.0%} |", flush=True)
    print(
        "\n| run | jobs at submission | median error | of these | of `squeue --start` "
        "| 80 % range holds | its width |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in ("run1", "run2"):
        print(submission_row(name, at_submission(name, FUTURES)), flush=True)


def row(score: Score) -> str:
    """Return the cells of a score."""
    return (
        f"{score.forecasts} | {score.error_s:.0f} s | {score.compared_error_s:.0f} s | "
        f"{score.slurm_error_s:.0f} s | {score.coverage:.0%}"
    )


if __name__ == "__main__":
    main()
