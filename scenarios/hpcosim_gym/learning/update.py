"""Updates: epochs of minibatches over a rollout or over demonstrations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Floats, Ints
from hpcosim_gym.learning.networks import Evaluation, mean_where
from hpcosim_gym.learning.rollout import Observations, Rollout
from hpcosim_gym.learning.settings import TrainingSettings

# Returns and advantages. The decisions of an episode are consecutive.


Observed = TypeVar("Observed")
A = TypeVar("A", bound=nn.Module)
AVERAGED_OF = "averaged_of"


def discounted_returns(
    rewards: Floats, episode: Ints, last_values: Floats, discount: float
) -> Floats:
    """Return the discounted return of each decision, float64[D]."""
    return generalised_advantages(
        rewards, np.zeros(len(rewards)), episode, last_values, discount, gae_lambda=1.0
    )


def generalised_advantages(
    rewards: Floats,
    values: Floats,
    episode: Ints,
    last_values: Floats,
    discount: float,
    gae_lambda: float,
) -> Floats:
    """Return generalised advantage estimates, float64[D] (Schulman et al. 2016, equation 16).

    Args:
        rewards: see the module.
        values: float64[D], the critic's values of the decisions' states.
        episode: see the module.
        last_values: see the module.
        discount: see the module.
        gae_lambda: lambda, 0 to 1. At 1 an advantage is the return minus the value, at 0 the
            temporal-difference error.
    """
    advantages = np.zeros(len(rewards))
    advantage, next_value, following = 0.0, 0.0, -1
    steps = zip(rewards.tolist(), values.tolist(), episode.tolist(), strict=True)
    for at, (reward, value, number) in reversed(list(enumerate(steps))):
        if number != following:  # the last decision of its episode
            advantage, next_value, following = 0.0, float(last_values[number]), number
        advantage = reward + discount * (next_value + gae_lambda * advantage) - value
        advantages[at], next_value = advantage, value
    return advantages


# Policy losses, one function for each algorithm.

Loss = Callable[[Evaluation, Tensor, Tensor], Tensor]
"""Takes the current evaluation, the log-probabilities at sampling time, float32[D, P], and the
advantages, float32[D], of D decisions with P parts; returns the mean loss of the decisions."""


def clipped_surrogate(
    evaluation: Evaluation, before: Tensor, advantages: Tensor, clip: float
) -> Tensor:
    """Return the loss of PPO (Schulman et al. 2017, equation 7).

    Each part of a decision has its own ratio and clip; all parts share the decision's advantage.
    The loss is the mean over all parts with a choice. A single ratio for all parts, a product of
    hundreds of ratios, would exceed the clip range after the first steps and stop learning.

    Args:
        evaluation: the current evaluation.
        before: float32[D, P], log-probabilities at sampling time.
        advantages: float32[D].
        clip: epsilon.
    """
    ratios, shared = (evaluation.log_probabilities - before).exp(), advantages[:, None]
    clipped = ratios.clamp(1.0 - clip, 1.0 + clip)
    return -mean_where(torch.minimum(ratios * shared, clipped * shared), evaluation.counted)


def policy_gradient(evaluation: Evaluation, _before: Tensor, advantages: Tensor) -> Tensor:
    """Return the loss of A2C and REINFORCE: minus log-probability times advantage.

    The algorithms differ in the advantages: A2C uses a critic, REINFORCE uses returns minus a
    baseline. The log-probability of a decision is the sum over its parts with a choice.
    """
    logs = (evaluation.log_probabilities * evaluation.counted).sum(dim=1)
    return -(logs * advantages).mean()


def loss_of(settings: TrainingSettings) -> Loss:
    """Return the loss function of the algorithm in the settings."""
    if settings.algorithm == "ppo":
        return partial(clipped_surrogate, clip=settings.clip)
    return policy_gradient


Obs = TypeVar("Obs", bound=Observations)

CERTAIN = 0.99  # least probability of an action whose decision may be left out
MAX_FORWARD_BATCH = 1024  # decisions in one forward pass; bounds the memory
CLONING_MINIBATCH = 64


class Losses(NamedTuple):
    """Mean losses over the optimiser steps; NaN: not computed.

    Attributes:
        policy: policy loss, without the entropy term.
        value: mean squared error of the critic.
        entropy: mean entropy of a decision, nats.
    """

    policy: float = np.nan
    value: float = np.nan
    entropy: float = np.nan


def learn(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    settings: TrainingSettings,
    rng: np.random.Generator,
    remaining: float,
) -> Losses:
    """Update an agent from its own rollout."""
    values = _values(agent, rollout.observations, len(rollout))
    last = np.zeros(len(rollout.truncated))
    if rollout.final is not None:
        last[rollout.truncated] = _values(agent, rollout.final, int(rollout.truncated.sum()))
    advantages = generalised_advantages(
        rollout.rewards, values, rollout.episode, last, settings.discount, settings.gae_lambda
    )
    targets = advantages + values
    if settings.normalise_advantages and len(advantages) > 1:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    if settings.anneal:
        entropy_coefficient = remaining * settings.entropy_coefficient
        settings = replace(settings, entropy_coefficient=entropy_coefficient)
    weights = None
    if settings.skim > 1:
        weights = skim_weights(rollout.log_probabilities.numpy(), settings.skim, rng)
    parts = _tensor(advantages), _tensor(targets), weights, loss_of(settings)
    return mean_losses(list(_update(agent, rollout, *parts, settings, rng)))


def skim_weights(logs: NDArray[np.float32], skim: int, rng: np.random.Generator) -> Tensor:
    """Return weights of decisions for an update without most of the almost certain ones.

    A decision whose action had a probability above `CERTAIN` hardly changes the policy: the
    gradient of its log-probability vanishes with the rest of the probability. One in `skim` of
    these, drawn at random, stands for all: the expected sums are those of all decisions.

    Args:
        logs: float32[D, P], log-probabilities at sampling time.
        skim: see `TrainingSettings`.

    Returns:
        float32[D, 1]: 1, `skim`, or 0 for those that are left out.
    """
    is_certain = logs.sum(axis=1, keepdims=True) > np.log(CERTAIN)
    stands = skim * (rng.random(is_certain.shape) < 1.0 / skim)
    return _tensor(np.where(is_certain, stands, 1.0))


def behaviour_cloning(
    agent: Agent[Any, Obs],
    demonstrations: Rollout[Obs],
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> Losses:
    """Update an agent by behaviour cloning: the actor learns the actions, the critic their returns.

    Args:
        demonstrations: whole episodes; their log-probabilities are ignored.
        settings: discount of the returns, and number of epochs.
        rng: generator that shuffles the minibatches.

    Returns:
        The mean losses of the last epoch; the policy loss is the cross-entropy, nats.
    """
    last = np.zeros(len(demonstrations.truncated))
    returns = discounted_returns(
        demonstrations.rewards, demonstrations.episode, last, settings.discount
    )
    epochs, same = settings.cloning_epochs, torch.ones(len(demonstrations))
    cloning = replace(
        settings, epochs=epochs, minibatch=CLONING_MINIBATCH, entropy_coefficient=0.0, max_kl=None
    )
    targets = _tensor(returns)
    steps = list(_update(agent, demonstrations, same, targets, None, policy_gradient, cloning, rng))
    return mean_losses(steps[-(len(steps) // epochs) :])


def mean_losses(steps: list[Losses]) -> Losses:
    """Return the mean of several losses."""
    return Losses(*np.mean(steps, axis=0).tolist()) if steps else Losses()


def _update(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    advantages: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    loss: Loss,
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> Iterator[Losses]:
    """Run the epochs, and yield the losses of each optimiser step.

    Args:
        weights: float32[D, 1], of the decisions, see `skim_weights`; None: all are 1.
    """
    every = torch.arange(len(rollout)) if weights is None else weights[:, 0].nonzero()[:, 0]
    for _ in range(settings.epochs):
        order = every[torch.from_numpy(rng.permutation(len(every)))]
        kls = []
        for rows in torch.split(order, settings.minibatch or len(every)):
            losses, kl = _step(
                agent,
                rollout,
                advantages,
                targets,
                weights,
                rows,
                loss,
                settings.entropy_coefficient,
            )
            kls.append(kl)
            yield losses
        if settings.max_kl is not None and np.mean(kls) > settings.max_kl:
            return


def _step(
    agent: Agent[Any, Obs],
    rollout: Rollout[Obs],
    advantages: Tensor,
    targets: Tensor,
    weights: Tensor | None,
    rows: Tensor,
    loss: Loss,
    entropy_coefficient: float,
) -> tuple[Losses, float]:
    """Take an optimiser step; return the losses and the mean approximate KL divergence."""
    sums, kl = np.zeros(3), 0.0
    for some in torch.split(rows, MAX_FORWARD_BATCH):
        share = len(some) / len(rows)
        if weights is not None:
            share = float(weights[some].sum() / weights[rows].sum())
        observations = rollout.observations.take(some)
        before = rollout.log_probabilities[some]
        evaluation = agent.evaluate(observations, rollout.actions[some])
        if weights is not None:
            evaluation = evaluation._replace(counted=evaluation.counted * weights[some])
        policy = loss(evaluation, before, advantages[some])
        entropy = mean_where(evaluation.entropies, evaluation.counted)
        (share * (policy - entropy_coefficient * entropy)).backward()  # type: ignore[no-untyped-call]
        value = torch.tensor(torch.nan)
        if agent.critic is not None:
            errors = (agent.value(observations) - targets[some]) ** 2
            value = errors.mean() if weights is None else mean_where(errors, weights[some][:, 0])
            (share * value).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            moved = mean_where(before - evaluation.log_probabilities, evaluation.counted)
        sums += share * np.array([policy.item(), value.item(), entropy.item()])
        kl += share * moved.item()
    agent.descend()
    return Losses(*sums.tolist()), kl


def _values(agent: Agent[Any, Obs], observations: Obs, count: int) -> Floats:
    """Return the critic's values, float64[decisions]; 0 without a critic."""
    if agent.critic is None:
        return np.zeros(count)
    with torch.inference_mode():
        parts = [
            agent.value(observations.take(rows))
            for rows in torch.split(torch.arange(count), MAX_FORWARD_BATCH)
        ]
    return np.asarray(torch.cat(parts).numpy(), dtype=np.float64)


