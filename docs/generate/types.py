"""Types of fields in words: `integer, 1 to 100`, with the unit that a name's suffix states."""

from __future__ import annotations

import builtins
import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

UNITS: Mapping[str, str] = {
    "_per_mbps": "1 / (MB/s)",
    "_mbps": "MB/s",
    "_ghz": "GHz",
    "_mb": "MB",
    "_ms": "ms",
    "_js": "J s",
    "_s": "s",
    "_w": "W",
    "_j": "J",
    "_ops": "operations",
    "_per_min": "nodes per minute",
}
"""The unit of a value, by the suffix of its key."""

SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

Links = Mapping[type, str]
"""The link to the section about each kind of mapping."""

NO_LINKS: Links = {}

Bounds = tuple[float | None, bool, float | None, bool]
"""Least value, whether it is allowed, greatest value, whether it is allowed."""


def unit(name: str) -> str:
    """Return the unit of a field by the suffix of its name; empty: it has none."""
    return next((unit for suffix, unit in UNITS.items() if name.endswith(suffix)), "")


def described(kind: Any, links: Links = NO_LINKS, bounds: tuple[float, float] | None = None) -> str:
    """Return a type in words.

    Args:
        kind: a type as `msgspec.inspect` describes it.
        links: the link to the description of each mapping.
        bounds: least and greatest value, where the type does not have them.

    Raises:
        TypeError: the type has no words yet.
    """
    match kind:
        case inspect.Metadata(type=inner):
            return described(inner, links, bounds)
        case inspect.UnionType(types=types):
            return " or ".join(described(one, links, bounds) for one in types if not _is_none(one))
        case inspect.IntType() | inspect.FloatType():
            name = "integer" if isinstance(kind, inspect.IntType) else "number"
            return f"{name}{_range(bounds_of(kind, bounds))}"
        case inspect.StrType(max_length=longest):
            return "text" if longest is None else f"text of at most {longest} characters"
        case inspect.BoolType():
            return "`true` or `false`"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(f"`{value}`" if value else '`""`' for value in values)
        case inspect.StructType(cls=cls, tag=tag):
            return f"[{f'`{tag}`' if tag else 'mapping'}]({links[cls]})"
        case inspect.TupleType(item_types=(least, most)) if least == most:
            return f"pair `[a, b]` of {plural(described(least, links))}"
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            return f"list of {plural(described(item, links))}"
        case inspect.TupleType(item_types=items):
            return f"pair of {' and '.join(described(item, links) for item in items)}"
        case inspect.DictType(value_type=value):
            return f"mapping of names to {plural(described(value, links))}"
        case inspect.AnyType() | inspect.CustomType(cls=builtins.object):
            return "any value"
    raise TypeError(f"no words for the type {kind!r}; add a case to `described`")


def optional(kind: Any) -> bool:
    """Return whether `null` is a value of a type."""
    return isinstance(kind, inspect.UnionType) and any(_is_none(one) for one in kind.types)


def plural(words: str) -> str:
    """Return the plural of a type in words."""
    if " or " in words:
        return " or ".join(map(plural, words.split(" or ")))
    for one, many in (
        ("integer", "integers"),
        ("number", "numbers"),
        ("[mapping]", "[mappings]"),
        ("any value", "values of any type"),
    ):
        if words.startswith(one):
            return many + words.removeprefix(one)
    return words


def default(field: inspect.Field) -> str:
    """Return the default of a field as YAML; empty: it has none, or null."""
    value = field.default
    if field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    if value is msgspec.NODEFAULT or value is None:
        return ""
    return flow(msgspec.to_builtins(value))


def flow(value: Any) -> str:
    """Return plain data as YAML on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {flow(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    return value if isinstance(value, str) and value else json.dumps(value)


def bounds_of(kind: Any, narrower: tuple[float, float] | None) -> Bounds:
    """Return the bounds of a number, as its type or the given pair states them."""
    if narrower is not None:
        return narrower[0], True, narrower[1], True
    if isinstance(kind, inspect.IntType):  # whole numbers: below n is at most n - 1
        least = kind.gt + 1 if kind.gt is not None else kind.ge
        most = kind.lt - 1 if kind.lt is not None else kind.le
        return least, True, most, True
    least = kind.gt if kind.gt is not None else kind.ge
    most = kind.lt if kind.lt is not None else kind.le
    return least, kind.gt is None, most, kind.lt is None


def _range(bounds: Bounds) -> str:
    least, with_least, most, with_most = bounds
    if least is not None and most is not None and with_least and with_most:
        return f", {number(least)} to {number(most)}"
    text = ""
    if least is not None:
        text += f", {'≥' if with_least else '>'} {number(least)}"
    if most is not None:
        text += f"{' and' if text else ','} {'≤' if with_most else '<'} {number(most)}"
    return text


def number(value: float) -> str:
    """Return a number as people write it: `0.5`, `1,000,000`, `10^12`."""
    size = abs(value)
    if (size >= 1e7 or 0 < size < 1e-3) and math.log10(size) % 1 == 0:
        power = str(round(math.log10(size))).translate(SUPERSCRIPT)
        return f"{'-' if value < 0 else ''}10{power}"
    if value == 2**63 - 1:
        return "2⁶³ - 1"
    if float(value).is_integer():
        return f"{round(value):,}"
    return f"{value:g}"


def _is_none(kind: Any) -> bool:
    return isinstance(kind, inspect.NoneType)
