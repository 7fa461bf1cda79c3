"""Conversion of nested settings, with the full path of an error."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct

from hpcosim_client.setting_errors import explained

AnyStruct = TypeVar("AnyStruct", bound=Struct)

TRES = "expected a TRES: cpu, mem (MB), node, billing, gres/NAME, gres/NAME:TYPE or license/NAME"
NAMES = "expected names of 1 to 200 characters"


class NestedSettingError(ValueError):
    """A setting within nested settings is invalid.

    Args:
        field: dotted path of the setting; empty: the settings themselves.
        what: what is wrong, and how to fix it.
    """

    def __init__(self, field: str, what: str) -> None:
        super().__init__(field, what)
        self.field = field
        self.what = what


def converted(settings: Mapping[str, object], kind: type[AnyStruct]) -> AnyStruct:
    """Return a structure made of a mapping of plain data.

    Args:
        settings: the mapping.
        kind: a structure whose fields may be structures, and mappings of structures.

    Raises:
        NestedSettingError: a value is invalid. Unlike the message of `msgspec`, its path has the
            keys of mappings.
    """
    try:
        return msgspec.convert(dict(settings), kind)
    except msgspec.ValidationError as error:
        _check_parts(settings, kind, ())
        raise NestedSettingError("", str(error)) from None


def _check_parts(value: object, kind: Any, path: tuple[str, ...]) -> None:
    """Raise the error of the innermost invalid part of a value."""
    for name, part, part_kind in _parts(value, kind):
        _check_parts(part, part_kind, (*path, name))
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner, what = _message(str(error), value, kind, path)
        raise NestedSettingError(".".join((*path, inner) if inner else path), what) from None


def _parts(value: object, kind: Any) -> Iterator[tuple[str, object, Any]]:
    """Yield name, value and type of the parts of a value that are structures or mappings."""
    if not isinstance(value, Mapping):
        return
    if get_origin(kind) is dict:
        yield from ((str(key), each, get_args(kind)[1]) for key, each in value.items())
    elif isinstance(kind, type) and issubclass(kind, Struct):
        for field in msgspec.structs.fields(kind):
            if field.name in value and (get_origin(field.type) is dict or _is_struct(field.type)):
                yield field.name, value[field.name], field.type


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _message(error: str, value: object, kind: Any, path: tuple[str, ...]) -> tuple[str, str]:
    """Return the setting within a value, empty for the value itself, and what is wrong with it."""
    what, _, where = error.partition(" - at `$")
    if " - at `key` in " in error and isinstance(value, Mapping):
        return "", _wrong_key(value, get_args(kind)[0])
    if what.startswith("Expected `object`") and not where:
        return "", f"expected a mapping, got {_shown(value)}"
    if not isinstance(value, Mapping) or not _is_struct(kind):
        return "", explained(f"{what} - at `$.value`", {"value": value}, Struct, "")[1]
    field = where.strip(".`")
    name, _, index = field.partition("[")
    got = _item(value[name], index) if name in value else None
    kind_of = {each.name: each.type for each in msgspec.structs.fields(kind)}
    if what.startswith("Invalid enum value"):
        return field, f"expected {_choices(kind_of[name])}, got {_shown(got)}"
    if what.startswith("Expected `array"):
        return field, f"expected a list, got {_shown(got)}"
    return explained(error, {**value, field: got}, kind, path[-1] if path else "scheduler.settings")


def _item(value: object, index: str) -> object:
    """Return the item of a list whose index is the rest of a path such as `3]`."""
    number = re.match(r"\d+", index)
    return value[int(number[0])] if number and isinstance(value, list | tuple) else value


def _choices(kind: Any) -> str:
    """Return the values of a type that are possible."""
    parts = (kind, *get_args(kind), *(part for each in get_args(kind) for part in get_args(each)))
    literals = [
        repr(one) for each in parts if get_origin(each) is Literal for one in get_args(each)
    ]
    number = "an integer >= 0 or " if int in parts else ""
    return f"{number}one of {', '.join(dict.fromkeys(literals))}"


def _wrong_key(value: Mapping[Any, object], kind: Any) -> str:
    """Return what is wrong with the first invalid key of a mapping."""
    expected = TRES if "pattern" in str(kind) and "gres" in str(kind) else NAMES
    for key in value:
        try:
            msgspec.convert(key, kind)
        except msgspec.ValidationError:
            return f"{expected}; got {_shown(key)}"
    raise AssertionError("msgspec rejects a key that it accepts")


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()
