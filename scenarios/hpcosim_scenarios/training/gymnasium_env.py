"""The environment as Gymnasium knows it, for whoever brings a learner of his own.

| space | what |
|---|---|
| observation | Box, float32[nodes, 11 or 15], see `hpcosim_client.power.features` |
| action | MultiBinary(nodes), 0: be off, 1: be on; what can't be is passed over |
| reward | see `environment.Reward` |

`info["action_mask"]`, int8[nodes, 2], says what may be asked of each node: to be off, to be on.
An episode is a whole workload; it is terminated when every job is over, and never truncated. It
is the same every time, but for what the job scheduler and varying switching times draw: these
follow the seed of `reset`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hpcosim_client.power.account import Bools
from hpcosim_client.power.features import FEATURES, Observation
from hpcosim_scenarios.training.environment import PowerEnvironment, Task
from hpcosim_server.workload.table import JobTable

ID = "hpcosim/NodePower-v0"
"""To `gymnasium.make` with `task` and `jobs`, once this module has been imported."""


class NodePowerEnv(gymnasium.Env[Observation, NDArray[np.int8]]):
    """See the module.

    Args:
        task: what is to be learned.
        jobs: the workload.
    """

    def __init__(self, task: Task, jobs: JobTable) -> None:
        self._environment = PowerEnvironment(task, jobs)
        nodes = task.platform.node_count
        low = np.zeros((nodes, task.columns), dtype=np.float32)
        low[:, FEATURES:] = -1.0  # the calendar's sines and cosines
        high = np.ones_like(low)
        self.observation_space = gymnasium.spaces.Box(low, high)
        self.action_space = gymnasium.spaces.MultiBinary(nodes)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin anew; a seed replaces the task's."""
        super().reset(seed=seed)
        if seed is not None:
            self._environment.task = replace(self._environment.task, seed=seed)
        seen, mask = self._environment.reset()
        return seen, _info(mask)

    def step(
        self, action: NDArray[np.int8]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide, and let time pass until the next decision."""
        seen, mask, reward, done = self._environment.step(np.asarray(action, dtype=np.int64))
        return seen, reward, done, False, _info(mask)


def _info(mask: Bools) -> dict[str, Any]:
    return {"action_mask": mask.astype(np.int8)}


gymnasium.register(ID, entry_point=f"{__name__}:NodePowerEnv")
