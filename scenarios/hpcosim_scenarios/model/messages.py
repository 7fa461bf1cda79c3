"""Validation errors of msgspec in the words of a scenario: field, expected and given value."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from hpcosim_protocol.units import unit_hint
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.yaml_tree import steps_of

Kinds = Sequence[type[Struct]]

TYPES = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
MOST_SHOWN = 60  # characters of a value
SYNONYMS = {
    "walltime": "requested_s",
    "subtime": "submit_s",
    "res": "cores",
    "speed": "clock_ghz",
    "runtime": "run_s",
    "jobs": "workload",
}
"""Keys of a scenario by the names of the same values in other formats."""


Count = Annotated[int, Meta(ge=0, lt=2**31)]
Cores = Annotated[int, Meta(gt=0, le=1_000_000)]
Clock = Annotated[float, Meta(ge=1e-6, le=1e6)]
Factor = Annotated[float, Meta(ge=1e-6, le=1e6)]
Seconds = Annotated[float, Meta(gt=0, le=1e12)]
WholeSeconds = Annotated[int, Meta(gt=0, le=10**12)]
Jobs = Annotated[int, Meta(gt=0, le=100_000_000)]
Days = Annotated[int, Meta(gt=0, le=36_525)]
Steps = Annotated[int, Meta(gt=0, le=100_000_000)]

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
CURRENCY_PATTERN = r"^[A-Z]{3}$"
Currency = Annotated[str, Meta(pattern=CURRENCY_PATTERN)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]


def scenario_error(error: msgspec.ValidationError, tree: Any, kinds: Kinds) -> ScenarioError:
    """Return the scenario error for a validation error, without file and line.

    Args:
        error: the validation error.
        tree: the plain data that were validated.
        kinds: all structs of a scenario; the first is that of the whole tree.
    """
    what, _, where = str(error).partition(" - at `")
    found = re.search(r"\$[^`]*", where)
    field = found[0] if found else ""
    if where.startswith("key`"):
        return ScenarioError(_expected_key(what), field=field)
    value = value_at(tree, field)
    if unknown := re.search(r"unknown field `(.*)`", what):
        return unknown_key(unknown[1], field, *known_keys(kinds[0], tree, field))
    if missing := re.search(r"missing required field `(.*)`", what):
        known, nested, elsewhere = known_keys(kinds[0], tree, field)
        others = [str(key) for key in value or () if key not in known]
        if others:  # probably a misspelt name of the missing key
            return unknown_key(others[0], field, known, nested, elsewhere)
        return ScenarioError(f"the key `{missing[1]}` is missing", field=field)
    if what.startswith("Invalid"):
        return ScenarioError(_expected_choice(field, value, kinds), field=field)
    if what.startswith("Expected"):
        expected = _in_plain_words(what.removeprefix("Expected ").partition(", got")[0])
        hint = unit_hint(field, value) if "number" in expected or "integer" in expected else ""
        what = hint or f"expected {expected}, got {shown(value)}"
    return ScenarioError(what, field=field)


def unknown_key(
    key: str,
    field: str,
    known: Iterable[str],
    nested: Mapping[str, str] = MappingProxyType({}),
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> ScenarioError:
    """Return the error for a key that the mapping at a field does not have.

    Args:
        field: path of the mapping.
        known: keys of the mapping, among which the nearest is suggested.
        nested: paths of the keys in mappings below it, by key.
        elsewhere: paths of mappings that are not below it, by each of their keys.
    """
    synonym = SYNONYMS.get(key.lower(), "")
    near = synonym if synonym in known else nearest(key, known)
    if key in nested and near != synonym:
        near = ""
    hint = repr(near) if near else nested.get(key, "")
    advice = f"; did you mean {hint}?" if hint and near != key else ""
    if key in elsewhere and key not in nested and synonym not in known:
        advice = f"; {key} is a key of {elsewhere[key] or 'the top level'}"
    return ScenarioError(f"unknown key {key!r}{advice}", field=field, key=key)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the most similar known word; empty: none is similar."""
    return next(iter(difflib.get_close_matches(word, sorted(known), n=1)), "")


