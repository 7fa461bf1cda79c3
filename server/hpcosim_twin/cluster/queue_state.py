"""The jobs that wait and run at an instant, and the policy `slurm` amid its work."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_client import Policy
from hpcosim_protocol import JobRequest, Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import Beside, with_manager
from hpcosim_schedulers.slurm.policy import slurm
from hpcosim_schedulers.slurm.settings import SiteSettings, parse_site
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.worlds import specs
from hpcosim_slurm.worlds.live_engine import spread
from hpcosim_twin.cluster.observation import Observation
from hpcosim_workloads.table import JobSpec

DRIFT_S = 0.3
"""Most by which a period of Slurm's periodic work is longer than stated, s.

Measured for passes of the backfill scheduler: 0.0 to 0.3 s.
"""
HOLDING = frozenset(("running", "suspended", "configuring"))
"""States of jobs that have nodes. Those that complete leave them within seconds."""


class QueuedJob(NamedTuple):
    """A job that waits or runs at the instant of a forecast.

    Attributes:
        spec: the job as it was submitted; its `run_s` is not used.
        started_s: time of its start, s; None: it waits.
    """

    spec: JobSpec
    started_s: float | None = None
    nodes: tuple[int, ...] = ()
    cores: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class QueueState:
    """A cluster at an instant.

    Attributes:
        now_s: the instant, s on the clock of the jobs.
        new_policy: returns the scheduler of the site, new for each simulation, as it may be at
            `now_s`: what is not known of it, such as the phase of its periodic work, is drawn.
            Simulations with `SlurmAt` or `NamedScheduler` can be compiled.
        past: jobs that were submitted and are over, as far as they are known: future submissions
            are drawn from what was submitted.
        unavailable: numbers of the nodes on which no further job starts: down or drained.
    """

    now_s: float
    platform: Platform
    jobs: Sequence[QueuedJob]
    new_policy: Callable[[Generator], Policy]
    unavailable: tuple[int, ...] = ()
    past: Sequence[JobSpec] = ()

    @property
    def waiting(self) -> list[QueuedJob]:
        """The jobs that wait."""
        return [job for job in self.jobs if job.started_s is None]


@dataclass(frozen=True, slots=True)
class SlurmAt:
    """Returns the policy `slurm` of a site whose controller has been running for some time.

    The controller calculates priorities every PriorityCalcPeriod from its start on, starts jobs in
    passes of two schedulers, and checks time limits every 30 s. Each period drifts a little, so
    that the phase is less known the longer the controller has been running: it is drawn.

    Attributes:
        site: its settings; the usage is that at `now_s`.
        uptime_s: time since the start of the controller, s; None: unknown.
    """

    site: SiteSettings
    now_s: float
    uptime_s: float | None

    def drawn(self, generator: Generator) -> SiteSettings:
        """Return the settings with a drawn start of the controller."""
        period_s, share = self.site.priority.calc_period_s, float(generator.random())
        if self.uptime_s is None:
            since_s = period_s * share
        else:
            drift_s = min(DRIFT_S * (self.uptime_s // period_s), period_s)
            since_s = (self.uptime_s - drift_s * share) % period_s
        return replace(self.site, dtstart_s=since_s - self.now_s)

    def __call__(self, generator: Generator) -> Policy:
        """Return the policy."""
        return slurm(self.drawn(generator))


@dataclass(frozen=True, slots=True)
class NamedScheduler:
    """Returns a scheduler without periodic work, such as `easy`: nothing of it is drawn.

    Jobs end at their requested times, which such a scheduler does not enforce itself.

    Attributes:
        name: its name in the catalogue; not `slurm`.
    """

    name: str

    def __call__(self, _: Generator) -> Policy:
        """Return the policy."""
        return make_policy(self.name)


@dataclass(frozen=True, slots=True)
class ManagedScheduler:
    """Returns a scheduler beside a power manager.

    Attributes:
        own: returns the scheduler.
        power: the manager; without a plan.
    """

    own: Callable[[Generator], Policy]
    power: Beside

    def __call__(self, generator: Generator) -> Policy:
        """Return the policy."""
        return with_manager(self.own(generator), self.power)


def ends_jobs(new_policy: Callable[[Generator], Policy]) -> bool:
    """Return whether a scheduler ends jobs at their requested times itself, as `slurm` does."""
    if isinstance(new_policy, ManagedScheduler):
        return ends_jobs(new_policy.own)
    return not isinstance(new_policy, NamedScheduler)


@dataclass(frozen=True, slots=True)
class AdoptedState:
    """The state of an observed cluster.

    Attributes:
        origin_s: Unix time of its second 0, s.
    """

    state: QueueState
    origin_s: float


def adopted(
    observation: Observation,
    warn: Callable[[str], object] = lambda _: None,
) -> AdoptedState:
    """Return the state of an observed cluster.

    Raises:
        SiteSettingsError: the settings of its scheduler are invalid.
    """
    live = observation.state
    present = [job for job in live.jobs.values() if job.state == "pending" or job.state in HOLDING]
    first_s = math.floor(min((job.submitted_s for job in present), default=live.at_s))
    origin_s = min(float(first_s), live.at_s)
    adoption = _Adoption(live, _platform(observation.platform, live, origin_s), origin_s)
    site = _site(observation.settings, observation.usage_s, adoption.origin_s)
    now_s = live.at_s - adoption.origin_s
    queued = [
        adoption.waiting(job) if job.state == "pending" else adoption.running(job)
        for job in sorted(present, key=lambda job: (job.started_s or math.inf, job.id))
    ]
    adoption.report(warn)
    booted_s = observation.booted_s
    uptime_s = None if booted_s is None else max(live.at_s - booted_s, 0.0)
    policy = SlurmAt(site, now_s, uptime_s)
    jobs = sorted(filter(None, queued), key=lambda job: (job.spec.submit_s, job.spec.job_id))
    past = [adoption.over(job) for job in live.jobs.values() if job.state == "over"]
    state = QueueState(now_s, adoption.platform, jobs, policy, adoption.unavailable(), past)
    return AdoptedState(state, adoption.origin_s)


def _platform(platform: Platform, live: ClusterState, origin_s: float) -> Platform:
    """Return the platform with the present states of partitions, reservations and licences."""
    partitions = []
    for each in platform.partitions:
        found = live.partitions.get(each.name)
        up = each.state if found is None else ("up" if found.is_up else "down")
        partitions.append(replace(each, state=up))
    names = NodeNames(platform)
    number = {names.name_of(at): at for at in range(len(names))}
    return replace(
        platform,
        partitions=tuple(partitions),
        reservations=tuple(specs.reservations_of(live.reservations, number, origin_s)),
        licenses=dict(live.licenses) or platform.licenses,
    )


def _site(
    settings: Mapping[str, Any], usage_s: Mapping[str, Mapping[str, float]], origin_s: float
) -> SiteSettings:
    """Return the settings of the site with the present usage.

    Without accounts, nothing is enforced: all jobs that wait have been accepted by Slurm.
    """
    parse_site(settings)  # what follows relies on the form of all parts
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
        origin_s: Unix time of second 0, s.
    """

    def __init__(self, live: ClusterState, platform: Platform, origin_s: float) -> None:
        self._live, self.platform, self.origin_s = live, platform, origin_s
        self._shown, self._cluster = specs.Shown(live, platform), Cluster(platform, 0.0)
        names = NodeNames(platform)
        self._names = [names.name_of(number) for number in range(len(names))]
        self._number = {name: at for at, name in enumerate(self._names)}
        self._cores = platform.cores_by_node()
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
        spec = specs.spec_of(job, self._submit_s(job), self._shown)
        request = spec.request or JobRequest()
        if not job.is_held and specs.waits_for_more(job, self._shown):
            self._lack("have no forecast, as they wait for what the model does not know", job)
        elif self.platform.partitions and not spec.partition:
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
        spec = specs.spec_with_nodes(
            job, self._submit_s(job), self._shown, partial(infeasibility, self._cluster)
        )
        cores = spread(spec.cores, free)
        if spec.placement == "whole_nodes":
            cores = free
        for node, count in zip(nodes, cores, strict=True):
            self._cores[node] -= count
        spec = spec._replace(cores=sum(cores), placement="cores")
        started_s = (job.started_s or self._live.at_s) - self.origin_s
        started_s = min(max(started_s, spec.submit_s), self._live.at_s - self.origin_s)
        return QueuedJob(spec, started_s, tuple(nodes), tuple(cores))

    def over(self, job: LiveJob) -> JobSpec:
        """Return what a job asked for that is over, as Slurm remembers it."""
        return specs.spec_of(job, self._submit_s(job), self._shown)

    def _lack(self, what: str, job: LiveJob) -> None:
        self._lacking.setdefault(what, []).append(job.id)

    def _submit_s(self, job: LiveJob) -> float:
        return min(job.submitted_s, self._live.at_s) - self.origin_s
