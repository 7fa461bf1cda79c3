"""Train a pairing agent, and play episodes: the function behind `hpcosim train pairing`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import torch
from safetensors.torch import load, save

from hpcosim_client.job import Floats, Ints
from hpcosim_experiments.executors import ParallelMap, parallel_map
from hpcosim_gym.environments.arguments import check_power
from hpcosim_gym.learning import training_session
from hpcosim_gym.learning.networks import arrays_of, sample_categorical, use_one_thread
from hpcosim_gym.learning.rollout import (
    Act,
    Rollout,
    Sample,
    collect,
    joined,
    parts_of,
    play,
)
from hpcosim_gym.learning.settings import checksum, description, flat_settings
from hpcosim_gym.learning.update import behaviour_cloning, learn, weights_of
from hpcosim_papers.ineps.agent.policy import RULES, PairingMetadata, Rule, best, save_pairing
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_papers.ineps.agent.site import Kind
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask, task_of
from hpcosim_papers.ineps.learners.networks import (
    PairBatch,
    PairingActor,
    actor_of,
    batch_of,
    join,
    logits_of,
    new_agent,
)
from hpcosim_papers.ineps.learners.runs import PairingRuns, SingleRuns, runs_of
from hpcosim_papers.ineps.learners.settings import (
    PairingTraining,
    Windows,
    with_workload_scales,
)
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_workloads.table import JobTable


def objectives_of(teachers: Sequence[Rule], env: JobNodePairingEnv) -> Floats:
    """Return the objective of each teacher in an environment, float64[teachers]."""
    runs = runs_of([env.another() for _ in teachers])
    while runs.active.any():
        pairs = zip(np.flatnonzero(runs.active).tolist(), runs.choices(), strict=True)
        runs.step(np.array([teachers[run].choose(choices) for run, choices in pairs]))
    return runs.objectives()


class TeacherAssignment(NamedTuple):
    """The teachers of several environments.

    Attributes:
        best: the teacher with the lowest mean ratio of its objective to the best one.
        by_environment: the better of two teachers for each environment: `best`, and the teacher
            that improves most on it. More than two teachers would contradict each other.
    """

    best: Rule
    by_environment: list[Rule]


def assign_teachers(envs: Sequence[JobNodePairingEnv]) -> TeacherAssignment:
    """Run all teachers in all environments, and return the best ones."""
    found = np.array([objectives_of(RULES, env) for env in envs])
    ratios = found / found.min(axis=1, keepdims=True)
    best = int(ratios.mean(axis=0).argmin())
    second = int(np.minimum(ratios, ratios[:, [best]]).mean(axis=0).argmin())
    is_second = ratios[:, second] < ratios[:, best]
    return TeacherAssignment(RULES[best], [RULES[second if it else best] for it in is_second])


RANDOM_CHOICE_PROBABILITY = 0.1  # random choices let demonstrations cover more states


def demonstrate(
    runs: Sequence[tuple[JobNodePairingEnv, Rule]], rng: np.random.Generator
) -> Rollout[PairBatch]:
    """Return demonstrations: the teachers' choices in the visited states, and the rewards.

    Args:
        runs: pairs of environment and teacher; each environment is run once.
    """
    seen, chosen, rewards, episode = [], [], [], []
    for number, (env, teacher) in enumerate(runs):
        env.reset()
        while not env.done:
            choice = teacher.choose(env.choices)
            seen.append(env.choices)
            chosen.append(choice)
            episode.append(number)
            if rng.random() < RANDOM_CHOICE_PROBABILITY:
                choice = int(rng.integers(len(env.choices.rows)))
            rewards.append(env.choose(choice))
    return Rollout(
        batch_of(seen),
        torch.tensor(chosen),
        torch.zeros((len(chosen), 1)),
        np.array(rewards),
        np.array(episode),
        None,
        np.zeros(len(runs), dtype=np.bool_),
    )


def scaled_environments(
    task: PairingTask, workloads: Sequence[JobTable], teacher: Rule
) -> list[JobNodePairingEnv]:
    """Return the environments of workloads, with rewards relative to a teacher's.

    Rewards are divided by the teacher's objective. Under the reward `foreseen`, the teacher's mean
    cost of a job of the same kind is the baseline of each placement.

    Raises:
        PolicyError: a job needs more than one node.
    """
    settings = Pairing(
        objective=task.settings.objective,
        wait_s=None,
        time_s=task.settings.time_s,
        energy_j=task.settings.energy_j,
    )
    foreseeing = replace(task, settings=settings, reward="foreseen")
    runs = runs_of([JobNodePairingEnv(task=foreseeing, jobs=jobs) for jobs in workloads])
    spent: list[dict[Kind, list[float]]] = [{} for _ in workloads]
    while runs.active.any():
        active = np.flatnonzero(runs.active).tolist()
        rewards = runs.step(np.array([teacher.choose(choices) for choices in runs.choices()]))
        placed = runs.placed()
        for run, reward in zip(active, rewards.tolist(), strict=True):
            if (kind := placed[run]) is not None:
                spent[run].setdefault(kind, []).append(-reward)
    return [
        JobNodePairingEnv(
            task=task,
            jobs=jobs,
            reward_scale=max(objective, 1e-9),
            baseline_costs={kind: float(np.mean(costs)) for kind, costs in own.items()}
            if task.reward == "foreseen"
            else None,
        )
        for jobs, objective, own in zip(workloads, runs.objectives().tolist(), spent, strict=True)
    ]


UPDATE, CLONING, VALIDATION = 1_000_001, 1_000_002, 1_000_003  # random number streams

EPISODES_TOGETHER = 4  # in a task of a worker
WHOLE_DEMONSTRATIONS = 16  # demonstrations if episodes are the whole workload
PART_DEMONSTRATIONS = 32  # demonstrations if episodes are windows of it


class EpisodeSource(NamedTuple):
    """The distribution of training episodes."""

    task: PairingTask
    jobs: JobTable
    windows: Windows
    seed: int
    teacher: Rule

    def rng(self, *stream: int) -> np.random.Generator:
        """Return the generator of a stream; the same numbers give the same generator."""
        return np.random.default_rng([self.seed, *stream])

    def draw(self, rngs: Sequence[np.random.Generator]) -> list[JobNodePairingEnv]:
        """Return the environments of random windows of the workload, one for each generator."""
        drawn = [self.windows.draw(rng, self.jobs) for rng in rngs]
        return scaled_environments(self.task, drawn, self.teacher)


class PairingLearner(training_session.Learner):
    """Learner of a pairing agent."""

    settings: PairingTraining
    measures = ("objective", "least_objective")

    def __init__(
        self,
        scenario: Scenario,
        jobs: JobTable,
        validation_jobs: JobTable,
        training: PairingTraining,
        parallel: ParallelMap,
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._map = parallel
        task = task_of(training.pairing, training.reward, scenario)
        self._parts = _demonstrated_parts(jobs, training.windows)
        self._teachers = _choose_teachers(task, self._parts, training)
        self._source = EpisodeSource(
            task, jobs, training.windows, training.seed, self._teachers.best
        )
        self.agent = new_agent(training, scenario.platform.node_count)
        self._validation = _validation(self._source, validation_jobs, training)
        self.description = description(
            training,
            scenario=scenario.name,
            inputs=checksum(scenario.platform, (jobs, validation_jobs)),
        )

    def clone(self) -> training_session.IterationOutcome:
        """Train by behaviour cloning on demonstrations of the teachers."""
        source, rng = self._source, self._source.rng(0, CLONING)
        envs = scaled_environments(source.task, self._parts, source.teacher)
        shown = demonstrate(list(zip(envs, self._teachers.by_environment, strict=True)), rng)
        losses = behaviour_cloning(self.agent, shown, self.settings, rng)
        return training_session.IterationOutcome("cloning", len(shown), losses=losses)

    def iterate(self, done: int, remaining: float) -> training_session.IterationOutcome:
        """Collect new episodes with the current actor and update the agent."""
        settings, source = self.settings, self._source
        weights = save(weights_of(self.agent.actor))
        parts = parts_of(settings.episodes, EPISODES_TOGETHER)
        found = self._map(partial(_episodes, source, weights, done), parts)
        rollout = joined([part for part, _ in found], join)
        objectives = np.concatenate([each for _, each in found])
        losses = learn(self.agent, rollout, settings, source.rng(done, UPDATE), remaining)
        measures = {"objective": float(objectives.mean()), "least_objective": objectives.min()}
        mean_return = float(rollout.rewards.sum() / settings.episodes)
        return training_session.IterationOutcome(
            "", len(rollout), mean_return, losses, measures, rollout.environment_s
        )

    def validate(self, actor: PairingActor) -> float:
        """Return the mean objective of greedy actions, divided by the teacher's."""
        runs = runs_of(self._validation)
        play(runs, greedy(actor))
        return float(_ratios(runs, self._validation).mean())