def _tensor(values: Floats) -> Tensor:
    return torch.from_numpy(values.astype(np.float32))


class Agent(Generic[A, Observed]):
    """Actor and critic of a problem, with their optimisers.

    Args:
        critic: the critic; None: learning without a critic.
        evaluate: evaluates actions under an actor, given the observations.
        value: returns the critic's values of observations, float32[decisions].
        settings: learning rates and maximum gradient norm.

    Attributes:
        actor, critic: the networks.
        averaged: the mean of the averaged actors; None before the first `average`.
    """

    def __init__(
        self,
        actor: A,
        critic: nn.Module | None,
        evaluate: Callable[[A, Observed, Tensor], Evaluation],
        value: Callable[[Any, Observed], Tensor],
        settings: TrainingSettings,
    ) -> None:
        self.actor, self.critic = actor, critic
        self.averaged: A | None = None
        self._averaged_of = 0
        self._evaluate, self._value = evaluate, value
        self._max_grad_norm = settings.max_grad_norm
        critic_rate = settings.critic_learning_rate or settings.learning_rate
        self._parts: dict[str, tuple[nn.Module, float]] = {"actor": (actor, settings.learning_rate)}
        if critic is not None:
            self._parts["critic"] = (critic, critic_rate)
        self._optimisers = {
            name: torch.optim.Adam(network.parameters(), lr=rate, fused=True)
            for name, (network, rate) in self._parts.items()
        }

    def evaluate(self, observations: Observed, actions: Tensor) -> Evaluation:
        """Evaluate actions under the actor."""
        return self._evaluate(self.actor, observations, actions)

    def value(self, observations: Observed) -> Tensor:
        """Return the critic's values, float32[decisions]; requires a critic."""
        return self._value(self.critic, observations)

    def set_learning_rates(self, factor: float) -> None:
        """Set the learning rates to a multiple of those of the settings."""
        for name, optimiser in self._optimisers.items():
            for group in optimiser.param_groups:
                group["lr"] = factor * self._parts[name][1]

    def descend(self) -> None:
        """Clip the gradients, take an optimiser step in all networks, and reset the gradients."""
        for name, optimiser in self._optimisers.items():
            nn.utils.clip_grad_norm_(self._parts[name][0].parameters(), self._max_grad_norm)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    def average(self) -> None:
        """Include the current actor in the averaged actor."""
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.actor)
        self._averaged_of += 1
        with torch.no_grad():
            for mean, one in zip(self.averaged.parameters(), self.actor.parameters(), strict=True):
                mean.lerp_(one, 1.0 / self._averaged_of)

    def state(self) -> dict[str, Tensor]:
        """Return the state that training resumes from, as tensors by name."""
        state = {AVERAGED_OF: torch.tensor(self._averaged_of)}
        for name, part in self._stateful().items():
            state |= flatten_state(name, part)
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore a state.

        Raises:
            KeyError, RuntimeError, ValueError: the state belongs to a different agent.
        """
        self._averaged_of = int(state[AVERAGED_OF])
        if self._averaged_of:
            self.averaged = copy.deepcopy(self.actor)
        for name, part in self._stateful().items():
            restore_state(name, part, state)

    def _stateful(self) -> dict[str, nn.Module | torch.optim.Optimizer]:
        networks = {name: network for name, (network, _) in self._parts.items()}
        averaged = {} if self.averaged is None else {"averaged": self.averaged}
        optimisers = {f"{name}_optimiser": one for name, one in self._optimisers.items()}
        return {**networks, **averaged, **optimisers}


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the weights of a network."""
    return {name: value.clone() for name, value in network.state_dict().items()}


def flatten_state(name: str, part: torch.nn.Module | torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the state of a network or an optimiser as tensors, with `name.` as prefix."""
    if isinstance(part, torch.nn.Module):
        return {f"{name}.{key}": value.clone() for key, value in part.state_dict().items()}
    return {
        f"{name}.{number}.{key}": torch.as_tensor(value)
        for number, values in part.state_dict()["state"].items()
        for key, value in values.items()
    }


def restore_state(
    name: str, part: torch.nn.Module | torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restore a network or an optimiser from tensors that include those of `flatten_state`.

    Raises:
        KeyError, RuntimeError, ValueError: the tensors belong to a different network or optimiser.
    """
    own = with_prefix(tensors, name)
    if isinstance(part, torch.nn.Module):
        part.load_state_dict(own)
        return
    by_parameter: dict[int, dict[str, Tensor]] = {}
    for key, value in own.items():
        number, _, what = key.partition(".")
        by_parameter.setdefault(int(number), {})[what] = value
    part.load_state_dict(part.state_dict() | {"state": by_parameter})


def with_prefix(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """Return the tensors whose names start with `name.`, without that prefix."""
    start = f"{name}."
    return {key[len(start) :]: value for key, value in tensors.items() if key.startswith(start)}
