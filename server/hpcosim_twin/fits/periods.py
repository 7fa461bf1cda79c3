"""What starts show of the scheduler: the delay of starts on an idle cluster, and its periods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_twin.cluster.recorded import RecordedJob
from hpcosim_twin.fits.finding import Finding, bootstrapped

LEAST = 20
"""Number of observations from which on something is fitted."""
LONGEST_S = 900.0
"""Longest delay of a start that nothing but the scheduler causes, s."""
GRAIN_S = 2.0
"""Events this close to a start may have caused it, s: the accounting has whole seconds."""
PERIODS_S = (10.0, 600.0)
"""Least and greatest period that is looked for, s."""
SPREAD_S = 2.0
"""Standard deviation of the time between two passes, s: they take time, and the grain is 1 s."""
BY_CHANCE = 0.3
"""Share of the gaps between starts that have nothing to do with the period."""
LEAST_GAIN = 0.5
"""Gain of the mean log likelihood of a gap from which on a period is found."""


def start_delay(jobs: Sequence[RecordedJob]) -> Iterator[Finding]:
    """Yield the delay between eligibility and start of jobs that start on an idle cluster.

    No other job waits when such a job becomes eligible, and no job ends until it starts.
    """
    delays = _idle_delays(jobs)
    names = ("start delay, median", "start delay, 90 %")
    for name, level in zip(names, (0.5, 0.9), strict=True):
        if len(delays) < LEAST:
            reason = f"only {len(delays)} jobs started on an idle cluster; {LEAST} are needed"
            yield Finding(name=name, value=0.0, unit="s", observations=len(delays), reason=reason)
            continue
        low, high = bootstrapped(delays, level)
        value = float(np.quantile(delays, level))
        yield Finding(
            name=name, value=value, unit="s", low=low, high=high, observations=len(delays)
        )


def _idle_delays(jobs: Sequence[RecordedJob]) -> Floats:
    waits = [job for job in jobs if math.isfinite(min(job.start_s, job.over_s))]
    submits = np.array([job.submit_s for job in waits])
    leaves = np.array([min(job.start_s, job.over_s) for job in waits])
    ends = np.sort([run.end_s for job in jobs for run in job.runs])
    ascending = np.sort(leaves)
    found = []
    for job in waits:
        eligible_s = job.asked.eligible_s
        if not job.runs or eligible_s is None:
            continue
        delay_s = job.start_s - eligible_s
        if not 0.0 <= delay_s <= LONGEST_S:
            continue
        submitted = np.searchsorted(submits, job.start_s, side="right")
        gone = np.searchsorted(ascending, eligible_s, side="left")
        first, last = np.searchsorted(ends, (eligible_s - GRAIN_S, job.start_s + GRAIN_S))
        if submitted - gone <= 1 and first == last:  # only the job itself
            found.append(delay_s)
    return np.array(found)


def periods(jobs: Sequence[RecordedJob], settings: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the period with which waiting jobs start, and where it is set.

    Starts that no submission and no end causes come from passes at intervals. The gap between two
    of them is a multiple of the interval, so the rest of the gap is near 0. The likelihood of the
    rests is a normal distribution around 0 and, for the share `BY_CHANCE`, a uniform one.

    Args:
        settings: those of the scheduler `slurm`.
    """
    stated = settings.get("scheduler", {})
    named = [name for name in ("bf_interval_s", "sched_interval_s") if name in stated]
    default = parse_site({"scheduler": dict(stated)}).scheduler.bf_interval_s
    name = "interval of passes that start waiting jobs"
    gaps = _gaps(jobs)
    if len(gaps) < LEAST:
        reason = (
            f"only {len(gaps)} gaps between starts without a submission or an end; {LEAST} are "
            f"needed: bf_interval {'of slurm.conf' if named else 'by default'}"
        )
        yield Finding(name=name, value=default, unit="s", observations=len(gaps), reason=reason)
        return
    period_s, gain = _fitted(gaps)
    if gain < LEAST_GAIN:
        reason = "the starts show no interval: bf_interval "
        reason += "of slurm.conf" if named else "by default"
        yield Finding(name=name, value=default, unit="s", observations=len(gaps), reason=reason)
        return
    yield Finding(name=name, value=period_s, unit="s", observations=len(gaps))


def _fitted(gaps: Floats) -> tuple[float, float]:
    """Return the most likely period, s, and the gain of the mean log likelihood by it."""
    from scipy.optimize import minimize_scalar

    def loss(period_s: float) -> float:
        rest = gaps - period_s * np.round(gaps / period_s)
        normal = np.exp(-0.5 * (rest / SPREAD_S) ** 2) / (SPREAD_S * math.sqrt(2.0 * math.pi))
        return -float(np.log(BY_CHANCE + (1.0 - BY_CHANCE) * normal * period_s).mean())

    grid = np.geomspace(*PERIODS_S, 800)
    first = float(grid[int(np.argmin([loss(period_s) for period_s in grid.tolist()]))])
    found = minimize_scalar(loss, bounds=(first / 1.01, first * 1.01), method="bounded")
    return float(found.x), -float(found.fun)


def _gaps(jobs: Sequence[RecordedJob]) -> Floats:
    """Return the gaps between successive starts that only a pass can have caused, s."""
    starts = {run.start_s for job in jobs for run in job.runs if run.start_s > job.submit_s}
    others = np.sort(
        [time_s for job in jobs for time_s in (job.submit_s, *(run.end_s for run in job.runs))]
    )
    by_pass = []
    for start_s in sorted(starts):
        first, last = np.searchsorted(others, (start_s - GRAIN_S, start_s), side="right")
        if first == last:
            by_pass.append(start_s)
    gaps = np.diff(np.array(by_pass))
    found: Floats = gaps[(gaps > PERIODS_S[0] / 2) & (gaps <= 2.0 * PERIODS_S[1])]
    return found
