"""Train a network that corrects a rule for pairs of job and node, by an evolution strategy.

The network is linear: two weights for each feature of a pair, one for its cost ratio and one for
its score, see `Rule`. With weights of 0 the agent is the rule. All candidates of a generation play
the same workloads, drawn anew for each generation, on the compiled engine.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats
from hpcosim_compiled.policies import missing_package
from hpcosim_compiled.state import BEGIN
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings
from hpcosim_gym.environments.arguments import check_power
from hpcosim_gym.learning.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hpcosim_gym.learning.curve import LearningCurve
from hpcosim_gym.learning.settings import (
    NotNegative,
    Positive,
    PositiveNumber,
    checksum,
    description,
    flat_settings,
)
from hpcosim_gym.learning.trainers import Progress, Report, TrainingStopped
from hpcosim_papers.ineps.agent import forecast_features
from hpcosim_papers.ineps.agent.policy import (
    BEST,
    CORRECTION,
    RULES,
    PairingMetadata,
    Rule,
    corrections_of,
    load_pairing,
    save_pairing,
)
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, task_of
from hpcosim_papers.ineps.environments.pairing_vector import compiled_episodes
from hpcosim_papers.ineps.learners.settings import with_workload_scales
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.agents.networks import Weights
from hpcosim_workloads.table import JobTable

ACTOR = "actor.safetensors"

SHAPE = (2, forecast_features.COLUMNS + 1)
"""Shape of the parameters: for both corrections the weights of the columns, then the bias."""

NO_MORE_JOBS = 22
"""Column of the features: 1 when no more jobs will be submitted."""

HOLD = 1.2
"""Correction of the cost ratio that makes every pair too costly."""

START, VALIDATION = 1_000_001, 1_000_002
"""Seeds of the workloads that the start is chosen on and networks are validated on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionTraining:
    """Settings of the training.

    Attributes:
        objective: the quantity that the agent reduces.
        generations: number of generations.
        pairs: number of perturbations in a generation; each is added and subtracted.
        workloads: number of workloads that all candidates of a generation play.
        sigma: standard deviation of the perturbations.
        learning_rate: step of Adam; it falls linearly to a tenth.
        least_load, most_load: bounds of the factor on the scenario's submission rate, log-uniform.
        start_workloads: number of workloads on which the start is chosen.
        validation_workloads: number of workloads that networks are validated on.
        validate_every: interval of validations, in generations.
        seed: seed of the perturbations and of the workloads.
        executor: not used: the compiled engine plays all candidates together, in this process.
    """

    objective: Objective = "energy"
    generations: NotNegative = 100
    pairs: Positive = 16
    workloads: Positive = 8
    sigma: PositiveNumber = 0.03
    learning_rate: PositiveNumber = 0.02
    least_load: PositiveNumber = 0.2
    most_load: PositiveNumber = 2.5
    start_workloads: Positive = 12
    validation_workloads: Positive = 32
    validate_every: Positive = 5
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class CorrectionGeneration(NamedTuple):
    """A row of the learning curve.

    Attributes:
        number: number of the generation; 0: the start.
        mean: objective of the candidates / the objective of the rule of `BEST`, in the mean.
        validation: the same of the network on the validation workloads; NaN: not measured.
        best: least value of `validation` so far.
        cpu_s: processor time so far, s.
    """

    number: int
    mean: float
    validation: float
    best: float
    cpu_s: float

    @property
    def progress(self) -> Progress:
        """The generation as a training reports it."""
        text = f"mean {self.mean:.5f}  validation {self.validation:.5f}  best {self.best:.5f}"
        return Progress(self.number, text, self._asdict())


class CorrectionProgress(Checkpoint, kw_only=True):
    """The progress of a training; its state are the arrays of a `Strategy`.

    Attributes:
        generation: number of completed generations.
        validation: least value of the validation so far.
    """

    generation: int
    validation: float


