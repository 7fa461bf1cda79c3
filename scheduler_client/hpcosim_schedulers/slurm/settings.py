"""Settings of a site: accounts, QOS, priorities, scheduler parameters and preemption.

They are the mapping `scheduler.settings` of a scenario. Names and meanings are those of slurm.conf
(https://slurm.schedmd.com/slurm.conf.html) in snake case, with the unit in the name. `accounts` has
the types of accounts and QOS, `parameters` those of the main and the backfill scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_client.setting_errors import explained
from hpcosim_schedulers.slurm import checks
from hpcosim_schedulers.slurm.accounts import Account, Count, Name, PreemptMode, Qos, Seconds, Tres
from hpcosim_schedulers.slurm.parameters import SchedulerParameters

# Conversion of nested settings, with the full path of an error.

AnyStruct = TypeVar("AnyStruct", bound=Struct)

TRES = "expected a TRES: cpu, mem (MB), node, billing, gres/NAME, gres/NAME:TYPE or license/NAME"
NAMES = "expected names of 1 to 200 characters"


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
        *checks.wrong_accounts(site.accounts),
        *checks.wrong_qos(site.accounts, site.qos),
        *checks.wrong_start_time(site.priority.start_time),
    ]
    for field, what in wrong:
        raise SiteSettingsError(what, field)
    return site
