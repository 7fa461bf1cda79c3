"""Schedulers that follow a signal, by name and settings: `carbon-aware:slack_s=86400`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError, explained
from hpcosim_client.view import Policy
from hpcosim_protocol.units import unit_hint
from hpcosim_schedulers.heuristics.easy import easy
from hpcosim_schedulers.power.settings import Awareness

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]


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
    """Return the settings in a name `SCHEDULER` or `SCHEDULER:SETTING=VALUE:SETTING=VALUE`.

    Raises:
        PolicyError: a setting is unknown or invalid.
    """
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
    """Check that a simulation has the signal that a scheduler follows.

    Args:
        name: see `parse_settings`.
        known: names of the signals of the simulation.
        possible: names of all signals that a simulation can have.

    Raises:
        PolicyError: a setting is invalid, or the simulation lacks the signal.
    """
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
    """Return a new policy that follows a signal.

    Args:
        name: see `parse_settings`.
        awareness: awareness of power states; `carbon-aware` supports all.

    Raises:
        PolicyError: a setting is invalid, or the awareness is not supported.
    """
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
