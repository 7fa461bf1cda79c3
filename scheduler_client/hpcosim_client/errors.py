"""Exceptions of the client, and their messages about invalid settings and missing packages."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import get_args

import msgspec
from msgspec import Struct

from hpcosim_protocol import Error
from hpcosim_protocol.errors import HpcosimError

TYPES = {"float": "a number", "int": "an integer", "str": "text", "array": "a list", "null": "null"}


PACKAGES = ("torch", "safetensors", "gymnasium", "tensorboard")


class ClientError(HpcosimError):
    """Base class of all exceptions of this package."""

    exit_status = 1


class AddressError(ClientError):
    """The address of the server is invalid."""

    exit_status = 2

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(address, reason)
        self.address = address
        self.reason = reason

    def __str__(self) -> str:
        bare = re.fullmatch(r"(?://)?([^/]+:\d+)", self.address)
        hint = f"; did you mean tcp://{bare[1]}?" if bare else ""
        return (
            f"{self.address!r} is not an address ({self.reason}): "
            f"expected tcp://HOST:PORT or ipc://PATH{hint}"
        )


class ServerGoneError(ClientError):
    """The server does not answer."""


class ServerRefusedError(ClientError):
    """The server rejected a request."""

    def __init__(self, error: Error) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        where = f" (at {self.error.where})" if self.error.where else ""
        return f"the server rejects the request, {self.error.code}: {self.error.message}{where}"


class ResultsNotWrittenError(ClientError):
    """The simulation is over, but the server has not written its results."""

    def __init__(self, why: str, metrics: dict[str, int | float]) -> None:
        super().__init__(why)
        self.metrics = metrics


class ServerFaultError(ClientError):
    """A reply of the server violates the protocol."""


class PolicyError(ClientError):
    """A policy makes an impossible decision, or its name or its settings are invalid."""

    exit_status = 2


class PolicyDiffersError(ClientError):
    """A policy that comes back to its session decides differently from what was recorded."""

    def __init__(self, seq: int, now_s: float, expected: str, got: str) -> None:
        super().__init__(seq, now_s, expected, got)
        self.seq = seq
        self.now_s = now_s
        self.expected = expected
        self.got = got

    def __str__(self) -> str:
        return (
            f"the policy differs from the recorded session at request {self.seq}, simulated time "
            f"{self.now_s} s: expected {self.expected}, got {self.got}. It is not deterministic, "
            "or it or its settings have changed; --from-snapshot (from_snapshot=True) goes on "
            "without its earlier state"
        )


def explained(
    error: str, settings: Mapping[str, object], kind: type[Struct], owner: str
) -> tuple[str, str]:
    """Return the setting of an error and what is wrong with it and how to fix it."""
    what, _, where = error.partition(" - at `$")
    field = where.strip(".`")
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        return missing[1], "is missing"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what, re.DOTALL):
        return unknown[1], _unknown(unknown[1], kind.__struct_fields__, owner)
    if own := re.fullmatch(r"(\w+): (.*)", what, re.DOTALL):  # a check of the class itself
        return own[1], own[2]
    if wrong := re.fullmatch(r"Expected `(.*?)`(.*?)(, got .*)?", what, re.DOTALL):
        return field, _expected(wrong[1], wrong[2], settings.get(field.partition("[")[0]))
    if what.startswith("Invalid enum value"):
        kinds = {each.name: each.type for each in msgspec.structs.fields(kind)}
        choices = ", ".join(map(repr, get_args(kinds[field])))
        return field, f"expected one of {choices}, got {_shown(settings[field])}"
    return field, what[:1].lower() + what[1:]


def _unknown(name: str, known: tuple[str, ...], owner: str) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]!r}? " if near else ""
    return f"unknown setting; {advice}{owner} takes {', '.join(known) or 'no settings'}"


def _expected(kinds: str, bound: str, value: object) -> str:
    """Return the message for a value, such as: expected a number >= 0, got -1."""
    kind = " or ".join(TYPES.get(each, each) for each in kinds.split(" | "))
    infinite = value == math.inf or (isinstance(value, str) and value.lower() == "infinite")
    advice = "; there is no infinite time, use the power manager always-on" if infinite else ""
    return f"expected {kind}{bound.removesuffix('.0')}, got {_shown(value)}{advice}"


def _shown(value: object) -> str:
    """Return a value as YAML has it."""
    if isinstance(value, str | float):
        return repr(value)
    return msgspec.json.encode(value).decode()


@contextmanager
def rl_extra(who: str) -> Iterator[None]:
    """Turn a failed import of one of `PACKAGES` into a `PolicyError`.

    Args:
        who: subject of the message, such as `the scheduler pairing`.

    Raises:
        PolicyError: a package is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in PACKAGES:
            raise
        raise PolicyError(f"{who} needs {error.name}: pip install 'hpcosim[rl]'") from None
