"""The rounds of the batch agent: `ChosenHead` with observations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.agents.batch.scene import FEATURES, JOB_COLUMNS, QueueScene, Rows, scene_of
from hpcosim_client.heuristics.chosen_head import ChosenHead
from hpcosim_client.job import Ints, Job
from hpcosim_client.view import View


class QueueChoices(NamedTuple):
    """A round: the visible jobs and the observation. An action is the index of a job.

    Attributes:
        jobs: the visible jobs, at least one.
        scene: the observation.
    """

    jobs: list[Job]
    scene: QueueScene

    @property
    def rows(self) -> Rows:
        """The rows of the network, float32[jobs, FEATURES]: each job with the cluster."""
        rows = np.empty((len(self.jobs), FEATURES), dtype=np.float32)
        rows[:, : len(JOB_COLUMNS)] = self.scene.columns.T
        rows[:, len(JOB_COLUMNS) :] = self.scene.cluster
        return rows

    @property
    def actions(self) -> Ints:
        """The numbers of the actions, int64[jobs]."""
        return np.arange(len(self.jobs))


class BatchRounds:
    """The rounds of one simulation, as `agents.rounds.AgentRounds`.

    Args:
        window_jobs: number of visible jobs.
    """

    def __init__(self, window_jobs: int) -> None:
        self._heads = ChosenHead(window_jobs)

    def begin(self, view: View) -> None:
        """See `AgentRounds`."""
        self._heads.begin(view)

    def look(self, view: View) -> QueueChoices | None:
        """See `AgentRounds`."""
        jobs = self._heads.look(view)
        return None if jobs is None else QueueChoices(jobs, scene_of(view, jobs))

    def take(self, view: View, observed: QueueChoices, action: int, /) -> None:
        """See `AgentRounds`."""
        self._heads.take(view, observed.jobs[action])
