"""The binary form of messages: flatbuffers of the tables in `schema`.

`decode` and `encode` convert between a buffer and the object that is the message in JSON. A buffer
has its data from the back: what a table refers to lies behind it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

from hpcosim_batsim.edc.schema import ENUMS, SCALARS, TABLES, UNIONS, VERSION, Field

ROOT = "Message"
ALIGN = 8  # of a buffer, bytes
MAX_DEPTH = 200
MAX_SHARES = 4  # of a part of a buffer, on average

_UINT = struct.Struct("<I")
_INT = struct.Struct("<i")
_USHORT = struct.Struct("<H")


def decode(data: bytes) -> dict[str, Any]:
    """Return the message in a buffer.

    Raises:
        ValueError: the buffer is damaged, or has a number that the schema does not have.
    """
    try:
        return _Reader(data).table(ROOT, _UINT.unpack_from(data)[0], 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ValueError(f"damaged flatbuffer: {error}") from None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = MAX_SHARES * len(data)  # bounds the work on parts that many refer to

    def table(self, name: str, at: int, depth: int) -> dict[str, Any]:
        if depth > MAX_DEPTH:
            raise ValueError(f"damaged flatbuffer: tables are nested more than {MAX_DEPTH} deep")
        data = self._data
        vtable = at - _INT.unpack_from(data, at)[0]
        if not 0 <= vtable < len(data):
            raise ValueError("damaged flatbuffer: a table without fields")
        size = _USHORT.unpack_from(data, vtable)[0]

        def place(slot: int) -> int:
            """Return where the field of a slot is; 0: it is not there."""
            entry = 4 + 2 * slot
            offset = _USHORT.unpack_from(data, vtable + entry)[0] if entry + 2 <= size else 0
            return at + offset if offset else 0

        self._spend(size)
        result: dict[str, Any] = {}
        for field in TABLES.get(name, ()):
            where = place(field.slot)
            kind = field.type
            if kind in UNIONS and not field.is_list:
                number = data[place(field.slot - 1)] if place(field.slot - 1) else 0
                kind = _named(UNIONS[kind], number, f"union {kind}")
                if number == 0 or not where:
                    continue
                result[f"{field.name}_type"] = kind
            if where:
                result[field.name] = self._value(field, kind, where, depth)
            elif field.default is not None:
                result[field.name] = field.default
        return result

    def _value(self, field: Field, kind: str, where: int, depth: int) -> Any:
        if not field.is_list:
            return self._single(kind, where, depth)
        start = self._follow(where)
        count = _UINT.unpack_from(self._data, start)[0]
        if kind in SCALARS:
            code = SCALARS[kind]
            self._spend(count * struct.calcsize(code))
            return list(struct.unpack_from(f"<{count}{code}", self._data, start + 4))
        self._spend(4 * count)
        return [self._single(kind, start + 4 + 4 * place, depth) for place in range(count)]

    def _single(self, kind: str, where: int, depth: int) -> Any:
        if kind in SCALARS:
            return struct.unpack_from(f"<{SCALARS[kind]}", self._data, where)[0]
        if kind in ENUMS:
            return _named(ENUMS[kind], self._data[where], kind)
        start = self._follow(where)
        if kind != "string":
            return self.table(kind, start, depth + 1)
        size = _UINT.unpack_from(self._data, start)[0]
        if start + 4 + size > len(self._data):
            raise ValueError("damaged flatbuffer: a text is longer than the buffer")
        self._spend(size)
        return self._data[start + 4 : start + 4 + size].decode()

    def _follow(self, where: int) -> int:
        return where + int(_UINT.unpack_from(self._data, where)[0])

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError("damaged flatbuffer: its parts refer to each other too often")


def _named(names: Sequence[str], number: int, what: str) -> str:
    if number >= len(names):
        raise ValueError(
            f"number {number} of {what} is unknown in the binary form of batprotocol {VERSION}; "
            "use JSON"
        )
    return names[number]


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a buffer.

    Raises:
        ValueError: the message has a part that the schema does not have.
    """
    writer = _Writer()
    root = writer.table(ROOT, message)
    return writer.finish(root)


