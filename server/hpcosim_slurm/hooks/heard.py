"""What hooks say and polling cannot see: runs that ended because a node failed.

Slurm shows a job that was requeued in the same way, whatever the cause.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from hpcosim_slurm.hooks.bell import Bell
from hpcosim_slurm.state import ClusterState

_LOST_NODE = re.compile(r"([0-9]{1,10}) NODE_FAIL")


class Heard:
    """Reads the state of a cluster, and adds what hooks have said.

    Args:
        read: reads the state.
        bell: where the hooks write. `ended.sh` of `scenarios/slurm` writes the number of a job and
            its state.
    """

    def __init__(self, read: Callable[[], ClusterState], bell: Bell) -> None:
        self._read = read
        self._bell = bell
        self._lost_node: set[int] = set()

    def wait(self, timeout_s: float) -> None:
        """Wait until a hook rings, at most for a time."""
        for ring in self._bell.wait(timeout_s):
            said = _LOST_NODE.fullmatch(ring.text) if ring.event == "ended" else None
            if said is not None:
                self._lost_node.add(int(said[1]))

    def read(self) -> ClusterState:
        """Return the state of the cluster.

        Raises:
            SlurmError: it cannot be read.
        """
        state = self._read()
        waits = {job.id for job in state.jobs.values() if job.state in ("pending", "completing")}
        self._lost_node &= waits
        if not self._lost_node:
            return state
        marked = {each: replace(state.jobs[each], lost_node=True) for each in self._lost_node}
        return replace(state, jobs={**state.jobs, **marked})
