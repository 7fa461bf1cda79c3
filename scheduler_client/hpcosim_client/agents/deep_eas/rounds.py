"""When Deep-EAS is asked, what it may choose, and what becomes of it; in training and on the wire.

At each step it binds jobs to machines until it holds, or chooses what can't be; then time goes on.
It is asked only where there is a choice: while a job is in a slot.

An agent that holds for ever would never end. Once it has held for as many steps as the horizon has
while nothing ran and nothing was bound, what energy-aware shortest job first would bind is bound in
its stead; the paper cuts such a run off.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.agents.deep_eas.picture import Picture, picture
from hpcosim_client.agents.deep_eas.settings import DeepEas
from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.esjf import (
    eligible,
    least,
    refuse_what_never_fits,
    wake_at_next_step,
)
from hpcosim_client.heuristics.step_plan import StepPlan
from hpcosim_client.job import Job
from hpcosim_client.view import View


class Rounds:
    """The decisions of one simulation: `begin` at each event, then `look` and `take` in turn.

    Args:
        settings: what is decided.
        view: that of the run.

    Raises:
        PolicyError: the cluster is not the one that was learned on.

    Attributes:
        plan: what is bound.
    """

    def __init__(self, settings: DeepEas, view: View) -> None:
        capacity = view.nodes.capacity.tolist()
        if capacity != [settings.cores] * settings.machines:
            raise PolicyError(
                f"this agent was trained for {settings.machines} machines of {settings.cores} "
                f"cores; here are {len(capacity)}, of {', '.join(map(str, sorted(set(capacity))))}"
            )
        self.settings = settings
        self.plan = StepPlan(view, settings.horizon, settings.step_s)
        self._last_arrival_s = -np.inf
        self._over = False
        self._idle_s = np.inf  # since when it has held on an idle cluster
        self._slots: list[Job] = []

    def begin(self, view: View) -> None:
        """Take in an event.

        Raises:
            PolicyError: a job fits on no machine.
        """
        refuse_what_never_fits(view, self.plan)
        if view.arrived:
            self._last_arrival_s = max(job.submit_s for job in view.arrived)
        self.plan.follow(view)
        wake_at_next_step(view, self.settings.step_s)
        self._over = False

    def look(self, view: View) -> Picture | None:
        """Return what is seen; None: there is nothing to choose until time has gone on."""
        if self._over:
            return None
        settings = self.settings
        self._slots = eligible(view, self.plan, settings.queue)
        if not self._slots:
            return None
        behind = len(view.queue) - len(self.plan.bound) - len(self._slots)
        since_s = min(view.now_s - self._last_arrival_s, settings.since_arrival * settings.step_s)
        return picture(settings, self.plan, self._slots, behind, int(since_s / settings.step_s))

    def possible(self) -> NDArray[np.bool_]:
        """Return which actions are, bool[actions]; to hold always is."""
        settings = self.settings
        mask = np.zeros(settings.actions, dtype=np.bool_)
        mask[settings.hold] = True
        for slot, job in enumerate(self._slots):
            for machine in range(settings.machines):
                fits = self.plan.first_step(job, machine) is not None
                mask[machine * settings.queue + slot] = fits
        return mask

    def take(self, view: View, action: int) -> Job | None:
        """Carry an action out; return the job that was bound, None: the step is over."""
        if self._holds_for_ever(view):
            action = self.teach(view)
        machine, slot = divmod(action, self.settings.queue)
        if (
            action == self.settings.hold
            or slot >= len(self._slots)
            or self.plan.first_step(self._slots[slot], machine) is None
        ):
            self._over = True
            if not view.running and not self.plan.bound:
                self._idle_s = min(self._idle_s, view.now_s)
            return None
        self._idle_s = np.inf
        job = self._slots[slot]
        self.plan.bind(view, job, machine)
        return job

    def _holds_for_ever(self, view: View) -> bool:
        return view.now_s - self._idle_s >= self.settings.horizon * self.settings.step_s

    def teach(self, view: View) -> int:
        """Return the action of energy-aware shortest job first."""
        bound = least(view, self.plan, self._slots)
        if bound is None:
            return self.settings.hold
        return bound.node * self.settings.queue + self._slots.index(bound.job)
