"""The rounds of a pairing agent: when it decides, its valid actions, and their effect.

Trained agents and the environment of training use the same rounds.
"""

from __future__ import annotations

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.errors import PolicyError
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent import forecast_features, paper_features
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.forecast import Forecast
from hpcosim_papers.ineps.agent.forecast_features import ForecastFeatures
from hpcosim_papers.ineps.agent.paper_features import PaperFeatures
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_schedulers.heuristics.one_node import check_one_node_jobs


def features_of(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    if settings.sees == "foreseen":
        return forecast_features.COLUMNS
    return paper_features.columns(settings)


class PairingRounds:
    """The rounds of one simulation: `begin` at each event, then `look` and `take` alternately."""

    def __init__(self, settings: Pairing, view: View) -> None:
        self.settings = settings
        self._shows: ForecastFeatures | PaperFeatures
        self._forecasting: ForecastFeatures | None = None
        if settings.sees == "foreseen":
            self._shows = self._forecasting = ForecastFeatures(settings, view)
        else:
            self._shows = PaperFeatures(settings, view)
        self._over = False  # no further round until the next event
        self._waits_since_s: float | None = None
        self._alarm = PolicyAlarm()

    @property
    def forecast(self) -> Forecast:
        """The forecast; only with `sees: foreseen`."""
        assert self._forecasting is not None, "there is a forecast only with sees: foreseen"
        return self._forecasting.forecast

    def begin(self, view: View) -> None:
        """Apply the events since the last call.

        Raises:
            PolicyError: a job cannot run on one node.
        """
        check_one_node_jobs(view, "a pairing agent places")
        self._over = False
        if self._forecasting is not None:
            self._forecasting.follow(view)

    def look(self, view: View) -> Choices | None:
        """Return the valid actions of the next round; None: no round until the next event.

        Raises:
            PolicyError: no action is valid and no event will come.
        """
        if self._over or not view.queue:
            return None
        choices = self._shows.choices(view, self._may_wait(view))
        if choices is None and not view.running and view.no_more_jobs:
            numbers = ", ".join(str(job_id) for job_id in list(view.queue)[:3])
            raise PolicyError(
                f"no waiting job can start on the idle cluster: the energy estimate of jobs "
                f"{numbers} and any others exceeds their max_energy_j on every node that fits"
            )
        return choices

    def take(self, view: View, choices: Choices, choice: int) -> None:
        """Carry out a choice: start the job on the node, or wait."""
        pair = choices.pair(choice)
        if pair is None:
            self._wait(view)
            return
        job, node = pair
        started = view.start(job, [node])
        assert started, "a valid pair fits"
        if self._forecasting is not None:
            self._forecasting.forecast.place(view, job, node)
        self._waits_since_s = None
        self._alarm.cancel(view)
        self._over = self.settings.placements_per_event == "one"

    def _may_wait(self, view: View) -> bool:
        settings = self.settings
        if not settings.wait or (not view.running and view.no_more_jobs):
            return False
        since_s = self._waits_since_s
        return since_s is None or view.now_s < since_s + settings.most_wait_s

    def _wait(self, view: View) -> None:
        self._over = True
        if self._waits_since_s is None:
            self._waits_since_s = view.now_s
        until_s = self._waits_since_s + self.settings.most_wait_s
        if self.settings.wait_s is not None:
            until_s = min(until_s, view.now_s + self.settings.wait_s)
        if until_s > view.now_s:
            self._alarm.set(view, until_s)
