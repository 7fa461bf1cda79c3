"""Train Deep-EAS on a scenario, and run its agents; see `hpcosim train deep-eas`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.policies import missing_package
from hpcosim_experiments.executors import ParallelMap, parallel_map
from hpcosim_gym.learning.networks import arrays_of, sample_categorical, use_one_thread
from hpcosim_gym.learning.rollout import Rollout, Sample, collect, joined, parts_of, play
from hpcosim_gym.learning.settings import description, flat_settings
from hpcosim_gym.learning.training_session import (
    IterationOutcome,
    Learner,
    OnIteration,
    TrainingSession,
)
from hpcosim_gym.learning.update import Losses, learn, weights_of
from hpcosim_papers.deep_eas.agent import step_runs
from hpcosim_papers.deep_eas.agent.look_ahead import LookAhead, improved_actions, known_part
from hpcosim_papers.deep_eas.agent.network import DeepEasMetadata, save_deep_eas
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.environments import step_machines
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.learners.networks import (
    Network,
    SceneBatch,
    critic_features,
    join,
    load_network,
    logits_of,
    network_of,
    new_agent,
)
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.logs import sha256_of
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_papers.deep_eas.learners.reinforce_compiled import Gradient


def subtract_sequence_baseline(
    rollout: Rollout[SceneBatch], runs: step_runs.StepRuns, training: DeepEasTraining
) -> Rollout[SceneBatch]:
    """Return a rollout whose rewards are relative to the mean of all runs of the same sequence.

    The return of a decision becomes its return minus the mean return of the runs of its sequence
    from the same step on; finished runs count as 0. With a critic, rewards are divided by the
    standard deviation of these returns, so that all sequences have equal weight. With REINFORCE,
    rewards are multiplied by the number of decisions per run, because equation 5 is a mean over
    runs and the loss is a mean over decisions.

    Args:
        rollout: whole episodes; the runs of a sequence are consecutive.
    """
    to_go = -step_runs.costs_to_go(runs)
    by_sequence = to_go.reshape(-1, training.trajectories, to_go.shape[1])
    means = by_sequence.mean(axis=1).repeat(training.trajectories, axis=0)
    baseline = means[rollout.episode, rollout.observations.step.numpy()]
    rewards = rollout.rewards - _baseline_decreases(baseline, rollout)
    if training.algorithm == "reinforce":
        return replace(rollout, rewards=rewards * (len(rollout) / len(to_go)))
    spread = by_sequence[:, :, 0].std(axis=1).repeat(training.trajectories)
    return replace(rollout, rewards=rewards / np.where(spread > 0.0, spread, 1.0)[rollout.episode])


def _baseline_decreases(baseline: Floats, rollout: Rollout[SceneBatch]) -> Floats:
    """Return the decrease of a baseline from each decision to the next, or to the run's end."""
    goes_on = np.append(rollout.episode[1:] == rollout.episode[:-1], False)
    return baseline - np.where(goes_on, np.roll(baseline, -1), 0.0)


POOL, VALIDATION, CHOICE, RUNS, ORDER = range(5)  # random number streams


class SampledEpisodes(NamedTuple):
    """The episodes that one worker sampled in an iteration.

    Attributes:
        rollout: the decisions, with rewards relative to the mean of the sequence.
        mean_return: mean return of the runs, by the rewards of the environment.
        edp: sum of the normalised energy-delay products of the jobs.
    """

    rollout: Rollout[SceneBatch]
    mean_return: float
    edp: float
    jobs: int


