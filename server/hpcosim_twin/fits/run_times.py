"""Which run times say most of a job: those of its user, of its account, of as many cores."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_schedulers.forecast import TimeDistribution
from hpcosim_twin.cluster.observation import EndedJob, JobRunTimes
from hpcosim_twin.fits.finding import Finding

OFFSET_S = 60.0
MOST = 12_000
"""Most jobs, the last ones, of which the models learn."""
MOST_ASKED = 2000
"""Most jobs of the last fifth for which the models are asked."""
LEAST = 100


class RunTimeChoice(NamedTuple):
    """What run times depend on beside the user and the requested time."""

    by_account: bool = True
    by_cores: bool = True


def score(distribution: TimeDistribution, run_s: float) -> float:
    """Return the continuous ranked probability score of log(run time + `OFFSET_S`).

    E|X - y| - E|X - X'| / 2 (Gneiting and Raftery 2007, DOI 10.1198/016214506000001437).
    """
    values = np.log(distribution.values_s + OFFSET_S)
    shares: Floats = np.diff(distribution.upto, prepend=0.0)
    apart = np.abs(values - np.log(run_s + OFFSET_S))
    spread = values * (2.0 * distribution.upto - shares - 1.0)
    return float(shares @ (apart - spread))


def chosen(history: Sequence[EndedJob]) -> tuple[RunTimeChoice, list[Finding]]:
    """Return the choice with the best score in the last fifth of the history.

    Args:
        history: in the order of the ends.
    """
    jobs = list(history)[-MOST:]
    names = ("run times by account", "run times by cores")
    counts = (len({job.account for job in jobs}), len({job.cores for job in jobs}))
    constant = ("the jobs have one account", "the jobs have one number of cores")
    few = len(jobs) < LEAST
    free = [count > 1 and not few for count in counts]
    tried = {
        RunTimeChoice(*flags): _mean_score(jobs, *flags)
        for flags in product(*((False, True) if each else (False,) for each in free))
    }
    best = min(tried, key=lambda choice: tried[choice])
    findings = []
    for at, name in enumerate(names):
        reason = "" if free[at] else constant[at]
        if few:
            reason = f"only {len(jobs)} jobs ended; {LEAST} are needed"
        value = 1.0 if few else float(best[at])
        findings.append(Finding(name=name, value=value, observations=len(jobs), reason=reason))
    findings.append(
        Finding(
            name="score of log run times (CRPS)",
            value=tried[best],
            observations=len(jobs),
            reason="" if jobs else "no job ended",
        )
    )
    return (RunTimeChoice() if few else best), findings


def _mean_score(jobs: Sequence[EndedJob], by_account: bool, by_cores: bool) -> float:
    model, scores = JobRunTimes(by_account, by_cores), []
    cut = round(0.8 * len(jobs))
    every = max((len(jobs) - cut) // MOST_ASKED, 1)
    for number, job in enumerate(jobs):
        if number >= cut and number % every == 0:
            key = model.key(job.user, job.account, job.requested_s, job.cores)
            run_s = job.requested_s if job.run_s is None else job.run_s
            scores.append(score(model.distribution(*key), run_s))
        model.learn(job)
    return float(np.mean(scores)) if scores else 0.0


def prepared(history: Sequence[EndedJob], choice: RunTimeChoice) -> tuple[EndedJob, ...]:
    """Return a history without what the choice leaves out."""
    return tuple(
        job._replace(
            account=job.account if choice.by_account else "",
            cores=job.cores if choice.by_cores else 0.0,
        )
        for job in history
    )