def _episodes(
    source: EpisodeSource, weights: bytes, iteration: int, numbers: Ints
) -> tuple[Rollout[PairBatch], Floats]:
    """Sample some episodes of an iteration; return also their objectives over the teacher's."""
    use_one_thread()
    actor = actor_of(source.task.settings)
    actor.load_state_dict(load(weights))
    rngs = [source.rng(iteration, number) for number in numbers.tolist()]
    envs = source.draw(rngs)
    runs = runs_of(envs)
    rollout = collect(runs, make_sampler(actor, rngs), join)
    return rollout, _ratios(runs, envs)


def _ratios(runs: PairingRuns, envs: Sequence[JobNodePairingEnv]) -> Floats:
    """Return the objective of each run, divided by the teacher's."""
    ratios: Floats = runs.objectives() / np.array([env.reward_scale for env in envs])
    return ratios


def _demonstrated_parts(jobs: JobTable, windows: Windows) -> list[JobTable]:
    """Return the workloads of the demonstrations, the same for all seeds."""
    if windows == Windows():
        return [jobs] * WHOLE_DEMONSTRATIONS
    rng = np.random.default_rng(CLONING)
    return [windows.draw(rng, jobs) for _ in range(PART_DEMONSTRATIONS)]


def _choose_teachers(
    task: PairingTask, parts: Sequence[JobTable], training: PairingTraining
) -> TeacherAssignment:
    """Return the teacher of each demonstration."""
    if training.windows != Windows() and not training.cloning_epochs:
        return TeacherAssignment(RULES[0], [RULES[0]] * len(parts))
    pairing = msgspec.structs.replace(training.pairing, sees="foreseen", wait=True, wait_s=None)
    foreseeing = dataclasses.replace(task, settings=pairing, reward="foreseen")
    tried = parts[:1] if training.windows == Windows() else parts
    best, by_part = assign_teachers(
        [JobNodePairingEnv(task=foreseeing, jobs=part) for part in tried]
    )
    return TeacherAssignment(best, by_part if len(tried) == len(parts) else [best] * len(parts))


