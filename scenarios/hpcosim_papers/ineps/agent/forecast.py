"""Forecast of the ends of running jobs, and of the cost of starting another one.

It uses the platform's description and requested times only. Remaining work is counted in seconds at
full speed, and tasks slow each other down as section 5.4 of the specification defines. Each job is
on one node. Nodes of several processors are treated as free of contention.
"""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_client.view import View
from hpcosim_papers.ineps.agent.site import Site, kind_of
from hpcosim_protocol import Platform


class Forecast:
    """Forecasts of all nodes, updated at every call of the policy.

    Attributes:
        sites: the forecast of each node, by number.
        idle_w: power of the idle cluster, in W.
        committed_j: forecast of the energy beyond idle power of all jobs started so far, in J.
    """

    def __init__(self, platform: Platform) -> None:
        slowest = platform.slowest_ops_per_s
        self.sites = [
            Site(group, node, slowest)
            for group, node in enumerate(platform.nodes)
            for _ in range(node.count)
        ]
        self.idle_w = sum(node.count * node.idle_w for node in platform.nodes)
        self.committed_j = 0.0
        self._where: dict[int, int] = {}

    def follow(self, view: View) -> None:
        """Apply the events since the last call."""
        now_s = view.now_s
        if view.left or view.rejected:
            for job_id in [job_id for job_id in self._where if job_id not in view.running]:
                self.sites[self._where.pop(job_id)].remove(now_s, job_id)
        if len(self._where) < len(view.running):
            for job_id, job in view.running.items():
                if job_id not in self._where and job.allocation is not None:
                    self.place(view, job, int(job.allocation.nodes[0]))
        for site in self.sites:
            if site.shares and site.late(now_s):
                site.look_again(now_s)

    def place(self, view: View, job: Job, node: int) -> None:
        """Add a job that starts on a node."""
        site, kind = self.sites[node], kind_of(job)
        option = site.option(view.now_s, int(view.nodes.free[node]) + job.cores, kind)
        assert option is not None, "the job fits"
        self.committed_j += option.extra_j
        site.add(view.now_s, job.job_id, kind)
        self._where[job.job_id] = node

    def horizon_s(self, now_s: float) -> float:
        """Return the forecast end of the last running job, at least `now_s`, simulated seconds."""
        return max(now_s, max(site.busy_until_s for site in self.sites))
