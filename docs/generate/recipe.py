"""The reference of recipes of trainings, from the trainers and the types of their settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import msgspec
from docs.generate.docstrings import attributes
from docs.generate.structs import Section, file_of, section_text, sections_of
from docs.generate.types import described, flow

from hpcosim_gym.learning.recipe import Evaluation, Search, Setting, settings_of
from hpcosim_gym.learning.trainers import Trainer, find_trainer, trainer_names

SECTIONS = ("environment", "algorithm", "budget")


def trainers() -> str:
    """Return a section for each trainer, with a table of its settings."""
    return "\n\n".join(_trainer(name, find_trainer(name)) for name in trainer_names())


def other_sections() -> str:
    """Return the reference of the sections `evaluation` and `search`."""
    sections = [
        *(_below("evaluation", each) for each in sections_of(Evaluation)),
        *(_below("search", each) for each in sections_of(Search)),
    ]
    file = file_of(*sections)
    return "\n\n".join(section_text(file, section, level=3) for section in file.sections)


def _below(path: str, section: Section) -> Section:
    return section._replace(path=f"{path}.{section.path}".removesuffix("."))


def settings(name: str) -> dict[str, tuple[str, str]]:
    """Return section and meaning of each setting of a trainer."""
    trainer = find_trainer(name)
    first = next(iter(trainer.presets().values()))
    return {
        key: (_section(trainer, key), _meaning(type(first), key, setting))
        for key, setting in settings_of(type(first)).items()
    }


def _section(trainer: Trainer, key: str) -> str:
    if key in trainer.environment:
        return "environment"
    return "budget" if key in trainer.budget else "algorithm"


def _meaning(kind: type, key: str, setting: Setting) -> str:
    owner: Any = kind
    if len(setting.path) > 1:
        owner = next(each for each in _nested(kind) if key in attributes(each))
    return attributes(owner).get(key, "")


def _nested(kind: type) -> Iterator[type]:
    import typing

    for hint in typing.get_type_hints(kind).values():
        if isinstance(hint, type) and (
            dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct)
        ):
            yield hint


def _trainer(name: str, trainer: Trainer) -> str:
    presets = trainer.presets()
    kind = type(next(iter(presets.values())))
    known = settings_of(kind)
    about = [f"### `{name}` {{ #{name} }}", f"It trains {trainer.about}."]
    if len(presets) > 1:
        about.append(f"Presets: {_listed(presets)}; the first is the default.")
    if len(trainer.algorithms) > 1:
        about.append(f"Algorithms (`algorithm.name`): {_listed(trainer.algorithms)}.")
    lines = [
        f"| `{section}.{key}` | {_described(known[key])} | {_default(presets, known[key])} | "
        f"{meaning} |"
        for section in SECTIONS
        for key, (of, meaning) in settings(name).items()
        if of == section
    ]
    table = ["| Setting | Type | Default | Meaning |", "|---|---|---|---|", *lines]
    return "\n\n".join([*about, "\n".join(table)])


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _described(setting: Setting) -> str:
    return described(msgspec.inspect.type_info(setting.type)).replace("|", "\\|")


def _default(presets: Any, setting: Setting) -> str:
    """Return the default values by preset, or the one that all have."""
    values = {name: _text(_value(preset, setting.path)) for name, preset in presets.items()}
    if len(set(values.values())) == 1:
        return next(iter(values.values()))
    return ", ".join(f"{value} ({name})" for name, value in values.items())


def _value(settings_: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        settings_ = getattr(settings_, name)
    return settings_


def _text(value: Any) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    return f"`{flow(plain)}`"
