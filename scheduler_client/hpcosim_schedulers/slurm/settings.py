"""Settings of a site: accounts, QOS, priorities, scheduler parameters and preemption.

They are the mapping `scheduler.settings` of a scenario. Names and meanings are those of slurm.conf
(https://slurm.schedmd.com/slurm.conf.html) in snake case, with the unit in the name. `accounts` has
the types of accounts and QOS.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError, explained
from hpcosim_schedulers.slurm.accounts import (
    NORMAL,
    ROOT,
    Account,
    Association,
    Count,
    Name,
    PreemptMode,
    Qos,
    Seconds,
    Tres,
)

Interval = Annotated[float, Meta(gt=0, le=1e9)]


# Conversion of nested settings, with the full path of an error.

AnyStruct = TypeVar("AnyStruct", bound=Struct)

TRES = "expected a TRES: cpu, mem (MB), node, billing, gres/NAME, gres/NAME:TYPE or license/NAME"
NAMES = "expected names of 1 to 200 characters"


class SchedulerParameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """SchedulerParameters of slurm.conf(5), with its defaults.

    Attributes:
        backfill: whether the backfill scheduler runs (SchedulerType `sched/backfill`); False:
            `sched/builtin`.
        batch_sched_delay_s: time for which the scheduling of batch jobs may be delayed to save
            work, s.
        sched_interval_s: time between two passes of the main scheduler over the whole queue, s.
        sched_max_job_start: maximum number of jobs that a pass of the main scheduler starts; 0: no
            limit.
        sched_min_interval_s: least time between two passes of the main scheduler, s.
        default_queue_depth: jobs that a pass considers after a submission or an end of a job.
        partition_job_depth: jobs of each partition that such a pass considers; 0: no limit.
        max_sched_time_s: maximum real time of a pass of the main scheduler, s.
        defer: whether no pass follows the submission of single jobs.
        assoc_limit_stop: whether a job held by a limit of its association or QOS also holds later
            jobs of its partition, in both schedulers.
        bf_interval_s: time between two passes of the backfill scheduler, s.
        bf_window_s: how far ahead the backfill scheduler plans, s (`bf_window` is in minutes).
        bf_resolution_s: resolution of planned starts, s.
        bf_continue: whether a pass that released its locks goes on.
        bf_max_time_s: maximum real time of a backfill pass, s; None: `bf_interval_s`.
        bf_max_job_test: jobs that a pass considers.
        bf_max_job_start: jobs that a pass starts; 0: no limit.
        bf_max_job_user: jobs of a user that a pass considers; 0: no limit.
        bf_max_job_user_part: jobs of a user in a partition that a pass considers; 0: no limit.
        bf_max_job_part: jobs of a partition that a pass considers; 0: no limit.
        bf_max_job_assoc: jobs of an association that a pass considers; 0: no limit.
        bf_max_job_array_resv: tasks of a job array that get reservations.
        bf_job_part_count_reserve: number of jobs of highest priority of a partition that get
            reservations; 0: all.
        bf_min_age_reserve_s: time for which a job must have been eligible before it gets a
            reservation and holds back later jobs, in both schedulers, s.
        bf_min_prio_reserve: priority below which a job gets no reservation and holds back no later
            jobs, in both schedulers; 0: none. `Qos.min_prio_threshold` takes precedence.
        bf_one_resv_per_job: whether a job in several partitions gets only the first of its
            reservations. In the other partitions it can still start at once.
        bf_busy_nodes: whether the node choice prefers nodes in use for planned jobs.
        bf_running_job_reserve: whether a pass also reserves the nodes of running jobs that hold
            whole nodes.
        max_switch_wait_s: greatest time for which a job waits for its preferred number of leaf
            switches (`JobRequest.switches`), s; also that of jobs whose `switches_wait_s` is 0.
        loop_s: time of an iteration of slurmctld's main loop, in which passes of the main scheduler
            begin, s; a real one takes slightly more than 1 s.
        loop_begin_s: time from the start of slurmctld to its main loop, s; the first iteration is
            `loop_s` later.
        bf_begin_s: time from the start of slurmctld to that of its backfill scheduler, s.
        bf_job_cost_s: real time that the backfill scheduler needs for each job that it considers,
            s; it delays the next pass.
        pack_serial_at_end: whether jobs of one core get the nodes at the end of the list.
    """

    backfill: bool = True
    batch_sched_delay_s: Seconds = 3.0
    sched_interval_s: Interval = 60.0
    sched_max_job_start: Count = 0
    sched_min_interval_s: Seconds = 2e-6
    default_queue_depth: Count = 100
    partition_job_depth: Count = 0
    max_sched_time_s: Seconds = 2.0
    defer: bool = False
    assoc_limit_stop: bool = False
    bf_interval_s: Interval = 30.0
    bf_window_s: Interval = 86_400.0
    bf_resolution_s: Interval = 60.0
    bf_continue: bool = False
    bf_max_time_s: Seconds | None = None
    bf_max_job_test: Count = 500
    bf_max_job_start: Count = 0
    bf_max_job_user: Count = 0
    bf_max_job_user_part: Count = 0
    bf_max_job_part: Count = 0
    bf_max_job_assoc: Count = 0
    bf_max_job_array_resv: Count = 20
    bf_job_part_count_reserve: Count = 0
    bf_min_age_reserve_s: Seconds = 0.0
    bf_min_prio_reserve: Count = 0
    bf_one_resv_per_job: bool = False
    bf_busy_nodes: bool = False
    bf_running_job_reserve: bool = False
    max_switch_wait_s: Seconds = 300.0
    loop_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    loop_begin_s: Seconds = 1.15
    bf_begin_s: Seconds = 0.83
    bf_job_cost_s: Seconds = 0.0
    pack_serial_at_end: bool = False


class NestedSettingError(ValueError):
    """A setting within nested settings is invalid.

    Args:
        field: dotted path of the setting; empty: the settings themselves.
        what: what is wrong, and how to fix it.
    """

    def __init__(self, field: str, what: str) -> None:
        super().__init__(field, what)
        self.field = field
        self.what = what


def converted(settings: Mapping[str, object], kind: type[AnyStruct]) -> AnyStruct:
    """Return a structure made of a mapping of plain data.

    Args:
        settings: the mapping.
        kind: a structure whose fields may be structures, and mappings of structures.

    Raises:
        NestedSettingError: a value is invalid. Unlike the message of `msgspec`, its path has the
            keys of mappings.
    """
    try:
        return msgspec.convert(dict(settings), kind)
    except msgspec.ValidationError as error:
        _check_parts(settings, kind, ())
        raise NestedSettingError("", str(error)) from None


def _check_parts(value: object, kind: Any, path: tuple[str, ...]) -> None:
    """Raise the error of the innermost invalid part of a value."""
    for name, part, part_kind in _parts(value, kind):
        _check_parts(part, part_kind, (*path, name))
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner, what = _message(str(error), value, kind, path)
        raise NestedSettingError(".".join((*path, inner) if inner else path), what) from None


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:
    """Yield name, value and type of the parts of a value that are structures or mappings."""
    if not isinstance(value, Mapping):
        return
    if get_origin(kind) is dict:
        yield from ((str(key), each, get_args(kind)[1]) for key, each in value.items())
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for field in msgspec.structs.fields(kind):
            if field.name in value and (get_origin(field.type) is dict or _is_struct(field.type)):
                yield field.name, value[field.name], field.type


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _message(error: str, value: object, kind: Any, path: tuple[str, ...]) -> tuple[str, str]:
    """Return the setting within a value, empty for the value itself, and what is wrong with it."""
    what, _, where = error.partition(" - at `$")
    if " - at `key` in " in error and isinstance(value, Mapping):
        return "", _wrong_key(value, get_args(kind)[0])
    if what.startswith("Expected `object`") and not where:
        return "", f"expected a mapping, got {_shown(value)}"
    if not isinstance(value, Mapping) or not _is_struct(kind):
        return "", explained(f"{what} - at `$.value`", {"value": value}, Struct, "")[1]
    field = where.strip(".`")
    name, _, index = field.partition("[")
    got = _item(value[name], index) if name in value else None
    kind_of = {each.name: each.type for each in msgspec.structs.fields(kind)}
    if what.startswith("Invalid enum value"):
        return field, f"expected {_choices(kind_of[name])}, got {_shown(got)}"
    if what.startswith("Expected `array"):
        return field, f"expected a list, got {_shown(got)}"
    return explained(error, {**value, field: got}, kind, path[-1] if path else "scheduler.settings")


def _item(value: object, index: str) -> object:
    """Return the item of a list whose index is the rest of a path such as `3]`."""
    number = re.match(r"\d+", index)
    return value[int(number[0])] if number and isinstance(value, list | tuple) else value


def _choices(kind: Any) -> str:
    """Return the values of a type that are possible."""
    parts = (kind, *get_args(kind), *(part for each in get_args(kind) for part in get_args(each)))
    literals = [
        repr(one) for each in parts if get_origin(each) is Literal for one in get_args(each)
    ]
    number = "an integer >= 0 or " if int in parts else ""
    return f"{number}one of {', '.join(dict.fromkeys(literals))}"


def _wrong_key(value: Mapping[Any, object], kind: Any) -> str:
    """Return what is wrong with the first invalid key of a mapping."""
    expected = TRES if "pattern" in str(kind) and "gres" in str(kind) else NAMES
    for key in value:
        try:
            msgspec.convert(key, kind)
        except msgspec.ValidationError:
            return f"{expected}; got {_shown(key)}"
    raise AssertionError("msgspec rejects a key that it accepts")


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()


Weight = Annotated[int, Meta(ge=0, le=2**32 - 1)]

PriorityFlag = Literal[
    "accrue_always",
    "calculate_running",
    "depth_oblivious",
    "incr_only",
    "max_tres",
    "no_fair_tree",
    "no_normal_all",
    "no_normal_assoc",
    "no_normal_part",
    "no_normal_qos",
    "no_normal_tres",
    "small_relative_to_time",
]
Enforced = Literal["associations", "limits", "qos", "safe"]
ResetPeriod = Literal["none", "daily", "weekly", "monthly", "quarterly", "yearly"]


class Priority(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the multifactor priority; all weights are 0 unless set, as in Slurm.

    See https://slurm.schedmd.com/priority_multifactor.html.

    Attributes:
        type: PriorityType. `basic`: jobs in submission order.
        weight_age: PriorityWeightAge, weight of the waiting time as a share of `max_age_s`.
        weight_assoc: PriorityWeightAssoc, weight of the priority of the association.
        weight_fair_share: PriorityWeightFairshare, weight of the fair-share factor.
        weight_job_size: PriorityWeightJobSize, weight of the size of a job.
        weight_partition: PriorityWeightPartition, weight of the partition's factor.
        weight_qos: PriorityWeightQOS, weight of the priority of the QOS.
        weight_tres: PriorityWeightTRES, weight of the share of the partition's TRES that a job
            requests, by TRES.
        max_age_s: PriorityMaxAge, waiting time after which the age factor is 1, s.
        decay_half_life_s: PriorityDecayHalfLife, s; 0: usage does not decay.
        calc_period_s: PriorityCalcPeriod, time between two calculations of usage and priorities, s.
        usage_reset_period: PriorityUsageResetPeriod, when all usage is set to 0: at midnight, of
            Sunday, of the first of the month, of the quarter, of the year.
        start_time: date and time of simulated second 0 as in `2026-11-22T08:00:00`, which the
            usage reset needs; empty: 1970-01-01, a Thursday.
        favor_small: PriorityFavorSmall, whether small jobs have the greater job size factor.
        flags: PriorityFlags. `accrue_always`: age counts from submission instead of eligibility.
            `calculate_running`: no effect, because only waiting jobs have priorities here.
            `depth_oblivious`: classic fair-share whose factors do not shrink with the depth of the
            tree. `incr_only`: priorities never fall. `max_tres`: billing is the greatest instead of
            the sum of the weighted TRES on a node, plus the global ones. `no_fair_tree`: classic
            fair-share instead of fair tree. `no_normal_...`: factors that are not divided by their
            greatest value. `small_relative_to_time`: job size divided by the requested minutes.
        fair_share_dampening_factor: FairShareDampeningFactor of classic fair-share.
        site_factors: site factor of jobs by account, for what a site's plugin would set.
    """

    type: Literal["multifactor", "basic"] = "multifactor"
    weight_age: Weight = 0
    weight_assoc: Weight = 0
    weight_fair_share: Weight = 0
    weight_job_size: Weight = 0
    weight_partition: Weight = 0
    weight_qos: Weight = 0
    weight_tres: Tres = {}
    max_age_s: Annotated[float, Meta(gt=0, le=1e12)] = 604_800.0
    decay_half_life_s: Seconds = 604_800.0
    calc_period_s: Annotated[float, Meta(gt=0, le=1e9)] = 300.0
    usage_reset_period: ResetPeriod = "none"
    start_time: Annotated[str, Meta(max_length=40)] = ""
    favor_small: bool = False
    flags: tuple[PriorityFlag, ...] = ()
    fair_share_dampening_factor: Annotated[int, Meta(ge=1, le=65_535)] = 1
    site_factors: dict[Name, Annotated[int, Meta(ge=-(2**31), le=2**31)]] = {}


