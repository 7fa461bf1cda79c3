"""Reader for untrusted XML: bounded size, no entity expansion, no external references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.units import amount

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 64


@dataclass(slots=True)
class Element:
    """An element of a file.

    Attributes:
        path: the file as it was named.
        tag: the element's name.
        attributes: values by name.
        line: where it begins, counted from 1.
        children: the elements in it, in order; text is not kept.
    """

    path: str
    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the children of this name."""
        return (child for child in self.children if child.tag == tag)

    def wrong(self, what: str) -> InputError:
        """Return the error that something is wrong here."""
        return InputError(self.path, f"line {self.line}", what)

    def need(self, name: str) -> str:
        """Return the value of an attribute.

        Raises:
            InputError: there is none; so do the other readers, for wrong values, too.
        """
        value = self.attributes.get(name)
        if value is None:
            raise self.wrong(f"<{self.tag}> has no {name}")
        return value

    def count(self, name: str, default: int, least: int) -> int:
        """Return a whole number of at least `least`."""
        text = self.attributes.get(name, str(default))
        number = int(text) if text.isascii() and text.strip().isdigit() else least - 1
        if number < least:
            raise self.wrong(f"{name} is {text!r}; it must be a number from {least}")
        return number

    def amount(self, name: str, text: str, units: Mapping[str, float], example: str) -> float:
        """Return an amount with a unit, see `units.amount`; `name` is for the message."""
        try:
            return amount(text, units, example)
        except ValueError as error:
            raise self.wrong(f"{name}: {error}") from None

    def properties(self) -> dict[str, str]:
        """Return the values of its `prop` elements by their ids."""
        return {prop.need("id"): prop.need("value") for prop in self.all("prop")}


def read_xml(path: Path) -> Element:
    """Return the root element of a file.

    Nothing outside the file is read. A DOCTYPE with declarations of its own is refused: by those
    a short file can stand for a very long one. White space before the XML, as in files that come
    with Batsim, is passed over.

    Raises:
        InputError: it can't be read, is no XML, is too large or too deep, or declares something.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(name, "", f"can't be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise InputError(name, "", f"is larger than {MAX_BYTES // 2**20} MiB, the most there is")
    return _parse(name, data)


def _parse(name: str, data: bytes) -> Element:
    parser = expat.ParserCreate()
    top = Element(name, "", {}, 0)
    stack = [top]
    text = data.lstrip()
    skipped = data.count(b"\n", 0, len(data) - len(text))

    def line() -> int:
        return skipped + parser.CurrentLineNumber

    def refuse(what: str) -> InputError:
        return InputError(name, f"line {line()}", what)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > MAX_DEPTH:
            raise refuse(f"elements lie in each other more than {MAX_DEPTH} deep")
        element = Element(name, tag, attributes, line())
        stack[-1].children.append(element)
        stack.append(element)

    def end(_: str) -> None:
        stack.pop()

    def doctype(_: str, _system: str | None, _public: str | None, declares: bool) -> None:
        if declares:
            raise refuse("the DOCTYPE has declarations of its own; a platform needs none")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = doctype
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        what = f"is not XML: {expat.errors.messages[error.code]}"
        raise InputError(name, f"line {skipped + error.lineno}", what) from None
    return top.children[0]
