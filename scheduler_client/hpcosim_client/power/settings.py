"""Every power manager by name, with its settings."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics.registry import make_policy
from hpcosim_client.power.keep_idle import keep_idle
from hpcosim_client.power.manager import managed
from hpcosim_client.power.timeout import timeout
from hpcosim_client.view import Policy

Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]


class AlwaysOn(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="always_on"):
    """Nothing is ever switched."""


class Timeout(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="timeout"):
    """See `timeout`."""

    timeout_s: Seconds


class KeepIdle(Struct, frozen=True, forbid_unknown_fields=True, tag_field="name", tag="keep_idle"):
    """See `keep_idle`."""

    warm: Count
    timeout_s: Seconds = 0.0


Power = AlwaysOn | Timeout | KeepIdle


def with_power(name: str, power: Power) -> Policy:
    """Return a new policy: a job scheduler by name, beside a power manager.

    Raises:
        PolicyError: there is no such scheduler.
    """
    policy = make_policy(name)
    match power:
        case Timeout(timeout_s):
            return managed(policy, timeout(timeout_s))
        case KeepIdle(warm, timeout_s):
            return managed(policy, keep_idle(warm, timeout_s))
        case _:
            return policy


def title(name: str, power: Power) -> str:
    """Return what a run under these is called: `easy, timeout(timeout_s=900.0)`."""
    if isinstance(power, AlwaysOn):
        return name
    fields = ", ".join(f"{field}={getattr(power, field)}" for field in power.__struct_fields__)
    return f"{name}, {type(power).__struct_config__.tag}({fields})"


def as_text(power: Power) -> str:
    """Return the JSON text that `read_power` reads."""
    return msgspec.json.encode(power).decode()


def read_power(text: str) -> Power:
    """Return the power manager that a JSON text describes.

    Raises:
        PolicyError: it describes none.
    """
    try:
        power: Power = msgspec.json.decode(text, type=Power)
    except msgspec.DecodeError as error:
        example = '{"name": "timeout", "timeout_s": 900}'
        raise PolicyError(f"{text!r} is no power manager such as {example}: {error}") from None
    return power
