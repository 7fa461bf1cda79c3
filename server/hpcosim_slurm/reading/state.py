"""The state of a cluster, from commands that run at the same time."""

from __future__ import annotations

import time

from hpcosim_slurm.reading import jobs
from hpcosim_slurm.reading.nodes import NODES, PARTITIONS, parse_nodes, parse_partitions
from hpcosim_slurm.reading.reservations import (
    LICENSES,
    RESERVATIONS,
    parse_licenses,
    parse_reservations,
)
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools


def read_state(tools: Tools) -> ClusterState:
    """Return the state of a cluster.

    The commands see instants that differ by some milliseconds: a job may have nodes that are not
    allocated yet. Jobs that ended more than `MinJobAge` ago are missing.

    Args:
        tools: the commands of the cluster.

    Raises:
        UnreachableError: the controller does not answer.
        CommandError: a command has failed.
        ReadingError: an output has another form than expected.
    """
    separator = jobs.separator()
    at_s = time.time()
    queue, nodes, partitions, reservations, licenses = tools.outputs(
        jobs.command(separator), NODES, PARTITIONS, RESERVATIONS, LICENSES
    )
    return ClusterState(
        at_s=at_s,
        jobs=jobs.parse(queue, separator),
        nodes=parse_nodes(nodes),
        partitions=parse_partitions(partitions),
        reservations=parse_reservations(reservations),
        licenses=parse_licenses(licenses),
    )
