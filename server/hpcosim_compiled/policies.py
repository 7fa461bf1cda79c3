"""What the compiled engine can do, and why it cannot do the rest. This needs no Numba."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_compiled.state import CORES, WHOLE_NODES, Ints, ManagerCode, shares_processors
from hpcosim_protocol import JobRequest, Platform
from hpcosim_protocol.features import choices
from hpcosim_protocol.resources import provides
from hpcosim_schedulers.heuristics.easy import AGED_S, WINDOW_JOBS
from hpcosim_schedulers.heuristics.easy import RULES as HEAD_RULES
from hpcosim_schedulers.heuristics.job_node import JOB_KEYS, parse_job_node
from hpcosim_schedulers.heuristics.list_scheduling import CHANGING, FIXED
from hpcosim_schedulers.power.settings import AlwaysOn, Awareness, KeepIdle, OffAtNight, Timeout
from hpcosim_schedulers.power.settings import Power as PowerSettings
from hpcosim_schedulers.power.timeout import spans_s
from hpcosim_workloads.table import JobTable

if TYPE_CHECKING:
    from hpcosim_schedulers.slurm.settings import SiteSettings

FAMILIES = {
    **dict.fromkeys(("fcfs", "by-rank", "by-key-now"), "lists"),
    **dict.fromkeys(("easy", "easy-by-rule"), "easy"),
    **{name: name for name in ("conservative", "look-ahead", "job-node", "slurm")},
    **dict.fromkeys(("easy-aware", "conservative-aware"), "aware"),
}
"""The family of each kind of policy; the policies of a family are compiled together."""

KINDS = tuple(FAMILIES)
AWARE = ("aware", "planned")
"""Kinds of awareness of `easy-aware` and `conservative-aware`."""

BACKFILLING = ("easy", "conservative", "look-ahead")
"""Families that count free cores or nodes in future."""

KEYS = ("", *CHANGING)
"""Orders by a key that changes with time; the first is the order by rank."""

NODE_ORDERS = (
    "none",
    "high-gflops",
    "low-power",
    "high-cores",
    "high-mem",
    "high-mem-used",
    "high-mem-bw",
    "random",
)
"""Orders of the nodes of `job-node`."""

MANAGERS = ("timeout", "keep-idle", "off-at-night")
"""Kinds of power managers."""

ALWAYS_ON = AlwaysOn()

BY_RULE = "easy-"
AGED = "-aged"


PARAMETERS_OF_SLURM = (
    "assoc_limit_stop",
    "bf_min_age_reserve_s",
    "bf_min_prio_reserve",
)
"""Scheduler parameters that the compiled `slurm` only supports without a value."""

NO_SETTINGS: Mapping[str, object] = MappingProxyType({})


class PolicyCode(NamedTuple):
    """A compiled policy.

    Attributes:
        kind: index into `KINDS`.
        key: index into `KEYS`; of `job-node`: into `NODE_ORDERS`.
        aged_s: jobs that have waited longer are the head first, in submission order, s.
        window_jobs: number of jobs from which the head is chosen.
        one_per_event: whether at most one job starts at each event.
        shuffles: whether jobs go at random.
        awareness: index into `AWARE`.
    """

    kind: int
    key: int = 0
    aged_s: float = np.inf
    window_jobs: int = WINDOW_JOBS
    one_per_event: bool = False
    shuffles: bool = False
    awareness: int = 0


def puts_on_first(scheduler: str, awareness: Awareness) -> bool:
    """Return whether a list scheduler prefers nodes that are on."""
    return awareness == "aware" and scheduler in ("fcfs", *FIXED, *CHANGING)


def policy_code(scheduler: str, awareness: Awareness = "unaware") -> PolicyCode | None:
    """Return the compiled policy of a scheduler; None: there is none."""
    if awareness != "unaware" and scheduler in ("easy", "conservative"):
        if awareness not in AWARE:
            return None
        return PolicyCode(KINDS.index(f"{scheduler}-aware"), awareness=AWARE.index(awareness))
    if awareness != "unaware" and not puts_on_first(scheduler, awareness):
        return None
    if scheduler in ("fcfs", "easy", "conservative", "look-ahead", "slurm"):
        return PolicyCode(KINDS.index(scheduler))
    if (parts := parse_job_node(scheduler)) is not None:
        return PolicyCode(
            KINDS.index("job-node"),
            NODE_ORDERS.index(parts.node_order),
            one_per_event=parts.one_per_event,
            shuffles=parts.job_order == "random",
        )
    order = scheduler.removeprefix(BY_RULE)
    if scheduler == order and order not in FIXED and order not in CHANGING:
        return None
    if scheduler != order and order not in HEAD_RULES:
        return None
    aged_s = AGED_S if order.endswith(AGED) else np.inf
    key = KEYS.index(order) if order in KEYS else 0
    kind = "easy-by-rule" if scheduler != order else "by-key-now" if key else "by-rank"
    return PolicyCode(KINDS.index(kind), key, aged_s)


def draws(scheduler: str) -> bool:
    """Return whether a scheduler draws random numbers."""
    parts = parse_job_node(scheduler)
    return parts is not None and "random" in (parts.job_order, parts.node_order)


def ranks(scheduler: str, jobs: JobTable) -> Ints:
    """Return the place of each job in the order of a scheduler that does not change with time."""
    order = scheduler.removeprefix(BY_RULE).removesuffix(AGED)
    rows, parts = np.arange(len(jobs)), parse_job_node(scheduler)
    if parts is None and order not in FIXED:
        return rows
    if parts is not None and parts.job_order not in JOB_KEYS:
        return rows
    key: Callable[[Any], Any] = FIXED[order] if parts is None else JOB_KEYS[parts.job_order]
    keys = [key(job) for job in jobs.rows()]
    place = np.empty_like(rows)
    place[sorted(rows.tolist(), key=keys.__getitem__)] = rows
    return place


def node_keys(platform: Platform, scheduler: str) -> NDArray[np.float64] | None:
    """Return what does not change in the order of the nodes of a scheduler; None: it orders none.

    Returns:
        float64[nodes], ascending; of `high-mem` the memory, MB; of `high-mem-bw` see
        `job_node.run_time_scale`.
    """
    parts = parse_job_node(scheduler)
    if parts is None:
        return None
    keys = {
        "high-gflops": [-group.ops_per_s for group in platform.nodes],
        "low-power": [group.static_w + group.cores * group.dynamic_w for group in platform.nodes],
        "high-mem": [group.memory_mb for group in platform.nodes],
        "high-mem-bw": [platform.slowest_ops_per_s / group.ops_per_s for group in platform.nodes],
    }.get(parts.node_order, [0.0] * len(platform.nodes))
    return np.repeat(np.array(keys, np.float64), [group.count for group in platform.nodes])


def manager_code(power: PowerSettings) -> ManagerCode | None:
    """Return the compiled power manager of some settings; None: nodes are always on."""
    match power:
        case Timeout(timeout_s):
            return ManagerCode(MANAGERS.index("timeout"), timeout_s)
        case KeepIdle(warm, timeout_s):
            return ManagerCode(MANAGERS.index("keep-idle"), timeout_s, warm)
        case OffAtNight(off, _, origin_s):
            windows = tuple(span_s for text in off for span_s in spans_s(text))
            return ManagerCode(MANAGERS.index("off-at-night"), windows=windows, origin_s=origin_s)
    return None


def can_explain(scheduler: str) -> bool:
    """Return whether the compiled policy of a scheduler explains why jobs wait."""
    return scheduler != "slurm" and parse_job_node(scheduler) is None


def effective_awareness(power: PowerSettings, awareness: Awareness) -> Awareness:
    """Return the awareness of a scheduler beside a power manager; see `with_power`."""
    return "unaware" if isinstance(power, AlwaysOn) else awareness


def family_of(scheduler: str, awareness: Awareness = "unaware") -> str:
    """Return the family of the compiled policy of a scheduler; empty: there is none."""
    policy = policy_code(scheduler, awareness)
    return "" if policy is None else FAMILIES[KINDS[policy.kind]]


MOST_HELD = 1 << 27
"""Most nodes of all jobs together where reservations name nodes; each takes 24 bytes if used."""


def names_nodes(
    platform: Platform,
    jobs: JobTable,
    scheduler: str,
    awareness: Awareness = "unaware",
    *,
    explains: bool = False,
) -> bool:
    """Return whether reservations, or expected starts, may name nodes, not only count cores."""
    family = family_of(scheduler, awareness)
    if family == "aware" or not (explains or family in BACKFILLING):
        return family == "aware"
    placements, cores = np.unique(jobs.placement).tolist(), np.unique(platform.cores_by_node())
    return placements != [CORES] and not (placements == [WHOLE_NODES] and len(cores) == 1)


def part_of(
    platform: Platform,
    jobs: JobTable,
    scheduler: str,
    power: PowerSettings = ALWAYS_ON,
    awareness: Awareness = "unaware",
    settings: Mapping[str, object] = NO_SETTINGS,
    *,
    explains: bool = False,
) -> str:
    """Return which part of the engine simulates; each is compiled at its first use."""
    family = family_of(scheduler, awareness)
    if family == "slurm":
        return "slurm with rules" if _has_rules(settings) else family
    needs_all = (
        explains
        or manager_code(power) is not None
        or parse_job_node(scheduler) is not None
        or shares_processors(platform)
        or names_nodes(platform, jobs, scheduler)
    )
    return f"{family} with all" if needs_all else family


def jobs_alike(scheduler: str) -> int:
    """Return how many jobs of `easy` take the reference about as long as one of a scheduler."""
    return 10 if scheduler in ("conservative", "look-ahead", "slurm") else 1


def unsupported_power(platform: Platform, power: PowerSettings) -> str:
    """Return what of the power states the compiled engine does not support; empty: nothing.

    Args:
        platform: the cluster.
        power: settings of the power manager.
    """
    if isinstance(power, AlwaysOn):
        return ""
    has_more = (isinstance(power, Timeout) and power.wait_price_w is not None) or (
        isinstance(power, OffAtNight) and power.keep_on
    )
    if manager_code(power) is None or has_more:
        return f"the power manager {power.__struct_config__.tag} with these settings"
    for states in (group.power_states for group in platform.nodes):
        if states is not None and not np.isfinite(states.switch_on_s + states.switch_off_s):
            return "nodes that are switched for ever"
    return ""


def missing_package() -> str:
    """Return why the compiled engine cannot work here; empty: it can."""
    if find_spec("numba") is None:
        return "the package numba is not installed: pip install 'hpcosim[fast]'"
    return ""


def unsupported(
    platform: Platform,
    jobs: JobTable,
    scheduler: str,
    settings: Mapping[str, object] = NO_SETTINGS,
    power: PowerSettings = ALWAYS_ON,
    awareness: Awareness = "unaware",
) -> str:
    """Return what of a simulation the compiled engine does not support; empty: nothing.

    Args:
        platform: the cluster.
        jobs: the workload.
        scheduler: canonical name of the scheduler.
        settings: its settings.
        power: settings of the power manager, which `unsupported_power` permits.
        awareness: its awareness of power states.
    """
    policy = policy_code(scheduler, awareness)
    if policy is None:
        return f"the scheduler {scheduler}"
    if len(jobs) == 0:
        return "workloads without jobs"
    if (jobs.max_energy_j < np.inf).any() or not np.isfinite(jobs.run_s).all():
        return "jobs with a limit of energy, or without an end"
    if scheduler == "slurm":
        from hpcosim_schedulers.slurm.settings import parse_site

        return unsupported_site(platform, jobs, parse_site(settings))
    if platform.partitions or platform.reservations or platform.consumable != ("cores",):
        return "partitions, reservations and resources other than cores"
    if (jobs.request >= 0).any():
        return "jobs that require more than cores"
    if KINDS[policy.kind] == "job-node" and (jobs.memory_mb % 1.0 != 0.0).any():
        return "orders of nodes by memory that is no whole number of MB"  # sums are exact
    if not isinstance(power, AlwaysOn):
        if draws(scheduler):
            return "random orders beside a power manager"
        if KINDS[policy.kind] == "job-node" and NODE_ORDERS[policy.key] == "high-mem-bw":
            return "orders of nodes by bandwidth beside a power manager"
    if names_nodes(platform, jobs, scheduler, awareness):
        if manager_code(power) is not None and family_of(scheduler, awareness) != "aware":
            return "a power manager beside reservations that name nodes"
        if np.minimum(jobs.cores, platform.node_count).sum() > MOST_HELD:
            return f"reservations with more than {MOST_HELD} nodes in all"
    return ""


def unsupported_site(platform: Platform, jobs: JobTable, site: SiteSettings) -> str:
    """Return what the compiled policy `slurm` does not support; empty: nothing."""
    flags, qos = site.priority.flags, site.qos.values()
    if site.preemption.type != "none" or site.selection.lln:
        return "preemption and the choice of the least loaded nodes"
    if site.priority.weight_fair_share and "no_fair_tree" in flags:
        return "fair-share without the fair tree"
    if site.priority.usage_reset_period != "none":
        return "usage that is reset"
    if any(each.min_prio_threshold or "no_reserve" in each.flags for each in qos):
        return "QOS with a least priority, or whose jobs get no reservations"
    if any(getattr(site.scheduler, name) for name in PARAMETERS_OF_SLURM):
        return f"the scheduler parameters {', '.join(PARAMETERS_OF_SLURM)}"
    if _limits_for_ever(site):
        return "limits on usage that does not fall"
    if platform.reservations or platform.licenses or shares_processors(platform):
        return "the scheduler slurm with reservations, licences or several processors in a node"
    if (jobs.deadline_s < np.inf).any():
        return "the scheduler slurm with deadlines"
    used = np.unique(jobs.request)
    for number in used[used >= 0].tolist():
        if missing := _unsupported_request(jobs.requests[number], platform):
            return f"jobs with {missing}"
    several = any("," in jobs.names["partition"][name] for name in np.unique(jobs.partition))
    if several and any(each.exclusive for each in platform.partitions):
        return "jobs in several partitions beside partitions for whole nodes"
    return ""


def _has_rules(settings: Mapping[str, object]) -> bool:
    from hpcosim_compiled.slurm.tables import has_rules
    from hpcosim_schedulers.slurm.settings import parse_site

    return has_rules(parse_site(settings))


def _limits_for_ever(site: SiteSettings) -> bool:
    """Return whether a limit on past usage may hold a job for ever."""
    from hpcosim_schedulers.slurm.settings import associations

    rules = (*site.qos.values(), *(each for _, each in associations(site.accounts)))
    of_usage = [each for each in rules if each.grp_tres_mins or each.grp_wall_s is not None]
    if not of_usage or {"limits", "safe"}.isdisjoint(site.enforce):
        return False
    limits = [most for each in of_usage for most in (*each.grp_tres_mins.values(), each.grp_wall_s)]
    falls = bool(site.priority.decay_half_life_s) and not any(
        "no_decay" in each.flags and each in of_usage for each in site.qos.values()
    )
    return not falls or "safe" in site.enforce or any(most == 0.0 for most in limits)


def _unsupported_request(request: JobRequest, platform: Platform) -> str:
    """Return what of a request the compiled policy `slurm` does not support; empty: nothing."""
    if request.hold or request.begin_s is not None or request.dependencies:
        return "a begin, dependencies or a hold"
    if request.array_id is not None or request.reservation or request.licenses:
        return "arrays, reservations or licences"
    if request.required_nodes or request.switches or request.gres_per_job:
        return "nodes by name, a number of switches or devices for the whole job"
    if request.checkpointing is not None:
        return "checkpoints"
    if any(choice.counts for choice in choices(request.features)):
        return "numbers of nodes with a feature"
    names = [*request.gres_per_node, *request.gres_per_task]
    devices = {device for group in platform.nodes for device in group.gres}
    if any(sum(provides(device, name) for name in names) > 1 for device in devices):
        return "several requests for the same devices"
    return ""
