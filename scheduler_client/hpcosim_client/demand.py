"""What a job requires beyond a number of cores, compared with the nodes of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from hpcosim_client.arrays import Bools
from hpcosim_protocol import JobRequest

Quotas = tuple[tuple[Bools, int], ...]
"""Least number of nodes from each of these sets, bool[nodes]; a node counts once."""


class NodeChoice(NamedTuple):
    """A set of nodes on which a job may run; a job can have several, of which it takes one.

    Attributes:
        partition: name of the partition; empty: none.
        nodes: bool[nodes], the nodes that the job may use, whatever their state.
        quotas: least numbers of nodes from sets.
        whole: whether the job holds whole nodes.
    """

    partition: str
    nodes: Bools
    quotas: Quotas = ()
    whole: bool = False


@dataclass(slots=True, frozen=True, eq=False)
class Demand:
    """What a job requires beyond a number of cores.

    Attributes:
        request: the job's request; an empty one if it has none.
        choices: the sets of nodes, in the order in which they are tried; empty: the job can never
            run.
        node_cores: maximum number of cores on a node; 0: no limit.
        licenses: slot and number of each licence.
        holds_memory: whether the job holds memory.
    """

    request: JobRequest
    choices: tuple[NodeChoice, ...]
    node_cores: int = 0
    licenses: tuple[tuple[int, int], ...] = ()
    holds_memory: bool = False

    @property
    def needs_devices(self) -> bool:
        """Whether the job needs generic resources."""
        request = self.request
        return bool(request.gres_per_node or request.gres_per_task or request.gres_per_job)
