"""Self-excitation by direct sums over all events, and by small steps of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from hpcosim_client.arrays import Floats, Ints
from hpcosim_schedulers.forecast.excitation import (
    BETA_PER_S,
    CAUSES,
    GLOBAL_PRIOR,
    NEW_USERS,
    OF_ENDS,
    PRIOR_CAUSED,
    USER_PRIOR,
    Excitation,
)


class UserEvent(NamedTuple):
    """A submission or the end of a job of a user, at a time, s."""

    time_s: float
    user: int
    is_end: bool


def shares_by_sums(events: Sequence[UserEvent]) -> list[Floats]:
    """Return the share of each kernel in the cause of each submission, within the first hour.

    The rhythm of the week is 1 there. `events` are in the order of time, from 0 on.
    """
    found: list[Floats] = []
    submitters: list[int] = []
    for place, event in enumerate(events):
        if event.is_end:
            continue
        before = events[:place]
        own = [number for number, user in enumerate(submitters) if user == event.user]
        own_caused = sum((found[number] for number in own), np.zeros(len(CAUSES)))
        weights = (own_caused + USER_PRIOR * _common(before, found, event)) / (
            _exposed(before, event.user, event.time_s) + USER_PRIOR
        )
        parts = weights * BETA_PER_S * _state(before, event.user, event.time_s)
        alone = [1.0 - float(shares.sum()) for shares in found]
        own_alone = sum(alone[number] for number in own)
        spontaneous = 1.0 + sum(alone)
        mu_per_s = spontaneous / (3600.0 + event.time_s)
        likely = (own_alone if event.user in submitters else NEW_USERS) + 1e-3
        base = mu_per_s * likely / (spontaneous + NEW_USERS)
        found.append(parts / (parts.sum() + base))
        submitters.append(event.user)
    return found


def _state(events: Sequence[UserEvent], user: int, time_s: float) -> Floats:
    """Return S of a user, as the sum over the events that each kernel has as cause."""
    total = np.zeros(len(CAUSES))
    for event in events:
        if event.user == user:
            kept = np.exp(-(time_s - event.time_s) * BETA_PER_S)
            total += np.where(event.is_end == OF_ENDS, kept, 0.0)
    return total


def _exposed(events: Sequence[UserEvent], user: int, time_s: float) -> Floats:
    """Return what weights of 1 would have given until a time."""
    count = [np.where(each.is_end == OF_ENDS, 1.0, 0.0) for each in events if each.user == user]
    return sum(count, np.zeros(len(CAUSES))) - _state(events, user, time_s)


def _common(events: Sequence[UserEvent], found: list[Floats], now: UserEvent) -> Floats:
    """Return the weights of all; of each user what is known at the user's last event."""
    caused = PRIOR_CAUSED.copy()
    exposed = np.full(len(CAUSES), GLOBAL_PRIOR)
    caused += sum(found, np.zeros(len(CAUSES)))
    for user in {event.user for event in events}:
        own = [event for event in events if event.user == user]
        until_s = now.time_s if user == now.user else own[-1].time_s
        exposed += _exposed(own, user, until_s)
    weights: Floats = caused / exposed
    return weights


def counts_by_steps(
    process: Excitation,
    run_s: float,
    ends_s: Sequence[tuple[float, int]],
    horizon_s: float,
    runs: int,
    generator: Generator,
) -> Ints:
    """Return numbers of submissions within a horizon, int64[runs], in steps of 1 s.

    Args:
        process: the process now; the rhythm of the week is left out.
        run_s: run time of each job that is submitted.
        ends_s: time after now and user of the ends of running jobs.
        horizon_s: duration, s.
        runs: number of simulations.
        generator: source of randomness.
    """
    weights = np.vstack([process.weights(), process.common_weights])
    shares = process.user_shares()
    base_per_s = process.spontaneous_per_s * np.append(shares, 1.0 - shares.sum())
    state = np.tile(np.vstack([process.state(), np.zeros(len(CAUSES))]), (runs, 1, 1))
    steps = math.ceil(horizon_s)
    came = np.zeros((steps, runs, len(weights)), dtype=np.int64)
    for step in range(steps):
        rate_per_s = base_per_s + (weights * BETA_PER_S * state).sum(2)
        came[step] = generator.poisson(rate_per_s)
        ended = came[step - int(run_s)].copy() if step >= run_s else np.zeros_like(came[step])
        for time_s, user in ends_s:
            ended[:, user] += step <= time_s < step + 1
        state = state * np.exp(-BETA_PER_S)
        state += np.where(OF_ENDS, ended[..., None], came[step][..., None])
    counts: Ints = came.sum((0, 2))
    return counts
