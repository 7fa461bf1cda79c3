"""The networks and the critic of Deep-EAS in PyTorch, as an agent of the learning algorithms.

Policies evaluate the networks with NumPy. The critic is used only in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hpcosim_client.job import Ints
from hpcosim_gym.learning.networks import Evaluation, categorical, with_weights
from hpcosim_gym.learning.update import Agent
from hpcosim_papers.deep_eas.agent.network import (
    FILTERS,
    NEVER,
    SIDE,
    STRIDE,
    UNITS,
    DeepEasMetadata,
    Scene,
    along,
    feature_counts,
    joined,
    load_deep_eas,
    mask_logits,
    pairs,
    pictures,
    queues,
)
from hpcosim_papers.deep_eas.agent.step_jobs import DeepEas
from hpcosim_papers.deep_eas.agent.step_runs import UNSET, StepRuns, plan_occupancy
from hpcosim_papers.deep_eas.learners.settings import DeepEasTraining

CRITIC_UNITS = 64
JOB_SETS = 3  # future, waiting and bound jobs


class PictureNetwork(nn.Module):
    """The network of the paper (section III-C).

    A convolution of eight filters of 3 x 3 with stride 2, ReLU, and a dense layer to the actions.
    """

    def __init__(self, settings: DeepEas) -> None:
        super().__init__()
        self.settings = settings
        rows, columns = (along(size) for size in (settings.horizon, settings.width))
        self.filters = nn.Conv2d(1, FILTERS, SIDE, STRIDE)
        self.last = nn.Linear(FILTERS * rows * columns, settings.actions)

    def forward(self, scene: Scene) -> Tensor:
        """Return logits, float32[moments, actions]."""
        picture = torch.from_numpy(pictures(self.settings, scene)).to(torch.float32)
        seen = torch.relu(self.filters(picture[:, None]))
        logits: Tensor = self.last(seen.flatten(1))
        return logits


class PairsNetwork(nn.Module):
    """A network with the same layers for every pair of a machine and a slot.

    The layers also get the mean over all pairs. The logit of holding depends on the mean alone. The
    network takes any number of machines.
    """

    def __init__(self, settings: DeepEas) -> None:
        super().__init__()
        self.settings = settings
        of_pair, of_queue = feature_counts(settings)
        self.pair = nn.Sequential(
            nn.Linear(of_pair, UNITS), nn.ReLU(), nn.Linear(UNITS, UNITS), nn.ReLU()
        )
        self.all = nn.Sequential(nn.Linear(UNITS + of_queue, UNITS), nn.ReLU())
        self.both = nn.Sequential(nn.Linear(2 * UNITS, UNITS), nn.ReLU())
        self.last = nn.Linear(UNITS, 1)
        self.hold = nn.Linear(UNITS, 1)

    def forward(self, scene: Scene) -> Tensor:
        """Return logits, float32[moments, actions]; 0 for those that `mask_logits` replaces.

        Only the pairs with a job are evaluated, and the last layers only where it fits. With 15
        slots that is a quarter of the operations of `agent.network`, which evaluates all pairs.
        """
        features = torch.from_numpy(pairs(self.settings, scene)).flatten(0, 1)
        count = len(features) // scene.moments
        fits = torch.from_numpy(scene.rows != NEVER).flatten()
        there, shown = features[:, 0] > 0, fits
        if not self.settings.masked:
            there = shown = torch.ones_like(fits)
        places = there.nonzero()[:, 0]
        moment, own = places // count, features[places]
        each = self.pair(own)
        total = each.new_zeros(scene.moments, UNITS).index_add(0, moment, each * own[:, :1])
        of_queue = torch.from_numpy(queues(self.settings, scene))
        mean = self.all(torch.cat([total / count, of_queue], dim=1))
        # The layer on each pair and the mean, as a sum: its part of the mean once for a moment.
        first = self.both[0]
        assert isinstance(first, nn.Linear)
        of_each, of_mean = first.weight[:, :UNITS], first.weight[:, UNITS:]
        beside = nn.functional.linear(mean, of_mean, first.bias)
        those = shown[places].nonzero()[:, 0]
        both = nn.functional.linear(each.index_select(0, those), of_each)
        both = torch.relu(both + beside.index_select(0, moment[those]))
        logits = each.new_zeros(len(features)).index_copy(0, places[those], self.last(both)[:, 0])
        return torch.cat([logits.view(-1, count), self.hold(mean)], dim=1)


Network = PictureNetwork | PairsNetwork


def network_of(settings: DeepEas) -> Network:
    """Return the network for the observations of the settings, with uninitialised weights."""
    return (PictureNetwork if settings.sees == "picture" else PairsNetwork)(settings)


def load_network(path: Path) -> tuple[Network, DeepEasMetadata]:
    """Return the network in a file, for evaluation, and its metadata."""
    weights, about = load_deep_eas(path)
    return with_weights(network_of(about.settings), weights), about


def initialise(network: Network, generator: torch.Generator) -> None:
    """Initialise weights at random: mean 0, variance 2 / inputs; biases are 0.

    Activations then keep their variance through layers of ReLU (He et al. 2015). The weights of the
    last layers are divided by 100, so that the initial policy is almost uniform.
    """
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            inputs = layer.weight[0].numel()
            spread = (2.0 / inputs) ** 0.5 * (0.01 if name in {"last", "hold"} else 1.0)
            nn.init.normal_(layer.weight, 0.0, spread, generator=generator)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def logits_of(network: Network, scene: Scene) -> NDArray[np.float32]:
    """Return logits, float32[moments, actions]; minus infinity for masked actions."""
    with torch.inference_mode():
        logits: NDArray[np.float32] = network(scene).numpy()
    return mask_logits(network.settings, scene, logits)


class SceneBatch(NamedTuple):
    """Observations of several decisions.

    Attributes:
        critic_input: float32[decisions, features], observation of the critic, see
            `critic_features`.
        step: int64[decisions], the step of each decision.
    """

    scene: Scene
    critic_input: Tensor
    step: Tensor

    def take(self, which: Tensor) -> SceneBatch:
        """Return the selected decisions."""
        scene = self.scene.some(which.numpy())
        return SceneBatch(scene, self.critic_input[which], self.step[which])


def join(parts: Sequence[SceneBatch]) -> SceneBatch:
    """Concatenate batches."""
    scenes, critic_input, steps = zip(*parts, strict=True)
    return SceneBatch(joined(scenes), torch.cat(critic_input), torch.cat(steps))


def new_agent(training: DeepEasTraining, machines: int) -> Agent[Network, SceneBatch]:
    """Return an agent with initial weights; REINFORCE has no critic."""
    generator = torch.Generator().manual_seed(training.seed)
    network = network_of(training.settings)
    initialise(network, generator)
    if training.algorithm == "reinforce":
        return Agent(network, None, evaluate, _value, training)
    critic = DeepEasCritic(critic_feature_count(machines))
    initialise_critic(critic, generator)
    return Agent(network, critic, evaluate, _value, training)


def evaluate(network: Network, batch: SceneBatch, actions: Tensor) -> Evaluation:
    """Evaluate actions under a network."""
    logits = network(batch.scene)
    if network.settings.masked:
        logits = logits.masked_fill(torch.from_numpy(~batch.scene.possible()), -torch.inf)
    return categorical(logits, actions)


def _value(critic: nn.Module, batch: SceneBatch) -> Tensor:
    values: Tensor = critic(batch.critic_input)
    return values


def critic_features(runs: StepRuns, selected: Ints) -> NDArray[np.float32]:
    """Return the critic's observation, float32[runs, features]: remaining work and cost rates.

    The critic may observe more than the agent: the features include jobs of the future.
    """
    jobs = runs.jobs.take(selected)
    now = runs.now[selected, None]
    came, bound = jobs.submit <= now, runs.machine[selected] != UNSET
    begun = runs.start[selected] != UNSET
    steps = np.maximum(jobs.expected.min(axis=1), 1).astype(np.float64)
    weight, work = jobs.cores / steps, jobs.cores * steps
    sets = (jobs.valid & ~came, came & ~bound, bound & ~begun)
    columns = [(each * members).sum(axis=1) for members in sets for each in (weight, work)]
    columns.append((weight * np.maximum(now - jobs.submit, 0) * sets[1]).sum(axis=1))
    columns.append(now[:, 0] - jobs.submit[:, 0])
    occupied = plan_occupancy(runs, selected)
    return np.concatenate([np.log1p(np.stack(columns, axis=1)) / 5, occupied], axis=1, dtype="f4")


def critic_feature_count(machines: int) -> int:
    """Return the number of features of `critic_features`."""
    return 2 * JOB_SETS + 2 + machines


class DeepEasCritic(nn.Module):
    """Two tanh layers that estimate the return of a run relative to its sequence's mean."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(features, CRITIC_UNITS),
            nn.Tanh(),
            nn.Linear(CRITIC_UNITS, CRITIC_UNITS),
            nn.Tanh(),
            nn.Linear(CRITIC_UNITS, 1),
        )

    def forward(self, critic_input: Tensor) -> Tensor:
        """Return values, float32[runs], of features, float32[runs, features]."""
        values: Tensor = self.layers(critic_input)[:, 0]
        return values


def initialise_critic(critic: DeepEasCritic, generator: torch.Generator) -> None:
    """Sample weights with mean 0 and variance 1 / inputs from a generator; set biases to 0."""
    for layer in critic.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, 0.0, layer.in_features**-0.5, generator=generator)
            nn.init.zeros_(layer.bias)
