"""A simulation turned inside out: it stops where a power manager decides, and waits for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from hpcosim_client import Policy, View
from hpcosim_client.power.account import Account, Bools
from hpcosim_client.power.features import CALENDAR, FEATURES, Observation, action_mask, features
from hpcosim_client.power.periodic import Actions, Periodic
from hpcosim_protocol import Platform
from hpcosim_scenarios.running.library import switching_chance
from hpcosim_server.engine.simulation import Rules, Simulation
from hpcosim_workloads.table import JobTable

NewPolicy = Callable[[], Policy]
"""Returns a job scheduler that remembers nothing yet."""


class Interval(NamedTuple):
    """What came of the decisions of one instant, until the next.

    Attributes:
        wasted: energy not spent computing, over that of all nodes computing for `length_s`.
        waited_s: seconds that jobs waited, summed over jobs.
        jobs: how many jobs waited for a time above 0.
        length_s: from one decision to the next, also where the last job ended before.
    """

    wasted: float
    waited_s: float
    jobs: int
    length_s: float


@dataclass(frozen=True, slots=True)
class Reward:
    """What an interval is worth, 0 at best.

    `shares` is equation (12) of "Improving the Efficiency of a Deep Reinforcement Learning-Based
    Power Management System for HPC Clusters Using Curriculum Learning": alpha R1 + beta R2. The
    paper's formulas (10), (11) and (13) are read so: R1 is minus the energy wasted in the
    interval over nodes x power computing x length, R2 minus the seconds that jobs waited in it
    over (jobs in the queue at some time in it) x length, 0 where there was none. A job that
    starts the instant it comes was at no time in the queue; one whose nodes boot is. So R2 is
    the mean share of the interval for which a job waited, however many did.

    `linear` is -(alpha x (share wasted, as above) + beta x (seconds waited)): the sum over a run
    orders policies as a weighted sum of wasted energy and mean wait does, which `shares` does
    not. Its beta is per second; 1e-6 to 1e-4 are sensible.
    """

    kind: Literal["shares", "linear"] = "shares"
    alpha: float = 0.5
    beta: float = 0.5

    def of(self, interval: Interval) -> float:
        """Return the reward of an interval."""
        waited = interval.waited_s
        if self.kind == "shares":
            waited = waited / (interval.jobs * interval.length_s) if interval.jobs else 0.0
        return -(self.alpha * interval.wasted + self.beta * waited)


@dataclass(frozen=True, slots=True)
class Task:
    """What a power manager is trained for, whatever the jobs.

    Attributes:
        platform: the cluster.
        scheduler: makes the job scheduler beside it, anew for each run.
        interval_s: seconds between two decisions.
        origin_s: see `features.features`; None: no calendar.
        reward: what it is to maximise.
        rules: what holds in the simulation.
        seed: of what the job scheduler draws, and of switching times that vary.
    """

    platform: Platform
    scheduler: NewPolicy
    interval_s: float = 1800.0
    origin_s: float | None = None
    reward: Reward = field(default_factory=Reward)
    rules: Rules = field(default_factory=Rules)
    seed: int = 0

    @property
    def columns(self) -> int:
        """How many features of a node are observed."""
        return FEATURES if self.origin_s is None else FEATURES + CALENDAR


class PowerEnvironment:
    """One workload, all nodes on at first, to be run again and again.

    It is to the letter the run of `managed(scheduler, learned(...))`, with the decisions coming
    from outside. Between two decisions everything is as in `play`.

    Args:
        task: what it is about.
        jobs: the workload.

    Attributes:
        simulation: that of this run.
        done: every job is over; there is nothing more to decide.
    """

    simulation: Simulation

    def __init__(self, task: Task, jobs: JobTable) -> None:
        self.task = task
        self.jobs = jobs
        self.done = True

    @property
    def account(self) -> Account:
        """The scheduler's account of this run."""
        return self._rounds.account

    def reset(self) -> tuple[Observation, Bools]:
        """Begin anew, up to the first decision.

        Returns:
            What is seen of each node, float32[nodes, features], and what may be asked of it,
            bool[nodes, 2]; see `features`.
        """
        task = self.task
        rng = switching_chance(task.seed)
        self.simulation = Simulation(task.platform, self.jobs, task.rules, rng)
        wakes = task.rules.wake_on_allocation
        self._view = View(task.platform, task.seed, wake_on_allocation=wakes)
        self._policy = task.scheduler()
        self._rounds = Periodic(task.interval_s)
        self.done = False
        self._go_on()
        return self._observed()

    def step(self, actions: Actions) -> tuple[Observation, Bools, float, bool]:
        """Decide, and let time pass until the next decision.

        Args:
            actions: int64[nodes], 0: be off, 1: be on; what can't be is passed over.

        Returns:
            As `reset`; the reward; whether it is `done`.
        """
        assert not self.done, "the run is over: reset"
        account = self.account
        wasted_j, waited_s = account.wasted_j.sum(), account.waited_s
        account.begin_interval()
        self._view.set_alarm(self._rounds.decide(self._view, actions))
        self._go_on()
        length_s = self.task.interval_s
        interval = Interval(
            float((account.wasted_j.sum() - wasted_j) / (account.on_w.sum() * length_s)),
            account.waited_s - waited_s,
            len(account.waited),
            length_s,
        )
        return *self._observed(), self.task.reward.of(interval), self.done

    def _go_on(self) -> None:
        view, simulation = self._view, self.simulation
        due = False
        while not due and not self.done:
            batch = simulation.advance(
                view.decisions, wake_on=view.wake_on, elapsed_s=view.elapsed_s
            )
            view.apply(batch.now_s, batch.events)
            self._policy(view)
            due = self._rounds.due(view)
            self.done = batch.ended or (view.no_more_jobs and not view.queue and not view.running)

    def _observed(self) -> tuple[Observation, Bools]:
        seen = features(self._view, self.account, self.task.origin_s)
        return seen, action_mask(self._view, self.account)
