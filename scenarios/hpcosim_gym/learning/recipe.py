"""The recipe of a training: a file that says what is trained, how, for how long, and rated how."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from hpcosim_gym.errors import RecipeError
from hpcosim_gym.learning.trainers import Inputs, Trainer, find_trainer, trainer_names
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.messages import nearest, scenario_error, shown
from hpcosim_scenarios.model.overrides import apply, blame_override
from hpcosim_scenarios.model.yaml_tree import line_of, read_text, read_tree
from hpcosim_scenarios.shipped import find_scenario

KIND = "recipe"

NOT_IN_RECIPES = ("seed", "executor", "algorithm")
"""Settings that have another place: `seeds`, the options of the command, and `algorithm.name`."""

Positive = Annotated[float, Meta(gt=0, le=1000)]
Few = Annotated[int, Meta(ge=1, le=1000)]
AtLeastOne = Meta(min_length=1)
Seed = Annotated[int, Meta(ge=0, lt=2**31)]


class Evaluation(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How a network is rated beside rules: on all combinations of scenario, size and load.

    Attributes:
        scenarios: scenario files or names, or values to set by label, such as
            `{ctc-sp2: {scenario: train.yaml, workload.trace: ctc-sp2}}`.
        rules: schedulers, or values to set by label, such as `{timeout: {power: timeout}}`.
        metric: the metric that is compared, or weights of several by name, whose weighted sum is;
            less is better.
        loads: factors on the arrival rate (`workload.load`).
        sizes: factors on the number of nodes of each group, rounded up.
        windows: numbers of the first job of a window of each scenario and of the one after its
            last; empty: all jobs.
        set: values to set in all runs, such as `{workload.synthetic.sequences: 20}`.
        beside: values to set with the network, such as `{scheduler.power.wait_price_w: 500}`.
    """

    scenarios: Annotated[list[str], AtLeastOne] | Annotated[dict[str, dict[str, Any]], AtLeastOne]
    rules: Annotated[list[str], AtLeastOne] | Annotated[dict[str, dict[str, Any]], AtLeastOne]
    metric: str | Annotated[dict[str, float], AtLeastOne] = "mean_wait_s"
    loads: Annotated[tuple[Positive, ...], AtLeastOne] = (0.5, 0.8, 1.0, 1.2)
    sizes: Annotated[tuple[Positive, ...], AtLeastOne] = (0.5, 1.0, 2.0)
    windows: list[tuple[int, int]] = []
    set: dict[str, Any] = {}
    beside: dict[str, Any] = {}


class Choices(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The values that a search may give a setting: between two bounds, or one of several.

    Attributes:
        low, high: the bounds; two integers: only integers between them.
        log: whether the logarithm of the value is uniform before the search knows more.
        choices: the values, in place of bounds.
    """

    low: int | float | None = None
    high: int | float | None = None
    log: bool = False
    choices: list[Any] = []


class Search(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A search for settings that train best: by the final measure of the training.

    Attributes:
        trials: number of trainings, each with other settings.
        settings: what may vary, by dotted path, such as `algorithm.learning_rate`.
    """

    trials: Few = 20
    settings: Annotated[dict[str, Choices], AtLeastOne]


class _Name(Struct):
    name: str


class _Frame(Struct):
    """What is read first, because the other types depend on it."""

    environment: _Name
    preset: str | None = None


class _File(Struct):
    train: _Frame


class Recipe(NamedTuple):
    """A recipe, read and checked.

    Attributes:
        name: name of its file, without suffix.
        path: the file.
        overrides: values that replaced those of the file, by dotted path below `train`.
        trainer: what it trains.
        trained: name of the trainer.
        inputs: the scenarios.
        settings: settings of the training; the seed is not one of them.
        seeds: a network is trained with each.
    """

    name: str
    path: Path
    overrides: Mapping[str, Any]
    trainer: Trainer
    trained: str
    inputs: Inputs
    settings: Any
    seeds: tuple[int, ...]
    evaluation: Evaluation | None
    search: Search | None


class Setting(NamedTuple):
    """A setting of a trainer that a recipe can have.

    Attributes:
        path: names of the fields that lead to it in the settings, such as `("pairing", "wait")`.
        type: its type.
    """

    path: tuple[str, ...]
    type: Any


def settings_of(kind: type) -> dict[str, Setting]:
    """Return the settings in a dataclass by name; those of settings in it have their own names."""
    found: dict[str, Setting] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if name in NOT_IN_RECIPES:
            continue
        if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, Struct)):
            inner = get_type_hints(hint, include_extras=True)
            found |= {each: Setting((name, each), type_) for each, type_ in inner.items()}
        else:
            found[name] = Setting((name,), hint)
    return found


