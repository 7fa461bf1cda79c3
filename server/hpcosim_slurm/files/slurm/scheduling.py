"""Settings of Slurm's scheduler as `scheduler.settings` of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from hpcosim_schedulers.slurm.settings import PriorityFlag, SiteSettingsError, parse_site
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm import statements as texts
from hpcosim_workloads.logs.quantities import FieldError, shown

Read = Callable[[str], Any]
Origins = dict[str, tuple[texts.Statement, str]]

PRIORITY_FLAGS = frozenset(get_args(PriorityFlag))
DEFAULT_FLAGS = frozenset(("fair_tree",))
"""Flags that state what holds without them."""

OWN = frozenset(("schedulerparameters", "preemptmode", "selecttypeparameters", "topologyplugin"))
"""Keys of slurm.conf that `scheduler_settings` reads beside those of `SITE`."""


def _seconds(text: str) -> float:
    return float(texts.whole(text))


def _microseconds(text: str) -> float:
    return texts.whole(text) / 1e6


def _duration(text: str) -> float:
    return texts.optional_seconds(text) or 0.0


def _flags(text: str) -> list[str]:
    return [name.lower() for name in texts.names(text) if name.lower() in PRIORITY_FLAGS]


def _kind(text: str) -> str:
    return text.rpartition("/")[2].lower()


def _enforced(text: str) -> list[str]:
    found = [name.lower() for name in text.split(",")]
    if "all" in found:
        return ["associations", "limits", "qos", "safe"]
    return [name for name in ("associations", "limits", "qos", "safe") if name in found]


def _part_limits(text: str) -> str:
    return {"YES": "all", "ALL": "all", "ANY": "any", "NO": "no"}.get(text.upper(), "no")


SITE: Mapping[str, tuple[str, Read]] = {
    "prioritytype": ("priority.type", _kind),
    "priorityweightage": ("priority.weight_age", texts.whole),
    "priorityweightassoc": ("priority.weight_assoc", texts.whole),
    "priorityweightfairshare": ("priority.weight_fair_share", texts.whole),
    "priorityweightjobsize": ("priority.weight_job_size", texts.whole),
    "priorityweightpartition": ("priority.weight_partition", texts.whole),
    "priorityweightqos": ("priority.weight_qos", texts.whole),
    "priorityweighttres": ("priority.weight_tres", texts.tres_weights),
    "prioritymaxage": ("priority.max_age_s", _duration),
    "prioritydecayhalflife": ("priority.decay_half_life_s", _duration),
    "prioritycalcperiod": ("priority.calc_period_s", _duration),
    "priorityusageresetperiod": ("priority.usage_reset_period", str.lower),
    "priorityfavorsmall": ("priority.favor_small", texts.truth),
    "priorityflags": ("priority.flags", _flags),
    "fairsharedampeningfactor": ("priority.fair_share_dampening_factor", texts.whole),
    "preempttype": ("preemption.type", _kind),
    "preemptexempttime": ("preemption.exempt_time_s", _duration),
    "accountingstorageenforce": ("enforce", _enforced),
    "enforcepartlimits": ("enforce_part_limits", _part_limits),
    "killwait": ("kill_wait_s", _seconds),
    "slurmdtimeout": ("slurmd_timeout_s", _seconds),
    "overtimelimit": ("over_time_limit_s", texts.minutes),
    "jobrequeue": ("job_requeue", texts.truth),
    "schedulertype": ("scheduler.backfill", lambda text: text.lower() != "sched/builtin"),
}
"""Path of a setting below `scheduler.settings` and its conversion, by key of slurm.conf."""

PARAMETERS: Mapping[str, tuple[str, Read]] = {
    "batch_sched_delay": ("scheduler.batch_sched_delay_s", _seconds),
    "sched_interval": ("scheduler.sched_interval_s", _seconds),
    "sched_min_interval": ("scheduler.sched_min_interval_s", _microseconds),
    "max_sched_time": ("scheduler.max_sched_time_s", _seconds),
    "bf_interval": ("scheduler.bf_interval_s", _seconds),
    "bf_window": ("scheduler.bf_window_s", texts.minutes),
    "bf_resolution": ("scheduler.bf_resolution_s", _seconds),
    "bf_max_time": ("scheduler.bf_max_time_s", _seconds),
    "bf_min_age_reserve": ("scheduler.bf_min_age_reserve_s", _seconds),
    "max_switch_wait": ("scheduler.max_switch_wait_s", _seconds),
    **{
        name: (f"scheduler.{name}", texts.whole)
        for name in (
            *("default_queue_depth", "partition_job_depth", "sched_max_job_start"),
            *("bf_max_job_test", "bf_max_job_start", "bf_max_job_user", "bf_max_job_user_part"),
            *("bf_max_job_part", "bf_max_job_assoc", "bf_max_job_array_resv"),
            *("bf_job_part_count_reserve", "bf_min_prio_reserve"),
        )
    },
    "preempt_reorder_count": ("preemption.reorder_count", texts.whole),
    "preempt_strict_order": ("preemption.strict_order", texts.truth),
    "preempt_youngest_first": ("preemption.youngest_first", texts.truth),
    **{
        name: (f"scheduler.{name}", texts.truth)
        for name in (
            *("defer", "assoc_limit_stop", "bf_continue", "bf_one_resv_per_job", "bf_busy_nodes"),
            *("bf_running_job_reserve", "pack_serial_at_end"),
        )
    },
}
"""As `SITE`, by name in SchedulerParameters."""


def scheduler_settings(
    statements: Sequence[texts.Statement], report: ImportReport
) -> dict[str, Any]:
    """Return the settings of the scheduler that slurm.conf states.

    Raises:
        InputError: a value is invalid; names the line.
    """
    settings: dict[str, Any] = {}
    origins: Origins = {}
    for statement in statements:
        for key, text in statement.values.items():
            try:
                if key in SITE and text:
                    path, read = SITE[key]
                    _set(settings, path, read(text))
                    origins[path] = statement, statement.names[key]
                    if key == "priorityflags":
                        _report_flags(text, statement, report)
                elif key == "schedulerparameters":
                    _parameters(text, settings, origins, statement, report)
                elif key == "preemptmode" and statement.key != "partitionname":
                    _preemption(text, settings)
                elif key == "selecttypeparameters":
                    _selection(text, settings)
                elif key == "topologyplugin" and _kind(text) in ("none", "default", ""):
                    _set(settings, "selection.ignore_topology", True)
            except FieldError as error:
                raise statement.error(f"{statement.names[key]}: {error}") from None
    for statement in (each for each in statements if each.key == "partitionname"):
        _of_partition(statement, settings)
    _check(settings, origins)
    return settings


def _check(settings: Mapping[str, Any], origins: Origins) -> None:
    """Check the settings as `hpcosim run` does, so that an error has the line of slurm.conf."""
    try:
        parse_site(settings)
    except SiteSettingsError as error:
        for path, (statement, name) in origins.items():
            if error.field == path or error.field.startswith((f"{path}.", f"{path}[")):
                raise statement.error(f"{name}: {error.what}") from None
        raise InputError(f"scheduler.settings.{error}") from None


def _report_flags(text: str, statement: texts.Statement, report: ImportReport) -> None:
    for flag in texts.names(text):
        if flag.lower() not in PRIORITY_FLAGS | DEFAULT_FLAGS:
            report.add(
                "not modelled", f"{statement.names['priorityflags']}: {flag:.60}", statement.place
            )


def _parameters(
    text: str,
    settings: dict[str, Any],
    origins: Origins,
    statement: texts.Statement,
    report: ImportReport,
) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = entry.partition("=")
        if name.lower() not in PARAMETERS:
            report.add("not modelled", f"SchedulerParameters: {entry:.100}", statement.place)
            continue
        path, read = PARAMETERS[name.lower()]
        try:
            _set(settings, path, read(value if equals else "yes"))
            origins[path] = statement, f"SchedulerParameters: {name}"
        except FieldError as error:
            raise FieldError(f"{name}: {error}") from None


def _preemption(text: str, settings: dict[str, Any]) -> None:
    modes = [mode.strip().lower() for mode in text.split(",")]
    for mode in modes:
        if mode in ("gang", "within"):
            _set(settings, f"preemption.{mode}", True)
        elif mode in ("off", "cancel", "requeue", "suspend"):
            _set(settings, "preemption.mode", mode)
        elif mode not in ("priority", "checkpoint", ""):
            raise FieldError(f"expected OFF, CANCEL, REQUEUE or SUSPEND, got {shown(mode)}")


def _selection(text: str, settings: dict[str, Any]) -> None:
    chosen = {name.strip().lower() for name in text.split(",")}
    for name, key in (("cr_lln", "lln"), ("cr_pack_nodes", "pack_nodes")):
        if name in chosen:
            _set(settings, f"selection.{key}", True)


def _of_partition(statement: texts.Statement, settings: dict[str, Any]) -> None:
    """Add the settings of a partition that are not part of the platform."""
    found: dict[str, Any] = {}
    try:
        if text := statement.values.get("tresbillingweights"):
            found["billing_weights"] = texts.tres_weights(text)
        if text := statement.values.get("lln"):
            found["lln"] = texts.truth(text)
        if text := statement.values.get("overtimelimit"):
            over = texts.optional_whole(text)
            found["over_time_limit_s"] = None if over is None else over * 60.0
    except FieldError as error:
        raise statement.error(str(error)) from None
    if found:
        settings.setdefault("partitions", {})[statement.values["partitionname"]] = found


def _set(settings: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for name in parents:
        settings = settings.setdefault(name, {})
    settings[last] = value
