"""What running and past jobs are charged: decayed usage by association and QOS."""

from __future__ import annotations

import numpy as np

from hpcosim_client.job import Floats, Job
from hpcosim_client.view import View
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.associations import Associations
from hpcosim_schedulers.slurm.fair_share import ShareTree
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import TresOf
from hpcosim_schedulers.slurm.usage import Usage

BILLING, WALL = 0, 1
"""Columns of the usage: seconds of the billing TRES, and seconds of run time."""


class Charges:
    """Charges running jobs to their associations and QOS, and calculates fair-share factors.

    Args:
        site: the settings.
        platform: the cluster.
        tres: names of TRES whose usage is counted beside billing and run time, for limits.

    Attributes:
        associations: the associations; those of unknown users and accounts are added as they come.
        tres_of: the TRES of jobs.
        tres: see Args.
        usage: the usage; `rows` and `qos_rows` have the row of each association and QOS.
    """

    def __init__(self, site: SiteSettings, platform: Platform, tres: tuple[str, ...] = ()) -> None:
        self.site, self.tres = site, tres
        self._flags = frozenset(site.priority.flags)
        self.associations = Associations(site.accounts, adds_unknown=not site.enforce)
        self.tres_of = TresOf(platform, site.partitions, max_tres="max_tres" in self._flags)
        self.usage = Usage(site.priority, 2 + len(tres), -site.dtstart_s)
        self.qos_rows = {
            name: self.usage.add_row(decays="no_decay" not in qos.flags)
            for name, qos in site.qos.items()
        }
        self._part_qos = {each.name: each.qos for each in platform.partitions if each.qos}
        self.rows: list[int] = []
        self._grow()
        self._last_totals = self._totals()
        self._factors: Floats | None = None
        self._charged: dict[int, Job] = {}

    def update(self, view: View) -> bool:
        """Charge the jobs that started and ended, and make the calculations that are due.

        Returns:
            Whether there was a calculation, so that fair-share factors are new.
        """
        for job in view.left:
            if job.job_id not in self._charged and job.start_s == job.start_s:  # started unseen
                self._start(job)
        if len(view.running) > len(self._charged) - len(view.left):
            for job_id in view.running.keys() - self._charged.keys():
                self._start(view.running[job_id])
        calculated = self.usage.advance(view.now_s)
        if calculated:
            self._last_totals, self._factors = self._totals(), None
        for job in view.left:
            if self._charged.pop(job.job_id, None) is not None:
                self.usage.end(job.job_id, view.now_s)
        return calculated

    def is_charged(self, job_id: int) -> bool:
        """Return whether a job ran at the last update."""
        return job_id in self._charged

    def fair_share(self) -> Floats:
        """Return the fair-share factor of each association at the last calculation, float64[n].

        An association that was added later has used nothing: it has 1 until the next calculation.
        """
        new = len(self.associations.nodes) - len(self._last_totals)
        if self._factors is None:
            tree = ShareTree(self.associations)
            totals = np.append(self._last_totals, np.zeros(new))
            if "no_fair_tree" in self._flags:
                self._factors = tree.classic(
                    totals,
                    self.site.priority.fair_share_dampening_factor,
                    depth_oblivious="depth_oblivious" in self._flags,
                )
            else:
                self._factors = tree.fair_tree(totals)
        missing = len(self.associations.nodes) - len(self._factors)
        if missing:
            self._factors = np.append(self._factors, np.ones(missing))
        return self._factors

    def association(self, job: Job, partition: str = "") -> int | None:
        """Return the number of a job's association; None: it has none.

        Args:
            job: the job.
            partition: name of its partition; empty: its first.
        """
        found = self.associations.of(job, partition or self.tres_of.partitions_of(job)[0])
        if len(self.rows) < len(self.associations.nodes):
            self._grow()
        return found

    def qos_of(self, job: Job, partition: str = "") -> tuple[str, ...]:
        """Return the QOS whose limits hold for a job: that of its partition, then its own.

        The QOS flag `over_part_qos` of the job's own QOS reverses the order
        (https://slurm.schedmd.com/resource_limits.html, "Hierarchy").
        """
        own = self.own_qos(job, partition)
        of_part = self._part_qos.get(partition or self.tres_of.partitions_of(job)[0], "")
        known = [name for name in (of_part, own) if name in self.site.qos]
        if len(known) == 2 and "over_part_qos" in self.site.qos[own].flags:
            known.reverse()
        return tuple(dict.fromkeys(known))

    def own_qos(self, job: Job, partition: str = "") -> str:
        """Return the name of a job's QOS, whatever that of its partition."""
        number = self.association(job, partition)
        return job.qos if number is None else self.associations.qos_of(job, number)

    def _start(self, job: Job) -> None:
        self._charged[job.job_id] = job
        tres = self.tres_of.of_job(job)
        number = self.association(job)
        rows = [self.qos_rows[name] for name in self.qos_of(job)]
        if number is not None:
            rows += [self.rows[each] for each in self.associations.ancestors(number)]
        own = self.own_qos(job)
        factor = self.site.qos[own].usage_factor if own in self.site.qos else 1.0
        rates = [tres["billing"], 1.0, *(tres.get(name, 0.0) for name in self.tres)]
        self.usage.start(job.job_id, rows, [factor * rate for rate in rates], job.start_s)

    def _grow(self) -> None:
        """Add the rows of associations that have none."""
        for node in self.associations.nodes[len(self.rows) :]:
            self.rows.append(self.usage.add_row())
            if node.rules.usage_s:
                for number in self.associations.ancestors(len(self.rows) - 1):
                    self.usage.amounts[self.rows[number], BILLING] += node.rules.usage_s

    def _totals(self) -> Floats:
        """Return the billing usage of each association with all below it, float64[n]."""
        return self.usage.amounts[self.rows, BILLING]
