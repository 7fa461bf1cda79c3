"""Search over plans of all waiting jobs at every event.

The plan of the last event is continued with the new jobs and improved by annealing; jobs that it
starts now are started. It is computed on the forecast, so it uses what the agents observe. The
rule's choice followed by the rest of the plan is considered, too: by its own forecast the search is
never worse.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_papers.ineps.agent.forecast_features import Choices, Forecast
from hpcosim_papers.ineps.agent.plans import Cost, Plan, PlanNode, Problem, anneal
from hpcosim_papers.ineps.agent.policy import BEST, PairingRounds, Rule
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.agent.site import (
    ForecastJob,
    ForecastNode,
    Kind,
    Lanes,
    Running,
    kind_of,
    without,
)
from hpcosim_schedulers.agents.rounds import by_rounds

# The cost of a plan of the known jobs, also while more jobs may be submitted.

WEIGHT = 0.05
"""Price of the next second until the last known job ends, relative to that price once no more jobs
will be submitted."""

BACKLOG = 12.0
"""Mean run times that the known jobs have left when the mean price of a second has doubled. The
longer the backlog, the more likely it determines the end of the run."""


def cost_of(
    objective: Objective,
    view: View,
    forecast: Forecast,
    plan: Plan,
    began_s: float,
    mean_run_s: float,
) -> tuple[Cost, float]:
    """Return the cost of plans, and the energy of the running jobs from now on."""
    now_s, idle_w, nodes = view.now_s, forecast.idle_w, plan.problem.nodes
    running_j = sum(plan.problem.run(node, ()).extra_j for node in range(len(nodes)))
    spent_j = forecast.committed_j - running_j

    def energy(extra_j: float, end_s: float) -> float:
        return spent_j + extra_j + idle_w * (max(end_s, now_s) - began_s)

    def edp(extra_j: float, end_s: float) -> float:
        span_s = max(end_s, now_s) - began_s
        return (spent_j + extra_j + idle_w * span_s) * span_s

    if view.no_more_jobs:
        return (energy if objective == "energy" else edp), running_j
    price_w = idle_w
    if objective == "edp":  # d(E T) / T = dE + (E / T) dT
        span_s = max(forecast.horizon_s(now_s) - began_s, 1e-9)
        price_w += idle_w + forecast.committed_j / span_s
    scale_s = max(BACKLOG * mean_run_s, 1e-9)

    def so_far(extra_j: float, end_s: float) -> float:
        left_s = max(end_s - now_s, 0.0)
        return spent_j + extra_j + WEIGHT * price_w * left_s * (1.0 + left_s / scale_s)

    return so_far, running_j


class KnownPlan:
    """Lanes of the kinds of waiting jobs on all nodes. Jobs of a kind are interchangeable.

    Attributes:
        lanes: the lanes of each node; a job is the index of its kind.
        new: kinds of the waiting jobs that no lane contains, one for each job.
    """

    def __init__(self) -> None:
        self.lanes: list[Lanes] = []
        self.new: list[int] = []
        self._kinds: dict[Kind, int] = {}
        self._heads: list[tuple[int, ...]] = []  # running job at the head of each first lane
        self._seen: set[int] = set()
        self._run_s = 0.0  # sum over all jobs so far of their run times on the fastest node

    @property
    def mean_run_s(self) -> float:
        """Mean run time of the jobs so far on the node where each is fastest, in seconds."""
        return self._run_s / max(len(self._seen), 1)

    def continued(self, view: View, forecast: Forecast) -> Plan:
        """Adapt the lanes to the present jobs, and return the plan without a cost."""
        waiting: Counter[int] = Counter()
        for job in view.queue.values():
            kind = kind_of(job)
            waiting[self._kinds.setdefault(kind, len(self._kinds))] += 1
            if job.job_id not in self._seen:
                self._seen.add(job.job_id)
                self._run_s += min(
                    site.work(kind).alone_s for site in forecast.sites if site.cores >= kind.cores
                )
        shares = [_ordered(site, view.now_s) for site in forecast.sites]
        self._continue([tuple(share.job_id for share, _ in its) for its in shares], waiting)
        return Plan(self._problem(view.now_s, forecast.sites, shares), self.lanes)

    def starting(self, plan: Plan, kind: Kind, node: int) -> Plan:
        """Return the plan with a job of a kind in a lane of its own on a node, first of the new."""
        job, lanes = self._kinds[kind], list(plan.lanes)
        source, place = next(
            (source, place)
            for source, its in enumerate(lanes)
            for place, other in enumerate(other for lane in its for other in lane)
            if other == job
        )
        lanes[source], _ = without(lanes[source], place, len(self._heads[source]))
        there, running = lanes[node], len(self._heads[node])
        lanes[node] = (*there[:running], (job,), *there[running:])
        return Plan(plan.problem, lanes)

    def start(self, choices: Choices, forecast: Forecast) -> int | None:
        """Return the index of the next start of the plan, which becomes a running job; None: none.

        Equal nodes are interchangeable, and `choices` has the first of them only.
        """
        slots = {self._kinds[kind_of(job)]: slot for slot, job in enumerate(choices.jobs)}
        first: dict[object, int] = {}
        for node, site in enumerate(forecast.sites):
            same = first.setdefault(site.state, node)
            lanes, running = self.lanes[node], len(self._heads[node])
            for number in range(running, len(lanes)):
                slot = slots.get(lanes[number][0])
                if slot is None:
                    continue
                action = slot * choices.nodes + same
                choice = int(choices.actions.searchsorted(action))
                if choice < len(choices.actions) and choices.actions[choice] == action:
                    self.lanes[node] = self.lanes[same]
                    rest = (*lanes[running:number], *lanes[number + 1 :])
                    self.lanes[same] = (*lanes[:running], lanes[number][1:], *rest)
                    self._heads[same] = (*self._heads[same], choices.jobs[slot].job_id)
                    return choice
        return None

    def _continue(self, heads: Sequence[tuple[int, ...]], waiting: Counter[int]) -> None:
        """Keep the waiting jobs of all lanes; lanes whose running job ended follow the others."""
        if not self.lanes:
            self.lanes, self._heads = [()] * len(heads), [()] * len(heads)
        for node, running in enumerate(heads):
            after = dict(zip(self._heads[node], self.lanes[node], strict=False))
            lanes = [after.pop(job_id, ()) for job_id in running]
            lanes += [*after.values(), *self.lanes[node][len(self._heads[node]) :]]
            kept = []
            for number, lane in enumerate(lanes):
                stays = []
                for kind in lane:
                    if waiting[kind]:
                        waiting[kind] -= 1
                        stays.append(kind)
                if stays or number < len(running):
                    kept.append(tuple(stays))
            self.lanes[node], self._heads[node] = tuple(kept), running
        self.new = list(waiting.elements())

    def _problem(
        self,
        now_s: float,
        sites: Sequence[ForecastNode],
        shares: Sequence[Sequence[tuple[ForecastJob, float]]],
    ) -> Problem:
        group_sites = {site.group: site for site in sites}
        groups = sorted(group_sites)
        nodes = [
            PlanNode(
                site.group,
                tuple(Running(share.load, left_s) for share, left_s in its),
                site.state,
            )
            for site, its in zip(sites, shares, strict=True)
        ]
        works = [[group_sites[group].work(kind) for kind in self._kinds] for group in groups]
        types = [group_sites[group].type for group in groups]
        submits_s = [-math.inf] * len(self._kinds)
        return Problem(now_s, nodes, types, works, submits_s, lambda extra_j, _: extra_j)


def _ordered(site: ForecastNode, now_s: float) -> list[tuple[ForecastJob, float]]:
    """Return the jobs of a node with their remaining work, in an order that its state defines."""
    return sorted(
        zip(site.shares, site.remaining(now_s), strict=True),
        key=lambda each: (each[0].end_s, each[0].kind),
    )


class Searching(NamedTuple):
    """Settings of the search, chosen on the validation workloads of `pairing-unseen`.

    Attributes:
        steps: number of moves of the annealing at an event with new jobs, 0 or more.
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
        rule: the rule whose choice is considered; None: that of `BEST`.

    Attributes:
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
        """Return the index of its choice."""
        rules = self._rule.choose(choices)
        may_wait = bool(choices.actions[-1] == choices.waiting)
        if self._follows != (view.now_s, len(view.queue)):
            self._search(view, choices, forecast, rules, may_wait=may_wait)
        choice = None if self._holds else self._known.start(choices, forecast)
        self._follows = None if choice is None else (view.now_s, len(view.queue) - 1)
        if choice is not None:
            return choice
        # Plans do not know where a job whose energy is limited may start.
        limited = any(job.max_energy_j < math.inf for job in choices.jobs)
        if may_wait and (self._holds or not limited):
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


def pairing_search(objective: Objective, settings: Searching = USUAL) -> Policy:
    """Return the policy of the search."""
    rounds: PairingRounds
    search: PlanSearch

    def new(view: View) -> PairingRounds:
        nonlocal rounds, search
        rounds = PairingRounds(Pairing(objective=objective), view)
        search = PlanSearch(objective, view, settings)
        return rounds

    def choose(view: View, choices: Choices) -> int:
        return search.choose(view, choices, rounds.forecast)

    return by_rounds(new, choose)