class DeepEasLearner(Learner):
    """Learner of Deep-EAS."""

    settings: DeepEasTraining
    measures = ("normalised_edp",)

    def __init__(
        self, machines: Machines, model: Bernoulli, training: DeepEasTraining, parallel: ParallelMap
    ) -> None:
        self.settings, self.iterations = training, training.iterations
        self._machines, self._model, self._map = machines, model, parallel
        self.tables = self._sequences(training.validation_sequences, VALIDATION)
        self._validation = self._env(self._in_steps(self.tables))
        play_esjf(self._validation)
        self.esjf_runs = self._validation.runs
        pool = self._sequences(training.pool, POOL, 0)
        self._pool = self._in_steps(pool) if pool else None
        self.agent = new_agent(training, len(machines.watts))
        self._is_compiled = is_compiled(training)
        more: dict[str, object] = {"compiled": True} if self._is_compiled else {}
        if training.start is not None:
            start = Path(training.start)
            network, about = load_network(start)
            if about.settings.sees != training.settings.sees:
                sees = about.settings.sees
                raise PolicyError(f"{training.start}: a network for the observation {sees}")
            self.agent.actor.load_state_dict(network.state_dict())
            more["start"] = f"{start.name} with SHA-256 {sha256_of(start)}"
        self.description = description(
            training,
            model=model,
            watts=machines.watts.tolist(),
            scale=machines.scale.tolist(),
            **more,
        )

    def iterate(self, done: int, remaining: float) -> IterationOutcome:
        """Collect new episodes with the current actor and update the agent."""
        training, number = self.settings, done + 1
        jobs = self._drawn(number)
        if self._is_compiled:
            return self._reinforce(jobs, number)
        weights = save(weights_of(self.agent.actor))
        episodes = partial(_episodes, self._machines, jobs, training, weights, number)
        parts = parts_of(len(jobs.valid), training.together)
        found: list[SampledEpisodes] = self._map(episodes, parts)
        rollout = joined([part.rollout for part in found], join)
        losses = learn(self.agent, rollout, training, self._rng(ORDER, number), remaining)
        sizes = [len(part) for part in parts]
        mean_return = float(np.average([part.mean_return for part in found], weights=sizes))
        edp = sum(part.edp for part in found) / sum(part.jobs for part in found)
        measures = {"normalised_edp": edp}
        return IterationOutcome(
            "", len(rollout), mean_return, losses, measures, rollout.environment_s
        )

    def _reinforce(self, jobs: StepJobs, number: int) -> IterationOutcome:
        """Take a step of REINFORCE with the compiled gradient."""
        weights = arrays_of(weights_of(self.agent.actor))
        compute = partial(_gradient, self._machines, jobs, self.settings, weights, number)
        parts: list[Gradient] = self._map(
            compute, parts_of(len(jobs.valid), self.settings.together)
        )
        runs, decisions = (
            sum(getattr(part, name) for part in parts) for name in ("runs", "decisions")
        )
        for name, weight in self.agent.actor.named_parameters():
            total = np.sum([part.weights[name] for part in parts], axis=0)
            weight.grad = torch.from_numpy(total / np.float32(runs))
        self.agent.descend()
        losses = Losses(
            policy=sum(part.loss for part in parts) / runs,
            entropy=sum(part.entropy for part in parts) / decisions,
        )
        mean_return = sum(part.returned for part in parts) / runs
        edp = sum(part.edp for part in parts) / sum(part.jobs for part in parts)
        return IterationOutcome("", decisions, mean_return, losses, {"normalised_edp": edp})

    def validate(self, network: Network) -> float:
        """Return the mean normalised energy-delay product of greedy actions, divided by ESJF's.

        With sequences of several lengths it is the geometric mean of the quotients of sequences.
        """
        play_greedy(network, self._validation)
        if self.settings.lengths is None:
            return step_runs.mean_edp(self._validation.runs) / step_runs.mean_edp(self.esjf_runs)
        found, esjf = (
            step_runs.normalised_edps(runs).sum(axis=1)
            for runs in (self._validation.runs, self.esjf_runs)
        )
        return float(np.exp(np.log(found / esjf).mean()))

    def _drawn(self, number: int) -> StepJobs:
        """Return the sequences of an iteration."""
        training = self.settings
        if self._pool is None:
            return self._in_steps(self._sequences(training.sequences, POOL, number))
        most = min(training.sequences, training.pool)
        return self._pool.take(self._rng(CHOICE, number).choice(training.pool, most, replace=False))

    def _env(self, jobs: StepJobs) -> StepBindingVectorEnv:
        return StepBindingVectorEnv(machines=self._machines, jobs=jobs)

    def _in_steps(self, tables: Sequence[JobTable]) -> StepJobs:
        return step_machines.step_jobs(self._machines.settings, self._machines.scale, tables)

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.settings.seed, *stream])

    def _sequences(self, count: int, *stream: int) -> list[JobTable]:
        """Draw sequences from a random number stream each, shorter ones first."""
        rngs = [self._rng(*stream, number) for number in range(count)]
        shares = [number / count for number in range(count)]
        return [
            step_machines.sequence(self._varied(share, 1.0 / count, rng), rng)
            for share, rng in zip(shares, rngs, strict=True)
        ]

    def _varied(self, share: float, width: float, rng: np.random.Generator) -> Bernoulli:
        """Return the model with a length and a load of the training's ranges.

        The lengths are stratified, so that every iteration has long sequences, and sequences
        that run side by side have similar lengths.
        """
        model, training = self._model, self.settings
        if training.lengths is not None:
            least, most = training.lengths
            steps = round(least * (most / least) ** (share + width * rng.random()))
            model = msgspec.structs.replace(model, steps=steps, apart_s=max(model.apart_s, steps))
        if training.arrivals is not None:
            rate = float(rng.uniform(*training.arrivals))
            model = msgspec.structs.replace(model, arrival_probability=rate)
        return model


