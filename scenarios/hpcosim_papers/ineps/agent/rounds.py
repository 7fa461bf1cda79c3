"""The rounds of a pairing agent: when it decides, its valid actions, and their effect.

Trained agents and the environment of training use the same rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Floats, Job
from hpcosim_client.nodes import NodePool
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent import forecast_features
from hpcosim_papers.ineps.agent.choices import Choices, Rows, actions_of, share_of
from hpcosim_papers.ineps.agent.forecast import Forecast
from hpcosim_papers.ineps.agent.forecast_features import ForecastFeatures
from hpcosim_papers.ineps.agent.settings import Pairing
from hpcosim_schedulers.heuristics.node_keys import energy_estimates_j
from hpcosim_schedulers.heuristics.one_node import check_one_node_jobs

# The features of Lopez, Stafford, Bosque 2025, table 1, each scaled to 0 to 1.

COLUMNS = 10
ENERGY_COLUMNS = 3


def columns(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    return COLUMNS - ENERGY_COLUMNS if settings.sees == "papers_no_energy" else COLUMNS


class PaperFeatures:
    """Features of every pair of an eligible job and a node with enough free cores.

    Args:
        settings: the settings of the agent.
        view: the view, for the properties of its nodes.
    """

    def __init__(self, settings: Pairing, view: View) -> None:
        self._settings = settings
        nodes, groups = view.nodes, view.platform.nodes
        self._idle_w: Floats = np.array([group.idle_w for group in groups])[nodes.group]
        self._clock = nodes.ops_per_s / nodes.ops_per_s.max()
        self._first_s: float | None = None

    def choices(self, view: View, may_wait: bool) -> Choices | None:
        """Return the valid actions; None: no job fits."""
        settings, nodes = self._settings, view.nodes
        if self._first_s is None:
            self._first_s = view.now_s
        jobs = list(islice(view.queue.values(), settings.window_jobs))
        cores = np.array([[job.cores] for job in jobs])
        requested_s = np.array([[job.requested_s] for job in jobs])
        estimates_j = energy_estimates_j(view, requested_s, cores, nodes.jobs)
        most_j = np.array([[job.max_energy_j] for job in jobs])
        slot, node = ((nodes.free >= cores) & (estimates_j <= most_j)).nonzero()
        if not len(slot):
            return None
        rows = np.zeros((len(slot) + may_wait, COLUMNS), dtype=np.float32)
        pairs = rows[: len(slot)]
        pairs[:, :4] = self._of_jobs(jobs, view)[slot]
        pairs[:, 4:9] = self._of_nodes(nodes)[node]
        pairs[:, 9] = share_of(estimates_j[slot, node], settings.energy_j)
        rows = rows[:, : columns(settings)]
        count = len(nodes.free)
        actions = actions_of(slot, node, settings.window_jobs, count, may_wait)
        return Choices(rows, actions, jobs, count, settings.window_jobs)

    def _of_jobs(self, jobs: Sequence[Job], view: View) -> Rows:
        time_s, largest = self._settings.time_s, view.nodes.largest
        assert self._first_s is not None
        return np.array(
            [
                (
                    share_of(view.now_s - job.submit_s, time_s),
                    share_of(job.requested_s, time_s),
                    share_of(max(job.submit_s - self._first_s, 0.0), time_s),
                    job.cores / largest,
                )
                for job in jobs
            ],
            dtype=np.float32,
        )

    def _of_nodes(self, nodes: NodePool) -> Rows:
        busy = nodes.capacity - nodes.free
        static_w = np.where(nodes.jobs > 0, nodes.static_w, self._idle_w)
        most_static_w = max(float(nodes.static_w.max()), 1e-12)
        most_dynamic_w = max(float((nodes.capacity * nodes.dynamic_w).max()), 1e-12)
        return np.stack(
            [
                nodes.free / nodes.capacity,
                self._clock,
                np.ones(len(busy)),
                static_w / most_static_w,
                busy * nodes.dynamic_w / most_dynamic_w,
            ],
            axis=1,
            dtype=np.float32,
        )


def features_of(settings: Pairing) -> int:
    """Return the number of columns of a row."""
    if settings.sees == "foreseen":
        return forecast_features.COLUMNS
    return columns(settings)


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
