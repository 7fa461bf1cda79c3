"""Google-style docstrings of Python objects, parsed by griffe."""

from __future__ import annotations

import inspect
from typing import Any

from griffe import (
    Docstring,
    DocstringAttribute,
    DocstringReturn,
    DocstringSectionAttributes,
    DocstringSectionReturns,
    DocstringSectionText,
)


def parse(text: str) -> list[Any]:
    """Return the sections of a docstring."""
    options: Any = {"returns_named_value": True, "returns_multiple_items": True, "warnings": False}
    return Docstring(inspect.cleandoc(text)).parse("google", **options)


def prose(text: str) -> str:
    """Return the paragraphs of a docstring, without its sections."""
    parts = [part.value for part in parse(text) if isinstance(part, DocstringSectionText)]
    return "\n\n".join(parts)


def attributes(kind: type) -> dict[str, str]:
    """Return the meaning of each attribute of a class and its bases, by name.

    An entry such as `a, b: meaning` documents both attributes.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        for section in parse(base.__dict__.get("__doc__") or ""):
            if isinstance(section, DocstringSectionAttributes):
                for entry in section.value:
                    found |= _by_name(entry)
    return found


def returns(function: Any) -> dict[str, str]:
    """Return the meaning of each named value that a function returns."""
    found: dict[str, str] = {}
    for section in parse(function.__doc__ or ""):
        if isinstance(section, DocstringSectionReturns):
            for entry in section.value:
                found |= _by_name(entry)
    return found


def _by_name(entry: DocstringAttribute | DocstringReturn) -> dict[str, str]:
    # griffe takes what follows the first name of `a, b` for a type, also for the next entries.
    name = entry.name or ""
    others = entry.annotation if name.endswith(",") or not name else None
    names = f"{name} {others or ''}".replace(",", " ").split()
    return {name: joined(entry.description) for name in names}


def joined(text: str) -> str:
    """Return text with each paragraph on one line."""
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def indented(text: str) -> str:
    """Return paragraphs as the body of an entry of a definition list."""
    return text.replace("\n\n", "\n\n    ")


def sentence(text: str) -> str:
    """Return text with its first letter in upper case."""
    return text[:1].upper() + text[1:]
