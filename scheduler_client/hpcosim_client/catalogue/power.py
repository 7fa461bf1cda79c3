"""Every power manager by name, with its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from hpcosim_client.catalogue.schedulers import canonical_name, make_policy, short_name
from hpcosim_client.errors import PolicyError
from hpcosim_client.extras import rl_extra
from hpcosim_client.heuristics.awareness import Awareness
from hpcosim_client.power.adaptive import adaptive, load_rule
from hpcosim_client.power.keep_idle import keep_idle
from hpcosim_client.power.manager import managed
from hpcosim_client.power.oracle import by_plan, read_plan
from hpcosim_client.power.settings import (
    PATHS,
    Adaptive,
    AlwaysOn,
    KeepIdle,
    Oracle,
    Power,
    Rl,
    Timeout,
)
from hpcosim_client.power.slurm import slurm
from hpcosim_client.power.slurm_settings import Slurm
from hpcosim_client.power.timeout import timeout
from hpcosim_client.view import Policy


def with_power(name: str, power: Power, awareness: Awareness = "unaware") -> Policy:
    """Return a new policy: a job scheduler by name, beside a power manager.

    Args:
        name: the job scheduler's.
        power: the manager; its paths are from the current folder.
        awareness: the job scheduler's, of power states. It makes no difference beside `AlwaysOn`
            and `Oracle`, whose plan was made with every node always on.

    Raises:
        PolicyError: there is no such scheduler, it can't be that aware, or the two don't go
            together; a file of the manager's can't be used, or PyTorch is missing.
    """
    check_together(power, awareness)
    if isinstance(power, Oracle):
        return _by_plan(name, power)
    policy = make_policy(name, awareness)
    match power:
        case Timeout(timeout_s, wait_price_w):
            return managed(policy, timeout(timeout_s, wait_price_w))
        case KeepIdle(warm, timeout_s):
            return managed(policy, keep_idle(warm, timeout_s))
        case Slurm():
            return slurm(policy, power)
        case Rl(model, interval_s, origin_s):
            with rl_extra("the power manager rl"):
                from hpcosim_client.agents.node_power.manager import learned
            with _naming("model"):
                return managed(policy, learned(model, interval_s, origin_s))
        case Adaptive(model, origin_s):
            with rl_extra("the power manager adaptive"), _naming("model"):
                return managed(policy, adaptive(load_rule(Path(model), origin_s)))
        case AlwaysOn():
            return make_policy(name)


def check_together(power: Power, awareness: Awareness) -> None:
    """Make sure that a power manager goes with a job scheduler so aware of power states.

    Raises:
        PolicyError: it does not.
    """
    if isinstance(power, Slurm) and awareness == "planned":
        raise PolicyError(
            "slurm switches nodes alone, but with power_awareness: planned the job scheduler "
            "switches some, too; aware or unaware would do"
        )
    priced = isinstance(power, Adaptive) or (
        isinstance(power, Timeout) and power.wait_price_w is not None
    )
    if priced and awareness == "unaware":
        raise PolicyError(
            "a price of waiting is for a job scheduler that weighs it against waking nodes; "
            "power_awareness must be aware or planned"
        )


def title(name: str, power: Power, awareness: Awareness = "unaware") -> str:
    """Return what a run under these is called: `aware easy, timeout(timeout_s=900.0)`.

    Of the settings those are named that are not the default, and of paths the last part. Where
    the job scheduler's awareness makes no difference, it is not named.
    """
    name = short_name(name)
    match power:
        case AlwaysOn():
            return name
        case Oracle():
            return f"{name}, oracle"
    said = ", ".join(_said(power))
    return f"{awareness} {name}, {power.__struct_config__.tag}({said})"


def from_folder(power: Power, folder: Path) -> Power:
    """Return a power manager whose paths, so far from a folder, are from the current one."""
    match power:
        case Oracle(plan) if plan:
            return replace(power, plan=str(folder / plan))
        case Rl(model) | Adaptive(model):
            return replace(power, model=str(folder / model))
    return power


def _said(power: Power) -> Iterator[str]:
    for field in msgspec.structs.fields(power):
        value = getattr(power, field.name)
        if field.required or value != field.default:
            yield f"{field.name}={Path(value).name if field.name in PATHS else value}"


def _by_plan(name: str, power: Oracle) -> Policy:
    if not power.plan:
        raise PolicyError(
            "the oracle needs a plan; `hpcosim oracle SCENARIO --out plan.json` makes one, which "
            'power {"name": "oracle", "plan": "plan.json"} carries out'
        )
    with _naming("plan"):
        plan = read_plan(Path(power.plan))
    if canonical_name(plan.scheduler) != canonical_name(
        name
    ):  # the results would bear the wrong name
        raise PolicyError(
            f"power.plan: {power.plan} keeps the schedule of {plan.scheduler}, not of {name}"
        )
    return by_plan(plan)


@contextmanager
def _naming(field: str) -> Iterator[None]:
    """Say in an error which setting is at fault."""
    try:
        yield
    except PolicyError as error:
        raise PolicyError(f"power.{field}: {error}") from None
