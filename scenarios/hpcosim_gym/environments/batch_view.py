"""The scheduler's view in the information of a step."""

from __future__ import annotations

from typing import Any

from hpcosim_client import View


class EpisodeView(View):
    """The live view of an episode, which each step changes.

    Two views are equal if they show the same jobs at the same time. A deep copy is the view itself:
    some libraries copy the information of each step, and a copy would take longer than the step.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EpisodeView) and self._shown() == other._shown()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __deepcopy__(self, _: dict[int, Any]) -> EpisodeView:
        return self

    def _shown(self) -> tuple[object, ...]:
        running = {number: job.start_s for number, job in self.running.items()}
        return self.now_s, self.queue.keys(), running, self.nodes.free.tolist()
