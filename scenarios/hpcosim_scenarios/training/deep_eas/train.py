"""Training Deep-EAS on a scenario: what `hpcosim train deep-eas` does."""

from __future__ import annotations

import csv
import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from msgspec.structs import asdict
from safetensors.torch import load, save
from torch import Tensor

from hpcosim_client.agents.deep_eas.model import About, save_deep_eas
from hpcosim_client.agents.deep_eas.network import DeepEasNetwork, draw
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.library import Library, rules_of
from hpcosim_scenarios.scenario import Bernoulli, Scalar, Scenario
from hpcosim_scenarios.training.deep_eas.environment import Machines, SequenceEnvironment
from hpcosim_scenarios.training.deep_eas.imitation import imitate
from hpcosim_scenarios.training.deep_eas.reinforce import Gradient, gradient
from hpcosim_scenarios.training.deep_eas.rollout import exploit, watch_esjf
from hpcosim_scenarios.training.deep_eas.settings import Reinforce
from hpcosim_server.errors import WorkloadError
from hpcosim_server.workload.bernoulli import bernoulli
from hpcosim_server.workload.table import JobTable

NETWORK = "deep-eas.safetensors"
CURVE = "curve.csv"
POOL, VALIDATION, CHOICE, RUNS, ORDER = range(5)  # streams of chance
VALIDATED_ON = 20  # sequences
DRAWN_ANEW = 100  # a sequence without a job, at the most


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How Deep-EAS is trained.

    Attributes:
        masked, reinforce: what is never chosen, see `DeepEas`; how it learns.
        seed: of weights, of choices and of sequences.
        validate_every: after how many iterations its best choices are tried, on sequences of their
            own, and at the end. It ends with the network that did best.
        workers: processes to run sequences in.
    """

    masked: bool = False
    reinforce: Reinforce = field(default_factory=Reinforce)
    seed: int = 0
    validate_every: int = 10
    workers: int = 1


class Iteration(NamedTuple):
    """What came of one iteration.

    Attributes:
        iteration: counted from 1; 0: before the first, after imitation.
        decisions: in all its runs.
        normalised_edp: mean over the jobs of its runs.
        validation: of the best choices on the sequences of validation, over what ESJF comes to
            there; NaN: not looked at.
        seconds: how long it took, on a clock on the wall.
    """

    iteration: int
    decisions: int
    normalised_edp: float
    validation: float
    seconds: float


def train_deep_eas(
    path: Path,
    out: Path,
    training: Training,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    told: Callable[[Iteration], None] = lambda _: None,
) -> Path:
    """Train Deep-EAS on sequences like a scenario's, drawn by another seed than its own.

    Into the folder go `deep-eas.safetensors` and `curve.csv`. The same arguments give the same
    bytes of weights, whatever `workers`.

    Args:
        path: the scenario's file; its own scheduler is of no account.
        out: the folder.
        training: how.
        overrides: values of the scenario to change, by dotted path.
        told: told of each iteration when it is over.

    Returns:
        The network's file.

    Raises:
        ScenarioError: its workload is not of the model `bernoulli`, or nodes are not alike.
        WorkloadError: hardly a job comes.
        PolicyError: a job fits on no machine.
        OSError: the folder can't be written to.
    """
    scenario = Library([path], overrides).first
    torch.set_num_threads(1)
    ground = _ground(scenario, training, path)
    learner = Learner(ground, training)
    out.mkdir(parents=True, exist_ok=True)
    with (
        (out / CURVE).open("w", newline="", encoding="utf-8") as file,
        _steps(ground, training) as steps,
    ):
        table = csv.writer(file, lineterminator="\n")
        table.writerow(Iteration._fields)
        for done in learner.learn(steps):
            table.writerow((*done[:-1], f"{done.seconds:.2f}"))
            file.flush()
            told(done)
    said = dataclasses.asdict(training.reinforce) | {"seed": training.seed}
    said["validation"] = learner.best
    network = DeepEasNetwork(ground.machines.settings)
    network.load_state_dict(learner.best_weights)
    save_deep_eas(out / NETWORK, network, About(settings=ground.machines.settings, training=said))
    return out / NETWORK


class Ground(NamedTuple):
    """What is learned on.

    Attributes:
        machines: the cluster.
        pool: the sequences to learn from.
        tried: those of validation.
        seed: of choices.
        trajectories: runs of a sequence.
        entropy: weight of the entropy of a choice.
    """

    machines: Machines
    pool: list[JobTable]
    tried: list[JobTable]
    seed: int
    trajectories: int
    entropy: float

    def step(self, network: DeepEasNetwork, iteration: int, sequence: int) -> Gradient:
        """Run a sequence of the pool several times, and return the gradient."""
        jobs = self.pool[sequence]
        runs = range(self.trajectories)
        rngs = [np.random.default_rng([self.seed, RUNS, iteration, sequence, i]) for i in runs]
        environments = [SequenceEnvironment(self.machines, jobs) for _ in runs]
        return gradient(network, environments, rngs, self.entropy)


Step = Callable[[DeepEasNetwork, int, list[int]], list[Gradient]]
"""Returns the gradients of some sequences in an iteration, in their order."""


class Learner:
    """A network that learns.

    Args:
        ground: on what.
        training: how.

    Attributes:
        best, best_weights: the least validation so far, and the weights that had it.
    """

    def __init__(self, ground: Ground, training: Training) -> None:
        self._ground, self._training = ground, training
        self._network = DeepEasNetwork(ground.machines.settings)
        draw(self._network, torch.Generator().manual_seed(training.seed))
        settings = training.reinforce
        self._adam = torch.optim.Adam(self._network.parameters(), lr=settings.rate, fused=True)
        self._tried = [SequenceEnvironment(ground.machines, jobs) for jobs in ground.tried]
        watch_esjf(self._tried)
        self._esjf = float(np.concatenate([one.normalised_edps() for one in self._tried]).mean())
        self.best = np.inf
        self.best_weights: dict[str, Tensor] = {}

    def learn(self, steps: Step) -> Iterator[Iteration]:
        """Learn, and tell of each iteration."""
        settings, seed = self._training.reinforce, self._training.seed
        began_s = time.monotonic()
        if settings.imitation:
            pool = [SequenceEnvironment(self._ground.machines, one) for one in self._ground.pool]
            rng = np.random.default_rng([seed, ORDER])
            imitate(self._network, pool, settings.imitation, settings.imitation_rate, rng)
        yield Iteration(0, 0, np.nan, self._validate(), time.monotonic() - began_s)
        for iteration in range(1, settings.iterations + 1):
            began_s = time.monotonic()
            rng = np.random.default_rng([seed, CHOICE, iteration])
            some = rng.choice(settings.pool, min(settings.sequences, settings.pool), replace=False)
            found = steps(self._network, iteration, some.tolist())
            self._descend(found)
            is_last = iteration == settings.iterations
            is_due = is_last or iteration % self._training.validate_every == 0
            yield Iteration(
                iteration,
                sum(one.decisions for one in found),
                float(np.mean([one.normalised_edp for one in found])),
                self._validate() if is_due else np.nan,
                time.monotonic() - began_s,
            )

    def _descend(self, found: list[Gradient]) -> None:
        runs = len(found) * self._training.reinforce.trajectories
        for number, weights in enumerate(self._network.parameters()):
            weights.grad = torch.stack([one.parts[number] for one in found]).sum(dim=0) / runs
        self._adam.step()

    def _validate(self) -> float:
        value = float(exploit(self._network, self._tried).mean()) / self._esjf
        if value < self.best:
            self.best = value
            weights = self._network.state_dict()
            self.best_weights = {name: tensor.clone() for name, tensor in weights.items()}
        return value


@contextmanager
def _steps(ground: Ground, training: Training) -> Iterator[Step]:
    if training.workers == 1:
        yield lambda network, iteration, some: [ground.step(network, iteration, n) for n in some]
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(training.workers, context, _settle, (ground,)) as pool:

        def steps(network: DeepEasNetwork, iteration: int, some: list[int]) -> list[Gradient]:
            weights = save(network.state_dict())
            running = [pool.submit(_step, weights, iteration, number) for number in some]
            return [one.result() for one in running]

        yield steps


_SETTLED: list[Ground] = []
"""What a worker process learns on."""


def _settle(ground: Ground) -> None:
    torch.set_num_threads(1)
    _SETTLED[:] = [ground]


def _step(weights: bytes, iteration: int, sequence: int) -> Gradient:
    (ground,) = _SETTLED
    network = DeepEasNetwork(ground.machines.settings)
    network.load_state_dict(load(weights))
    return ground.step(network, iteration, sequence)


def _ground(scenario: Scenario, training: Training, path: Path) -> Ground:
    model = scenario.workload.synthetic
    if not isinstance(model, Bernoulli):
        raise ScenarioError(
            "has a workload that is not of the model bernoulli: agents are trained on sequences of "
            "that model",
            path,
            field="$.workload.synthetic",
        )
    cores = scenario.platform.cores_by_node()
    if len(set(cores)) > 1:
        raise ScenarioError(
            f"has nodes of {min(cores)} and of {max(cores)} cores; Deep-EAS takes machines of as "
            "many cores each",
            path,
            field="$.platform.nodes",
        )
    settings = DeepEas(machines=len(cores), cores=cores[0], masked=training.masked)
    pool = training.reinforce.pool
    return Ground(
        Machines(scenario.platform, rules_of(scenario), settings),
        [_sequence(model, training.seed, POOL, number) for number in range(pool)],
        [_sequence(model, training.seed, VALIDATION, number) for number in range(VALIDATED_ON)],
        training.seed,
        training.reinforce.trajectories,
        training.reinforce.entropy,
    )


def _sequence(model: Bernoulli, seed: int, *stream: int) -> JobTable:
    """Return one sequence of a model, another for every stream.

    Raises:
        WorkloadError: not one job comes, however often it is drawn anew.
    """
    rng = np.random.default_rng([seed, *stream])
    arguments = asdict(model) | {"sequences": 1}
    for _ in range(DRAWN_ANEW):
        with suppress(WorkloadError):
            return bernoulli(rng, **arguments)
    return bernoulli(rng, **arguments)