def is_compiled(training: DeepEasTraining) -> bool:
    """Return whether a training is that of the paper, and Numba is installed: it is compiled."""
    return (
        training.algorithm == "reinforce"
        and training.settings.sees == "picture"
        and training.discount == training.gae_lambda == training.epochs == 1
        and training.minibatch is None
        and not training.normalise_advantages
        and training.entropy_coefficient == 0.0
        and not missing_package()
    )


def _gradient(
    machines: Machines,
    jobs: StepJobs,
    training: DeepEasTraining,
    weights: Mapping[str, NDArray[np.float32]],
    iteration: int,
    numbers: Ints,
) -> Gradient:
    """Return the compiled gradient of some sequences of an iteration."""
    from hpcosim_papers.deep_eas.learners.reinforce_compiled import gradient

    use_one_thread()
    seeds = [[training.seed, RUNS, iteration, number] for number in numbers.tolist()]
    return gradient(machines, jobs.take(numbers), weights, training.trajectories, seeds)


def _episodes(
    machines: Machines,
    jobs: StepJobs,
    training: DeepEasTraining,
    weights: bytes,
    iteration: int,
    numbers: Ints,
) -> SampledEpisodes:
    """Sample the episodes of some sequences of an iteration."""
    use_one_thread()
    network = network_of(training.settings)
    network.load_state_dict(load(weights))
    seeds = [[training.seed, RUNS, iteration, number] for number in numbers.tolist()]
    rngs = [np.random.default_rng(seed) for seed in seeds]
    own = jobs.take(np.repeat(numbers, training.trajectories))
    env = StepBindingVectorEnv(machines=machines, jobs=own)
    rollout = collect(BindingRuns(env), make_sampler(network, rngs, training.trajectories), join)
    return SampledEpisodes(
        subtract_sequence_baseline(rollout, env.runs, training),
        float(rollout.rewards.sum() / len(own.valid)),
        float(step_runs.normalised_edps(env.runs).sum()),
        int(own.valid.sum()),
    )


NETWORK = "deep-eas.safetensors"
CHECKED_SEQUENCES = 10  # validation sequences that are also run in the simulator
TOLERANCE = 1e-9  # relative difference of their results


