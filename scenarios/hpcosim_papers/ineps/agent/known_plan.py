"""The plan of the known jobs, kept from event to event."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.choices import Choices
from hpcosim_papers.ineps.agent.forecast import Forecast
from hpcosim_papers.ineps.agent.lane_moves import without
from hpcosim_papers.ineps.agent.lanes import Lanes, Running
from hpcosim_papers.ineps.agent.plans import Plan, PlanNode, Problem
from hpcosim_papers.ineps.agent.site import Kind, Share, Site, kind_of


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
        """Adapt the lanes to the jobs that run and wait now, and return the plan, without a cost.

        Args:
            view: the view.
            forecast: the forecast, updated to this event.
        """
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
        sites: Sequence[Site],
        shares: Sequence[Sequence[tuple[Share, float]]],
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


def _ordered(site: Site, now_s: float) -> list[tuple[Share, float]]:
    """Return the jobs of a node with their remaining work, in an order that its state defines."""
    return sorted(
        zip(site.shares, site.remaining(now_s), strict=True),
        key=lambda each: (each[0].end_s, each[0].kind),
    )
