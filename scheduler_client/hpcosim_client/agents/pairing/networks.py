"""The networks of the papers' pairing agent; see `row_networks` for their inputs and outputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hpcosim_client.agents.layers import dense
from hpcosim_client.agents.row_networks import RowActor


class PaperActor(RowActor):
    """The actor of Lopez, Stafford, Bosque 2025, section 3.4.1, which scores each row by itself.

    Layers of 16, 16, 8, 8, 4, 4 and 1, SELU between them.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.score = dense(nn.SELU, features, 16, 16, 8, 8, 4, 4, 1)

    def scores(self, rows: Tensor, there: Tensor) -> Tensor:
        """Return a score for each row."""
        scores: Tensor = self.score(rows).squeeze(-1)
        return scores


class PaperCritic(nn.Module):
    """The critic of section 3.4.2.

    Layers of 32, 16, 8, 4 and 1 for each action, then 128, 64, 32, 16, 8 and 1 for all. Invalid
    actions are rows of zeros, so the number of actions is fixed.

    Args:
        features: number of columns of a row.
        actions: number of actions, including the wait action.
    """

    def __init__(self, features: int, actions: int) -> None:
        super().__init__()
        self.of_action = dense(nn.SELU, features, 32, 16, 8, 4, 1)
        self.of_all = dense(nn.SELU, actions, 128, 64, 32, 16, 8, 1)
        self.features, self.actions = features, actions

    def forward(self, rows: Tensor, there: Tensor, actions: Tensor) -> Tensor:
        """Return values; see the module."""
        values = self.of_action(rows).squeeze(-1)
        missing = self.of_action(rows.new_zeros(self.features))
        dense = missing.expand(len(rows), self.actions + 1)
        # Padding goes to a place after the last action, which is cut off.
        places = actions.masked_fill(~there, self.actions)
        dense = torch.scatter(dense, 1, places, values)[:, : self.actions]
        value: Tensor = self.of_all(nn.functional.selu(dense)).squeeze(-1)
        return value
