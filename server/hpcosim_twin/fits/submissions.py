"""When jobs are submitted: hours of the day, days of the week, users who wait for their jobs."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_twin.cluster.recorded import RecordedJob
from hpcosim_twin.fits.finding import Finding, share

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
THINK_S = 1200.0
"""Time after the end of a job within which a submission counts as one that waited for it, s.

Users take minutes to look at a result (Zackay and Feitelson 2013, think times below 20 minutes).
"""
PRIOR = 1.0
"""Number of hours at the mean rate that are added to those of each kind."""
SHAPES: Floats = np.geomspace(0.05, 50.0, 40)
"""Possible shapes of the negative binomial distribution of submissions in an hour."""


class Rhythm(NamedTuple):
    """Factors of the rate of submissions, with mean 1, in the time zone of the cluster.

    Attributes:
        hours: of the 24 hours of the day; all 1: the accounting shows none.
        days: of the seven days of the week from Monday on, as `hours`.
    """

    hours: tuple[float, ...] = (1.0,) * 24
    days: tuple[float, ...] = (1.0,) * 7


def rhythm(submit_s: Floats, zone: ZoneInfo) -> tuple[Rhythm, list[Finding]]:
    """Return the rhythm of submissions, and how much of it there is.

    Counts of an hour have a negative binomial distribution. A factor counts if the likelihood of
    the last fifth of the time is higher with it.

    Args:
        submit_s: ascending, Unix times, s.
    """
    hours = math.floor((submit_s[-1] - submit_s[0]) / HOUR_S) if len(submit_s) else 0
    names = ("hours of the day", "days of the week")
    spans = (3 * 24, 15 * 24)
    if hours < spans[0]:
        reason = "the accounting has less than three days"
        return Rhythm(), [_without(name, len(submit_s), reason) for name in names]
    at = ((submit_s - submit_s[0]) / HOUR_S).astype(np.int64)
    counts = np.bincount(at, minlength=hours)[:hours].astype(np.float64)
    clock = [
        datetime.fromtimestamp(submit_s[0] + HOUR_S * (hour + 0.5), UTC).astimezone(zone)
        for hour in range(hours)
    ]
    hour: Ints = np.array([each.hour for each in clock])
    day: Ints = np.array([each.weekday() for each in clock])
    cut = round(0.8 * hours)
    mean = np.full(hours, counts[:cut].mean())
    factors, findings = [], []
    for name, codes, kinds, least in zip(names, (hour, day), (24, 7), spans, strict=True):
        found = _factors(counts[:cut], mean[:cut], codes[:cut], kinds)
        gain = _likelihood(counts, mean * found[codes], cut) - _likelihood(counts, mean, cut)
        if hours < least:
            findings.append(_without(name, len(submit_s), "the accounting has less than 15 days"))
            found = np.ones(kinds)
        elif gain <= 0.0:
            reason = "a constant rate is as likely in the last fifth of the time"
            findings.append(_without(name, len(submit_s), reason))
            found = np.ones(kinds)
        else:
            ratio = float(found.max() / found.min())
            findings.append(Finding(name=name, value=ratio, observations=len(submit_s)))
        mean = mean * found[codes]
        factors.append(tuple(found.tolist()))
    return Rhythm(*factors), findings


def _without(name: str, count: int, reason: str) -> Finding:
    return Finding(name=name, value=1.0, observations=count, reason=reason)


def _factors(counts: Floats, mean: Floats, codes: Ints, kinds: int) -> Floats:
    """Return the factor of each kind of hour, shrunk towards 1."""
    prior = PRIOR * float(mean.mean())
    seen = np.bincount(codes, counts, kinds) + prior
    found: Floats = seen / (np.bincount(codes, mean, kinds) + prior)
    found /= found.mean()
    return found


def _likelihood(counts: Floats, mean: Floats, cut: int) -> float:
    """Return the log likelihood of the counts from `cut` on; the shape is of those before."""
    from scipy.stats import nbinom

    def of(shape: float, part: slice) -> float:
        return float(nbinom.logpmf(counts[part], shape, shape / (shape + mean[part])).sum())

    best = max(SHAPES.tolist(), key=lambda shape: of(shape, slice(0, cut)))
    return of(best, slice(cut, None))


def waiting_users(jobs: Sequence[RecordedJob]) -> Iterator[Finding]:
    """Yield the share of submissions for which a user waited for the end of a job.

    Such a submission comes within `THINK_S` after the end of one of the user's jobs, while none of
    them waits or runs.
    """
    by_user: defaultdict[str, list[RecordedJob]] = defaultdict(list)
    for job in jobs:
        by_user[job.asked.user].append(job)
    name = "submissions that waited for the end of a job"
    by_user.pop("", None)
    if not by_user:
        yield Finding(name=name, value=0.0, reason="the accounting has no users")
        return
    waited = total = 0
    for own in by_user.values():
        last_s = -math.inf
        for job in own:  # in the order of submission
            if last_s > -math.inf:
                total += 1
                waited += 0.0 <= job.submit_s - last_s <= THINK_S
            last_s = max(last_s, job.over_s)
    yield share(name, waited, total)