def train_deep_eas(
    path: Path,
    out: Path,
    training: DeepEasTraining,
    *,
    resume: bool = False,
    overrides: Mapping[str, Scalar] | None = None,
    on_iteration: OnIteration = lambda _: None,
) -> Path:
    """Train Deep-EAS on sequences drawn from a scenario's workload model, with another seed.

    The folder gets `deep-eas.safetensors`, `curve.csv`, `tensorboard/` and
    `checkpoint.safetensors`. The same arguments give the same bytes of weights. Torch uses one
    thread, so that several trainings can run side by side.

    For the arguments see `train_pairing`; the scenario sets the number of machines and their cores.

    Returns:
        Path of the network.

    Raises:
        ScenarioError: the workload model is not `bernoulli`, nodes differ in cores, a job fits on
            no node, or a time is not a whole number of steps.
        WorkloadError: the model draws sequences without jobs.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        PolicyError: the network to start from is invalid.
        OSError: the folder cannot be written.
    """
    scenario = Library([path], overrides).first
    use_one_thread()
    with parallel_map(training.executor) as parallel:
        learner = _learner(scenario, training, path, parallel)
        _check_against_simulator(scenario, learner, path)
        session = TrainingSession(learner, out, resume=resume)
        session.run(on_iteration)
    settings = learner.settings.settings
    about = DeepEasMetadata(
        settings=settings, training=flat_settings(training, {"settings", "start"}) | session.about()
    )
    save_deep_eas(out / NETWORK, arrays_of(session.weights()), about)
    return out / NETWORK


def _learner(
    scenario: Scenario, training: DeepEasTraining, path: Path, parallel: ParallelMap
) -> DeepEasLearner:
    model = step_machines.model_of(scenario, path)
    machines = step_machines.machines_of(scenario, training.settings, path)
    training = dataclasses.replace(training, settings=machines.settings)
    try:
        return DeepEasLearner(machines, model, training, parallel)
    except ScenariosError as error:
        raise ScenarioError(
            f"Deep-EAS cannot be trained on this workload: {error}", path, field="$.workload"
        ) from None


def _check_against_simulator(scenario: Scenario, learner: DeepEasLearner, path: Path) -> None:
    """Check that ESJF has the same costs in the step-based environment as in the simulator.

    There it considers the paper's number of waiting jobs, whatever the agent observes.
    """
    tables, paper = learner.tables[:CHECKED_SEQUENCES], DeepEas()
    slots = msgspec.structs.replace(learner.settings.settings, sees=paper.sees, queue=paper.queue)
    machines = step_machines.machines_of(scenario, slots, path)
    jobs = step_machines.step_jobs(machines.settings, machines.scale, tables)
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    play_esjf(env)
    found = step_runs.normalised_edps(env.runs).sum(axis=1)
    for table, total in zip(tables, found.tolist(), strict=True):
        opened = open_scenario(scenario, table, "esjf")
        judged = run_in_process(opened, make_policy("esjf"))["mean_normalised_edp"]
        if not math.isclose(judged, total / len(table), rel_tol=TOLERANCE):
            raise ScenarioError(
                "Deep-EAS cannot be trained on this platform: the mean normalised EDP of ESJF on "
                f"a sequence is {judged:.6g} in the simulator and {total / len(table):.6g} in the "
                "step-based environment; remove power_states, static_w and contention from the "
                "nodes",
                path,
                field="$.platform.nodes",
            )


class BindingRuns:
    """A vector environment as `rollout.Runs`. The constructor resets it."""

    def __init__(self, env: StepBindingVectorEnv, *, for_critic: bool = True) -> None:
        env.reset()
        self._env, self._for_critic = env, for_critic
        self.active: NDArray[np.bool_] = ~env.runs.done

    def observe(self) -> SceneBatch:
        """Implement `Runs.observe`."""
        runs, active = self._env.runs, np.flatnonzero(self.active)
        features = np.zeros((len(active), 0), np.float32)
        if self._for_critic:
            features = critic_features(runs, active)
        steps = torch.from_numpy(runs.now[active])
        return SceneBatch(runs.scene.some(active), torch.from_numpy(features), steps)

    def step(self, actions: Ints) -> Floats:
        """Implement `Runs.step`."""
        active, all_actions = self.active, np.zeros(len(self.active), dtype=np.int64)
        all_actions[active] = actions
        _, rewards, terminated, _, _ = self._env.step(all_actions)
        self.active = ~terminated
        return rewards[active]


