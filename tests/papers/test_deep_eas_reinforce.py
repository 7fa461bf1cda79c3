"""The compiled gradient of REINFORCE is that of PyTorch, for random machines, jobs and networks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")
pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

import torch

from hpcosim_experiments.executors import parallel_map
from hpcosim_gym.learning.networks import arrays_of
from hpcosim_papers.deep_eas.agent.network import joined
from hpcosim_papers.deep_eas.agent.step_jobs import AFTER_ALL, DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import StepRuns, costs_to_go, normalised_edps
from hpcosim_papers.deep_eas.learners.networks import (
    PictureNetwork,
    SceneBatch,
    evaluate,
    initialise,
    logits_of,
)
from hpcosim_papers.deep_eas.learners.reinforce_compiled import gradient
from hpcosim_papers.deep_eas.learners.settings import FORMS
from hpcosim_papers.deep_eas.learners.train import RUNS as RUN_STREAM
from hpcosim_papers.deep_eas.learners.train import DeepEasLearner, is_compiled
from hpcosim_scenarios.model.workload import Bernoulli

RUNS = 3
MODEL = Bernoulli(arrival_probability=0.9, short_probability=0.5, slowdown=2.0, steps=4)


def machines_of(rng: np.random.Generator, **settings: Any) -> Machines:
    """Return machines with random power and speed; the fastest is first."""
    count = settings.get("machines", 2)
    speeds = np.arange(1.0, count + 1.0)
    return Machines(DeepEas(**settings), rng.random(count) * 10.0, speeds)


def sequences(machines: Machines, rng: np.random.Generator) -> StepJobs:
    """Return two sequences of 12 and 8 jobs, some longer than the horizon on slow machines."""
    settings, shape = machines.settings, (2, 12)
    valid = np.arange(12) < np.array([[12], [8]])
    submit = np.sort(rng.integers(0, 15, size=shape), axis=1)
    fast = rng.integers(1, settings.horizon // 2 + 1, size=shape)
    expected = (fast[:, None] * machines.scale[:, None]).astype(np.int16)
    drawn = (fast + rng.integers(-2, 3, size=shape))[:, None] * machines.scale[:, None]
    cores = rng.integers(1, settings.cores + 1, size=shape)
    return StepJobs(
        valid,
        np.where(valid, submit, AFTER_ALL).astype(np.int64),
        np.where(valid, cores, 0).astype(np.int16),
        expected,
        np.maximum(drawn, 1).astype(np.int16),
    )


def random_network(settings: DeepEas, seed: int) -> PictureNetwork:
    """Return a network with distinct probabilities of the actions."""
    network, generator = PictureNetwork(settings), torch.Generator().manual_seed(seed)
    initialise(network, generator)
    with torch.no_grad():
        network.last.weight *= 50.0
        for layer in (network.filters, network.last):
            assert layer.bias is not None
            layer.bias.normal_(0.0, 0.3, generator=generator)
    return network


class Reference(NamedTuple):
    """What PyTorch computes for the runs of all sequences."""

    gradients: dict[str, NDArray[np.float32]]
    loss: float
    entropy: float
    returned: float
    edp: float
    decisions: float


def reference(
    network: PictureNetwork, machines: Machines, jobs: StepJobs, seeds: list[list[int]]
) -> Reference:
    """Sample with the same random numbers, and return the gradient of PyTorch."""
    network.zero_grad()
    totals = np.zeros(5)
    for number, seed in enumerate(seeds):
        runs = StepRuns(machines, jobs.take([number] * RUNS))
        uniform = np.random.default_rng(seed)
        scenes, steps, actions, whose = [], [], [], []
        for run in range(RUNS):
            while not runs.done[run]:
                scene = runs.scene.some(np.array([run]))
                probabilities = np.exp(logits_of(network, scene)[0].astype(np.float64))
                shares = np.cumsum(probabilities / probabilities.sum())
                action = int(np.searchsorted(shares, uniform.random(), side="right"))
                scenes.append(scene)
                steps.append(int(runs.now[run]))
                actions.append(action)
                whose.append(run)
                runs.take(np.array([run]), np.array([action]))
        returns = -costs_to_go(runs)
        advantages = torch.from_numpy((returns - returns.mean(axis=0))[whose, steps]).float()
        batch = SceneBatch(joined(scenes), torch.zeros(len(steps), 0), torch.tensor(steps))
        evaluation = evaluate(network, batch, torch.tensor(actions))
        loss = -(evaluation.log_probabilities[:, 0] * advantages).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        entropy, edp = evaluation.entropies.sum().item(), normalised_edps(runs).sum()
        totals += [loss.item(), entropy, returns[:, 0].sum(), edp, len(steps)]
    found = {name: one.grad for name, one in network.named_parameters()}
    gradients = {name: one.numpy() for name, one in found.items() if one is not None}
    return Reference(gradients, *totals.tolist())


@pytest.mark.parametrize("entries", [2**7, 2**16])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"machines": 3, "cores": 5, "horizon": 12, "queue": 4, "backlog": 24, "since_arrival": 12},
        {"machines": 1, "cores": 1, "horizon": 9, "queue": 3, "backlog": 9, "since_arrival": 18},
        {"cores": 4, "horizon": 15, "queue": 2, "backlog": 15, "since_arrival": 15, "masked": True},
    ],
    ids=["paper", "odd", "least", "masked"],
)
def test_the_gradient_is_that_of_pytorch(settings: Mapping[str, Any], entries: int) -> None:
    """Actions, measures and gradient are equal, also where the space must grow."""
    rng = np.random.default_rng(5)
    machines = machines_of(rng, **settings)
    jobs, network = sequences(machines, rng), random_network(machines.settings, 5)
    seeds = [[7, number] for number in range(2)]
    right = reference(network, machines, jobs, seeds)
    weights = arrays_of(network.state_dict())
    found = gradient(machines, jobs, weights, RUNS, seeds, entries)
    assert (found.decisions, found.runs, found.jobs) == (right.decisions, 2 * RUNS, 20 * RUNS)
    assert found.edp == pytest.approx(right.edp, rel=1e-12)
    assert found.returned == pytest.approx(right.returned, rel=1e-9)
    assert found.entropy == pytest.approx(right.entropy, rel=1e-4)
    assert found.loss == pytest.approx(right.loss, rel=1e-4, abs=1e-4 * right.edp)
    for name, one in right.gradients.items():
        assert np.abs(one).max() > 0.0
        assert np.abs(found.weights[name] - one).max() < 1e-4 * np.abs(one).max(), name


def test_an_update_is_that_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An update uses the gradient of the mean over runs, with parts of sequences in any order."""
    rng = np.random.default_rng(5)
    machines = machines_of(rng)
    training = replace(
        FORMS["paper"], pool=2, sequences=2, trajectories=RUNS, together=1, validation_sequences=1
    )
    with parallel_map(training.executor) as parallel:
        learner = DeepEasLearner(machines, MODEL, training, parallel)
        actor, jobs = learner.agent.actor, sequences(machines, rng)
        assert isinstance(actor, PictureNetwork)
        seeds = [[training.seed, RUN_STREAM, 1, number] for number in range(2)]
        right = reference(actor, machines, jobs, seeds)
        monkeypatch.setattr(learner, "_drawn", lambda _: jobs)
        monkeypatch.setattr(learner.agent, "descend", lambda: None)
        outcome = learner.iterate(0, 1.0)
    assert outcome.decisions == right.decisions
    for name, weight in actor.named_parameters():
        one = right.gradients[name] / (2 * RUNS)
        assert weight.grad is not None
        assert np.abs(weight.grad.numpy() - one).max() < 1e-4 * np.abs(one).max(), name


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"settings": DeepEas(sees="pairs")}, False),
        ({"algorithm": "ppo"}, False),
        ({"entropy_coefficient": 0.1}, False),
    ],
)
def test_only_the_papers_training_is_compiled(changes: Mapping[str, Any], expected: bool) -> None:
    """Other networks, algorithms and losses use PyTorch."""
    assert is_compiled(replace(FORMS["paper"], **changes)) is expected