def _validation(
    source: EpisodeSource, jobs: JobTable, training: PairingTraining
) -> list[JobNodePairingEnv]:
    """Return the validation environments, the same for all seeds."""
    if not training.validation_windows:
        return scaled_environments(source.task, [jobs], source.teacher)
    rng = np.random.default_rng(VALIDATION)
    return source.draw([rng] * training.validation_windows)


ACTOR = "actor.safetensors"


def train_pairing(
    path: Path,
    out: Path,
    training: PairingTraining,
    *,
    validation: Path | None = None,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: training_session.OnIteration = lambda _: None,
) -> Path:
    """Train a pairing agent for a scenario's platform on its workload.

    The folder gets `actor.safetensors`, `curve.csv`, `tensorboard/` and `checkpoint.safetensors`.
    The same arguments give the same bytes of weights for any number of workers. Torch uses one
    thread, which is as fast for these small networks, so that several trainings can run side by
    side.

    Args:
        path: the scenario file; its scheduler is ignored.
        validation: scenario file whose workload is used for validation; its platform is ignored.
            None: validate on the training workload.
        overrides: values that replace those of the scenario, by dotted path.

    Returns:
        Path of the actor.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    library = Library([path], overrides)
    scenario, jobs = library.first, library.first_jobs
    check_power(scenario.platform, path)
    pairing = with_workload_scales(training.pairing, scenario, jobs)
    training = dataclasses.replace(training, pairing=pairing)
    validation_jobs = jobs if validation is None else Library([validation]).first_jobs
    use_one_thread()
    with parallel_map(training.executor) as parallel:
        learner = PairingLearner(scenario, jobs, validation_jobs, training, parallel)
        session = training_session.TrainingSession(learner, out, resume=resume)
        session.run(on_iteration)
    about = PairingMetadata(
        pairing=pairing, training=flat_settings(training, {"pairing"}) | session.about()
    )
    save_pairing(out / ACTOR, arrays_of(session.weights()), about)
    return out / ACTOR


def make_sampler(actor: PairingActor, rngs: Sequence[np.random.Generator]) -> Sample[PairBatch]:
    """Return a function that samples an actor's choices, with one generator for each run.

    A run consumes one random number for each choice, so its actions are independent of the runs
    beside it.
    """

    def sample(batch: PairBatch, runs: Ints) -> tuple[Ints, Floats]:
        noise = np.ones(batch.valid.shape)
        counts = batch.valid.sum(dim=1).tolist()
        for line, run, count in zip(noise, runs.tolist(), counts, strict=True):
            line[:count] = rngs[run].exponential(size=count)
        return sample_categorical(logits_of(actor, batch), noise)

    return sample


def greedy(actor: PairingActor) -> Act[PairBatch]:
    """Return a function that takes an actor's most probable choices."""
    return lambda batch, _: np.array([best(logits) for logits in logits_of(actor, batch)])


def play_greedy(actor: PairingActor, envs: Sequence[JobNodePairingEnv]) -> None:
    """Run each environment to its end with the most probable choices."""
    play(SingleRuns(envs), greedy(actor))


def play_sampled(
    actor: PairingActor, envs: Sequence[JobNodePairingEnv], rngs: Sequence[np.random.Generator]
) -> None:
    """Run each environment to its end with sampled choices."""
    sample = make_sampler(actor, rngs)
    play(SingleRuns(envs), lambda batch, runs: sample(batch, runs)[0])
