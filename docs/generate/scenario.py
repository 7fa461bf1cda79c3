"""The reference of the scenario file, from the types that read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from docs.generate.docstrings import attributes, indented, joined, prose
from docs.generate.types import anchor, default, described, optional, unit
from msgspec import Struct, inspect

from hpcosim_client.power.settings import MANAGERS
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_protocol.platform import Contention
from hpcosim_scenarios.model.platform import BOUNDS, STATED
from hpcosim_scenarios.model.scenario import Scenario

PLATFORM: tuple[type[Struct], ...] = (Platform, NodeGroup, Processor, Contention, PowerStates)


class Section(NamedTuple):
    """A mapping of the scenario file.

    Attributes:
        path: where it stands in the file, such as `platform.nodes[]`; empty: the top level.
        kind: its type.
        tag: the key and value that select this type among several, such as `model: lublin`.
    """

    path: str
    kind: type[Struct]
    tag: str = ""


def sections() -> list[Section]:
    """Return every mapping of a scenario, each before those it contains; one for each type."""
    found: dict[type[Struct], Section] = {}
    for section in _below(Section("", Scenario)):
        found.setdefault(section.kind, section)
    return list(found.values())


def manager_sections() -> list[Section]:
    """Return the settings of each power manager."""
    return [Section("scheduler.power", kind, f"name: {name}") for name, kind in MANAGERS.items()]


def fields_of(section: Section) -> list[inspect.Field]:
    """Return the keys of a mapping."""
    info = inspect.type_info(section.kind)
    assert isinstance(info, inspect.StructType)
    return list(info.fields)


def tree() -> str:
    """Return the keys of a scenario as a nested list with links."""
    lines = [f"- [scenario](#{anchor(Scenario)})"]
    for section in sections()[1:]:
        *parents, name = section.path.replace(".NAME", "/NAME").split(".")
        name = f"`{name.replace('/', '.')}`" + (f" with `{section.tag}`" if section.tag else "")
        lines.append(f"{'    ' * (len(parents) + 1)}- [{name}](#{anchor(section.kind)})")
    return "\n".join(lines)


def reference() -> str:
    """Return the reference of all mappings of a scenario, power managers excepted."""
    return "\n\n".join(_section(section) for section in sections())


def managers() -> str:
    """Return the reference of the power managers' settings."""
    return "\n\n".join(_section(section, level=3) for section in manager_sections())


def _below(section: Section) -> Iterator[Section]:
    yield section
    for field in fields_of(section):
        path = f"{section.path}.{field.name}" if section.path else field.name
        for struct, suffix in _structs(field.type):
            info_tag = f"{struct.tag_field}: {struct.tag}" if struct.tag_field else ""
            yield from _below(Section(path + suffix, struct.cls, info_tag))


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


def _section(section: Section, level: int = 2) -> str:
    title = f"`{section.path}`" if section.path else "The top level"
    if section.tag:
        title += f" with `{section.tag}`"
    meanings = attributes(section.kind)
    entries = [_entry(section, field, meanings.get(field.name, "")) for field in fields_of(section)]
    head = f"{'#' * level} {title} {{ #{anchor(section.kind)} }}"
    if not entries:
        entries = ["It has no settings."]
    return "\n\n".join([head, joined(prose(section.kind.__doc__ or "")), *entries])


def _entry(section: Section, field: inspect.Field, meaning: str) -> str:
    own = section.kind in PLATFORM
    words = described(field.type, BOUNDS.get(field.name) if own else None)
    facts = [words]
    if unit(field.name):
        facts.append(f"in {unit(field.name)}")
    given = default(field)
    if field.required or (own and field.name in STATED):
        facts.append("**required**")
    elif given and len(given) < 80:
        facts.append(f"default `{given}`" + (", `null` allowed" if optional(field.type) else ""))
    else:
        facts.append("optional")
    name = f"`{field.name}`{{ #{anchor(section.kind)}.{field.name} .key }}"
    text = meaning[:1].upper() + meaning[1:]
    return f"{name}\n:   {' · '.join(facts)}\n    {{: .facts }}\n\n    " + indented(text)
