"""Limits of partitions on jobs; see the section PARTITIONS of slurm.conf(5)."""

from __future__ import annotations

from hpcosim_client.job import Job
from hpcosim_protocol import Partition, Platform
from hpcosim_schedulers.slurm.charges import Charges
from hpcosim_schedulers.slurm.settings import SiteSettings
from hpcosim_schedulers.slurm.tres import NO_REQUEST


class PartitionLimits:
    """Tells which limit of a partition refuses or holds a job.

    Args:
        site: the settings.
        platform: the cluster.
        charges: for the QOS of jobs.
    """

    def __init__(self, site: SiteSettings, platform: Platform, charges: Charges) -> None:
        self._site, self._charges = site, charges
        self._by_name = {each.name: each for each in platform.partitions}

    def refusal(self, job: Job) -> str:
        """Return the reason for which a job is refused at its submission; empty: none.

        A partition refuses jobs in state `drain` and `inactive`, and accounts, groups and QOS that
        it does not allow. EnforcePartLimits extends that to its limits: `all` to those of all
        partitions of the job, `any` to those of at least one.
        """
        names = self._charges.tres_of.partitions_of(job)
        partitions = [self._by_name[name] for name in names if name in self._by_name]
        never = [self._refused(job, each) for each in partitions]
        if never and all(never):
            return never[0]
        beyond = [self._beyond(job, each) for each in partitions]
        enforced = self._site.enforce_part_limits
        if enforced == "all":
            return next(filter(None, beyond), "")
        return beyond[0] if enforced == "any" and beyond and all(beyond) else ""

    def held(self, job: Job, partition: str = "") -> str:
        """Return the reason for which a job waits in a partition; empty: none.

        Args:
            job: the job.
            partition: name of the partition; empty: the job's first.
        """
        found = self._by_name.get(partition or self._charges.tres_of.partitions_of(job)[0])
        if found is None:
            return ""
        if found.state == "down":
            return "PartitionDown"
        if found.state == "inactive":
            return "PartitionInactive"
        return self._not_allowed(job, found) or self._beyond(job, found)

    def _refused(self, job: Job, partition: Partition) -> str:
        if partition.state in ("drain", "inactive"):
            return "PartitionInactive"
        return self._not_allowed(job, partition)

    def _not_allowed(self, job: Job, partition: Partition) -> str:
        """Return the reason of AllowAccounts, AllowGroups, AllowQos and their opposites."""
        association = self._charges.association(job, partition.name)
        nodes = self._charges.associations.nodes
        account = job.account if association is None else nodes[association].account
        if _excluded(account, partition.allow_accounts, partition.deny_accounts):
            return "AccountNotAllowed"
        if _excluded(job.group, partition.allow_groups, ()):
            return "GroupNotAllowed"
        if _excluded(self._charges.own_qos(job), partition.allow_qos, partition.deny_qos):
            return "QOSNotAllowed"
        return ""

    def _beyond(self, job: Job, partition: Partition) -> str:
        """Return the reason of the limits on nodes and time; flags of the QOS lift them."""
        qos = self._site.qos.get(self._charges.own_qos(job))
        flags = () if qos is None else qos.flags
        request = job.request or NO_REQUEST
        least = max(request.nodes_min, len(request.required_nodes), 1)
        most = request.nodes_max
        if "partition_max_nodes" not in flags and 0 < partition.max_nodes < least:
            return "PartitionNodeLimit"
        if "partition_min_nodes" not in flags and 0 < most < partition.min_nodes:
            return "PartitionNodeLimit"
        limit_s = partition.max_time_s
        if limit_s is not None and job.requested_s > limit_s:
            return "" if "partition_time_limit" in flags else "PartitionTimeLimit"
        return ""


def _excluded(name: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> bool:
    """Return whether a name is not allowed; a list of denied names has no effect beside one."""
    return name not in allowed if allowed else name in denied
