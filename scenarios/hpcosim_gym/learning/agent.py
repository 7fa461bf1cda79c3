"""An agent: actor, critic, their optimisers, and the averaged actor."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from hpcosim_gym.learning.checkpoint import flatten_state, restore_state
from hpcosim_gym.learning.distributions import Evaluation
from hpcosim_gym.learning.settings import TrainingSettings

Obs = TypeVar("Obs")
A = TypeVar("A", bound=nn.Module)
AVERAGED_OF = "averaged_of"


class Agent(Generic[A, Obs]):
    """Actor and critic of a problem, with their optimisers.

    Args:
        actor: the actor.
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
        evaluate: Callable[[A, Obs, Tensor], Evaluation],
        value: Callable[[Any, Obs], Tensor],
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

    def evaluate(self, observations: Obs, actions: Tensor) -> Evaluation:
        """Evaluate actions under the actor."""
        return self._evaluate(self.actor, observations, actions)

    def value(self, observations: Obs) -> Tensor:
        """Return the critic's values, float32[decisions]; requires a critic."""
        return self._value(self.critic, observations)

    def set_learning_rates(self, factor: float) -> None:
        """Set the learning rates to a multiple of those of the settings.

        Args:
            factor: the multiple, 0 to 1.
        """
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
