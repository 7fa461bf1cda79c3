"""msgspec's validation errors in the words of a scenario: the field, and the nearest known key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

import msgspec

from hpcosim_scenarios.errors import ScenarioError

REMEDY = "a key is text, so a number must stand in quotes"


def fault_of(error: msgspec.ValidationError, known: Iterable[str]) -> ScenarioError:
    """Return the error of a scenario that a validation error stands for, without file and line.

    Args:
        error: the validation error.
        known: the keys to find the nearest one in where a key is unknown.
    """
    what, _, where = str(error).partition(" - at `")
    found = re.search(r"\$[^`]*", where)
    field = found[0] if found else ""
    if where.startswith("key`"):
        what += f"; {REMEDY}"
    unknown = re.search(r"unknown field `(.*)`", what)
    if unknown:
        return unknown_key(unknown[1], field, known)
    what = re.sub(r"Object missing required field (`.*`)", r"\1 is missing", what)
    what = what.replace("Object", "a mapping").replace("`object`", "a mapping")
    return ScenarioError(what, field=field)


def unknown_key(key: str, field: str, known: Iterable[str]) -> ScenarioError:
    """Return the error of a key that the mapping at a field does not know.

    Args:
        key: the key.
        field: the mapping.
        known: the keys to find the nearest one in.
    """
    near = difflib.get_close_matches(key, sorted(known), n=1)
    advice = f"; did you mean {near[0]!r}?" if near and near != [key] else ""
    return ScenarioError(f"unknown key {key!r}{advice}", field=field, key=key)
