"""References of YAML and JSON files, from the msgspec types that read or write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from docs.generate.docstrings import attributes, indented, joined, prose, sentence
from docs.generate.types import Links, default, described, optional, unit
from msgspec import Struct, inspect

LONGEST_DEFAULT = 80


class Section(NamedTuple):
    """A mapping of a file.

    Attributes:
        path: where it is in the file, such as `platform.nodes[]`; empty: the top level.
        kind: its type.
        tag: the key and value that select this type among several, such as `model: lublin`.
    """

    path: str
    kind: type[Struct]
    tag: str = ""

    @property
    def title(self) -> str:
        """The title of the section."""
        if not self.path:
            return "The top level"
        return f"`{self.path}`" + (f" with `{self.tag}`" if self.tag else "")

    @property
    def anchor(self) -> str:
        """The id of the section on its page."""
        path = self.path.replace("[]", "").removesuffix(".NAME").replace(".", "-")
        _, _, variant = self.tag.partition(": ")
        return "-".join(filter(None, (path or "top", variant)))


class Rules(NamedTuple):
    """Rules of a file that are not in the types.

    Attributes:
        kinds: the types to which they apply.
        bounds: least and greatest value, by key.
        required: keys that must be given although the type has a default.
        written: the file is an output, whose keys are always there.
        words: types in words, by type and key, where the file has another form than the type.
    """

    kinds: tuple[type[Struct], ...] = ()
    bounds: Mapping[str, tuple[float, float]] = {}
    required: tuple[str, ...] = ()
    written: bool = False
    words: Mapping[tuple[type[Struct], str], str] = {}


NO_RULES = Rules()


class File(NamedTuple):
    """A file to describe.

    Attributes:
        sections: its mappings.
        links: the link to the section of each kind of mapping in it.
        rules: rules that are not in the types.
    """

    sections: tuple[Section, ...]
    links: Links
    rules: Rules = NO_RULES


def file_of(*sections: Section, rules: Rules = NO_RULES) -> File:
    """Return a file with these mappings, which are described on one page."""
    return File(sections, {one.kind: f"#{one.anchor}" for one in sections}, rules)


def sections_of(kind: type[Struct]) -> tuple[Section, ...]:
    """Return all mappings below a type, each before those it contains; one for each type."""
    found: dict[type[Struct], Section] = {}
    for section in _below(Section("", kind)):
        found.setdefault(section.kind, section)
    return tuple(found.values())


def fields_of(section: Section) -> list[inspect.Field]:
    """Return the keys of a mapping."""
    info = inspect.type_info(section.kind)
    assert isinstance(info, inspect.StructType)
    return list(info.fields)


def section_text(file: File, section: Section, level: int = 2, about: str | None = None) -> str:
    """Return a heading, the meaning of a mapping and an entry for each of its keys."""
    head = f"{'#' * level} {section.title} {{ #{section.anchor} }}"
    return f"{head}\n\n{body(file, section, about)}"


def body(file: File, section: Section, about: str | None = None) -> str:
    """Return the meaning of a mapping and an entry for each of its keys, without a heading.

    Args:
        file: the file that contains the mapping.
        section: the mapping.
        about: the meaning of the mapping; None: the docstring of the type.
    """
    meanings = attributes(section.kind)
    entries = [
        _entry(file, section, field, meanings.get(field.name, "")) for field in fields_of(section)
    ]
    if about is None:
        about = joined(prose(section.kind.__doc__ or ""))
    return "\n\n".join([about, *(entries or ["It has no settings."])])


def _below(section: Section) -> Iterator[Section]:
    yield section
    for field in fields_of(section):
        path = f"{section.path}.{field.name}" if section.path else field.name
        for struct, suffix in _structs(field.type):
            tag = f"{struct.tag_field}: {struct.tag}" if struct.tag_field else ""
            yield from _below(Section(path + suffix, struct.cls, tag))


def _structs(kind: Any, suffix: str = "") -> Iterator[tuple[inspect.StructType, str]]:
    """Yield the mappings in a type, each with what its place adds to the path."""
    match kind:
        case inspect.StructType():
            yield kind, suffix
        case inspect.Metadata(type=inner):
            yield from _structs(inner, suffix)
        case inspect.UnionType(types=types):
            for one in types:
                yield from _structs(one, suffix)
        case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
            yield from _structs(item, f"{suffix}[]")
        case inspect.DictType(value_type=value):
            yield from _structs(value, f"{suffix}.NAME")


def _entry(file: File, section: Section, field: inspect.Field, meaning: str) -> str:
    rules = file.rules if section.kind in file.rules.kinds else NO_RULES
    words = rules.words.get((section.kind, field.name))
    facts = [words or described(field.type, file.links, rules.bounds.get(field.name))]
    if unit(field.name):
        facts.append(f"in {unit(field.name)}")
    given = default(field)
    if rules.written:
        facts[0] += " or `null`" if optional(field.type) else ""
    elif field.required or field.name in rules.required:
        facts.append("**required**")
    elif given and len(given) <= LONGEST_DEFAULT:
        facts.append(f"default `{given}`" + (", `null` allowed" if optional(field.type) else ""))
    else:
        facts.append("optional")
    name = f"`{field.name}`{{ #{section.anchor}.{field.name} .key }}"
    line = f":   {' · '.join(facts)}\n    {{: .facts }}"
    text = indented(sentence(meaning)).replace("None:", "null:")  # docstrings are about Python
    return f"{name}\n{line}\n\n    {text}"
