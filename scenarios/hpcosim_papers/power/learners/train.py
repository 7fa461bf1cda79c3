"""Train a power manager: the function behind `hpcosim train power`, and its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from hpcosim_client.job import Ints
from hpcosim_gym.learning import networks, training_session
from hpcosim_gym.learning.curve import Iteration
from hpcosim_gym.learning.rollout import Sample, SideBySide, collect
from hpcosim_gym.learning.settings import (
    Algorithm,
    TrainingSettings,
    checksum,
    description,
    flat_settings,
)
from hpcosim_gym.learning.update import Agent, learn, mean_losses, weights_of
from hpcosim_papers.power.agent import HEAD, NodePowerMetadata, Shape, save_actor
from hpcosim_papers.power.environments import power_task
from hpcosim_papers.power.environments.node_power import NodePowerEnv
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_workloads.logs.catalogue import find_trace
from hpcosim_workloads.logs.log_file import log_start_s
from hpcosim_workloads.synthetic.imitation import sampled, seasonal
from hpcosim_workloads.table import JobTable

Source = Literal["real", "sampled", "synthetic"]

WORKLOADS = 1  # random number stream, separate from that of the training


class CurriculumWorkload(NamedTuple):
    """A training workload."""

    name: str
    jobs: JobTable
    origin_s: float = 0.0


def workloads(
    real: JobTable, names: Sequence[str], seed: int, origin_s: float = 0.0, days: int = 365
) -> list[CurriculumWorkload]:
    """Return the named workloads.

    Args:
        real: the workload that the others are generated from.
        names: `real`, `sampled` or `synthetic`, in order.
        seed: seed of the generated workloads; each name has its own random number stream.
        origin_s: second of the week at time 0 of the real workload.
        days: length of the synthetic workload, days.

    Raises:
        ScenarioError: a name is unknown.
        WorkloadError: the real workload is too short to sample from.
    """
    make: dict[str, Callable[[np.random.Generator], CurriculumWorkload]] = {
        "real": lambda _: CurriculumWorkload("real", real, origin_s),
        "sampled": lambda rng: CurriculumWorkload("sampled", sampled(rng, real, jobs=len(real))),
        "synthetic": lambda rng: CurriculumWorkload(
            "synthetic", seasonal(rng, real, days=days, start_s=origin_s)
        ),
    }
    for name in names:
        if name not in make:
            known = ", ".join(get_args(Source))
            raise ScenarioError(f"curriculum: expected workloads among {known}, got {name!r}")
    numbers = {name: number for number, name in enumerate(make)}
    return [make[name](np.random.default_rng([seed, WORKLOADS, numbers[name]])) for name in names]


def origin_s(scenario: Scenario, folder: Path) -> float:
    """Return the second of the week at time 0 of the workload, from the header of the log.

    The time of a window starts at its first job. The result is exact only if that is also the
    first job of the log.
    """
    workload = scenario.workload
    if workload.trace is not None:
        return log_start_s(find_trace(workload.trace)) or 0.0
    return 0.0 if workload.swf is None else log_start_s(folder / workload.swf) or 0.0


def split_by_time(jobs: JobTable, count: int) -> list[JobTable]:
    """Split a workload into `count` parts of equal duration; parts without jobs are left out."""
    first_s, last_s = float(jobs.submit_s[0]), float(jobs.submit_s[-1])
    bounds = np.linspace(first_s, last_s, count + 1)[1:-1]
    ends = [0, *np.searchsorted(jobs.submit_s, bounds).tolist(), len(jobs)]
    parts = [slice(start, end) for start, end in pairwise(ends)]
    return [jobs.take(part) for part in parts if part.stop > part.start]


class PowerLearner(training_session.Learner):
    """Learner of a power manager.

    Args:
        curriculum: the workloads, in training order.
        shape: sizes of the networks; the task sets the number of features.
    """

    settings: PowerTraining
    measures = ("mean_reward", "wasted_j", "mean_wait_s")

    def __init__(
        self,
        task: power_task.PowerTask,
        curriculum: Sequence[CurriculumWorkload],
        training: PowerTraining,
        shape: Shape | None = None,
    ) -> None:
        self.settings = training
        self.iterations = len(curriculum) * training.iterations
        self._task, self._curriculum = task, curriculum
        self.shape = (shape or Shape())._replace(features=task.columns)
        self.agent = new_agent(training, self.shape)
        jobs = [len(workload.jobs) for workload in curriculum]
        inputs = checksum(task.platform, [workload.jobs for workload in curriculum])
        self.description = description(training, shape=self.shape, jobs=jobs, inputs=inputs)

    def iterate(self, done: int, remaining: float) -> training_session.IterationOutcome:
        """Train on a workload once, from its beginning to its end."""
        settings = self.settings
        workload = self._curriculum[done // settings.iterations]
        calendar = None if self._task.origin_s is None else workload.origin_s
        task = dataclasses.replace(self._task, origin_s=calendar)
        parts = split_by_time(workload.jobs, settings.runs)
        envs = [NodePowerEnv(task=task, jobs=part) for part in parts]
        runs, rng = side_by_side(envs), np.random.default_rng([settings.seed, done])
        losses, decisions, rewards, environment_s = [], 0, 0.0, 0.0
        while runs.active.any():
            rollout = collect(runs, make_sampler(self.agent.actor, rng), join, settings.steps)
            losses.append(learn(self.agent, rollout, settings, rng, remaining))
            decisions, rewards = decisions + len(rollout), rewards + float(rollout.rewards.sum())
            environment_s += rollout.environment_s
        return training_session.IterationOutcome(
            workload.name,
            decisions,
            rewards / len(envs),
            mean_losses(losses),
            {"mean_reward": rewards / decisions, **_totals(envs)},
            environment_s,
        )

    def about(self) -> NodePowerMetadata:
        """Return the metadata of the actor's file."""
        training = flat_settings(self.settings, {"interval_s", "calendar"})
        return NodePowerMetadata(
            shape=self.shape,
            interval_s=self._task.interval_s,
            origin_s=self._task.origin_s,
            training=training,
        )