class CorrectedRule(NamedTuple):
    """A rule and the parameters of its network, float64[SHAPE]."""

    rule: Rule
    parameters: Floats


def uncorrected(rule: Rule) -> CorrectedRule:
    """Return a rule with a network that changes nothing."""
    return CorrectedRule(rule, np.zeros(SHAPE))


def read_corrected_rule(path: Path) -> CorrectedRule:
    """Return the agent of a file.

    Raises:
        PolicyError: the file is missing, invalid, or of an agent that corrects no rule.
    """
    weights, about = load_pairing(path)
    if about.rule is None:
        raise PolicyError(f"{path}: the agent corrects no rule; expected one of pairing-rule")
    weight, bias = (weights[f"{CORRECTION}.{name}"] for name in ("weight", "bias"))
    parameters = np.concatenate([weight, bias[:, None]], axis=1).astype(np.float64)
    return CorrectedRule(about.rule, parameters)


def pairing_task(objective: Objective, scenario: Scenario, jobs: JobTable) -> PairingTask:
    """Return the environment of a scenario's agents; the scales of features are its jobs'."""
    pairing = with_workload_scales(Pairing(objective=objective), scenario, jobs)
    return task_of(pairing, "foreseen", scenario)


def train_corrections(
    path: Path,
    out: Path,
    training: CorrectionTraining,
    *,
    overrides: Mapping[str, Scalar] | None = None,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Path:
    """Train a pairing agent for a scenario's platform, on random workloads of its jobs.

    The start is one of all rules, with or without waiting until all jobs are submitted: the one
    with the lowest cost on `start_workloads`. The evolution strategy (Salimans et al. 2017,
    https://arxiv.org/abs/1703.03864) ranks candidates by their mean objective relative to that of
    the rule of `BEST` on the same workload. The agent has the parameters with the best validation.
    The folder gets `actor.safetensors`, `curve.csv`, `tensorboard/`, and a checkpoint after each
    generation. The same arguments give the same bytes of weights for any number of threads.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        training: the settings.
        overrides: values that replace those of the scenario, by dotted path.
        resume: go on from the checkpoint in the folder.
        report: called after each generation; it may raise `TrainingStopped`.

    Returns:
        Path of the agent, for the scheduler `pairing`.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    check_power(scenario.platform, path)
    task = pairing_task(training.objective, scenario, jobs)
    strategy = Strategy(task, jobs, training)
    about = description(training, inputs=checksum(scenario.platform, [jobs]))
    if resume:
        strategy.restore(*read_checkpoint(out, CorrectionProgress, about))
    out.mkdir(parents=True, exist_ok=True)
    columns, after = CorrectionGeneration._fields, strategy.generation if resume else None
    with LearningCurve(out, columns, after) as curve, contextlib.suppress(TrainingStopped):
        for done in strategy.generations():
            curve.add(done._asdict())
            progress = CorrectionProgress(
                training=about, generation=done.number, validation=strategy.validation
            )
            write_checkpoint(out, strategy.state(), progress)
            report(done.progress)
    agent = strategy.best
    about_agent = {**flat_settings(training), "validation": strategy.validation}
    save_pairing(
        out / ACTOR,
        weights_of(agent.parameters),
        PairingMetadata(pairing=task.settings, rule=agent.rule, training=about_agent),
    )
    return out / ACTOR


def weights_of(parameters: Floats) -> Weights:
    """Return the weights of a network."""
    weights = parameters.astype(np.float32)
    return {
        f"{CORRECTION}.weight": np.ascontiguousarray(weights[:, :-1]),
        f"{CORRECTION}.bias": np.ascontiguousarray(weights[:, -1]),
    }


class Strategy:
    """The evolution strategy.

    Attributes:
        generation: number of completed generations.
        best: the rule with the parameters of the best validation so far.
        validation: its objective / that of the rule of `BEST`, in the mean.
    """

    def __init__(self, task: PairingTask, jobs: JobTable, training: CorrectionTraining) -> None:
        self._task, self._jobs, self._training = task, jobs, training
        self._base = uncorrected(BEST[training.objective])
        objectives_of(task, [jobs], [self._base])  # compiles, if this machine has not yet
        self._rule, self._parameters = self.best = self._start()
        self._adam = Adam(SHAPE)
        self.generation, self.validation = 0, np.inf

    def state(self) -> dict[str, Floats]:
        """Return what the training goes on from, beside `generation` and `validation`."""
        return {
            "parameters": self._parameters,
            "best": self.best.parameters,
            "mean": self._adam.mean,
            "square": self._adam.square,
        }

    def restore(self, progress: CorrectionProgress, state: Mapping[str, Floats]) -> None:
        """Go on from a state."""
        self.generation, self.validation = progress.generation, progress.validation
        self._parameters, self.best = state["parameters"], CorrectedRule(self._rule, state["best"])
        self._adam = Adam(SHAPE, state["mean"], state["square"], progress.generation)

    def generations(self) -> Iterator[CorrectionGeneration]:
        """Train, one generation at a time."""
        training, began_s = self._training, time.process_time()
        validate = self._validation()
        if not self.generation:
            least = validate(CorrectedRule(self._rule, self._parameters))
            yield CorrectionGeneration(0, np.nan, least, least, time.process_time() - began_s)
        for number in range(self.generation + 1, training.generations + 1):
            rng = np.random.default_rng([training.seed, number])
            noise = rng.normal(size=(training.pairs, *SHAPE))
            candidates = self._parameters + training.sigma * np.concatenate([noise, -noise])
            costs = self._costs([CorrectedRule(self._rule, each) for each in candidates], rng)
            remaining = 1.0 - (number - 1) / training.generations
            rate = training.learning_rate * max(0.1, remaining)
            self._parameters = self._parameters - rate * self._adam.step(_gradient(noise, costs))
            found = np.nan
            if number % training.validate_every == 0 or number == training.generations:
                found = validate(CorrectedRule(self._rule, self._parameters))
            self.generation = number
            cpu_s = time.process_time() - began_s
            yield CorrectionGeneration(number, costs.mean(), found, self.validation, cpu_s)

    def _start(self) -> CorrectedRule:
        """Return the best of all rules, with and without waiting for all submissions."""
        zero, hold = np.zeros(SHAPE), np.zeros(SHAPE)
        hold[0, NO_MORE_JOBS], hold[0, -1] = HOLD, -HOLD
        starts = [CorrectedRule(rule, each) for each in (zero, hold) for rule in RULES]
        rng = np.random.default_rng(START)
        costs = self._costs(starts, rng, self._training.start_workloads)
        return starts[int(costs.argmin())]

    def _validation(self) -> Callable[[CorrectedRule], float]:
        """Return a function that validates an agent, and remembers it if it is the best."""
        drawn = self._draw(np.random.default_rng(VALIDATION), self._training.validation_workloads)
        base = objectives_of(self._task, drawn, [self._base])

        def validate(agent: CorrectedRule) -> float:
            found = float((objectives_of(self._task, drawn, [agent]) / base).mean())
            if found < self.validation:
                self.validation, self.best = found, agent
            return found

        return validate

    def _draw(self, rng: np.random.Generator, count: int) -> list[JobTable]:
        loads = np.log([self._training.least_load, self._training.most_load])
        return [
            variant(
                self._jobs, rng, float(np.exp(rng.uniform(*loads))), resampled=rng.random() < 0.5
            )
            for _ in range(count)
        ]

    def _costs(
        self, agents: list[CorrectedRule], rng: np.random.Generator, count: int | None = None
    ) -> Floats:
        """Return the mean objective of each agent over the rule's, float64[agents]."""
        drawn = self._draw(rng, count or self._training.workloads)
        found = objectives_of(self._task, drawn, [self._base, *agents])
        costs: Floats = (found[1:] / found[0]).mean(axis=1)
        return costs


def _gradient(noise: Floats, costs: Floats) -> Floats:
    """Return the estimated gradient of the rank of the cost.

    Args:
        noise: float64[pairs, SHAPE], the perturbations.
        costs: float64[2 pairs], with the perturbations added, then subtracted.
    """
    ranks = costs.argsort(kind="stable").argsort() / (len(costs) - 1) - 0.5
    differences = ranks[: len(noise)] - ranks[len(noise) :]
    gradient: Floats = (differences[:, None, None] * noise).mean(axis=0)
    return gradient


class Adam:
    """Steps of Adam (Kingma, Ba 2015) for a learning rate of 1.

    Args:
        shape: shape of the parameters.
        mean, square: running means of the gradient and of its square; None: zeros.
        count: number of steps before.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        mean: Floats | None = None,
        square: Floats | None = None,
        count: int = 0,
    ) -> None:
        self.mean = np.zeros(shape) if mean is None else mean
        self.square = np.zeros(shape) if square is None else square
        self._count = count

    def step(self, gradient: Floats) -> Floats:
        """Return the step for a gradient."""
        self._count += 1
        self.mean = 0.9 * self.mean + 0.1 * gradient
        self.square = 0.98 * self.square + 0.02 * gradient**2
        mean = self.mean / (1.0 - 0.9**self._count)
        step: Floats = mean / (np.sqrt(self.square / (1.0 - 0.98**self._count)) + 1e-8)
        return step


def variant(jobs: JobTable, rng: np.random.Generator, load: float, *, resampled: bool) -> JobTable:
    """Return a random workload of some jobs.

    Args:
        load: factor on the submission rate; the times between submissions are divided by it.
        resampled: whether jobs are drawn with replacement; otherwise they are in random order.
    """
    count = len(jobs)
    order = rng.integers(count, size=count) if resampled else rng.permutation(count)
    first_s = float(jobs.submit_s[0])
    drawn = replace(jobs.take(order), job_id=np.arange(count))
    return drawn.at(first_s + (jobs.submit_s - first_s) / load)


def objectives_of(
    task: PairingTask, workloads: Sequence[JobTable], agents: Sequence[CorrectedRule]
) -> Floats:
    """Return the objective of each agent on each workload, float64[agents, workloads].

    The compiled engine plays all of them together.
    """
    found = None
    if not missing_package():
        found = compiled_episodes(task, [jobs for _ in agents for jobs in workloads])
    if found is None:
        return np.array([[objective(task, jobs, each) for jobs in workloads] for each in agents])
    from hpcosim_papers.ineps.environments.corrected_rules import choose, corrected_rules

    parameters = np.array([each.parameters for each in agents]).astype(np.float32).astype(float)
    rules = corrected_rules(
        [each.rule for each in agents], parameters[..., :-1], parameters[..., -1].copy()
    )
    count = len(agents) * len(workloads)
    found.begin(np.arange(count))
    actions, space = np.full(count, BEGIN), np.zeros(found.mask.shape[1])
    numbers = np.repeat(np.arange(len(agents)), len(workloads))
    found.play(actions)
    while not (over := found.over).all():
        choose(found.rows, found.mask, over, rules, numbers, space, actions)
        found.play(actions)
    return found.objectives().reshape(len(agents), len(workloads))


def objective(task: PairingTask, jobs: JobTable, agent: CorrectedRule) -> float:
    """Return the objective of an agent on a workload; the reference of `objectives_of`."""
    env, weights = JobNodePairingEnv(task=task, jobs=jobs), weights_of(agent.parameters)
    env.reset()
    while not env.done:
        corrections = corrections_of(weights, env.choices.rows)
        env.choose(agent.rule.choose(env.choices, corrections))
    return env.objective