def make_sampler(
    network: Network, rngs: Sequence[np.random.Generator], trajectories: int
) -> Sample[SceneBatch]:
    """Return a function that samples a network's actions.

    Args:
        rngs: random number generators, one for each sequence.
        trajectories: number of runs of each sequence; these are consecutive.
    """

    def sample(batch: SceneBatch, runs: Ints) -> tuple[Ints, Floats]:
        logits = logits_of(network, batch.scene)
        counts = np.bincount(runs // trajectories, minlength=len(rngs)).tolist()
        drawn = zip(rngs, counts, strict=True)
        noise = [rng.exponential(size=(count, logits.shape[1])) for rng, count in drawn if count]
        return sample_categorical(logits, np.concatenate(noise))

    return sample


def play_greedy(network: Network, env: StepBindingVectorEnv) -> None:
    """Run all episodes to their ends with the most probable actions."""
    play(
        BindingRuns(env, for_critic=False),
        lambda batch, _: logits_of(network, batch.scene).argmax(axis=1),
    )


def play_esjf(env: StepBindingVectorEnv) -> None:
    """Run all episodes to their ends with energy-aware shortest job first."""
    play(BindingRuns(env, for_critic=False), lambda batch, _: step_runs.esjf_actions(batch.scene))


def play_sampled(network: Network, env: StepBindingVectorEnv, seed: int = 0) -> None:
    """Run all episodes to their ends with sampled actions."""
    sample = make_sampler(network, [np.random.default_rng(seed)], env.num_envs)
    play(BindingRuns(env, for_critic=False), lambda batch, runs: sample(batch, runs)[0])


class Foresight(NamedTuple):
    """What a look-ahead knows of the future; a scheduler knows nothing of it.

    Attributes:
        run_times: the true run times of submitted jobs.
        arrivals: the future jobs and their requested times.
    """

    run_times: bool = False
    arrivals: bool = False


NO_FORESIGHT = Foresight()


def play_search(
    network: Network,
    env: StepBindingVectorEnv,
    foresight: Foresight = NO_FORESIGHT,
    seed: int = 0,
) -> None:
    """Run all episodes to their ends with the look-ahead.

    With known arrivals there is only one future, and the four likeliest actions are always
    simulated. Without, more than the usual actions improve nothing, because the costs of futures
    vary.
    """
    rng, every = np.random.default_rng(seed), np.arange(env.num_envs)
    runs = BindingRuns(env, for_critic=False)
    settings, logits = LookAhead(), partial(logits_of, network)
    if foresight.arrivals:
        settings = LookAhead(actions=4, futures=1, steps=0, sure=1.0)

    def act(batch: SceneBatch, _: Ints) -> Ints:
        known = _known_to(foresight, env.runs.moment(every[runs.active]))
        return improved_actions(logits, env.machines, known, batch.scene, settings, rng)

    play(runs, act)


def _known_to(foresight: Foresight, moment: step_runs.Moment) -> step_runs.Moment:
    """Return what a look-ahead knows."""
    known, true = known_part(moment), moment.jobs
    jobs = known.jobs
    future = true.valid & (true.submit > moment.now[:, None])
    if foresight.arrivals:
        submit = np.where(future, true.submit, jobs.submit)
        jobs = jobs._replace(valid=jobs.valid | future, submit=submit)
    if foresight.run_times:
        jobs = jobs._replace(actual=true.actual)
    return known._replace(jobs=jobs)