def _totals(envs: Sequence[NodePowerEnv]) -> dict[str, float]:
    """Return the energy not spent computing, J, and the mean wait of all jobs, s."""
    accounts = [env.account for env in envs]
    waited_s = sum(account.waited_s for account in accounts)
    return {
        "wasted_j": float(sum(account.wasted_j.sum() for account in accounts)),
        "mean_wait_s": waited_s / max(sum(account.submissions.count for account in accounts), 1),
    }


ACTOR = "actor.safetensors"


def train_power(
    path: Path,
    out: Path,
    training: PowerTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: training_session.OnIteration = lambda _: None,
) -> Path:
    """Train a power manager for a scenario's platform and scheduler on its workload.

    The same arguments give the same bytes of weights. Torch uses one thread, which is as fast for
    these small networks, so that several trainings can run side by side.

    For the arguments see `train_pairing`, for the output files `train`. The scenario's power
    manager is ignored.

    Returns:
        Path of the actor, for a scenario's `scheduler.power`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    power_task.check_power_states(scenario.platform, path)
    origin = origin_s(scenario, path.parent)
    names, days = training.curriculum, training.synthetic_days
    curriculum = workloads(jobs, names, training.seed, origin, days)
    changes = {
        "interval_s": training.interval_s,
        "reward": training.reward,
        "origin_s": origin if training.calendar else None,
    }
    networks.use_one_thread()
    learner = PowerLearner(power_task.task_of(changes, scenario), curriculum, training)
    return train(learner, out, resume=resume, on_iteration=on_iteration)


def train(
    learner: PowerLearner,
    out: Path,
    *,
    resume: bool = False,
    on_iteration: training_session.OnIteration = lambda _: None,
) -> Path:
    """Train a power manager to the end, and return the path of the actor.

    The folder gets `actor.safetensors`, the actor after each iteration (such as
    `iteration-003-real.safetensors`), `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
    """

    def save_and_report(done: Iteration) -> None:
        name = f"iteration-{done.iteration:03}-{done.phase}.safetensors"
        save_actor(out / name, networks.arrays_of(weights_of(learner.agent.actor)), learner.about())
        on_iteration(done)

    training_session.TrainingSession(learner, out, resume=resume).run(save_and_report)
    save_actor(out / ACTOR, networks.arrays_of(weights_of(learner.agent.actor)), learner.about())
    return out / ACTOR


class Layer(nn.Module):
    """A layer of self-attention and feed-forward, each with residual and post-normalisation."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        width = shape.embedding
        self.heads = shape.heads
        self.look = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.widen = nn.Linear(width, width)
        self.narrow = nn.Linear(width, width)
        self.after_look = nn.LayerNorm(width)
        self.after_think = nn.LayerNorm(width)

    def forward(self, nodes: Tensor) -> Tensor:
        """Map float32[batch, nodes, embedding] to the same shape."""
        nodes = self.after_look(nodes + self.mix(self._attend(nodes)))
        thought: Tensor = self.narrow(functional.relu(self.widen(nodes)))
        after: Tensor = self.after_think(nodes + thought)
        return after

    def _attend(self, nodes: Tensor) -> Tensor:
        batch, count, width = nodes.shape
        parts = self.look(nodes).view(batch, count, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return seen.transpose(1, 2).reshape(batch, count, width)


def _encoder(shape: Shape) -> nn.Sequential:
    embed = nn.Linear(shape.features, shape.embedding)
    return nn.Sequential(embed, *(Layer(shape) for _ in range(shape.layers)))


class NodePowerActor(nn.Module):
    """The actor: logits of the actions off and on for every node."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = networks.dense(nn.ReLU, shape.embedding, *HEAD)

    def forward(self, seen: Tensor) -> Tensor:
        """Return logits, float32[batch, nodes, 2], for float32[batch, nodes, features]."""
        logits: Tensor = self.head(self.encoder(seen))
        return logits


class NodePowerCritic(nn.Module):
    """The critic: the value of a state is the mean of an output for each node."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.encoder = _encoder(shape)
        self.head = networks.dense(nn.ReLU, shape.embedding, 20, 20, 1)

    def forward(self, seen: Tensor) -> Tensor:
        """Return values, float32[batch], for float32[batch, nodes, features]."""
        values: Tensor = self.head(self.encoder(seen)).mean(dim=(1, 2))
        return values


AnyNetwork = TypeVar("AnyNetwork", NodePowerActor, NodePowerCritic)


def new_network(kind: type[AnyNetwork], shape: Shape, generator: torch.Generator) -> AnyNetwork:
    """Return an untrained network with random weights (Glorot, Bengio 2010) and biases of 0."""
    with torch.device("meta"):
        network = kind(shape)
    network.to_empty(device="cpu")
    for part in network.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight, generator=generator)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
    return network


class NodeBatch(NamedTuple):
    """Observations of several decisions.

    Attributes:
        observed: float32[decisions, nodes, features].
        allowed: bool[decisions, nodes, 2], whether a node may be off, and on.
    """

    observed: Tensor
    allowed: Tensor

    def take(self, which: Tensor) -> NodeBatch:
        """Return the selected decisions."""
        return NodeBatch(self.observed[which], self.allowed[which])


def join(parts: Sequence[NodeBatch]) -> NodeBatch:
    """Concatenate batches."""
    return NodeBatch(*(torch.cat(each) for each in zip(*parts, strict=True)))


def side_by_side(envs: Sequence[NodePowerEnv]) -> SideBySide[NodePowerEnv, NodeBatch]:
    """Return environments that run side by side; all are reset."""
    return SideBySide(envs, _observe)


def new_agent(training: PowerTraining, shape: Shape) -> Agent[NodePowerActor, NodeBatch]:
    """Return an agent with initial weights."""
    generator = torch.Generator().manual_seed(training.seed)
    actor, critic = (
        new_network(NodePowerActor, shape, generator),
        new_network(NodePowerCritic, shape, generator),
    )
    return Agent(actor, critic, _evaluate, _value, training)


def make_sampler(actor: NodePowerActor, rng: np.random.Generator) -> Sample[NodeBatch]:
    """Return a function that samples an actor's actions."""

    def sample(batch: NodeBatch, _: Ints) -> tuple[Ints, NDArray[np.float32]]:
        with torch.inference_mode():
            return networks.sample_switches(actor(batch.observed), batch.allowed.numpy(), rng)

    return sample


def _observe(envs: Sequence[NodePowerEnv]) -> NodeBatch:
    return NodeBatch(
        torch.from_numpy(np.stack([env.observation for env in envs])),
        torch.from_numpy(np.stack([env.allowed for env in envs])),
    )


def _evaluate(actor: NodePowerActor, batch: NodeBatch, actions: Tensor) -> networks.Evaluation:
    return networks.switches(actor(batch.observed), actions, batch.allowed.all(dim=2))


def _value(critic: nn.Module, batch: NodeBatch) -> Tensor:
    values: Tensor = critic(batch.observed)
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerTraining(TrainingSettings):
    """Settings of the training of a power manager; the defaults are those of A2C.

    They follow Table 3 of the paper (cited in `power_task.Reward`) where it has a value. The
    entropy coefficient is an addition: it prevents early deterministic policies.

    Attributes:
        iterations: number of iterations on each workload of the curriculum; an iteration covers the
            whole workload.
        curriculum: the workloads, in training order. `real`: the scenario's own; `sampled` and
            `synthetic` are generated from it (`hpcosim_workloads.synthetic.imitation`), with as
            many jobs and over `synthetic_days`, respectively.
        synthetic_days: length of the workload `synthetic`, days.
        interval_s: time between two decisions, s.
        calendar: observe time of day and time of week, which the paper's agent does not.
        runs: number of parts of a workload, of equal duration, that run side by side.
        steps: number of decisions of each run between two updates.
    """

    curriculum: Sequence[str] = ("sampled", "real", "synthetic")
    synthetic_days: int = 365
    interval_s: float = 1800.0
    reward: power_task.Reward = field(default_factory=power_task.Reward)
    calendar: bool = False
    runs: int = 8
    steps: int = 8
    algorithm: Algorithm = "a2c"
    iterations: int = 10
    learning_rate: float = 1e-4
    gae_lambda: float = 1.0
    epochs: int = 1
    minibatch: int | None = None
    entropy_coefficient: float = 0.01
    max_grad_norm: float = 2.0
    validate_every: int = 0


A2C = PowerTraining()
"""Advantage actor-critic as in the paper: an update after 64 decisions."""

PPO = replace(A2C, algorithm="ppo", steps=32, epochs=3, minibatch=64, gae_lambda=0.95)
"""Proximal policy optimisation with common settings; not in the paper."""

ALGORITHMS: Mapping[str, PowerTraining] = {"a2c": A2C, "ppo": PPO}