def load_recipe(path: Path, overrides: Mapping[str, Any] | None = None) -> Recipe:
    """Return the recipe in a file.

    Args:
        path: the YAML file.
        overrides: values to change, by dotted path below `train`, such as `budget.iterations`.

    Raises:
        RecipeError: the file cannot be read, or its content is no recipe. The error has the line
            and the field.
    """
    changes = {f"train.{name}": value for name, value in (overrides or {}).items()}
    try:
        tree = read_tree(path, KIND)
        try:
            apply(tree, changes)
            return _recipe(tree, path, overrides or {})
        except FileError as error:
            raise _located(error, path, changes) from None
    except ScenarioError as error:
        raise RecipeError(*error.args) from None


def _located(error: FileError, path: Path, changes: Mapping[str, Any]) -> RecipeError:
    """Return an error with its origin: the override, or the file and the line of its field."""
    fault = ScenarioError(error.what, error.path, error.line, error.field, error.key)
    if blamed := blame_override(fault, changes):
        field = blamed.field.replace("override train.", "override ")
        return RecipeError(blamed.what, field=field, key=blamed.key)
    line = line_of(read_text(path, KIND), error.field, error.key or None)
    return RecipeError(error.what, path, line, error.field, error.key)


def _recipe(tree: Any, path: Path, overrides: Mapping[str, Any]) -> Recipe:
    frame = _converted(tree, _File, (_File, _Frame, _Name)).train
    trained = frame.environment.name
    if trained not in trainer_names():
        what = f"expected one of {', '.join(trainer_names())}, got {shown(trained)}"
        near = nearest(trained, trainer_names())
        what += f"; did you mean {near!r}?" if near else ""
        raise RecipeError(what, field="$.train.environment.name")
    trainer = find_trainer(trained)
    presets = trainer.presets()
    preset = next(iter(presets)) if frame.preset is None else frame.preset
    if preset not in presets:
        what = f"expected one of {', '.join(presets)}, got {shown(preset)}"
        raise RecipeError(what, field="$.train.preset")
    settings = presets[preset]
    kinds = recipe_types(trained, trainer, type(settings))
    train = _converted(tree, kinds[0], kinds).train
    return Recipe(
        path.stem,
        path,
        overrides,
        trainer,
        trained,
        _inputs(train.environment, path.parent),
        _with(settings, train, dict.fromkeys(trainer.files, path.parent)),
        _seeds(train.seeds),
        train.evaluation,
        train.search,
    )


def recipe_types(trained: str, trainer: Trainer, settings: type) -> tuple[type[Struct], ...]:
    """Return the types of all mappings in the recipes of a trainer; the first is that of a file."""
    known = settings_of(settings)
    unknown = [name for name in (*trainer.environment, *trainer.budget) if name not in known]
    assert not unknown, f"{trained}: {unknown} are not settings"
    rest = [name for name in known if name not in (*trainer.environment, *trainer.budget)]
    scenarios: Any = str | list[str] if trainer.several else str
    own: list[Any] = [("name", str), ("scenario", scenarios), ("set", dict[str, Any], {})]
    if trainer.validates:
        own.append(("validation", str | None, None))
    names = trainer.algorithms
    choice = ("name", Literal[names] | UnsetType, UNSET)
    environment = _section("Environment", own, trainer.environment, known)
    algorithm = _section("Algorithm", [choice], rest, known)
    budget = _section("Budget", [], trainer.budget, known)
    train = msgspec.defstruct(
        "Train",
        [
            ("environment", environment),
            ("preset", str | None, None),
            ("algorithm", algorithm, msgspec.field(default_factory=algorithm)),
            ("budget", budget, msgspec.field(default_factory=budget)),
            ("seeds", Annotated[tuple[Seed, ...], Meta(min_length=1, max_length=1000)], (0,)),
            ("evaluation", Evaluation | None, None),
            ("search", Search | None, None),
        ],
        forbid_unknown_fields=True,
        kw_only=True,
    )
    file = msgspec.defstruct("File", [("train", train)], forbid_unknown_fields=True)
    return file, train, environment, algorithm, budget, Evaluation, Search, Choices


