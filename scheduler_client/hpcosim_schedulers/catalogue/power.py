"""Policies of a job scheduler and a power manager, by name and settings.

What cannot be combined, and an invalid file of a manager, is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpcosim_client.errors import PolicyError
from hpcosim_client.library import is_library
from hpcosim_client.view import Policy
from hpcosim_schedulers.catalogue.scheduler_settings import NO_SETTINGS, Settings
from hpcosim_schedulers.catalogue.schedulers import canonical_name, make_policy, short_name
from hpcosim_schedulers.power.settings import (
    PATHS,
    Adaptive,
    AlwaysOn,
    Awareness,
    Empirical,
    Icon,
    KeepIdle,
    Learned,
    OffAtNight,
    Oracle,
    Power,
    Predictive,
    Rl,
    Slurm,
    Timeout,
)

Beside = Timeout | KeepIdle | OffAtNight | Slurm | Predictive | Learned | Empirical | Rl | Adaptive
"""The managers that switch nodes beside a job scheduler of their own."""


def with_power(
    name: str,
    power: Power,
    awareness: Awareness = "unaware",
    settings: Settings = NO_SETTINGS,
) -> Policy:
    """Return a new policy: a job scheduler by name beside a power manager.

    Args:
        power: the power manager; relative paths start at the current folder.
        awareness: the job scheduler's awareness of power states. It has no effect with `AlwaysOn`
            and with `Oracle`, whose plan was computed with every node on.
    """
    check_together(name, power, awareness)
    if isinstance(power, Oracle):
        return _by_plan(name, power)
    if isinstance(power, Icon):
        from hpcosim_schedulers.ipm.icon import icon

        return icon(power)
    if isinstance(power, AlwaysOn):
        return make_policy(name, settings=settings)
    return with_manager(make_policy(name, awareness, settings), power)


def check_together(name: str, power: Power, awareness: Awareness) -> None:
    """Check that a power manager can be combined with a job scheduler of an awareness."""
    if is_library(name) and not isinstance(power, AlwaysOn):
        raise PolicyError(
            f"the scheduler {name} of a library decides about nodes itself; expected power: "
            "always-on"
        )
    if isinstance(power, Slurm) and awareness in ("planned", "ipm"):
        raise PolicyError(
            f"the power manager slurm does not permit power_awareness: {awareness}, with which the "
            "job scheduler switches nodes; expected unaware or aware"
        )
    if isinstance(power, Icon) and (canonical_name(name), awareness) != ("snf", "ipm"):
        raise PolicyError(
            "the power manager icon contains the scheduler snf with power_awareness: ipm; expected "
            f"these, got {name} with {awareness}"
        )
    priced = isinstance(power, Adaptive) or (
        isinstance(power, Timeout) and power.wait_price_w is not None
    )
    if priced and awareness in ("unaware", "ipm"):
        raise PolicyError(
            f"a price of waiting has no effect with power_awareness: {awareness}; expected aware "
            "or planned"
        )


def title(name: str, power: Power, awareness: Awareness = "unaware") -> str:
    """Return the name of a policy in results: `aware easy, timeout(timeout_s=900.0)`.

    Settings with their default values, folders of files, and an awareness without effect are left
    out.
    """
    name = short_name(name)
    match power:
        case AlwaysOn():
            return name
        case Oracle():
            return f"{name}, oracle"
    return f"{awareness} {name}, {manager_title(power)}"


def manager_title(power: Power) -> str:
    """Return the name of a power manager in results: `timeout(timeout_s=900.0)`.

    Settings with their default values and folders of files are left out.
    """
    tag, shown = str(power.__struct_config__.tag), ", ".join(_shown(power))
    return f"{tag}({shown})" if shown else tag


def from_folder(power: Power, folder: Path) -> Power:
    """Return a power manager whose relative paths start at a folder."""
    match power:
        case Oracle(plan) if plan:
            return replace(power, plan=str(folder / plan))
        case Rl(model) | Adaptive(model) | Learned(model) | Empirical(model):
            return replace(power, model=str(folder / model))
    return power


def _shown(power: Power) -> Iterator[str]:
    for field in msgspec.structs.fields(power):
        value = getattr(power, field.name)
        if field.required or value != field.default:
            if field.name in PATHS:
                value = Path(value).name
            elif isinstance(value, tuple):
                value = ", ".join(value)
            yield f"{field.name}={value}"


def with_manager(policy: Policy, power: Beside) -> Policy:
    """Return a job scheduler beside a power manager, whose module is imported here."""
    from hpcosim_schedulers.power.manager import managed

    match power:
        case Timeout(timeout_s, wait_price_w):
            from hpcosim_schedulers.power.timeout import timeout

            return managed(policy, timeout(timeout_s, wait_price_w))
        case KeepIdle(warm, timeout_s):
            from hpcosim_schedulers.power.timeout import keep_idle

            return managed(policy, keep_idle(warm, timeout_s))
        case OffAtNight():
            from hpcosim_schedulers.power.timeout import off_at_night

            return managed(policy, off_at_night(power))
        case Slurm():
            from hpcosim_schedulers.power.slurm import slurm

            return slurm(policy, power)
        case Predictive():
            from hpcosim_schedulers.predictive.manager import predictive

            return managed(policy, predictive(power))
        case Learned():
            from hpcosim_schedulers.agents.spare_nodes import learned as corrected

            with _prefixed("model"):
                return managed(policy, corrected(power))
        case Empirical():
            from hpcosim_schedulers.predictive.empirical import empirical

            with _prefixed("model"):
                return managed(policy, empirical(power))
        case Rl():
            from hpcosim_schedulers.catalogue.trained import POWER_MANAGERS, load

            with _prefixed("model"):
                return managed(policy, load(POWER_MANAGERS, "rl")(power))
        case Adaptive(model, origin_s):
            from hpcosim_schedulers.power.adaptive import adaptive, load_rule

            with _prefixed("model"):
                return managed(policy, adaptive(load_rule(Path(model), origin_s)))


def _by_plan(name: str, power: Oracle) -> Policy:
    if not power.plan:
        raise PolicyError(
            "the power manager oracle needs a plan: write it with `hpcosim oracle SCENARIO --out "
            'plan.json` and set power to {"name": "oracle", "plan": "plan.json"}'
        )
    from hpcosim_schedulers.power.oracle import by_plan, read_plan

    with _prefixed("plan"):
        plan = read_plan(Path(power.plan))
    if canonical_name(plan.scheduler) != canonical_name(
        name
    ):  # the results would bear the wrong name
        raise PolicyError(
            f"power.plan: {power.plan} is a plan for the scheduler {plan.scheduler}, not for {name}"
        )
    return by_plan(plan)


@contextmanager
def _prefixed(field: str) -> Iterator[None]:
    """Prefix errors with the name of a setting."""
    try:
        yield
    except PolicyError as error:
        raise PolicyError(f"power.{field}: {error}") from None
