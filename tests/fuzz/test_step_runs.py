"""Compiled runs of Deep-EAS advance as those in arrays, for random machines and jobs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")
pytest.importorskip("gymnasium", reason="environments need the extra rl")

from hpcosim_papers.deep_eas.agent.step_jobs import AFTER_ALL, DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns, cost_rates
from hpcosim_papers.deep_eas.environments.step_runs_compiled import CompiledStepRuns

RUNS = 3
STATE = ("now", "done", "machine", "bound", "start", "_turn", "_turns", "_idle", "_slots")


def random_machines(rng: np.random.Generator) -> Machines:
    """Return some machines with random settings."""
    horizon, count = int(rng.integers(20, 40)), int(rng.integers(1, 4))
    settings = DeepEas(
        machines=count,
        cores=int(rng.integers(2, 12)),
        horizon=horizon,
        queue=int(rng.integers(1, 12)),
        backlog=horizon,
        since_arrival=horizon,
        sees=rng.choice(["picture", "pairs", "queue"]),
    )
    return Machines(settings, rng.random(count) * 10.0, 1.0 + rng.random(count))


def random_jobs(settings: DeepEas, rng: np.random.Generator) -> StepJobs:
    """Return random sequences, in which jobs may take longer than expected."""
    most = int(rng.integers(2, 40))
    valid = np.arange(most) < rng.integers(1, most + 1, size=(RUNS, 1))
    submit = np.sort(rng.integers(0, rng.choice([3, 60]), size=(RUNS, most)), axis=1)
    shape = (RUNS, settings.machines, most)
    expected = rng.integers(1, rng.choice([4, 16]), size=shape)
    return StepJobs(
        valid,
        np.where(valid, submit, AFTER_ALL).astype(np.int64),
        np.where(valid, rng.integers(1, settings.cores + 1, size=(RUNS, most)), 0).astype(np.int16),
        expected.astype(np.int16),
        np.maximum(expected + rng.integers(-3, 4, size=shape), 1).astype(np.int16),
    )


def differences(seed: int) -> str:
    """Play random actions with both; return what differs first."""
    rng = np.random.default_rng(seed)
    machines = random_machines(rng)
    jobs = random_jobs(machines.settings, rng)
    ours, theirs = CompiledStepRuns(machines, jobs), StepRuns(machines, jobs)
    rates, hold = cost_rates(theirs), machines.settings.actions - 1
    holds = rng.choice([0.05, 0.6])
    for step in range(300):
        pairs = {name: (getattr(ours, name), getattr(theirs, name)) for name in STATE}
        pairs |= {
            name: (getattr(ours.scene, name), getattr(theirs.scene, name))
            for name in ours.scene._fields
        }
        ends = np.where(theirs.done, np.iinfo(np.int64).max, theirs.now)
        every = np.arange(RUNS)
        pairs["cost"] = (
            ours.accrued_cost(rates, every, ends),
            theirs.accrued_cost(rates, every, ends),
        )
        for name, (one, other) in pairs.items():
            if one.tobytes() != other.tobytes():
                return f"{name} at step {step}: {one}, {other}"
        active = theirs.active()
        if not len(active):
            return ""
        allowed = theirs.scene.possible()[active] * rng.random((len(active), hold + 1))
        actions = np.where(rng.random(len(active)) < holds, hold, allowed.argmax(axis=1))
        ours.take(active, actions)
        theirs.take(active, actions)
    return ""


def test_random_runs_are_those_in_arrays(vector_seeds: Iterable[int]) -> None:
    """State, observation and cost after each action, bit by bit."""
    for seed in vector_seeds:
        failure = differences(seed)
        assert not failure, f"seed {seed}: {failure}"
