"""Adapter between the networks of a pairing agent and the learning algorithms."""

from __future__ import annotations

import torch
from torch import nn

from hpcosim_client.agents.pairing.model import actor_of
from hpcosim_client.agents.pairing.networks import PaperCritic
from hpcosim_client.agents.pairing.rounds import features_of
from hpcosim_client.agents.row_networks import PooledCritic, RowActor, initialise
from hpcosim_training.learners.pairing.settings import PairingTraining
from hpcosim_training.learning.agent import Agent
from hpcosim_training.learning.row_batches import RowBatch, evaluate_rows, value_rows


def new_agent(training: PairingTraining, nodes: int) -> Agent[RowActor, RowBatch]:
    """Return an agent with initial weights.

    Args:
        training: settings, including the seed of the weights.
        nodes: number of nodes; the critic of the observations `papers` has a fixed input size.
    """
    pairing = training.pairing
    generator = torch.Generator().manual_seed(training.seed)
    actor = actor_of(pairing)
    critic: nn.Module = PooledCritic(features_of(pairing))
    if pairing.sees != "foreseen":
        critic = PaperCritic(features_of(pairing), pairing.window_jobs * nodes + 1)
    initialise(actor, generator)
    initialise(critic, generator)
    return Agent(actor, critic, evaluate_rows, value_rows, training)
