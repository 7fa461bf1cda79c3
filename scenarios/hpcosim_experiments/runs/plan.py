"""The runs of an experiment, checked before the first one starts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_client import PolicyError
from hpcosim_client.library import is_library
from hpcosim_experiments.definition import (
    KIND,
    SCENARIO,
    Axes,
    Combination,
    Combinations,
    Experiment,
    combinations_of,
    key_in,
    load_experiment,
    located,
    path_of,
    settings_of,
)
from hpcosim_experiments.errors import ExperimentError, ExperimentFileError
from hpcosim_experiments.runs.task import Measures, RunResult, RunTask
from hpcosim_experiments.statistics.measured import MeasureSettings, measured_period, named_kinds
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.file import (
    FILES,
    content_of,
    input_files,
    scenario_of,
    scenario_tree,
    with_files,
)
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.logs import sha256_of
from hpcosim_scenarios.model.messages import nearest
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.yaml_tree import read_text
from hpcosim_scenarios.running.library import load_with
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_scenarios.running.warnings import Warn, check_seed, ignore_warning, once
from hpcosim_scenarios.shipped import shipped_scenarios
from hpcosim_schedulers.catalogue.policy_files import from_folder, is_policy_file
from hpcosim_schedulers.catalogue.schedulers import REPLAYED
from hpcosim_schedulers.catalogue.trained import is_trained
from hpcosim_schedulers.power.settings import PATHS
from hpcosim_sim.record.versions import git_checkout, hpcosim_version
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

# Paths of files in the values that an experiment sets: they start at the experiment's folder.

AGENTS = "scheduler.agents"
SCHEDULERS = ("scheduler", "scheduler.name")
POWER = tuple(f"scheduler.power.{name}" for name in PATHS)


SELECTIONS = ("workload.jobs", "workload.window_s", "workload")
"""Settings that a workload without jobs is blamed on, the most probable first."""


NO_NAMES = (
    "no workload has names of a {kind}; expected jobs with them, such as a log in the Standard "
    "Workload Format with field 12 for users; leave it out"
)


def absolute(settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings whose paths of files are absolute.

    Args:
        settings: values by dotted path.
        folder: the absolute folder where relative paths start.
    """
    return {path: _absolute(path, value, folder) for path, value in settings.items()}


