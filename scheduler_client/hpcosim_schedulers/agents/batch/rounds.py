"""The rounds of the batch agent: `ChosenHead` with observations."""

from __future__ import annotations

from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_schedulers.agents.batch.scene import QueueScene, SceneMaker
from hpcosim_schedulers.heuristics.chosen_head import ChosenHead


class QueueChoices(NamedTuple):
    """A round: the visible jobs and the observation. An action is the index of a job.

    Attributes:
        jobs: the visible jobs, at least one.
        scene: the observation.
    """

    jobs: list[Job]
    scene: QueueScene


class BatchRounds:
    """The rounds of one simulation, as `agents.rounds.AgentRounds`.

    Args:
        view: the view, for its platform.
        window_jobs: number of visible jobs.
    """

    def __init__(self, view: View, window_jobs: int) -> None:
        self._heads, self._scenes = ChosenHead(window_jobs), SceneMaker(view.platform)

    def begin(self, view: View) -> None:
        """See `AgentRounds`."""
        self._heads.begin(view)
        self._scenes.update(view)

    def look(self, view: View) -> QueueChoices | None:
        """See `AgentRounds`."""
        jobs = self.visible(view)
        return None if jobs is None else self.choices(view, jobs)

    def visible(self, view: View) -> list[Job] | None:
        """Return the visible jobs of the next round; None: no round until the next event."""
        return self._heads.look(view)

    def choices(self, view: View, jobs: list[Job]) -> QueueChoices:
        """Return the visible jobs of a round with their observation."""
        return QueueChoices(jobs, self._scenes.scene_of(view, jobs))

    def take(self, view: View, observed: QueueChoices, action: int, /) -> None:
        """See `AgentRounds`."""
        self.start_or_reserve(view, observed.jobs[action])

    def start_or_reserve(self, view: View, job: Job) -> None:
        """Choose a visible job in a round."""
        self._heads.take(view, job)