class Preemption(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of preemption; see https://slurm.schedmd.com/preempt.html.

    Attributes:
        type: PreemptType. `partition_prio`: by `Partition.priority_tier`; `qos`: by `Qos.preempt`.
        mode: PreemptMode of the cluster. Partitions and QOS may have their own.
        gang: whether jobs take turns (`PreemptMode=SUSPEND,GANG`). Without effect: suspended jobs
            always go on when their cores are free, and time slices are not modelled.
        within: whether jobs of the same partition may preempt one another by QOS
            (`PreemptMode=WITHIN`).
        exempt_time_s: PreemptExemptTime, run time before which a job is not preempted, s.
        reorder_count: `preempt_reorder_count`, attempts to find the fewest victims.
        strict_order: `preempt_strict_order`, victims of the lowest priority first, whatever their
            number.
        youngest_first: `preempt_youngest_first`, victims that started last first.
    """

    type: Literal["none", "partition_prio", "qos"] = "none"
    mode: PreemptMode = "off"
    gang: bool = False
    within: bool = False
    exempt_time_s: Seconds = 0.0
    reorder_count: Count = 1
    strict_order: bool = False
    youngest_first: bool = False


class PartitionSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a partition beside those of the platform; see slurm.conf(5), PARTITIONS.

    Attributes:
        billing_weights: TRESBillingWeights, usage in billing seconds of each TRES and second. `mem`
            is per MB. Empty: 1 for each `cpu`.
        lln: LLN, whether jobs get the least loaded nodes.
        over_time_limit_s: OverTimeLimit, s; None: that of the cluster.
    """

    billing_weights: Tres = {}
    lln: bool = False
    over_time_limit_s: Seconds | None = None


class Selection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Node choice; see `SelectTypeParameters` of slurm.conf(5).

    `Platform.consumable` states which resources are consumable.

    Attributes:
        lln: CR_LLN, jobs get the least loaded nodes.
        pack_nodes: CR_Pack_Nodes, jobs fill nodes instead of spreading their tasks.
        ignore_topology: whether the switches of the platform have no effect (TopologyPlugin
            `topology/none`).
    """

    lln: bool = False
    pack_nodes: bool = False
    ignore_topology: bool = False


class SiteSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a site.

    Attributes:
        accounts: accounts by name. An entry `root` has limits of the whole cluster. The account
            `root` has a user `root` with one share unless the entry says otherwise, as in Slurm.
        qos: QOS by name. `normal` exists even if it is not named.
        priority: priorities of jobs.
        scheduler: parameters of the main and the backfill scheduler, for the scheduler `slurm`.
        preemption: preemption, for the scheduler `slurm`.
        selection: node choice, for the scheduler `slurm`.
        partitions: settings of partitions by name.
        enforce: AccountingStorageEnforce. `associations`: jobs of unknown users and accounts are
            rejected; otherwise these are added with one share. `limits`: limits are enforced.
            `qos`: jobs must name a QOS that their association may use. `safe`: a job starts only if
            it can end within the limits on TRES-minutes. Each but `associations` implies
            `associations`.
        enforce_part_limits: EnforcePartLimits. `all`: a job must be within the limits of all its
            partitions, or is rejected at submission; `any`: of one of them; `no`: it waits.
        kill_wait_s: KillWait, s.
        over_time_limit_s: OverTimeLimit, time beyond the limit before a job is killed, s.
        slurmd_timeout_s: SlurmdTimeout, s. Nodes are pinged every third of it, and an answer wakes
            the backfill scheduler; 0: nodes that respond are not pinged.
        job_requeue: JobRequeue, whether jobs may be requeued unless they say otherwise.
        dtstart_s: time from the start of slurmctld to simulated second 0, s. It sets the phase of
            all periodic work.
    """

    accounts: dict[Name, Account] = {}
    qos: dict[Name, Qos] = {}
    priority: Priority = Priority()
    scheduler: SchedulerParameters = SchedulerParameters()
    preemption: Preemption = Preemption()
    selection: Selection = Selection()
    partitions: dict[Name, PartitionSettings] = {}
    enforce: tuple[Enforced, ...] = ()
    enforce_part_limits: Literal["all", "any", "no"] = "no"
    kill_wait_s: Seconds = 30.0
    over_time_limit_s: Seconds = 0.0
    slurmd_timeout_s: Seconds = 300.0
    job_requeue: bool = True
    dtstart_s: Seconds = 0.0


class SiteSettingsError(PolicyError):
    """The settings of a site are invalid.

    Args:
        what: the error, and how to fix it.
        field: path of the setting below `scheduler.settings`; empty: the mapping itself.
    """

    def __init__(self, what: str, field: str = "") -> None:
        super().__init__(what, field)
        self.what = what
        self.field = field

    def __str__(self) -> str:
        return f"{self.field}: {self.what}" if self.field else self.what


def parse_site(settings: Mapping[str, object]) -> SiteSettings:
    """Return the settings of a site that a mapping describes, for example one read from YAML.

    Raises:
        SiteSettingsError: the mapping is invalid; `field` names the setting.

    Example:
        >>> parse_site({"priority": {"weight_age": 1000}}).priority.weight_age
        1000
    """
    try:
        site = converted(settings, SiteSettings)
    except NestedSettingError as error:
        raise SiteSettingsError(error.what, error.field) from None
    wrong = [
        *wrong_accounts(site.accounts),
        *wrong_qos(site.accounts, site.qos),
        *wrong_start_time(site.priority.start_time),
    ]
    for field, what in wrong:
        raise SiteSettingsError(what, field)
    return site


def wrong_accounts(accounts: Mapping[str, Account]) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each account whose parents do not lead to `root`."""
    for name, account in accounts.items():
        field = f"accounts.{name}.parent"
        if name == ROOT:
            if account.parent != ROOT:
                yield field, f"the account {ROOT!r} has no parent; remove the field"
            continue
        if account.parent != ROOT and account.parent not in accounts:
            yield field, _unknown("account", account.parent, (ROOT, *accounts))
            continue
        above = {name: account.parent}
        while (last := next(reversed(above.values()))) in accounts and last not in above:
            above[last] = accounts[last].parent if last != ROOT else ROOT
        if ROOT not in above and last in above:
            chain = " -> ".join([*above, last])
            yield field, f"the accounts have no end: {chain}; expected one with parent {ROOT!r}"


def wrong_qos(accounts: Mapping[str, Account], qos: Mapping[str, Qos]) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of each QOS that does not exist."""
    known = (NORMAL, *qos)
    for name, one in qos.items():
        for other in one.preempt:
            if other not in known:
                yield f"qos.{name}.preempt", _unknown("QOS", other, known)
    for field, association in associations(accounts):
        for other in association.qos or ():
            if other not in known:
                yield f"{field}.qos", _unknown("QOS", other, known)
        if association.default_qos and association.default_qos not in known:
            yield f"{field}.default_qos", _unknown("QOS", association.default_qos, known)


def associations(accounts: Mapping[str, Account]) -> Iterator[tuple[str, Association]]:
    """Yield the path of each association below `settings`, and the association."""
    for name, account in accounts.items():
        yield f"accounts.{name}", account
        for user, own in account.users.items():
            yield f"accounts.{name}.users.{user}", own
            for partition, part in own.partitions.items():
                yield f"accounts.{name}.users.{user}.partitions.{partition}", part


def wrong_start_time(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path and the message of a start time that is not empty and not a local time."""
    try:
        valid = not text or datetime.fromisoformat(text).tzinfo is None
    except ValueError:
        valid = False
    if not valid:
        example = "2026-11-22T08:00:00, without time zone"
        yield "priority.start_time", f"expected a date and time such as {example}, got {text!r}"


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return the message for an unknown name, with the nearest name."""
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}? " if near else ""
    return f"there is no {kind} {name!r}; {advice}expected one of {', '.join(known)}"
