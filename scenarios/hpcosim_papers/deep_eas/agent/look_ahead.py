"""Look-ahead: each promising action is simulated with the agent as base policy, the best is taken.

This is one step of policy improvement by rollouts (Bertsekas, Tsitsiklis 1996, section 6.1). The
simulations contain what a scheduler knows: submitted jobs, with their expected run times. Jobs of
the future are drawn from the submitted ones, at the rate of the last submissions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.job import Floats, Ints
from hpcosim_papers.deep_eas.agent.network import WINDOWS, LogitsOf, Scene
from hpcosim_papers.deep_eas.agent.step_jobs import AFTER_ALL, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import UNSET, Moment, StepRuns, normalised_edps

RECENT = 16  # steps from which the arrival rate is estimated
LONGEST = 120  # steps: the longest sequence in the prior of the remaining arrivals


class LookAhead(NamedTuple):
    """Settings of the look-ahead.

    Attributes:
        actions: number of actions that are simulated, the most probable ones.
        steps: number of future steps in which jobs arrive.
        sure: probability of the best action from which nothing is simulated.
        margin: standard errors by which the mean cost of another action must be lower than that of
            the most probable one.
    """

    actions: int = 2
    futures: int = 16
    steps: int = 24
    sure: float = 0.9
    margin: float = 1.0


def improved_actions(
    network: LogitsOf,
    machines: Machines,
    moment: Moment,
    scene: Scene,
    settings: LookAhead,
    rng: np.random.Generator,
) -> Ints:
    """Return the action of each run, int64[runs].

    Runs with waiting jobs outside the slots take the agent's action: the simulation of a long queue
    takes too long.

    Args:
        moment: what a scheduler knows, see `known_part`.
    """
    logits = network(scene)
    chosen: Ints = logits.argmax(axis=1)
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    unsure = (odds.max(axis=1) < settings.sure * odds.sum(axis=1)) & (scene.behind == 0)
    rows = np.flatnonzero(unsure)
    if not len(rows):
        return chosen
    count = min(settings.actions, logits.shape[1])
    ranked = np.argsort(-logits[rows], axis=1, kind="stable")[:, :count]
    ranked = np.where(np.isfinite(np.take_along_axis(logits[rows], ranked, 1)), ranked, UNSET)
    futures = with_futures(moment.take(np.repeat(rows, settings.futures)), settings.steps, rng)
    costs = _costs(network, machines, futures, np.repeat(ranked, settings.futures, axis=0))
    better = _scores(costs.reshape(len(rows), settings.futures, count), settings.margin)
    chosen[rows] = ranked[np.arange(len(rows)), better.argmin(axis=1)]
    return chosen


def _scores(costs: Floats, margin: float) -> Floats:
    """Return upper bounds of the costs relative to the first action, float64[runs, actions]."""
    with np.errstate(invalid="ignore"):
        more = costs - costs[:, :, :1]
        error = more.std(axis=1) / max(costs.shape[1] - 1, 1) ** 0.5
        bound = more.mean(axis=1) + margin * error
    bound[:, 0] = 0.0
    scores: Floats = np.where(np.isnan(bound), np.inf, bound)
    return scores


def _costs(network: LogitsOf, machines: Machines, futures: Moment, actions: Ints) -> Floats:
    """Return the cost of each action in each future, float64[futures, actions]; infinity: none."""
    future, place = np.nonzero(actions != UNSET)
    runs = StepRuns.resumed(machines, futures.take(future))
    runs.take(np.arange(len(future)), actions[future, place])
    while len(active := runs.active()):
        runs.take(active, network(runs.scene.some(active)).argmax(axis=1))
    costs = np.full(actions.shape, np.inf)
    costs[future, place] = normalised_edps(runs).sum(axis=1)
    return costs


def known_part(moment: Moment) -> Moment:
    """Return what a scheduler knows: submitted jobs, without those that ended some time ago."""
    jobs, now = moment.jobs, moment.now[:, None]
    ran = np.where(moment.start != UNSET, now - moment.start, 0)[:, None]
    at = np.maximum(moment.machine, 0)[:, None]
    own = np.take_along_axis(jobs.actual, at, axis=1)
    ended = (moment.start != UNSET)[:, None] & (own <= ran)
    guess = np.maximum(jobs.expected, ran + 1).astype(np.int16)
    actual = np.where(ended, jobs.actual, guess)
    past = ended[:, 0] & (jobs.submit <= now - WINDOWS[-1])
    known = jobs.valid & (jobs.submit <= now) & ~past
    submit = np.where(known, jobs.submit, AFTER_ALL)
    return moment._replace(jobs=StepJobs(known, submit, jobs.cores, jobs.expected, actual))


def with_futures(moment: Moment, steps: int, rng: np.random.Generator) -> Moment:
    """Return runs with drawn future jobs, at most one in each of the next steps."""
    jobs, count = moment.jobs, len(moment.now)
    step = np.arange(1, steps + 1)
    comes = (step <= _remaining(moment, rng)[:, None]) & (
        rng.random((count, steps)) < _rate(moment)[:, None]
    )
    number = jobs.valid.sum(axis=1)
    places = np.argsort(~jobs.valid, axis=1, kind="stable")
    like = np.take_along_axis(
        places, (rng.random((count, steps)) * number[:, None]).astype(np.int64), 1
    )
    line = np.arange(count)[:, None]
    times = jobs.expected[line[:, None], np.arange(jobs.expected.shape[1])[:, None], like[:, None]]
    new = StepJobs(
        comes,
        np.where(comes, moment.now[:, None] + step, AFTER_ALL),
        jobs.cores[line, like],
        times,
        times,
    )
    both = StepJobs(
        np.concatenate([jobs.valid, new.valid], axis=1),
        np.concatenate([jobs.submit, new.submit], axis=1),
        np.concatenate([jobs.cores, new.cores], axis=1),
        np.concatenate([jobs.expected, new.expected], axis=2),
        np.concatenate([jobs.actual, new.actual], axis=2),
    )
    unset = np.full((count, steps), UNSET)
    parts = (moment.machine, moment.start, moment.turn)
    machine, start, turn = (np.concatenate([part, unset], axis=1) for part in parts)
    return Moment(both, moment.now, machine, start, turn, moment.idle)


def _age(moment: Moment) -> Ints:
    """Return the steps since the first known submission, at least 1."""
    age: Ints = moment.now - moment.jobs.submit.min(axis=1) + 1
    return age


def _rate(moment: Moment) -> Floats:
    """Return the estimated arrival probability."""
    ago = moment.now[:, None] - moment.jobs.submit
    recent = ((ago >= 0) & (ago < RECENT)).sum(axis=1)
    rate: Floats = np.minimum(recent / np.minimum(_age(moment), RECENT), 1.0)
    return rate


def _remaining(moment: Moment, rng: np.random.Generator) -> Floats:
    """Draw the number of steps in which jobs still arrive, float64[runs].

    The prior of the length of a sequence is log-uniform up to `LONGEST`. The posterior that it has
    ended uses the steps without a submission.
    """
    age, rate = _age(moment), _rate(moment)
    came = np.where(moment.jobs.submit <= moment.now[:, None], moment.jobs.submit, -1)
    quiet = moment.now - came.max(axis=1)
    over = np.log((age + 1) / np.maximum(age - quiet, 1))
    left = np.maximum(np.log(LONGEST / (age + 1.0)), 0.1)
    alive = left * (1.0 - np.minimum(rate, 0.95)) ** quiet
    goes_on = rng.random(len(age)) < alive / (alive + over)
    longer: Floats = np.where(goes_on, age * np.expm1(rng.random(len(age)) * left), 0.0)
    return longer