def _absolute(path: str, value: Any, folder: Path) -> Any:
    if isinstance(value, dict):
        return {key: _absolute(f"{path}.{key}", item, folder) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if path in FILES or path in POWER:
        return str(folder / value) if value else value
    if path in SCHEDULERS or path.startswith(f"{AGENTS}."):
        return _scheduler(value, folder)
    return value


def _scheduler(name: str, folder: Path) -> str:
    """Return the name of a scheduler with the absolute path of its file."""
    kind, colon, file = name.partition(":")
    if is_policy_file(name) or is_library(name):
        return from_folder(name, folder)
    if colon and (is_trained(name) or f"{kind}:" in REPLAYED):
        return f"{kind}:{folder / file}"
    return name


# The identity of the jobs that a scenario reads or draws, before it selects from them.

SHAPING = ("window_s", "jobs", "divide_cores", "max_cores", "load", "reference_clock_ghz")
"""Keys of a workload that apply to jobs that are already read."""


def table_identity(scenario: Scenario, *, seed: bool = True) -> bytes:
    """Return a key that is equal for scenarios that read or draw the same jobs.

    Args:
        scenario: the scenario; its paths are absolute.
        seed: include the seed of a model that draws jobs.
    """
    workload = msgspec.to_builtins(scenario.workload)
    for name in SHAPING:
        del workload[name]
    drawn = scenario.workload.synthetic is not None and seed
    return msgspec.json.encode([workload, scenario.seed if drawn else None], order="sorted")


# The values that a run sets in its scenario, with their places in the experiment file.


class Settings(NamedTuple):
    """Values to set in a scenario.

    Attributes:
        values: values by dotted path.
        fields: places in the experiment file, such as `$.axes.load[0]`, by dotted path; a value of
            the command line has none.
    """

    values: Mapping[str, Any]
    fields: Mapping[str, str]

    def field_of(self, path: str) -> str | None:
        """Return the place of the value that sets a path, a part of it or a section around it."""
        steps = path.split(".")
        for known, field in self.fields.items():
            parts = known.split(".")
            if parts[: len(steps)] == steps or steps[: len(parts)] == parts:
                return field
        return None


def common_settings(
    experiment: Experiment, overrides: Mapping[str, Any], axes: Axes, folder: Path
) -> Settings:
    """Return what all runs set: the section `set`, and the values of the command line.

    Args:
        overrides: values of the command line, by dotted path or short name.
        folder: the absolute folder of the experiment file, where the paths in it start.

    Raises:
        ExperimentFileError: a path is unknown, or an axis sets it in all runs.
    """
    own = _paths(experiment.set, "$.set")
    given = _paths(overrides, "")
    for path, field in (*own.fields.items(), *((path, "") for path in given.values)):
        for name, axis in axes.items():
            if all(_is_within(path, value.settings) for value in axis.values):
                what = f"the axis {name!r} sets {path} in all runs; remove one of the two"
                raise ExperimentFileError(what, field=field or f"override {path}")
    own_values = absolute(own.values, folder)
    kept = {path: each for path, each in own_values.items() if not _is_within(path, given.values)}
    values = {**kept, **absolute(given.values, Path.cwd())}
    return Settings(values, {path: own.fields[path] for path in kept})


def settings_of_run(common: Settings, run: Combination, folder: Path) -> Settings:
    """Return what a run sets. A value of an axis replaces a common one, and those below its path.

    Raises:
        ExperimentFileError: two axes set the same path.
    """
    values: dict[str, Any] = {}
    fields: dict[str, str] = {}
    for value in run.values:
        for path in value.settings:
            if path in values:
                what = f"{path} is also set by {fields[path].removeprefix('$.')}"
                raise ExperimentFileError(what, field=value.field)
            fields[path] = value.field
        values |= absolute(value.settings, folder)
    kept = {path: each for path, each in common.values.items() if not _is_within(path, values)}
    known = {path: field for path, field in common.fields.items() if path in kept}
    return Settings({**kept, **values}, {**known, **fields})


def _is_within(path: str, settings: Mapping[str, Any]) -> bool:
    """Return whether settings set a path or a section around it."""
    steps = path.split(".")
    return any(".".join(steps[:end]) in settings for end in range(1, len(steps) + 1))


def _paths(values: Mapping[str, Any], field: str) -> Settings:
    found: dict[str, Any] = {}
    fields: dict[str, str] = {}
    for name, value in values.items():
        place = key_in(field, name) if field else f"override {name}"
        setting = settings_of(path_of(name, place), value, place)
        found |= setting
        fields |= dict.fromkeys(setting, place)
    return Settings(found, fields)


# The key of a run: everything that its result depends on.


def inputs_of(
    scenario: Scenario,
    files: Mapping[str, str],
    policy: Mapping[str, object],
    settings: MeasureSettings,
    version: str,
    measures: Callable[..., object] | None = None,
) -> bytes:
    """Return everything that the result of a run depends on, as JSON with sorted keys.

    Names that make no difference are left out: those of the scenario and of files.

    Args:
        scenario: the scenario after all settings.
        files: SHA-256 of the files that the scenario reads, by dotted path.
        policy: description of the policy with the checksums of its files.
        settings: what is measured.
        version: version of hpcosim.
        measures: returns further metrics; identified by its name.
    """
    inputs: dict[str, object] = {
        "scenario": content_of(scenario),
        "files": files,
        "policy": policy,
        "measure": settings,
        "hpcosim": version,
    }
    if measures is not None:
        inputs["measures"] = f"{measures.__module__}.{measures.__qualname__}"
    return msgspec.json.encode(inputs, order="sorted")


def key_of(inputs: bytes) -> str:
    """Return the key of a run: the SHA-256 of its inputs, 64 hexadecimal digits."""
    return hashlib.sha256(inputs).hexdigest()


class PlannedRun(NamedTuple):
    """A run of an experiment.

    Attributes:
        labels: labels by axis.
        key: key of the result.
        inputs: JSON of which the key is the checksum.
        task: what a worker gets.
        scenario: the scenario after all settings; paths are absolute.
        settings: what the run sets in its scenario.
    """

    labels: Mapping[str, Label]
    key: str
    inputs: bytes
    task: RunTask
    scenario: Scenario
    settings: Settings


def name_of(run: PlannedRun) -> str:
    """Return the labels of a run as text."""
    return ", ".join(f"{axis}={label}" for axis, label in run.labels.items())


class Plan(NamedTuple):
    """An experiment with its runs.

    Attributes:
        path: the experiment file.
        experiment: its content.
        axes: the axes by name.
        runs: the runs in the order of the experiment. Runs with equal keys are simulated once.
    """

    path: Path
    text: str
    experiment: Experiment
    axes: Axes
    runs: Sequence[PlannedRun]


def plan_of(
    path: Path,
    overrides: Mapping[str, Any] | None = None,
    warn: Warn = ignore_warning,
    *,
    changed: Callable[[Combinations], Combinations] = lambda found: found,
    measures: Measures | None = None,
) -> Plan:
    """Read an experiment file and plan its runs. Job logs are not read here.

    Args:
        path: the experiment file.
        overrides: values to set in the scenario in all runs, by dotted path or short name.
        changed: returns the combinations to run from those of the file.
        measures: returns further metrics of a run.

    Raises:
        ExperimentFileError: the file, a setting or a policy is invalid. It has the line.
        ScenarioError: the scenario file is invalid.
        WorkloadError: a job log is missing.
    """
    experiment, text = load_experiment(path), read_text(path, KIND)
    try:
        combinations = changed(combinations_of(experiment))
        planner = _Planner(
            path, experiment, combinations.axes, overrides or {}, once(warn), measures
        )
        runs = [planner.run(run, combinations.labels(run)) for run in combinations.runs]
    except ExperimentFileError as error:
        raise _with_line(error, path) from None
    return Plan(path, text, experiment, combinations.axes, runs)


def _with_line(error: ExperimentFileError, path: Path) -> ExperimentFileError:
    known = error.path is not None or error.field.startswith("override")
    return error if known else located(error, path)


class _Planner:
    """Plans the runs of an experiment; reads each file once."""

    def __init__(
        self,
        path: Path,
        experiment: Experiment,
        axes: Axes,
        overrides: Mapping[str, Any],
        warn: Warn,
        measures: Measures | None,
    ) -> None:
        self._folder = path.parent.absolute()
        self._experiment = experiment
        self._common = common_settings(experiment, overrides, axes, self._folder)
        self._warn = warn
        self._measures = measures
        self._version = hpcosim_version()
        checkout = git_checkout()
        dirty = "-dirty" if checkout is not None and checkout.dirty else ""
        self._commit = None if checkout is None else checkout.commit + dirty
        self._scenario_file = cache(partial(_scenario_file, path.absolute()))
        self._tree = cache(scenario_tree)
        self._sha256 = cache(sha256_of)
        self._description = cache(Chosen.description)
        self._check = cache(Chosen.check)
        self._policy_files = cache(Chosen.files)

    def run(self, combination: Combination, labels: Mapping[str, Label]) -> PlannedRun:
        """Return the run of a combination."""
        settings = settings_of_run(self._common, combination, self._folder)
        values = dict(settings.values)
        name = values.pop(SCENARIO, self._experiment.scenario)
        file = self._scenario_file(name, settings.fields.get(SCENARIO, "$.scenario"))
        try:
            scenario = scenario_of(self._tree(file), file, values)
            chosen = chosen_by(scenario, file, overrides=values)
        except ScenarioError as error:
            raise _from_setting(error, settings) or error from None
        try:
            self._check(chosen)
            policy = self._description(chosen)
        except PolicyError as error:
            field = settings.field_of("scheduler")
            if field is None:
                raise
            raise ExperimentFileError(str(error), field=field) from None
        if scenario.seed != self._tree(file).get("seed", 0):
            check_seed(scenario, values, chosen.name, self._warn)
        return self._planned(labels, settings, scenario, chosen, policy, file.parent.absolute())

    def _planned(
        self,
        labels: Mapping[str, Label],
        settings: Settings,
        scenario: Scenario,
        chosen: Chosen,
        policy: Mapping[str, object],
        folder: Path,
    ) -> PlannedRun:
        files = input_files(scenario, folder)
        checksums = {name: self._sha256(file) for name, file in files.items()}
        measured = self._experiment.measure
        inputs = inputs_of(scenario, checksums, policy, measured, self._version, self._measures)
        key = key_of(inputs)
        scenario = with_files(scenario, files)
        base = RunResult(
            key=key,
            status="ok",
            hpcosim=self._version,
            git_commit=self._commit,
            policy_name=chosen.title,
            workload_sha256=next(
                (checksum for name, checksum in checksums.items() if name.startswith("workload.")),
                None,
            ),
        )
        chosen = chosen.moved(Path.absolute)
        task = RunTask(
            base=base,
            scenario=msgspec.json.encode(scenario),
            files=files,
            checksums={
                file: self._sha256(file) for file in (*files.values(), *self._policy_files(chosen))
            },
            table=table_identity(scenario),
            chosen=chosen,
            settings=measured,
            jobs=self._experiment.jobs,
            measures=self._measures,
        )
        return PlannedRun(labels, key, inputs, task, scenario, settings)


def _scenario_file(experiment: Path, name: str | None, field: str) -> Path:
    """Return the file of a scenario that is named by its path or, if shipped, by its name."""
    if name is None:
        raise ExperimentFileError("the key `scenario` is missing", field="$")
    path = experiment.parent / name
    if path.is_file():
        return path
    shipped = shipped_scenarios()
    if name in shipped:
        return shipped[name]
    if path.is_dir():
        what = f"{path}: expected a scenario file, but this is a folder"
        raise ExperimentFileError(what, field=field)
    others = {file.name for file in experiment.parent.glob("*.y*ml")} - {experiment.name}
    near = nearest(name, [*shipped, *others])
    advice = f"did you mean {near!r}?" if near else "`hpcosim scenarios` lists the shipped ones"
    raise ExperimentFileError(f"{path}: no such file or shipped scenario; {advice}", field=field)


def _from_setting(error: FileError, settings: Settings) -> ExperimentFileError | None:
    """Return an error with the place of the setting that caused it; None: none did."""
    path = error.field.removeprefix("override ")
    if path == error.field:
        return None
    field = settings.field_of(path)
    if field is None:
        return ExperimentFileError(error.what, field=error.field, key=error.key)
    return ExperimentFileError(f"{path}: {error.what}", field=field)


def count_jobs(
    path: Path, runs: Iterable[PlannedRun], stored: Iterable[RunResult] = ()
) -> dict[str, int]:
    """Check the input files of runs, and return their numbers of jobs by key.

    The section `measure` is checked, too. A model is drawn with the seed of one run only, and the
    other seeds count as many jobs.

    Raises:
        ExperimentFileError: a setting of the experiment leaves no job, or names an invalid file;
            no job is in the measured period of a run; or jobs are to be measured by names that
            none has. It has the line.
        ScenarioError, WorkloadError: a file cannot be read or is invalid.
    """
    runs = list(runs)
    by_table: dict[bytes, list[PlannedRun]] = {}
    for run in runs:
        by_table.setdefault(table_identity(run.scenario, seed=False), []).append(run)
    counts: dict[str, int] = {}
    named = {str(row["breakdown"]) for each in stored for row in each.breakdowns}
    for same in by_table.values():
        known, with_names = _counts(path, same)
        counts |= known
        named |= with_names
    settings = runs[0].task.settings if runs else MeasureSettings()
    for kind in settings.kinds:
        if kind not in named:
            key = "by" if kind in settings.by else "per_user"
            what = NO_NAMES.format(kind=kind)
            raise located(ExperimentFileError(what, field=f"$.measure.{key}"), path)
    return counts


def _counts(path: Path, runs: list[PlannedRun]) -> tuple[dict[str, int], set[str]]:
    """Return the number of jobs by key of runs with the same jobs, and which names jobs have."""
    run = runs[0]
    counts = {}
    named: set[str] = set()
    by_section: dict[bytes, int] = {}
    try:
        table = source_jobs(run.scenario, Path())
        for run in runs:
            scenario = run.scenario
            sections = (scenario.workload, scenario.economics, scenario.signals)
            identity = msgspec.json.encode(sections)
            if identity not in by_section:
                jobs = load_with(scenario, Path(), table).jobs
                _check_period(jobs, run, path)
                by_section[identity] = len(jobs)
                named |= named_kinds(jobs)
                named |= {"partition"} if scenario.platform.partitions else set()
            counts[run.key] = by_section[identity]
    except (ScenarioError, WorkloadError) as error:
        raise _blamed(error, run, path) from None
    return counts, named


def _check_period(jobs: JobTable, run: PlannedRun, path: Path) -> None:
    """Check that jobs of a run are submitted within its measured period."""
    try:
        measured_period(jobs.submit_s, run.task.settings)
    except ExperimentError as error:
        what = f"{name_of(run)}: {str(error).removeprefix('measure: ')}"
        raise located(ExperimentFileError(what, field="$.measure"), path) from None


def _blamed(error: ScenarioError | WorkloadError, run: PlannedRun, path: Path) -> Exception:
    """Return an error with the place of the setting that probably caused it."""
    if isinstance(error, WorkloadError):
        if error.path is not None:
            return error
        suspects: tuple[str, ...] = SELECTIONS
    else:
        suspects = (error.field.removeprefix("$."),)
    for suspect in suspects:
        if (field := run.settings.field_of(suspect)) is not None:
            return located(ExperimentFileError(error.what, field=field), path)
    return error
