"""The runs of an experiment, checked before the first one starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_client import PolicyError
from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_experiments.model.axes import SCENARIO
from hpcosim_experiments.model.combinations import (
    Axes,
    Combination,
    Combinations,
    combinations_of,
)
from hpcosim_experiments.model.experiment import Experiment
from hpcosim_experiments.model.file import KIND, load_experiment, located
from hpcosim_experiments.runs.key import inputs_of, key_of
from hpcosim_experiments.runs.result import RunResult
from hpcosim_experiments.runs.settings import Settings, common_settings, settings_of_run
from hpcosim_experiments.runs.table_identity import table_identity
from hpcosim_experiments.runs.task import Measures, RunTask
from hpcosim_experiments.statistics.rows import Label
from hpcosim_scenarios.errors import FileError, ScenarioError
from hpcosim_scenarios.model.file import scenario_of, scenario_tree
from hpcosim_scenarios.model.files import input_files, with_files
from hpcosim_scenarios.model.messages import nearest
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.source import sha256_of
from hpcosim_scenarios.model.yaml_file import read_text
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.warnings import Warn, check_seed, ignore_warning, once
from hpcosim_scenarios.shipped import shipped_scenarios
from hpcosim_sim.record.versions import git_checkout, hpcosim_version


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
        text: its text.
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
        warn: called with each warning.
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
    """Plans the runs of an experiment; reads each file once.

    Args:
        path: the experiment file.
        experiment: its content.
        axes: its axes.
        overrides: values of the command line.
        warn: called with each warning.
        measures: further metrics.
    """

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
        """Return the run of a combination.

        Raises:
            ExperimentFileError: a setting is invalid; has the field.
            ScenarioError, WorkloadError: as `plan_of`.
        """
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
    """Return the file of a scenario that is named by its path or, if shipped, by its name.

    Args:
        experiment: the absolute path of the experiment file; relative paths start at its folder.
        name: the path or name.
        field: its place in the experiment file.

    Raises:
        ExperimentFileError: there is no such file or name.
    """
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
