"""The valid actions of a decision, with their features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints, Job

Rows = NDArray[np.float32]


class Choices(NamedTuple):
    """The valid pairs of a job and a node; the wait action, if valid, is last.

    Attributes:
        rows: float32[choices, features], features from 0 to 1.
        actions: int64[choices], ascending: slot * nodes + node; slots * nodes: wait.
        jobs: the eligible jobs, by slot.
        nodes: number of nodes.
        slots: number of slots, including those without a job.
    """

    rows: Rows
    actions: Ints
    jobs: Sequence[Job]
    nodes: int
    slots: int

    @property
    def waiting(self) -> int:
        """The number of the wait action."""
        return self.slots * self.nodes

    def pair(self, choice: int) -> tuple[Job, int] | None:
        """Return job and node of a choice; None: wait."""
        action = int(self.actions[choice])
        if action == self.waiting:
            return None
        slot, node = divmod(action, self.nodes)
        return self.jobs[slot], node


def actions_of(slot: Ints, node: Ints, slots: int, nodes: int, may_wait: bool) -> Ints:
    """Return the numbers of actions; see `Choices`.

    Args:
        slot: int64[pairs], slot of each pair.
        node: int64[pairs], node of each pair.
        slots: number of slots.
        nodes: number of nodes.
        may_wait: whether the wait action is valid.
    """
    actions = slot * nodes + node
    return np.append(actions, slots * nodes) if may_wait else actions


def share_of(value: Floats | float, scale: float) -> Floats | float:
    """Return max(x, 0) / (max(x, 0) + scale), from 0 to 1."""
    value = np.maximum(value, 0.0)
    return value / (value + scale)
