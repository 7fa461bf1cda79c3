"""What an agent can choose from at one decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job

Rows = NDArray[np.float32]


class Choices(NamedTuple):
    """The pairs it may choose, and to wait, which comes last where it is allowed.

    Attributes:
        rows: float32[choices, features], each from 0 to 1.
        actions: int64[choices], increasing: slot * nodes + node, and slots * nodes to wait.
        jobs: the eligible jobs, by slot.
        nodes: how many nodes there are.
        slots: how many slots, those without a job included.
    """

    rows: Rows
    actions: Ints
    jobs: Sequence[Job]
    nodes: int
    slots: int

    @property
    def waiting(self) -> int:
        """The action that means to wait."""
        return self.slots * self.nodes

    def pair(self, choice: int) -> tuple[Job, int] | None:
        """Return the job and the node of a choice; None: it is to wait."""
        action = int(self.actions[choice])
        if action == self.waiting:
            return None
        slot, node = divmod(action, self.nodes)
        return self.jobs[slot], node


def actions_of(slot: Ints, node: Ints, slots: int, nodes: int, may_wait: bool) -> Ints:
    """Return the actions of pairs, and of waiting last where it is allowed; see `Choices`.

    `slot` and `node` are those of each pair, int64[pairs]; `slots` and `nodes` are counts.
    """
    actions = slot * nodes + node
    return np.append(actions, slots * nodes) if may_wait else actions


def share_of(value: Floats | float, scale: float) -> Floats | float:
    """Return the share x / (x + scale) of a time or an energy, from 0 to 1; of one below 0, 0."""
    value = np.maximum(value, 0.0)
    return value / (value + scale)
