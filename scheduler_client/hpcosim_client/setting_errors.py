"""Messages about invalid settings of policies, from those of msgspec."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import get_args

import msgspec
from msgspec import Struct

TYPES = {"float": "a number", "int": "an integer", "str": "text", "array": "a list", "null": "null"}


def explained(
    error: str, settings: Mapping[str, object], kind: type[Struct], owner: str
) -> tuple[str, str]:
    """Return the setting of an error and what is wrong with it and how to fix it.

    Args:
        error: message of msgspec.
        settings: the settings by name.
        kind: the class of the settings.
        owner: name of the policy that takes the settings.
    """
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
