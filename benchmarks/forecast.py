"""Scores of the forecasts of `hpcosim_schedulers.forecast` on job logs, beside naive ones.

`python -m benchmarks.forecast` prints the tables of scenarios/papers/power/forecasts.md. The logs
are in ../shared/traces.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.forecast_baselines import LEVELS, PastArrivals, PastRunTimes, Quantiles, constant
from benchmarks.forecast_replay import CASES, Case, LogEvent, events_of, jobs_of
from hpcosim_schedulers.forecast import Arrivals, Releases, RunningJobs, RunTimes
from hpcosim_workloads.table import JobSpec

HORIZONS_S = {"15 min": 900.0, "1 h": 3600.0, "6 h": 21_600.0}
EVERY_S = 5 * 3600.0 + 777.0
"""Interval of the forecasts of arrivals and releases: at all hours of the day in turn, s."""
LEARNING_S = 14 * 86_400.0
"""Time from the beginning of a log on without scores, s: baselines need a week."""
LEARNING_JOBS = 500
SAMPLES = 100
MOST_JOBS = 10_000
MODEL = "model"

Result = TypeVar("Result")


class Scores:
    """Losses of the model and of baselines, by what is forecast."""

    def __init__(self) -> None:
        self._losses: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._covered: dict[str, list[bool]] = defaultdict(list)

    def add(self, what: str, model: Quantiles, naive: dict[str, Quantiles], actual: float) -> None:
        """Add a forecast beside what happened."""
        for name, quantiles in {MODEL: model, **naive}.items():
            self._losses[what][name].append(pinball(quantiles, actual))
        self._covered[what].append(bool(model[0] <= actual <= model[-1]))

    def rows(self) -> dict[str, tuple[int, float, dict[str, float]]]:
        """Return number, coverage and mean losses by what is forecast."""
        return {
            what: (
                len(self._covered[what]),
                float(np.mean(self._covered[what])),
                {name: float(np.mean(each)) for name, each in losses.items()},
            )
            for what, losses in self._losses.items()
        }


def pinball(quantiles: Quantiles, actual: float) -> float:
    """Return the mean pinball loss at `LEVELS` (Koenker and Bassett 1978, DOI 10.2307/1913643)."""
    apart = actual - quantiles
    return float(np.maximum(np.array(LEVELS) * apart, (np.array(LEVELS) - 1.0) * apart).mean())


class Clock:
    """CPU time of calls, by name."""

    def __init__(self) -> None:
        self.spent_s: dict[str, list[float]] = defaultdict(list)

    def __call__(self, name: str, call: Callable[[], Result]) -> Result:
        """Return what a call returns, and note its time."""
        began_s = time.process_time()
        found = call()
        self.spent_s[name].append(time.process_time() - began_s)
        return found

    def mean_us(self) -> dict[str, float]:
        """Return the mean time of the calls, microseconds."""
        return {name: 1e6 * float(np.mean(each)) for name, each in self.spent_s.items()}


class Evaluation:
    """Forecasts over a log, from what is known at each time."""

    def __init__(self, events: Sequence[LogEvent]) -> None:
        self.scores, self.clock = Scores(), Clock()
        self._arrivals, self._run_times, self._releases = Arrivals(), RunTimes(), Releases()
        self._past_arrivals, self._past_run_times = PastArrivals(), PastRunTimes()
        self._running: dict[int, tuple[float, dict[str, Quantiles], JobSpec]] = {}
        self._generator = np.random.default_rng(1)
        submitted = [event.job for event in events if event.kind == "submit"]
        self._submit_s = np.array([job.submit_s for job in submitted])
        self._cores = np.cumsum([0.0, *(job.cores for job in submitted)])
        self._end_s = {event.job.job_id: event.time_s for event in events if event.kind == "end"}
        self._ended = 0

    def run(self, events: Sequence[LogEvent]) -> None:
        """Learn from all events in turn, and forecast every `EVERY_S`."""
        due_s = self._submit_s[0] + LEARNING_S
        over_s = self._submit_s[-1] - max(HORIZONS_S.values())
        for event in events:
            while due_s < min(event.time_s, over_s):
                self._forecast_arrivals(due_s)
                self._forecast_releases(due_s)
                due_s += EVERY_S
            {"submit": self._submit, "start": self._start, "end": self._end}[event.kind](event)

    def _submit(self, event: LogEvent) -> None:
        job = event.job
        asked = (event.time_s, job.user, float(job.cores), job.requested_s)
        self.clock("arrivals: update", lambda: self._arrivals.submitted(*asked))
        self._past_arrivals.submitted(job)
        model = self._run_time(job).quantiles(LEVELS) / 60.0
        if self._ended >= LEARNING_JOBS:
            naive = self._past_run_times.run_times(job)
            in_min = {name: values / 60.0 for name, values in naive.items()}
            self.scores.add("run time, min", model, in_min, job.run_s / 60.0)

    def _run_time(self, job: JobSpec):  # type: ignore[no-untyped-def]
        asked = (job.user, job.group, job.requested_s, float(job.cores))
        return self.clock("run times: query", lambda: self._run_times.distribution(*asked))

    def _start(self, event: LogEvent) -> None:
        job, time_s = event.job, event.time_s
        found = self._run_time(job)
        started = (job.job_id, time_s, float(job.cores), found)
        self.clock("releases: update", lambda: self._releases.started(*started))
        self._running[job.job_id] = time_s, self._past_run_times.run_times(job), job

    def _end(self, event: LogEvent) -> None:
        job = event.job
        ended = (job.user, job.group, job.requested_s, float(job.cores), job.run_s)
        self.clock("run times: update", lambda: self._run_times.ended(*ended))
        seen = (event.time_s, job.user, job.run_s)
        self.clock("arrivals: update", lambda: self._arrivals.ended(*seen))
        self._releases.ended(job.job_id)
        self._past_run_times.ended(job)
        self._running.pop(job.job_id, None)
        self._ended += 1

    def _forecast_arrivals(self, now_s: float) -> None:
        horizons_s = tuple(HORIZONS_S.values())
        users = [self._running[job_id][2].user for job_id in self._releases.job_ids]
        ends_s = self._releases.drawn_ends_s(now_s, SAMPLES, self._generator)
        running = RunningJobs(users, ends_s)
        self.clock(
            "arrivals: expected", lambda: self._arrivals.expected(now_s, horizons_s, running)
        )
        for name, horizon_s in HORIZONS_S.items():
            asked = (now_s, horizon_s, SAMPLES, self._generator, running)
            call = partial(self._arrivals.scenarios, *asked)
            drawn = self.clock(f"arrivals: {SAMPLES} samples, {name}", call)
            low, high = np.searchsorted(self._submit_s, (now_s, now_s + horizon_s), side="right")
            self.scores.add(
                f"jobs in {name}",
                np.quantile(drawn.counts(), LEVELS),
                self._past_arrivals.counts(now_s, horizon_s),
                float(high - low),
            )
            self.scores.add(
                f"cores in {name}",
                np.quantile(drawn.sizes(), LEVELS),
                self._past_arrivals.cores(now_s, horizon_s),
                float(self._cores[high] - self._cores[low]),
            )

    def _forecast_releases(self, now_s: float) -> None:
        at_s = now_s + np.array(list(HORIZONS_S.values()))
        asked = (now_s, at_s, SAMPLES, self._generator)
        drawn = self.clock(
            f"releases: {SAMPLES} samples", lambda: self._releases.drawn_released(*asked)
        )
        self.clock("releases: expected", lambda: self._releases.expected(now_s, at_s))
        for place, (name, until_s) in enumerate(zip(HORIZONS_S, at_s.tolist(), strict=True)):
            actual = sum(
                job.cores
                for job_id, (_, _, job) in self._running.items()
                if self._end_s[job_id] <= until_s
            )
            self.scores.add(
                f"cores released in {name}",
                np.quantile(drawn[:, place], LEVELS),
                self._naive_releases(now_s, until_s),
                float(actual),
            )

    def _naive_releases(self, now_s: float, until_s: float) -> dict[str, Quantiles]:
        """Return the cores released if each job ends when a baseline says, and not before now."""
        found: dict[str, float] = defaultdict(float)
        for start_s, naive, job in self._running.values():
            for name, values_s in naive.items():
                if name != "quantiles of user":
                    found[name] += job.cores * (max(start_s + values_s[1], now_s) <= until_s)
        return {name: constant(cores) for name, cores in found.items()}


def evaluated(case: Case, most_jobs: int) -> Evaluation | None:
    """Return the evaluation of a case; None: the log is missing."""
    jobs = jobs_of(case, most_jobs)
    if jobs is None:
        return None
    events = list(events_of(case, jobs))
    evaluation = Evaluation(events)
    evaluation.run(events)
    return evaluation


def run(smoke: bool) -> dict[str, float]:
    """Return the figures: losses / those of the best baseline, coverage, and costs."""
    figures: dict[str, float] = {}
    for case in CASES[:1] if smoke else CASES:
        evaluation = evaluated(case, 4000 if smoke else MOST_JOBS)
        if evaluation is None:
            continue
        for what, (_, coverage, losses) in evaluation.scores.rows().items():
            if naive := _best(losses)[1]:  # few jobs can all end as the naive forecast says
                figures[f"{case.title}: {what}, loss / best naive"] = losses[MODEL] / naive
            figures[f"{case.title}: {what}, coverage of 80 %"] = coverage
        for name, mean_us in evaluation.clock.mean_us().items():
            figures[f"{case.title}: {name}, us"] = mean_us
    return figures


def _best(losses: dict[str, float]) -> tuple[str, float]:
    """Return the best baseline and its loss."""
    naive = {name: loss for name, loss in losses.items() if name != MODEL}
    best = min(naive, key=naive.__getitem__, default="")
    return best, naive.get(best, math.nan)


def main() -> None:
    """Print the tables of the documentation."""
    costs: dict[str, list[float]] = defaultdict(list)
    print("| log | forecast | number | loss | best naive | its loss | 10-90 % covers |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        evaluation = evaluated(case, MOST_JOBS)
        if evaluation is None:
            print(f"| {case.title} | (missing) | | | | | |")
            continue
        for what, (number, coverage, losses) in evaluation.scores.rows().items():
            best, loss = _best(losses)
            cells = (case.title, what, number, f"{losses[MODEL]:.3g}", best, f"{loss:.3g}")
            print("| " + " | ".join(map(str, cells)) + f" | {coverage:.0%} |", flush=True)
        for name, mean_us in evaluation.clock.mean_us().items():
            costs[name].append(mean_us)
    print("\n| call | mean time, us | largest mean of a log, us |\n|---|---|---|")
    for name, each in costs.items():
        print(f"| {name} | {np.mean(each):.0f} | {max(each):.0f} |")


if __name__ == "__main__":
    main()
