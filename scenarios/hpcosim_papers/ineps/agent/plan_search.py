"""Search over plans of all waiting jobs at every event.

The plan of the last event is continued with the new jobs and improved by annealing; jobs that it
starts now are started. It is computed on the forecast, so it uses what the agents observe. The
rule's choice followed by the rest of the plan is considered, too: by its own forecast the search is
never worse.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.annealing import anneal
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.forecast import Forecast
from hpcosim_papers.ineps.agent.known_plan import KnownPlan
from hpcosim_papers.ineps.agent.plan_cost import cost_of
from hpcosim_papers.ineps.agent.plans import Plan
from hpcosim_papers.ineps.agent.rule import BEST, Rule
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.agent.site import kind_of


class Searching(NamedTuple):
    """Settings of the search, chosen on the validation workloads of `pairing-unseen`.

    Attributes:
        steps: number of moves of the annealing at an event with new jobs, 0 or more.
        again: number of moves at any other event.
        hot: first temperature, relative to the cost of the plan.
        cold: last temperature, relative to the cost of the plan.
        hold: while more jobs may be submitted, all starts are put off until the idle cluster has
            used this share of the energy beyond idle power of the waiting jobs, since the first of
            them was submitted, and at most for a mean run time; 0: never.
    """

    steps: int = 1500
    again: int = 400
    hot: float = 3e-4
    cold: float = 1e-6
    hold: float = 0.02


USUAL = Searching()


class PlanSearch:
    """The search of one simulation.

    Args:
        objective: minimised quantity.
        view: the view at the first event.
        settings: settings.
        rule: the rule whose choice is considered; None: that of `BEST`.

    Attributes:
        plan: the last plan.
        rule_cost: its cost with the rule's choice instead, before it was improved; infinity: the
            rule or the search waits.
    """

    plan: Plan

    def __init__(
        self,
        objective: Objective,
        view: View,
        settings: Searching = USUAL,
        rule: Rule | None = None,
    ) -> None:
        self._objective, self._settings = objective, settings
        self._rule = rule or BEST[objective]
        self._rng = view.rng
        self._began_s = view.now_s
        self._known = KnownPlan()
        self._alarm = PolicyAlarm()
        self._follows: tuple[float, int] | None = None  # time and queue if nothing else happens
        self._holds = False
        self.rule_cost = math.inf

    def choose(self, view: View, choices: Choices, forecast: Forecast) -> int:
        """Return the index of its choice.

        Args:
            view: the view.
            choices: the valid actions.
            forecast: the forecast, updated to this event.
        """
        rules = self._rule.choose(choices)
        may_wait = bool(choices.actions[-1] == choices.waiting)
        if self._follows != (view.now_s, len(view.queue)):
            self._search(view, choices, forecast, rules, may_wait=may_wait)
        choice = None if self._holds else self._known.start(choices, forecast)
        self._follows = None if choice is None else (view.now_s, len(view.queue) - 1)
        if choice is not None:
            return choice
        if may_wait and (self._holds or not _limited(choices)):
            return len(choices.actions) - 1
        return rules

    def _search(
        self, view: View, choices: Choices, forecast: Forecast, rules: int, *, may_wait: bool
    ) -> None:
        self.rule_cost = math.inf
        plan = self._known.continued(view, forecast)
        cost, running_j = cost_of(
            self._objective, view, forecast, plan, self._began_s, self._known.mean_run_s
        )
        plan.problem.cost = cost
        plan = Plan(plan.problem, plan.lanes)
        for kind in self._known.new:
            plan.insert(kind)
        self._holds = may_wait and self._put_off(view, forecast, plan.total_j - running_j)
        if not self._holds:
            plan = self._improved(plan, choices, rules)
        self.plan = plan
        self._known.lanes = list(plan.lanes)

    def _improved(self, plan: Plan, choices: Choices, rules: int) -> Plan:
        settings = self._settings
        steps = settings.steps if self._known.new else settings.again
        pair = choices.pair(rules)
        if pair is not None:
            forced = self._known.starting(plan, kind_of(pair[0]), pair[1])
            self.rule_cost = forced.cost
            if forced.cost < plan.cost:
                plan = forced
        return anneal(plan, steps, settings.hot, settings.cold, self._rng)

    def _put_off(self, view: View, forecast: Forecast, waiting_j: float) -> bool:
        """Return whether all starts are put off; if so, set the alarm for the end of that."""
        if view.no_more_jobs:
            return False
        since_s = min(job.submit_s for job in view.queue.values())
        allowed_s = self._known.mean_run_s
        if forecast.idle_w:
            allowed_s = min(allowed_s, self._settings.hold * waiting_j / forecast.idle_w)
        if view.now_s >= since_s + allowed_s:
            return False
        self._alarm.set(view, since_s + allowed_s)
        return True


def _limited(choices: Choices) -> bool:
    """Return whether the energy of a job is limited: plans do not know where it may start."""
    return any(job.max_energy_j < math.inf for job in choices.jobs)
