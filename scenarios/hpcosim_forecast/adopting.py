"""An observation as the state from which a forecast starts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from msgspec.structs import replace

from hpcosim_client.slurm.settings import SiteSettings, parse_site
from hpcosim_forecast.observation import Observation
from hpcosim_forecast.phases import slurm_at
from hpcosim_forecast.state import QueuedJob, QueueState
from hpcosim_protocol import JobRequest, Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds.adoption import spread
from hpcosim_slurm.worlds.specs import spec_of
from hpcosim_workloads.table import JobSpec

HOLDING = frozenset(("running", "suspended", "configuring"))
"""States of jobs that have nodes. Those that complete leave them within seconds."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """The state of an observed cluster.

    Attributes:
        state: the state, on a clock of its own.
        origin_s: Unix time of its second 0, s.
    """

    state: QueueState
    origin_s: float


def adopted(
    observation: Observation,
    warn: Callable[[str], object] = lambda _: None,
) -> Adopted:
    """Return the state of an observed cluster.

    Args:
        observation: the cluster.
        warn: called with a text about what the model lacks.

    Raises:
        SiteSettingsError: the settings of its scheduler are invalid.
    """
    live = observation.state
    present = [job for job in live.jobs.values() if job.state == "pending" or job.state in HOLDING]
    origin_s = math.floor(min((job.submitted_s for job in present), default=live.at_s))
    platform = _platform(observation.platform, live)
    adoption = _Adoption(live, platform, float(min(origin_s, live.at_s)))
    site = _site(observation.settings, observation.usage_s, adoption.origin_s)
    now_s = live.at_s - adoption.origin_s
    queued = [
        adoption.waiting(job) if job.state == "pending" else adoption.running(job)
        for job in sorted(present, key=lambda job: (job.started_s or math.inf, job.id))
    ]
    adoption.report(warn)
    booted_s = observation.booted_s
    uptime_s = None if booted_s is None else max(live.at_s - booted_s, 0.0)
    policy = partial(slurm_at, site, now_s, uptime_s)
    jobs = sorted(filter(None, queued), key=lambda job: (job.spec.submit_s, job.spec.job_id))
    past = [adoption.over(job) for job in live.jobs.values() if job.state == "over"]
    state = QueueState(now_s, platform, jobs, policy, adoption.unavailable(), past)
    return Adopted(state, adoption.origin_s)


def _platform(platform: Platform, live: ClusterState) -> Platform:
    """Return the platform with the present states of its partitions.

    Reservations are left out: a scenario has them on a clock of its own. So are types of devices,
    which the jobs of `ClusterState` do not have.
    """
    partitions = []
    for each in platform.partitions:
        found = live.partitions.get(each.name)
        up = each.state if found is None else ("up" if found.is_up else "down")
        partitions.append(replace(each, state=up))
    groups = tuple(replace(group, gres=_untyped(group.gres)) for group in platform.nodes)
    return replace(platform, nodes=groups, partitions=tuple(partitions), reservations=())


def _untyped(gres: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of devices such as `{"gpu": 4}` from those such as `{"gpu:a100": 4}`."""
    counts: dict[str, int] = {}
    for name, count in gres.items():
        kind = name.partition(":")[0]
        counts[kind] = counts.get(kind, 0) + count
    return counts


def _site(
    settings: Mapping[str, Any], usage_s: Mapping[str, Mapping[str, float]], origin_s: float
) -> SiteSettings:
    """Return the settings of the site with the present usage.

    Without accounts, nothing is enforced: all jobs that wait have been accepted by Slurm.
    """
    accounts = {name: dict(rules) for name, rules in (settings.get("accounts") or {}).items()}
    for account, users in usage_s.items():
        rules = accounts.setdefault(account, {})
        members = {name: dict(each or {}) for name, each in (rules.get("users") or {}).items()}
        for user, used_s in users.items():
            members[user] = members.get(user, {}) | {"usage_s": used_s}
        rules["users"] = members
    enforced = settings.get("enforce", ()) if settings.get("accounts") else ()
    start = datetime.fromtimestamp(origin_s, UTC).replace(tzinfo=None).isoformat()
    priority = {**settings.get("priority", {}), "start_time": start}
    return parse_site({**settings, "accounts": accounts, "enforce": enforced, "priority": priority})


