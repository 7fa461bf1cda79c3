"""Schedulers with settings: those of a site, `scheduler.settings`, and those in a name.

A name has them as in `carbon-aware:slack_s=86400`; these schedulers follow a signal.
An unknown or invalid setting is a `PolicyError`, one of a site a `SiteSettingsError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError, explained
from hpcosim_client.view import Policy
from hpcosim_protocol.units import unit_hint
from hpcosim_schedulers.heuristics.easy import easy
from hpcosim_schedulers.power.settings import Awareness

if TYPE_CHECKING:
    from hpcosim_protocol import JobSubmitted, Platform


Settings = Mapping[str, object]

NO_SETTINGS: Settings = {}

SITES: Mapping[str, str] = {"multifactor": "policies", "fairshare": "policies", "slurm": "policy"}
"""The module of `slurm` of each scheduler that takes the settings of a site."""


Name = Annotated[str, Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]


def make_site_policy(name: str, settings: Settings) -> Policy:
    """Return a new scheduler of `SITES`."""
    from hpcosim_schedulers.slurm.settings import SiteSettingsError, parse_site

    try:
        site = parse_site(settings)
    except SiteSettingsError as error:
        raise PolicyError(f"settings of the scheduler {name}: {error}") from None
    policy: Policy = getattr(import_module(f"hpcosim_schedulers.slurm.{SITES[name]}"), name)(site)
    return policy


def unstartable_jobs(
    name: str, settings: Settings, platform: Platform, submissions: Iterable[JobSubmitted]
) -> dict[int, str]:
    """Return the jobs that the limits of a site never let start, and Slurm's reasons.

    Args:
        name: a scheduler; only those of `SITES` have limits.
        submissions: the jobs, each as if it were the only one.
    """
    if name not in SITES:
        return {}
    from hpcosim_client.view import View
    from hpcosim_schedulers.slurm.limits import Limits, counted_tres
    from hpcosim_schedulers.slurm.multifactor import Priorities
    from hpcosim_schedulers.slurm.settings import parse_site

    site, view = parse_site(settings), View(platform)
    limits = Limits(site, platform, Priorities(site, platform, counted_tres(site)).charges)
    view.apply(0.0, submissions)
    reasons = {
        job.job_id: limits.refusal(job, view) or limits.permanent(job, 0.0)
        for job in [*view.queue.values(), *view.pending.values()]
    }
    return {job_id: reason for job_id, reason in sorted(reasons.items()) if reason}


def check_settings(name: str, settings: Settings) -> None:
    """Check the settings of a scheduler without making it."""
    if not settings:
        return
    from hpcosim_schedulers.slurm.settings import SiteSettingsError, parse_site

    if name in SITES:
        parse_site(settings)
    else:
        raise SiteSettingsError(
            f"the scheduler {name} takes no settings; expected one of {', '.join(SITES)}"
        )


class CarbonAware(Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of `hpcosim_schedulers.heuristics.carbon_aware.carbon_aware`.

    Attributes:
        signal: name of the signal, such as `co2_g_per_kwh` or `price_per_kwh`.
        slack_s: time for which a job without a deadline can be delayed, simulated seconds, >= 0.
    """

    signal: Name = "co2_g_per_kwh"
    slack_s: Seconds = 0.0


class PowerCapped(Struct, frozen=True, forbid_unknown_fields=True):
    """`hpcosim_schedulers.heuristics.power_capped.power_capped` has no settings."""


SETTINGS: Mapping[str, type[CarbonAware] | type[PowerCapped]] = {
    "carbon-aware": CarbonAware,
    "power-capped": PowerCapped,
}
"""The class of the settings of each scheduler that follows a signal, by name."""


def follows_signal(name: str) -> bool:
    """Return whether a canonical name is that of a scheduler that follows a signal."""
    return name.partition(":")[0] in SETTINGS


def parse_settings(name: str) -> CarbonAware | PowerCapped:
    """Return the settings in a name `SCHEDULER` or `SCHEDULER:SETTING=VALUE:SETTING=VALUE`."""
    scheduler, colon, text = name.partition(":")
    kind = SETTINGS[scheduler]
    pairs = [each.partition("=") for each in text.split(":")] if colon else []
    if not all(key and equals for key, equals, _ in pairs):
        known = ", ".join(kind.__struct_fields__) or "none"
        what = f"expected SETTING=VALUE, separated by colons; settings: {known}"
        raise PolicyError(f"scheduler {name!r}: {what}")
    values = {key: value for key, _, value in pairs}
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        setting, what = explained(str(error), values, kind, scheduler)
        if setting in kind.__struct_fields__:
            what = unit_hint(setting, values[setting]) or what
        raise PolicyError(f"scheduler {name!r}: {setting}: {what}") from None


def check_signal(name: str, known: Collection[str], possible: Collection[str]) -> None:
    """Check that a simulation has the signal that a scheduler follows."""
    settings = parse_settings(name)
    if isinstance(settings, CarbonAware):
        signal = settings.signal
    else:
        from hpcosim_schedulers.heuristics.power_capped import CAP

        signal = CAP
    if signal in known:
        return
    has = f"has only {', '.join(known)}" if known else "has none"
    advice = f"add signals.{signal} to the scenario"
    if signal not in possible:
        near = difflib.get_close_matches(signal, possible, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        advice = f"{hint}expected one of {', '.join(possible)}"
    what = f"needs the signal {signal}, but the scenario {has}; {advice}"
    raise PolicyError(f"scheduler {name!r}: {what}")


def make_signal_policy(name: str, awareness: Awareness) -> Policy:
    """Return a new policy that follows a signal."""
    settings = parse_settings(name)
    if isinstance(settings, CarbonAware):
        from hpcosim_schedulers.heuristics.carbon_aware import carbon_aware

        return carbon_aware(easy_of(awareness), settings.signal, settings.slack_s)
    if awareness != "unaware":
        raise PolicyError(
            f"power_awareness: {awareness} is not supported by {name}, which chooses nodes by the "
            "power that they add; expected unaware"
        )
    from hpcosim_schedulers.heuristics.power_capped import power_capped

    return power_capped()


def easy_of(awareness: Awareness) -> Policy:
    """Return EASY backfilling with an awareness of power states."""
    if awareness == "unaware":
        return easy
    from hpcosim_schedulers.heuristics.easy import easy_aware

    return easy_aware(awareness)
