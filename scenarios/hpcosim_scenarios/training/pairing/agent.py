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
from hpcosim_scenarios.training.pairing.settings import Hyperparameters


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
        parts: dict[str, nn.Module] = {"actor": self.actor, "critic": self.critic}
        if self.averaged is not None:
            parts["averaged"] = self.averaged
        state = {
            f"{part}.{name}": tensor.clone()
            for part, network in parts.items()
            for name, tensor in network.state_dict().items()
        }
        for part, steps in self._optimisers():
            for number, values in steps.state_dict()["state"].items():
                state |= {f"{part}.{number}.{name}": value for name, value in values.items()}
        state["averaged_of"] = torch.tensor(self._averaged_of)
        return state

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state.

        Raises:
            KeyError, RuntimeError: it is of another agent.
        """
        self.actor.load_state_dict(_under(state, "actor"))
        self.critic.load_state_dict(_under(state, "critic"))
        self._averaged_of = int(state["averaged_of"])
        if self._averaged_of:
            self.averaged = copy.deepcopy(self.actor)
            self.averaged.load_state_dict(_under(state, "averaged"))
        for part, steps in self._optimisers():
            of_parameter: dict[int, dict[str, Tensor]] = {}
            for name, value in _under(state, part).items():
                number, _, what = name.partition(".")
                of_parameter.setdefault(int(number), {})[what] = value
            steps.load_state_dict(steps.state_dict() | {"state": of_parameter})

    def _optimisers(self) -> list[tuple[str, torch.optim.Optimizer]]:
        return [("actor_steps", self.actor_steps), ("critic_steps", self.critic_steps)]

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
        _descend(self.actor, self.actor_steps, actor_loss, self.settings.gradient_norm)
        _descend(self.critic, self.critic_steps, critic_loss, self.settings.gradient_norm)

    def average(self) -> None:
        """Count the actor as it is in the mean."""
        if self.averaged is None:
            self.averaged = copy.deepcopy(self.actor)
        self._averaged_of += 1
        with torch.no_grad():
            for mean, one in zip(self.averaged.parameters(), self.actor.parameters(), strict=True):
                mean.lerp_(one, 1.0 / self._averaged_of)


def _under(state: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    start = f"{part}."
    return {name[len(start) :]: value for name, value in state.items() if name.startswith(start)}


def _descend(
    network: nn.Module, steps: torch.optim.Optimizer, loss: Tensor, most_norm: float
) -> None:
    steps.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    nn.utils.clip_grad_norm_(network.parameters(), most_norm)
    steps.step()
