"""An agent that learns: its network, a critic, and their optimisers."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from hpcosim_client.agents.deep_eas.network import draw, network_of
from hpcosim_training.deep_eas.critic import Critic, draw_critic, features_of
from hpcosim_training.deep_eas.settings import Ppo, Training
from hpcosim_training.state import Part, restore, state_of


class Agent:
    """A network, and the critic that PPO has beside it.

    Args:
        training: how it learns; it seeds the weights.
        machines: how many there are.

    Attributes:
        network, critic: they.
        steps, critic_steps: their optimisers.
    """

    def __init__(self, training: Training, machines: int) -> None:
        generator = torch.Generator().manual_seed(training.seed)
        self.network = network_of(training.settings)
        draw(self.network, generator)
        self.critic = Critic(features_of(machines))
        draw_critic(self.critic, generator)
        critic_rate = (training.ppo or Ppo()).critic_rate
        self.steps = torch.optim.Adam(self.network.parameters(), lr=training.rate, fused=True)
        self.critic_steps = torch.optim.Adam(self.critic.parameters(), lr=critic_rate, fused=True)

    def set_rate(self, rate: float) -> None:
        """Learn at this rate from here on."""
        for group in self.steps.param_groups:
            group["lr"] = rate

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of the network's weights."""
        return {name: value.clone() for name, value in self.network.state_dict().items()}

    def state(self) -> dict[str, Tensor]:
        """Return all that further learning depends on, by name."""
        return state_of(self._parts())

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go back to a state.

        Raises:
            KeyError, RuntimeError: it is of another agent.
        """
        restore(self._parts(), state)

    def _parts(self) -> dict[str, Part]:
        return {
            "network": self.network,
            "critic": self.critic,
            "steps": self.steps,
            "critic_steps": self.critic_steps,
        }