def known_keys(
    root: type[Struct], tree: Any, field: str
) -> tuple[set[str], dict[str, str], dict[str, str]]:
    """Return the keys of the mapping at a field, and where keys of other mappings are.

    The second result has the paths of keys in mappings below it, and the third one the paths of
    the mappings in which it is itself, and otherwise of the other mappings, by key.

    Args:
        root: the struct of the whole tree.
        tree: the plain data.
        field: path of the mapping.
    """
    kinds, place = [root], ""
    elsewhere = _owners([root], "")
    for step in steps_of(field):
        elsewhere |= {key: place for kind in kinds for key in kind.__struct_fields__}
        place = f"{place}[{step}]" if isinstance(step, int) else f"{place}.{step}".lstrip(".")
        fields = [each for kind in kinds for each in msgspec.structs.fields(kind)]
        inner = [kind for each in fields if each.name == step for kind in _structs(each.type)]
        kinds = inner or kinds  # a position in a list, or a key of a mapping of structs
    value = value_at(tree, field)
    known: set[str] = set()
    for kind in kinds:
        config = kind.__struct_config__
        tag = value.get(config.tag_field) if isinstance(value, dict) else None
        if tag in (None, config.tag):
            known |= {*kind.__struct_fields__, *filter(None, [config.tag_field])}
    return known, _keys_below(kinds, f"{field}.".lstrip("$.")), elsewhere


def _keys_below(kinds: Iterable[type[Struct]], place: str) -> dict[str, str]:
    """Return the paths of keys in mappings below structs, by key; lists are left out."""
    below = [
        (f"{place}{each.name}.", kind)
        for parent in kinds
        for each in msgspec.structs.fields(parent)
        for kind in _structs(each.type, lists=False)
    ]
    paths: dict[str, str] = {}
    for path, kind in below:
        paths = _keys_below([kind], path) | paths
    return paths | {key: path + key for path, kind in below for key in kind.__struct_fields__}


def _owners(kinds: Iterable[type[Struct]], place: str) -> dict[str, str]:
    """Return the paths of the mappings below structs, by each of their keys; lists are left out.

    Of several mappings with a key, the one that is nearest to the top counts.
    """
    paths: dict[str, str] = {}
    for each in (field for kind in kinds for field in msgspec.structs.fields(kind)):
        below = f"{place}.{each.name}".lstrip(".")
        paths = _owners(_structs(each.type, lists=False), below) | paths
    return paths | {key: place for kind in kinds for key in kind.__struct_fields__}


def _structs(kind: Any, *, lists: bool = True) -> list[type[Struct]]:
    """Return the structs in a type."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        return [kind]
    if not lists and get_origin(kind) in (tuple, dict):
        return []
    return [each for part in get_args(kind) for each in _structs(part, lists=lists)]


def value_at(tree: Any, field: str) -> Any:
    """Return the value at a field such as `$.platform.nodes[0]`; None: there is none."""
    for step in steps_of(field):
        try:
            tree = tree[step]
        except (LookupError, TypeError):
            return None
    return tree


def shown(value: object) -> str:
    """Return a value as a message shows it, shortened."""
    text = repr(value) if isinstance(value, str) else _as_json(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def _as_json(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no such numbers
    try:
        return msgspec.json.encode(value).decode()
    except TypeError:
        return str(value)


def _in_plain_words(expected: str) -> str:
    """Return msgspec's description of a type, such as "`int | null` >= 1", in plain words."""
    if NAME_PATTERN in expected:
        return "a name of 1 to 100 letters, digits, '.', '_' and '-', the first no punctuation mark"
    if CURRENCY_PATTERN in expected:
        return "a currency of three capital letters, such as EUR"
    kind, _, bound = expected.removeprefix("`").partition("`")
    names = [TYPES.get(name, name) for name in kind.split(" | ")]
    return " or ".join(names) + bound.removesuffix(".0")


def _expected_key(what: str) -> str:
    if NAME_PATTERN in what:
        return f"expected keys that are {_in_plain_words(what)}"
    return "expected keys that are text; write a number as a key in quotes"


def _expected_choice(field: str, value: Any, kinds: Kinds) -> str:
    """Return the message for a value that is not among the choices of its field."""
    key = str(next(iter(reversed(steps_of(field))), ""))
    known = sorted(_choices(key, kinds))
    near = nearest(str(value), known)
    advice = f"; did you mean {near!r}?" if near else ""
    return f"expected one of {', '.join(known)}, got {shown(value)}{advice}"


def _choices(key: str, kinds: Kinds) -> set[str]:
    """Return the values that the fields of a name can have."""
    found = set()
    for kind in kinds:
        config = kind.__struct_config__
        if config.tag_field == key and isinstance(config.tag, str):
            found.add(config.tag)
        for each in msgspec.structs.fields(kind):
            if each.name == key:
                found |= {str(value) for value in _literals(each.type)}
    return found


def _literals(kind: Any) -> set[object]:
    if get_origin(kind) is Literal:
        return set(get_args(kind))
    return {value for part in get_args(kind) for value in _literals(part)}
