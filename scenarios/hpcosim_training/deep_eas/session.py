"""A training of Deep-EAS, iteration by iteration."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from torch import Tensor

from hpcosim_client.agents.deep_eas.model import About
from hpcosim_client.agents.deep_eas.network import Network, network_of
from hpcosim_scenarios.model.workload import Bernoulli
from hpcosim_training.checkpoint import Progress, read_checkpoint, write_checkpoint
from hpcosim_training.deep_eas.agent import Agent
from hpcosim_training.deep_eas.baseline import better_than_mean, by_spread
from hpcosim_training.deep_eas.critic import watch
from hpcosim_training.deep_eas.ground import sequence
from hpcosim_training.deep_eas.jobs import StepJobs, step_jobs
from hpcosim_training.deep_eas.outcome import mean_edp, rewards, to_come
from hpcosim_training.deep_eas.ppo import ppo
from hpcosim_training.deep_eas.reinforce import reinforce
from hpcosim_training.deep_eas.rollout import Decisions, exploit, explore, run_esjf
from hpcosim_training.deep_eas.sequences import Machines, Sequences
from hpcosim_training.deep_eas.settings import Training
from hpcosim_workloads.table import JobTable

POOL, VALIDATION, CHOICE, RUNS, ORDER = range(5)  # streams of chance
VALIDATED_ON = 100  # sequences


class Iteration(NamedTuple):
    """What came of one iteration.

    Attributes:
        iteration: counted from 1; 0: before the first.
        decisions: in all its runs.
        normalised_edp: mean over the jobs of its runs.
        entropy: mean surprise of its choices, nats.
        validation: of the best choices on the sequences of validation, over what ESJF comes to
            there; NaN: not looked at.
        seconds: how long it took, on a clock on the wall.
    """

    iteration: int
    decisions: int
    normalised_edp: float
    entropy: float
    validation: float
    seconds: float


class Session:
    """A training.

    Args:
        machines: what is learned on.
        model: how sequences are drawn.
        training: how.

    Raises:
        ScenariosError: jobs and machines are not such that all happens at whole steps.
        WorkloadError: hardly a job comes.

    Attributes:
        tried: the sequences of validation.
        by_esjf: what ESJF makes of them.
    """

    def __init__(self, machines: Machines, model: Bernoulli, training: Training) -> None:
        self.training = training
        self._machines, self._model = machines, model
        self.tried = [self._sequence(VALIDATION, number) for number in range(VALIDATED_ON)]
        self._tried = self._in_steps(self.tried)
        self.by_esjf = Sequences(machines, self._tried)
        run_esjf(self.by_esjf)
        pool = [self._sequence(POOL, 0, number) for number in range(training.pool)]
        self._pool = self._in_steps(pool) if pool else None
        self._agent = Agent(training, len(machines.watts))
        self._progress = Progress(training=_as_text(machines, model, training))
        self._best: dict[str, Tensor] = {}
        self._begun = False

    @property
    def done(self) -> int:
        """How many iterations are over."""
        return self._progress.iterations

    @property
    def over(self) -> bool:
        """Whether there is nothing more to do."""
        return self._begun and self.done >= self.training.iterations

    def resume(self, out: Path) -> None:
        """Go back to where the checkpoint in a folder was written.

        Raises:
            PolicyError: there is none of this training.
        """
        self._progress, self._best = read_checkpoint(
            out, self._agent.restore, self._progress.training
        )
        self._begun = True

    def write_checkpoint(self, out: Path) -> None:
        """Write down where it is."""
        write_checkpoint(out, self._agent.state(), self._best, self._progress)

    def advance(self) -> Iteration:
        """Try the network as it was drawn, at first; then learn once."""
        began_s = time.monotonic()
        if not self._begun:
            self._begun = True
            value = self._validate()
            return Iteration(0, 0, np.nan, np.nan, value, time.monotonic() - began_s)
        training = self.training
        self._progress.iterations += 1
        sequences = Sequences(self._machines, self._drawn())
        rng = self._rng(RUNS, self.done)
        decisions = explore(self._agent.network, sequences, rng, watch)
        self._learn(sequences, decisions)
        is_due = self.over or self.done % training.validate_every == 0
        return Iteration(
            self.done,
            decisions.size,
            mean_edp(sequences),
            -float(decisions.log.mean()),
            self._validate() if is_due else np.nan,
            time.monotonic() - began_s,
        )

    def network(self) -> Network:
        """Return the network that training ends with, the best in validation."""
        network = network_of(self.training.settings)
        network.load_state_dict(self._best)
        return network

    def about(self) -> About:
        """Return what is to be said in the network's file."""
        said = dataclasses.asdict(self.training)
        del said["settings"]
        said |= said.pop("ppo") or {}
        said |= {"validation": self._progress.best, "best_at": self._progress.best_at}
        return About(settings=self.training.settings, training=said)

    def _learn(self, sequences: Sequences, decisions: Decisions) -> None:
        training = self.training
        better = better_than_mean(to_come(rewards(sequences)), training.trajectories)
        if training.ppo is None:
            worth = better[decisions.run, decisions.step]
            reinforce(self._agent, decisions, worth, len(better))
            return
        left = 1.0 - (self.done - 1) / training.iterations
        self._agent.set_rate(left * training.rate)
        even = by_spread(better, training.trajectories)
        worth = even[decisions.run, decisions.step]
        ppo(self._agent, decisions, worth, training.ppo, left, self._rng(ORDER, self.done))

    def _drawn(self) -> StepJobs:
        """Return the sequences of an iteration, each as often as it is run."""
        training = self.training
        if self._pool is None:
            new = [self._sequence(POOL, self.done, one) for one in range(training.sequences)]
            return self._in_steps(new).some(np.repeat(range(len(new)), training.trajectories))
        most = min(training.sequences, training.pool)
        some = self._rng(CHOICE, self.done).choice(training.pool, most, replace=False)
        return self._pool.some(np.repeat(some, training.trajectories))

    def _validate(self) -> float:
        tried = Sequences(self._machines, self._tried)
        exploit(self._agent.network, tried)
        value = mean_edp(tried) / mean_edp(self.by_esjf)
        if self._progress.best is None or value < self._progress.best:
            self._progress.best, self._progress.best_at = value, self.done
            self._best = self._agent.weights()
        return value

    def _in_steps(self, tables: Sequence[JobTable]) -> StepJobs:
        return step_jobs(self._machines.settings, self._machines.scale, tables)

    def _rng(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.training.seed, *stream])

    def _sequence(self, *stream: int) -> JobTable:
        return sequence(self._model, self._rng(*stream))


def _as_text(machines: Machines, model: Bernoulli, training: Training) -> str:
    """Return all that a training's course depends on."""
    said = dataclasses.asdict(training) | {"settings": msgspec.to_builtins(training.settings)}
    said |= {"model": msgspec.to_builtins(model)}
    said |= {"watts": machines.watts.tolist(), "scale": machines.scale.tolist()}
    return json.dumps(said, sort_keys=True)