def _section(
    name: str, own: Sequence[Any], names: Sequence[str], known: Mapping[str, Setting]
) -> type[Struct]:
    fields = [(each, known[each].type | UnsetType, UNSET) for each in names]
    return msgspec.defstruct(name, [*own, *fields], forbid_unknown_fields=True, kw_only=True)


def _converted(tree: Any, kind: Any, kinds: Sequence[type[Struct]]) -> Any:
    try:
        return msgspec.convert(tree, kind)
    except msgspec.ValidationError as error:
        raise scenario_error(error, tree, kinds) from None


def _with(settings: Any, train: Any, folders: Mapping[str, Path]) -> Any:
    """Return settings with the values of a recipe.

    Args:
        folders: folders of the settings that are a path relative to one, by name.
    """
    known = settings_of(type(settings))
    for place in ("environment", "algorithm", "budget"):
        section = getattr(train, place)
        for name in section.__struct_fields__:
            value = getattr(section, name)
            if name not in known or value is UNSET:
                continue
            if name in folders and value is not None:
                value = str(folders[name] / value)
            try:
                settings = _replaced(settings, known[name].path, value)
            except ValueError as error:
                raise RecipeError(str(error), field=f"$.train.{place}.{name}") from None
    if hasattr(settings, "algorithm") and train.algorithm.name is not UNSET:
        settings = dataclasses.replace(settings, algorithm=train.algorithm.name)
    return settings


def _replaced(settings: Any, path: tuple[str, ...], value: Any) -> Any:
    name, *rest = path
    new = _replaced(getattr(settings, name), tuple(rest), value) if rest else value
    if isinstance(settings, Struct):
        return msgspec.structs.replace(settings, **{name: new})
    return dataclasses.replace(settings, **{name: new})


def _inputs(environment: Any, folder: Path) -> Inputs:
    named = environment.scenario
    names = [named] if isinstance(named, str) else named
    field = "$.train.environment.scenario"
    if not names:
        raise RecipeError("expected at least one scenario", field=field)
    fields = [field] if isinstance(named, str) else [f"{field}[{n}]" for n in range(len(names))]
    files = tuple(scenario_in(folder, *pair) for pair in zip(names, fields, strict=True))
    validation = getattr(environment, "validation", None)
    return Inputs(
        files,
        validation and scenario_in(folder, validation, "$.train.environment.validation"),
        environment.set,
    )


def scenario_in(folder: Path, name: str, field: str) -> Path:
    """Return the file of a scenario that a recipe names.

    Args:
        folder: the folder of the recipe.
        name: path of the file from there, or the name of a shipped scenario.
        field: the field that names it.

    Raises:
        RecipeError: there is no such file.
    """
    for path in (folder / name, find_scenario(name)):
        if path.is_file():
            return path
    what = f"{folder / name}: no such file or shipped scenario; `hpcosim scenarios` lists those"
    raise RecipeError(what, field=field)


def _seeds(seeds: Sequence[int]) -> tuple[int, ...]:
    for place, seed in enumerate(seeds):
        if seeds.index(seed) != place:
            raise RecipeError(f"{seed} is there twice", field=f"$.train.seeds[{place}]")
    return tuple(seeds)


def check_paths(recipe: Recipe, search: Search) -> None:
    """Check that the settings of a search exist.

    Raises:
        RecipeError: a path leads to no setting, or its choices are none.
    """
    for path, choices in search.settings.items():
        field = f'$.train.search.settings["{path}"]'
        section, _, name = path.partition(".")
        if section not in ("environment", "algorithm", "budget") or not name:
            what = f"expected a path such as algorithm.learning_rate, got {shown(path)}"
            raise RecipeError(what, field=field)
        bounds = (choices.low, choices.high)
        if bool(choices.choices) == (None not in bounds):
            raise RecipeError("expected either low and high, or choices", field=field)
        if choices.low is not None and choices.high is not None and choices.low > choices.high:
            raise RecipeError(f"expected low <= high, got {bounds}", field=field)
        value = choices.choices[0] if choices.choices else choices.low
        load_recipe(recipe.path, {path: value})
