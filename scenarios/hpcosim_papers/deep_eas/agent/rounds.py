"""The rounds of Deep-EAS: when it decides, its valid actions, and their effect.

At each step the agent binds jobs to machines until it holds or takes an invalid action. It decides
only while a job in a slot fits on a machine.

An agent that always holds would never end a run. After holding for a horizon of steps while nothing
runs and nothing is bound, the action of energy-aware shortest job first replaces the agent's; the
paper ends such a run instead.
"""

from __future__ import annotations

import math

import numpy as np

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_papers.deep_eas.agent.known_moment import known_moment
from hpcosim_papers.deep_eas.agent.scene import NEVER, Scene
from hpcosim_papers.deep_eas.agent.settings import DeepEas
from hpcosim_papers.deep_eas.agent.step_runs import Moment
from hpcosim_papers.deep_eas.agent.waiting import WaitingJobs
from hpcosim_schedulers.heuristics.esjf import check_jobs_fit, least
from hpcosim_schedulers.heuristics.step_plan import StepPlan

MOST = 2**15 - 1
"""Upper bound of the steps or jobs in an observation, that of an int16."""


class DeepEasRounds:
    """The rounds of one simulation: `begin` at each event, then `look` and `take` alternately.

    Raises:
        PolicyError: the agent was trained for another cluster.

    Attributes:
        plan: the plan of all machines.
    """

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
        """Apply the events since the last call.

        Raises:
            PolicyError: a job fits on no machine.
        """
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
            view: the view.
            scene: the observation that `look` returned.
            action: machine * queue + slot; machines * queue: hold.
        """
        if self._is_stuck(view):
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

    def _is_stuck(self, view: View) -> bool:
        return view.now_s - self._idle_s >= self._settings.horizon * self._settings.step_s

    def _esjf_action(self, view: View) -> int:
        """Return the action of energy-aware shortest job first."""
        bound = least(view, self.plan, self._slots)
        if bound is None:
            return self._machines * self._settings.queue
        return bound.node * self._settings.queue + self._slots.index(bound.job)


def check_machines(settings: DeepEas, cores: list[int]) -> None:
    """Check that an agent fits machines with these numbers of cores.

    With `sees: pairs` it fits any number of machines.

    Raises:
        PolicyError: it does not fit.
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
