"""An agent that learns: an actor, a critic, their optimisers, and the averaged actor."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from hpcosim_client.agents.pairing.model import actor_of
from hpcosim_client.agents.pairing.networks import Actor, ForeseenCritic, PapersCritic, draw
from hpcosim_client.agents.pairing.rounds import features_of
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_training.descent import descend
from hpcosim_training.pairing.settings import Hyperparameters
from hpcosim_training.state import Part, restore, state_of


class Agent:
    """Actor and critic of one form: the papers', or the one that foresees.

    Args:
        pairing: what is decided.
        nodes: how many nodes there are; the papers' critic is bound to that.
        settings: how it learns.
        seed: of the first weights.

    Attributes:
        actor, critic: the networks.
        averaged: the mean of actors so far; None: there is none yet.
    """

    critic: nn.Module
    actor: Actor

    def __init__(self, pairing: Pairing, nodes: int, settings: Hyperparameters, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.actor = actor_of(pairing)
        if pairing.sees == "foreseen":
            self.critic = ForeseenCritic(features_of(pairing))
        else:
            actions = pairing.window_jobs * nodes + 1
            self.critic = PapersCritic(features_of(pairing), actions)
        draw(self.actor, generator)
        draw(self.critic, generator)
        self.settings = settings
        self.actor_steps = torch.optim.Adam(
            self.actor.parameters(), lr=settings.actor_rate, fused=True
        )
        self.critic_steps = torch.optim.Adam(
            self.critic.parameters(), lr=settings.critic_rate, fused=True
        )
        self.averaged: Actor | None = None
        self._averaged_of = 0

    def state(self) -> dict[str, Tensor]:
        """Return all that further learning depends on, by name."""
        return state_of(self._parts()) | {"averaged_of": torch.tensor(self._averaged_of)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state.

        Raises:
            KeyError, RuntimeError: it is of another agent.
        """
        self._averaged_of = int(state["averaged_of"])
        if self._averaged_of:
            self.averaged = copy.deepcopy(self.actor)
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Part]:
        parts: dict[str, Part] = {"actor": self.actor, "critic": self.critic}
        if self.averaged is not None:
            parts["averaged"] = self.averaged
        return parts | {"actor_steps": self.actor_steps, "critic_steps": self.critic_steps}

    def set_rates(self, share: float) -> None:
        """Learn at this share of the rates it began with."""
        for steps, rate in (
            (self.actor_steps, self.settings.actor_rate),
            (self.critic_steps, self.settings.critic_rate),
        ):
            for group in steps.param_groups:
                group["lr"] = share * rate

    def descend(self, actor_loss: Tensor, critic_loss: Tensor) -> None:
        """Take a step down each loss."""
        descend(self.actor, self.actor_steps, actor_loss, self.settings.gradient_norm)
        descend(self.critic, self.critic_steps, critic_loss, self.settings.gradient_norm)

    def average(self) -> None:
        """Count the actor as it is in the mean."""
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.actor)
        self._averaged_of += 1
        with torch.no_grad():
            for mean, one in zip(self.averaged.parameters(), self.actor.parameters(), strict=True):
                mean.lerp_(one, 1.0 / self._averaged_of)