class _Adoption:
    """The jobs of a live cluster on a platform.

    Args:
        live: the cluster.
        platform: its model.
        origin_s: Unix time of second 0, s.
    """

    def __init__(self, live: ClusterState, platform: Platform, origin_s: float) -> None:
        self._live, self.origin_s = live, origin_s
        names = NodeNames(platform)
        self._names = [names.name_of(number) for number in range(len(names))]
        self._number = {name: at for at, name in enumerate(self._names)}
        groups = [group for group in platform.nodes for _ in range(group.count)]
        self._cores = [sum(each.cores for each in group.processors) for group in groups]
        self._memory_mb = [group.memory_mb for group in groups]
        self._devices: list[dict[str, float]] = [dict(group.gres) for group in groups]
        self._holds_memory = "memory" in platform.consumable
        self._partitions = {each.name for each in platform.partitions}
        self._lacking: dict[str, list[int]] = {}  # numbers of jobs by what the model lacks

    def report(self, warn: Callable[[str], object]) -> None:
        """Tell what the model lacks."""
        unknown = [name for name in self._live.nodes if name not in self._number]
        if unknown:
            warn(f"{len(unknown)} nodes are not in the scenario, such as {unknown[0]!r:.80}")
        for what, jobs in self._lacking.items():
            warn(f"{len(jobs)} jobs {what}, such as {jobs[0]}")

    def unavailable(self) -> tuple[int, ...]:
        """Return the numbers of nodes that are down, drained or unknown to Slurm."""
        return tuple(
            number
            for number, name in enumerate(self._names)
            if name not in self._live.nodes or not self._live.nodes[name].is_available
        )

    def waiting(self, job: LiveJob) -> QueuedJob:
        """Return a job that waits. It is held if it waits for what the model does not have."""
        spec = self._spec(job)
        request = spec.request or JobRequest()
        if job.reservation:
            self._lack("have no forecast, as reservations are not modelled", job)
            request = replace(request, hold=True)
        elif self._partitions and not spec.partition:
            self._lack("have no forecast, as the scenario lacks their partitions", job)
            request = replace(request, hold=True)
        if request.begin_s is not None:
            request = replace(request, begin_s=request.begin_s - self.origin_s)
        return QueuedJob(spec._replace(request=request))

    def running(self, job: LiveJob) -> QueuedJob | None:
        """Return a job that has nodes, with as many of their cores as are free.

        Slurm does not say how many CPUs a job has on each node. Jobs may share cores.
        """
        nodes = [self._number[name] for name in job.nodes if name in self._number]
        free = [self._cores[node] for node in nodes]
        if not nodes or len(nodes) < len(job.nodes) or min(free) < 1:
            self._lack("run on cores that the model lacks, and are left out", job)
            return None
        spec = self._spec(job)
        cores = spread(spec.cores, free)
        if spec.placement == "whole_nodes":
            cores = free
        for node, count in zip(nodes, cores, strict=True):
            self._cores[node] -= count
        spec = spec._replace(
            cores=sum(cores),
            placement="cores",
            request=self._held(spec.request or JobRequest(), nodes),
        )
        started_s = (job.started_s or self._live.at_s) - self.origin_s
        started_s = min(max(started_s, spec.submit_s), self._live.at_s - self.origin_s)
        return QueuedJob(spec, started_s, tuple(nodes), tuple(cores))

    def over(self, job: LiveJob) -> JobSpec:
        """Return what a job asked for that is over, as Slurm remembers it."""
        return self._spec(job)

    def _lack(self, what: str, job: LiveJob) -> None:
        self._lacking.setdefault(what, []).append(job.id)

    def _held(self, request: JobRequest, nodes: Sequence[int]) -> JobRequest:
        """Return what a running job holds beside cores, as far as its nodes have it."""
        memory_mb, gres = request.memory_per_node_mb, request.gres_per_node
        if any(self._memory_mb[node] < memory_mb for node in nodes):
            memory_mb = 0.0
        if any(self._devices[node].get(each, 0) < gres[each] for node in nodes for each in gres):
            gres = {}
        for node in nodes:
            self._memory_mb[node] -= memory_mb
            for each, count in gres.items():
                self._devices[node][each] -= count
        return JobRequest(
            name=request.name, memory_per_node_mb=memory_mb, gres_per_node=gres, requeue=True
        )

    def _spec(self, job: LiveJob) -> JobSpec:
        submit_s = min(job.submitted_s, self._live.at_s) - self.origin_s
        spec = spec_of(job, submit_s, self._live, holds_memory=self._holds_memory)
        names = [name for name in job.partition.split(",") if name in self._partitions]
        return spec._replace(partition=",".join(names))
