"""Trainers: what `hpcosim train` can train. They register themselves by entry points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_schedulers.catalogue.trained import load, registered

TRAINERS = "hpcosim.trainers"
"""The group of the entry points of trainers."""


class Inputs(NamedTuple):
    """The scenarios of a training.

    Attributes:
        scenarios: scenario files with the cluster and the jobs to learn from, at least one.
        validation: scenario file whose jobs rate the networks; None: those to learn from.
        overrides: values that replace those of the scenarios, by dotted path.
    """

    scenarios: tuple[Path, ...]
    validation: Path | None = None
    overrides: Mapping[str, Any] | None = None


class Progress(NamedTuple):
    """What a training reports after each iteration.

    Attributes:
        number: number of the iteration.
        text: a line for people.
        measures: figures by name, such as `validation`; NaN: not measured.
    """

    number: int
    text: str
    measures: Mapping[str, float] = {}


Report = Callable[[Progress], None]


class TrainingStopped(Exception):  # noqa: N818 - not an error
    """Raised by a `Report` to end a training after the iteration that it reports."""


class Trainer(NamedTuple):
    """A training that recipes can name.

    Attributes:
        about: one line of description.
        presets: returns the default settings (frozen dataclasses) by name of the preset; the first
            is the default.
        algorithms: names of the algorithms that it can use; the first is the default.
        environment: names of the settings that define what is learned.
        budget: names of the settings that define how long it learns; the other settings, except
            `seed` and `executor`, are those of the algorithm.
        train: trains with `Inputs` into a folder with settings, and returns the file of the result.
            It takes the arguments `resume`, bool, and `report`, a `Report`.
        use: returns the values to set in a scenario, by dotted path, so that it uses a file.
        files: names of the settings that name an input file; a path is relative to the folder of
            the recipe.
        several: whether it learns from several scenarios.
        validates: whether it can validate on another scenario.
    """

    about: str
    presets: Callable[[], Mapping[str, Any]]
    algorithms: tuple[str, ...]
    environment: tuple[str, ...]
    budget: tuple[str, ...]
    train: Callable[..., Path]
    use: Callable[[Path], Mapping[str, Any]]
    files: tuple[str, ...] = ()
    several: bool = False
    validates: bool = False


def trainer_names() -> list[str]:
    """Return the names of all trainers."""
    return list(registered(TRAINERS))


def find_trainer(name: str) -> Trainer:
    """Return a trainer by its name.

    Raises:
        PolicyError: there is none of this name.
    """
    found: Trainer = load(TRAINERS, name)
    return found
