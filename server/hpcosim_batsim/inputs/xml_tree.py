"""Reader for untrusted XML: bounded size, no entity expansion, no external references."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from hpcosim_batsim.errors import InputError
from hpcosim_protocol.files import open_regular

_AMOUNT = re.compile(r"\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*\Z")
_SI = {letter: 1000.0**power for power, letter in enumerate(("", "k", "M", "G", "T", "P", "E"))}
_BINARY = {f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)}
_PREFIXES = _SI | _BINARY

FLOPS: Mapping[str, float] = {
    f"{prefix}{unit}": scale for prefix, scale in _PREFIXES.items() for unit in ("f", "flops")
}

BANDWIDTHS: Mapping[str, float] = {
    f"{prefix}{unit}": scale / size
    for prefix, scale in _PREFIXES.items()
    for unit, size in (("Bps", 1), ("bps", 8))
}

TIMES: Mapping[str, float] = {
    "ps": 1e-12,
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
}

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64


def amount(text: str, units: Mapping[str, float], example: str) -> float:
    """Return an amount in its base unit.

    Args:
        text: a number with or without a unit; default: the base unit.
        units: factor of each unit to the base unit.
        example: a valid amount, for the error message.

    Raises:
        ValueError: the text is not a finite amount, or its unit is unknown.
    """
    found = _AMOUNT.match(text)
    unit = found.group(2) if found else ""
    try:
        number = float(found.group(1)) if found else math.nan
    except ValueError:  # 1.2.3
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"expected an amount such as {example}, got {text!r}")
    if unit and unit not in units:
        raise ValueError(f"expected an amount such as {example}, got {text!r} with unit {unit!r}")
    return number * units[unit] if unit else number


@dataclass(slots=True)
class Element:
    """An XML element. Its text is dropped.

    Attributes:
        line: line on which it begins, counted from 1.
    """

    path: str
    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def error(self, what: str) -> InputError:
        """Return an error that names the file and the line of this element."""
        return InputError(self.path, f"line {self.line}", what)

    def required(self, name: str) -> str:
        """Return the value of an attribute."""
        value = self.attributes.get(name)
        if value is None:
            raise self.error(f"<{self.tag}> has no {name}")
        return value

    def count(self, name: str, default: int, minimum: int) -> int:
        """Return the value of an attribute as an integer."""
        text = self.attributes.get(name, str(default))
        number = int(text) if text.isascii() and text.strip().isdigit() else minimum - 1
        if number < minimum:
            raise self.error(
                f"{name}: expected an integer >= {minimum} without a unit, got {text!r}"
            )
        return number

    def amount(self, name: str, text: str, units: Mapping[str, float], example: str) -> float:
        """Return the amount in `text`, see `amount`."""
        try:
            return amount(text, units, example)
        except ValueError as error:
            raise self.error(f"{name}: {error}") from None

    def properties(self) -> dict[str, str]:
        """Return the values of its `prop` elements by id."""
        return {prop.required("id"): prop.required("value") for prop in self.all("prop")}


def read_xml(path: Path) -> Element:
    """Return the root element of a file.

    The reader opens no other file. A DOCTYPE with an internal subset is an error, because entities
    can expand a short file to a very long one. White space before the XML declaration is ignored,
    as files that come with Batsim have some.

    Raises:
        InputError: the file cannot be read, is not XML, is too large or too deeply nested, or has
            a DOCTYPE with an internal subset.
    """
    name = str(path)
    try:
        with open_regular(path, sys.maxsize) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(name, "", f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(name, "", f"is larger than {MAX_BYTES // 2**20} MiB, the maximum")
    if data.lstrip().startswith((b"{", b"[")):
        what = "is JSON; expected a SimGrid platform in XML. Are the files of -p and -w swapped?"
        raise InputError(name, "", what)
    if not data.strip():
        raise InputError(name, "", "the file is empty; expected a SimGrid platform in XML")
    return _parse(name, data)


def _parse(name: str, data: bytes) -> Element:
    parser = expat.ParserCreate()
    top = Element(name, "", {}, 0)
    stack = [top]
    text = data.lstrip()
    skipped = data.count(b"\n", 0, len(data) - len(text))

    def line() -> int:
        return skipped + parser.CurrentLineNumber

    def error_here(what: str) -> InputError:
        return InputError(name, f"line {line()}", what)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise error_here(f"elements are nested more than {MAX_DEPTH} deep")
        element = Element(name, tag, attributes, line())
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def doctype(_: str, _system: str | None, _public: str | None, declares: bool) -> None:
        if declares:
            raise error_here("the DOCTYPE has an internal subset; remove it")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        what = f"is not XML: {expat.errors.messages[error.code]}"
        raise InputError(name, f"line {skipped + error.lineno}", what) from None
    return top.children[0]