class _Writer:
    """The buffer from its end. A place in it is its distance from the end."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def finish(self, root: int) -> bytes:
        self._pad(4, ALIGN)
        self._put(_UINT.pack(self._size + 4 - root))
        return b"".join(reversed(self._parts))

    def table(self, name: str, values: Mapping[str, Any]) -> int:
        fields = TABLES.get(name, ())
        known = {field.name for field in fields}
        known |= {f"{field.name}_type" for field in fields if field.type in UNIONS}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"{name} has no field {unknown[0]!r} in batprotocol {VERSION}")
        inline: list[tuple[int, str, Any]] = []  # slot, code, value; a place has the code ""
        for field in fields:
            value = values.get(field.name)
            if value is None:
                continue
            kind = field.type
            if field.is_list:
                inline.append((field.slot, "", self._list(kind, value)))
            elif kind in UNIONS:
                member = values[f"{field.name}_type"]
                number = _number(UNIONS[kind], member, f"union {kind}")
                inline.append((field.slot - 1, "B", number))
                inline.append((field.slot, "", self.table(member, value)))
            elif kind in SCALARS or kind in ENUMS:
                if value != field.default:
                    inline.append((field.slot, *_scalar(kind, value)))
            else:
                inline.append((field.slot, "", self._outside(kind, value)))
        return self._table(inline)

    def _table(self, inline: list[tuple[int, str, Any]]) -> int:
        end = self._size
        slots = [0] * (max((slot for slot, _, _ in inline), default=-1) + 1)
        for slot, code, value in sorted(inline, key=lambda each: struct.calcsize(each[1] or "I")):
            size = struct.calcsize(code or "I")
            self._pad(size, size)
            self._put(struct.pack(f"<{code}", value) if code else self._reference(value))
            slots[slot] = self._size
        self._pad(4, 4)
        start = self._size + 4
        entries = [start - place if place else 0 for place in slots]
        vtable = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), start - end, *entries)
        if len(vtable) % 4:
            vtable += b"\0\0"
        self._put(_INT.pack(len(vtable)))
        self._put(vtable)
        return start

    def _list(self, kind: str, values: Sequence[Any]) -> int:
        if kind in SCALARS:
            data = struct.pack(f"<{len(values)}{SCALARS[kind]}", *values)
            self._pad(len(data), struct.calcsize(SCALARS[kind]))
            self._pad(len(data), 4)
            self._put(data)
        else:
            places = [self._outside(kind, value) for value in values]
            self._pad(0, 4)
            for place in reversed(places):
                self._put(self._reference(place))
        self._put(_UINT.pack(len(values)))
        return self._size

    def _outside(self, kind: str, value: Any) -> int:
        """Write a text or a table, and return its place."""
        if kind != "string":
            return self.table(kind, value)
        data = value.encode() + b"\0"
        self._pad(len(data), 4)
        self._put(data)
        self._put(_UINT.pack(len(data) - 1))
        return self._size

    def _reference(self, place: int) -> bytes:
        return _UINT.pack(self._size + 4 - place)

    def _pad(self, size: int, align: int) -> None:
        """Pad so that the begin of the next `size` bytes is aligned."""
        self._put(bytes(-(self._size + size) % align))

    def _put(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)


def _scalar(kind: str, value: Any) -> tuple[str, Any]:
    if kind in ENUMS:
        return "B", _number(ENUMS[kind], value, kind)
    return SCALARS[kind], value


def _number(names: Sequence[str], name: str, what: str) -> int:
    if name not in names:
        raise ValueError(
            f"{name} of {what} has no number in the binary form of batprotocol {VERSION}; use JSON"
        )
    return names.index(name)
