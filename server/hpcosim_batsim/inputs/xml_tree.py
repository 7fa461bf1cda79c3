"""XML from strangers as a tree: of bounded size, and what stands in it is never expanded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from hpcosim_batsim.errors import InputError

MOST_BYTES = 64 * 2**20
DEEPEST = 64


@dataclass(slots=True)
class Element:
    """An element of a file.

    Attributes:
        tag: its name.
        attributes: by name.
        line: where it begins, counted from 1.
        children: the elements in it, in order; text is not kept.
    """

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> Iterator[Element]:
        """Yield the children of this name."""
        return (child for child in self.children if child.tag == tag)


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
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(name, "", f"can't be read: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise InputError(name, "", f"is larger than {MOST_BYTES // 2**20} MiB, the most there is")
    return _parse(name, data)


def _parse(name: str, data: bytes) -> Element:
    parser = expat.ParserCreate()
    top = Element("", {}, 0)
    stack = [top]
    text = data.lstrip()
    skipped = data.count(b"\n", 0, len(data) - len(text))

    def line() -> int:
        return skipped + parser.CurrentLineNumber

    def refuse(what: str) -> InputError:
        return InputError(name, f"line {line()}", what)

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(stack) > DEEPEST:
            raise refuse(f"elements lie in each other more than {DEEPEST} deep")
        element = Element(tag, attributes, line())
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
