"""Factors of the multifactor priority of a job, except age and fair-share, which change."""

from __future__ import annotations

from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_protocol import Platform
from hpcosim_schedulers.slurm.associations import Associations
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import NO_REQUEST, TresOf

HIGHEST = 2**32 - 1
"""Greatest priority."""


class Factors(NamedTuple):
    """The weighted factors of a priority, as `sprio -l` shows them.

    Attributes:
        age, assoc, fair_share, job_size, partition, qos, tres: factor times weight.
        site: site factor.
        nice: number that lowers the priority.
    """

    age: float = 0.0
    assoc: float = 0.0
    fair_share: float = 0.0
    job_size: float = 0.0
    partition: float = 0.0
    qos: float = 0.0
    tres: float = 0.0
    site: float = 0.0
    nice: float = 0.0

    @property
    def priority(self) -> int:
        """The priority: the sum, at least 1, because Slurm reserves 0 for held jobs."""
        return int(min(max(sum(self[:-1]) - self.nice, 1.0), HIGHEST))


class ConstantFactors:
    """Calculates the factors of a job that do not change while it waits.

    See https://slurm.schedmd.com/priority_multifactor.html; each method is a section of it.

    Args:
        site: the settings.
        platform: the cluster.
        associations: the associations.
        tres_of: the TRES of jobs.
    """

    def __init__(
        self, site: SiteSettings, platform: Platform, associations: Associations, tres_of: TresOf
    ) -> None:
        self._settings, self._qos = site.priority, site.qos
        self._flags = frozenset(site.priority.flags)
        self._associations, self._tres_of = associations, tres_of
        self._nodes, self._cores = platform.node_count, platform.core_count
        factors = {each.name: each.priority_job_factor for each in platform.partitions}
        self._part_factors = factors or {"": 1}
        self._most_part = max(self._part_factors.values())
        self._most_qos = max((qos.priority for qos in site.qos.values()), default=0)
        raw = [node.rules.priority or 0 for node in associations.nodes]
        self._most_assoc = max(raw)
        self._part_tres = {name: tres_of.of_partition(name) for name in self._part_factors}

    def of(self, job: Job, association: int | None, partition: str = "") -> Factors:
        """Return the factors of a job, with 0 for age and fair-share.

        Args:
            job: the job.
            association: number of its association; None: none.
            partition: name of a partition; empty: its first.
        """
        partition = partition or self._tres_of.partitions_of(job)[0]
        request = job.request or NO_REQUEST
        return Factors(
            assoc=self._assoc(association),
            job_size=self._settings.weight_job_size * self.job_size(job),
            partition=self._partition(partition),
            qos=self._qos_factor(job, association),
            tres=self._tres(job, partition),
            site=float(self._settings.site_factors.get(job.account, 0)),
            nice=float(request.nice),
        )

    def job_size(self, job: Job) -> float:
        """Return the job size factor, 0 to 1.

        The mean of the shares of nodes and cores that the job requests; section "Job Size Factor".
        """
        request = job.request or NO_REQUEST
        nodes = max(request.nodes_min, len(request.required_nodes), 1)
        if "small_relative_to_time" in self._flags:
            cores = max(job.cores, nodes * self._cores / self._nodes)
            size = cores / max(job.requested_s // 60, 1) / self._cores
        else:
            size = (nodes / self._nodes + job.cores / self._cores) / 2
        return min(max(1.0 - size if self._settings.favor_small else size, 0.0), 1.0)

    def _assoc(self, association: int | None) -> float:
        if association is None:
            return 0.0
        raw = self._associations.effective(association).priority or 0
        normal = self._flags.isdisjoint(("no_normal_assoc", "no_normal_all"))
        return self._settings.weight_assoc * _normalised(raw, self._most_assoc, normal=normal)

    def _partition(self, partition: str) -> float:
        raw = self._part_factors.get(partition, 0)
        normal = self._flags.isdisjoint(("no_normal_part", "no_normal_all"))
        return self._settings.weight_partition * _normalised(raw, self._most_part, normal=normal)

    def _qos_factor(self, job: Job, association: int | None) -> float:
        name = job.qos if association is None else self._associations.qos_of(job, association)
        raw = self._qos[name].priority if name in self._qos else 0
        normal = self._flags.isdisjoint(("no_normal_qos", "no_normal_all"))
        return self._settings.weight_qos * _normalised(raw, self._most_qos, normal=normal)

    def _tres(self, job: Job, partition: str) -> float:
        """Return the sum of the weighted shares of the TRES of the partition."""
        if not self._settings.weight_tres:
            return 0.0
        normal = self._flags.isdisjoint(("no_normal_tres", "no_normal_all"))
        requested, available = self._tres_of.of_job(job, partition), self._part_tres.get(partition)
        total = 0.0
        for name, weight in self._settings.weight_tres.items():
            most = (available or {}).get(name, 0.0)
            total += weight * _normalised(requested.get(name, 0.0), most, normal=normal)
        return total


def _normalised(value: float, most: float, *, normal: bool) -> float:
    """Return a value as a share of the greatest, or as it is; 0 if the greatest is 0."""
    if not normal:
        return value
    return value / most if most else 0.0
