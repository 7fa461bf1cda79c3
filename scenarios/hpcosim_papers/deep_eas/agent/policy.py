"""The policies of a trained Deep-EAS agent: when it decides, its valid actions, their effect.

A file, cluster or job that does not fit is a `PolicyError`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, View
from hpcosim_papers.deep_eas.agent.look_ahead import LookAhead, improved_actions
from hpcosim_papers.deep_eas.agent.network import (
    NEVER,
    WINDOWS,
    LogitsOf,
    Scene,
    load_deep_eas,
    network_of,
)
from hpcosim_papers.deep_eas.agent.step_jobs import Counts, DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import FAR_FUTURE, UNSET, Moment
from hpcosim_schedulers.agents.rounds import by_rounds, sampled
from hpcosim_schedulers.heuristics.esjf import INSTANT_S, StepPlan, check_jobs_fit, eligible, least
from hpcosim_schedulers.heuristics.job_node import run_time_scale

# The waiting jobs that an agent sees: those in slots, and figures of the whole queue.

Figures = tuple[NDArray[np.int32], NDArray[np.int32], Counts]


def deep_eas(model: Path | str, *, sample: bool = False, search: bool = False) -> Policy:
    """Return the policy of a trained agent.

    Args:
        model: file of `hpcosim train deep-eas`.
        sample: whether actions are sampled, with the view's `rng`; otherwise they are greedy, the
            first of equal ones.
        search: whether actions are improved by `look_ahead`, with the view's `rng`.

    Raises:
        ValueError: both `sample` and `search`.
    """
    if sample and search:
        raise ValueError("sample and search exclude each other")
    weights, about = load_deep_eas(Path(model))
    network = network_of(about.settings, weights)
    if search:
        return _searching(network, about.settings)

    def choose(view: View, scene: Scene) -> int:
        logits = network(scene)[0]
        return sampled(logits, view.rng) if sample else int(logits.argmax())

    return by_rounds(lambda view: DeepEasRounds(about.settings, view), choose)


def _searching(network: LogitsOf, settings: DeepEas) -> Policy:
    rounds: DeepEasRounds
    machines: Machines

    def new(view: View) -> DeepEasRounds:
        nonlocal rounds, machines
        rounds = DeepEasRounds(settings, view)
        own = msgspec.structs.replace(settings, machines=len(view.nodes.capacity))
        machines = Machines(own, view.nodes.dynamic_w, run_time_scale(view))
        return rounds

    def choose(view: View, scene: Scene) -> int:
        known = rounds.moment(view)
        return int(improved_actions(network, machines, known, scene, LookAhead(), view.rng)[0])

    return by_rounds(new, choose)


class WaitingJobs:
    """The waiting jobs that are not bound to a machine.

    Attributes:
        recent: jobs submitted within the longest of `WINDOWS`.
    """

    def __init__(self, settings: DeepEas, plan: StepPlan) -> None:
        self._settings, self._plan = settings, plan
        self.recent: list[Job] = []
        self._steps: dict[int, int] = {}

    def follow(self, view: View) -> None:
        """Apply the events since the last call."""
        since_s = view.now_s - WINDOWS[-1] * self._settings.step_s
        self.recent += view.arrived
        self.recent = [job for job in self.recent if job.submit_s > since_s]
        nodes = range(len(view.nodes.capacity))
        for job in view.arrived:
            self._steps[job.job_id] = min(self._plan.steps(job, node) for node in nodes)
        if len(self._steps) > 2 * len(view.queue) + 100:
            self._steps = {one: steps for one, steps in self._steps.items() if one in view.queue}

    def slots(self, view: View) -> list[Job]:
        """Return the jobs in slots, see `DeepEas.sees`."""
        settings = self._settings
        if not settings.newest:
            return eligible(view, self._plan, settings.queue)
        shortest = self._by_length(view)[: settings.queue - settings.newest]
        taken = {job.job_id for job in shortest}
        rest = [job for job in self._all(view) if job.job_id not in taken]
        return shortest + rest[::-1][: settings.newest]

    def figures(self, view: View, slots: Sequence[Job]) -> Figures:
        """Return `ahead`, `work` and `recent` of a `Scene`; zeros where not seen."""
        settings = self._settings
        ahead = np.zeros((1, settings.queue), dtype=np.int32)
        recent = np.zeros((1, len(WINDOWS)), dtype=np.int16)
        if settings.sees != "queue":
            return ahead, np.zeros(1, dtype=np.int32), recent
        jobs = self._by_length(view)
        sums = list(accumulate((self._steps[job.job_id] * job.cores for job in jobs), initial=0))
        before = {job.job_id: total for job, total in zip(jobs, sums, strict=False)}
        ahead[0, : len(slots)] = [before[job.job_id] for job in slots]
        ago = (view.now_s - np.array([job.submit_s for job in self.recent])) / settings.step_s
        recent[0] = [(ago < window).sum() for window in WINDOWS]
        return ahead, np.array(sums[-1:], dtype=np.int32), recent

    def _all(self, view: View) -> list[Job]:
        return eligible(view, self._plan, len(view.queue))

    def _by_length(self, view: View) -> list[Job]:
        return sorted(self._all(view), key=lambda job: self._steps[job.job_id])


def known_moment(
    view: View, plan: StepPlan, recent: Sequence[Job], settings: DeepEas, idle_s: float
) -> Moment:
    """Return the state of one run: recently submitted, running and waiting jobs.

    Args:
        recent: recently submitted jobs; those that ended have their expected run times, and a start
            and an end in the past.
        settings: length of a step.
        idle_s: since when the agent holds on an idle cluster, infinite if it does not.
    """
    every = {job.job_id: job for job in (*recent, *view.running.values(), *view.queue.values())}
    jobs = sorted(every.values(), key=lambda job: (job.submit_s, job.job_id))
    nodes, count = range(len(view.nodes.capacity)), len(jobs)
    now = _step(view.now_s, settings)
    submit = np.array([_step(job.submit_s, settings) for job in jobs], dtype=np.int64)
    expected = np.array([[plan.steps(job, node) for job in jobs] for node in nodes], dtype=np.int16)
    machine, start, turn = (np.full(count, UNSET, dtype=np.int64) for _ in range(3))
    actual = expected.copy()
    place = {job_id: number for number, job_id in enumerate(plan.bound)}
    for column, job in enumerate(jobs):
        if job.job_id in place:
            machine[column] = plan.bound[job.job_id].node
            turn[column] = place[job.job_id]
        elif job.job_id in view.running:
            assert job.allocation is not None
            machine[column] = next(job.allocation.by_node())[0]
            start[column] = _step(job.start_s, settings)
            actual[:, column] = np.maximum(expected[:, column], now - start[column] + 1)
        elif job.job_id not in view.queue:
            machine[column], start[column], actual[:, column] = 0, submit[column], 1
    cores = np.array([job.cores for job in jobs], dtype=np.int16)
    idle = FAR_FUTURE if math.isinf(idle_s) else _step(idle_s, settings)
    return Moment(
        StepJobs(
            np.ones((1, count), dtype=np.bool_),
            submit[None],
            cores[None],
            expected[None],
            actual[None],
        ),
        np.array([now]),
        machine[None],
        start[None],
        turn[None],
        np.array([idle]),
    )


def _step(time_s: float, settings: DeepEas) -> int:
    return math.floor((time_s + INSTANT_S) / settings.step_s)


MOST = 2**15 - 1
"""Upper bound of the steps or jobs in an observation, that of an int16."""


class DeepEasRounds:
    """The rounds of one simulation: `begin` at each event, then `look` and `take` alternately."""

    def __init__(self, settings: DeepEas, view: View) -> None:
        check_machines(settings, view.nodes.capacity.tolist())
        self.plan = StepPlan(view, settings.horizon, settings.step_s)
        self._settings = settings
        self._machines = len(view.nodes.capacity)
        self._last_arrival_s = 0.0
        self._queue = WaitingJobs(settings, self.plan)
        self._over = False
        self._idle_s = math.inf  # since when the agent has held on an idle cluster
        self._slots: list[Job] = []

    def begin(self, view: View) -> None:
        """Apply the events since the last call."""
        check_jobs_fit(view, self.plan)
        if view.arrived:
            self._last_arrival_s = max(job.submit_s for job in view.arrived)
        self._queue.follow(view)
        self.plan.follow(view)
        self.plan.wake_at_next_step(view)
        self._over = False

    def look(self, view: View) -> Scene | None:
        """Return the observation of the next round; None: no round until the next event."""
        if self._over:
            return None
        self._slots = self._queue.slots(view)
        scene = self._scene(view)
        return scene if (scene.rows != NEVER).any() else None

    def take(self, view: View, scene: Scene, action: int) -> Job | None:
        """Carry out an action, and return the job that was bound; None: the step is over.

        Args:
            action: machine * queue + slot; machines * queue: hold.
        """
        settings = self._settings
        if view.now_s - self._idle_s >= settings.horizon * settings.step_s:  # it is stuck
            action = self._esjf_action(view)
        machine, slot = divmod(action, self._settings.queue)
        if machine == self._machines or scene.rows[0, machine, slot] == NEVER:
            self._over = True
            if not view.running and not self.plan.bound:
                self._idle_s = min(self._idle_s, view.now_s)
            return None
        self._idle_s = math.inf
        job = self._slots[slot]
        self.plan.bind(view, job, machine)
        return job

    def moment(self, view: View) -> Moment:
        """Return the state of the cluster, from which simulated runs go on."""
        return known_moment(view, self.plan, self._queue.recent, self._settings, self._idle_s)

    def _scene(self, view: View) -> Scene:
        settings, plan, jobs = self._settings, self.plan, self._slots
        shape = (1, self._machines, settings.queue)
        steps, rows = np.zeros(shape, dtype=np.int16), np.full(shape, NEVER, dtype=np.int16)
        cores, waited = (np.zeros((1, settings.queue), dtype=np.int16) for _ in range(2))
        for slot, job in enumerate(jobs):
            cores[0, slot] = job.cores
            waited[0, slot] = _capped((view.now_s - job.submit_s) / settings.step_s)
            for machine in range(self._machines):
                row = plan.first_step(job, machine)
                steps[0, machine, slot] = _capped(plan.steps(job, machine))
                rows[0, machine, slot] = NEVER if row is None else row
        used = np.array([plan.used[machine][: settings.horizon] for machine in range(shape[1])])
        since = (view.now_s - self._last_arrival_s) / settings.step_s
        behind = len(view.queue) - len(plan.bound) - len(jobs)
        return Scene(
            view.nodes.dynamic_w,
            used[None].astype(np.int16),
            cores,
            waited,
            steps,
            rows,
            np.array([_capped(behind)], dtype=np.int16),
            np.array([_capped(since)], dtype=np.int16),
            *self._queue.figures(view, jobs),
        )

    def _esjf_action(self, view: View) -> int:
        """Return the action of energy-aware shortest job first."""
        bound = least(view, self.plan, self._slots)
        if bound is None:
            return self._machines * self._settings.queue
        return bound.node * self._settings.queue + self._slots.index(bound.job)


def check_machines(settings: DeepEas, cores: list[int]) -> None:
    """Check that an agent fits machines with these numbers of cores.

    With `sees: pairs` it fits any number of machines.
    """
    right = set(cores) == {settings.cores}
    if not right or (settings.sees == "picture" and len(cores) != settings.machines):
        raise PolicyError(
            f"the agent was trained for {settings.machines} machines of {settings.cores} "
            f"cores; the platform has {len(cores)} of {', '.join(map(str, sorted(set(cores))))}"
        )


def _capped(count: float) -> int:
    """Return the whole part, at most `MOST`."""
    return min(int(count), MOST)
