"""Experiment files and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_client import PolicyError
from hpcosim_experiments.carry_out import checked_plan
from hpcosim_experiments.definition import load_experiment
from hpcosim_experiments.errors import ExperimentFileError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.shipped import EXPERIMENTS, shipped_experiments, shipped_folder
from support.experiments import only_run, write

HEAD = "name: study\nscenario: small.yaml\n"


def problem(folder: Path, text: str, overrides: dict[str, object] | None = None) -> str:
    """Return the error of an experiment without the folder."""
    path = write(folder, text)
    with pytest.raises((ExperimentFileError, ScenarioError, PolicyError)) as raised:
        checked_plan(path, overrides, lambda warning: None)
    return str(raised.value).replace(f"{folder}/", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes: {seed: [1]}\nmesure: {}", "4: unknown key 'mesure'; did you mean 'measure'?"),
        ("axes:\n  schedular: [easy]", "4: axes.schedular: unknown path 'schedular'; did you mean"),
        ("axes:\n  jobs: [[0, 5]]", "4: axes.jobs: unknown path 'jobs'; did you mean 'window'?"),
        (
            "axes:\n  workload.laod: [1]",
            """4: axes["workload.laod"][0]: workload.laod: unknown key 'laod'; did you mean""",
        ),
        (
            "axes:\n  seed: [1, 2]\n  load: [0.5,\n    -1]",
            "6: axes.load[1]: workload.load: expected a number >= 1e-06, got -1",
        ),
        ("axes:\n  seed: []", "4: axes.seed: expected at least one value"),
        ("axes:\n  load: [1, .nan]", "4: axes.load[1]: expected a finite number, got nan"),
        ("axes:\n  load: [.inf, -.inf]", "4: axes.load[0]: expected a finite number, got inf"),
        (
            "axes:\n  power:\n    - {name: timeout, timeout_s: -.inf}",
            "5: axes.power[0].timeout_s: expected a finite number, got -inf",
        ),
        (
            "axes: {seed: [1]}\nset: {workload.load: .nan}",
            '4: set["workload.load"]: workload.load: expected a number >= 1e-06, got nan',
        ),
        ("axes:\n  seed: [1, 1]", "4: axes.seed[1]: the value 1 is there twice"),
        (
            "axes:\n  seed: {valus: [1]}",
            "4: axes.seed: unknown key 'valus'; did you mean 'values'?",
        ),
        ("axes: {seed: [1]}\nexclude: [{sed: 1}]", "4: exclude[0]: unknown axis 'sed'; did you"),
        ("axes: {seed: [1]}\nexclude: [{seed: 2}]", "4: exclude[0].seed: seed has no value 2;"),
        ("axes: {seed: [1]}\nexclude: [{seed: 1}]", "4: exclude: no combination is left"),
        ("runs: [{seed: 1, load: 1}, {seed: 2}]", "3: runs[1]: expected a value for each axis;"),
        ("axes: {seed: [1]}\ncombine: list", "4: combine: combine: list needs combinations in"),
        ("axes: [", "3: is not YAML: "),
        ("axes: {scheduler: [esy]}", "3: axes.scheduler[0]: there is no scheduler 'esy'; did you"),
        (
            "axes: {power: [{name: timeout, timout_s: 9}]}",
            "3: axes.power[0]: scheduler.power.timout_s: ",
        ),
        ("axes: {seed: [1]}\nset: {workload.load: x}", '4: set["workload.load"]: workload.load: '),
        ("axes: {seed: [1]}\nset: {seed: 3}", "4: set.seed: the axis 'seed' sets seed in all runs"),
        (
            "axes: {scheduler: [easy], p: {values: {A: {scheduler: fcfs}}}}",
            "3: axes.p.values.A: scheduler.name is also set by axes.scheduler[0]",
        ),
        (
            "axes: {scenario: [smal.yaml]}",
            "3: axes.scenario[0]: smal.yaml: no such file or shipped",
        ),
        (
            "axes: {energy_j: {path: seed, values: [1]}}",
            "3: axes.energy_j: the results have a column 'energy_j'; give the axis another name",
        ),
        (
            "jobs: true\naxes: {cores: {path: seed, values: [1]}}",
            "4: axes.cores: the results have a column 'cores'; give the axis another name",
        ),
        (
            "axes: {seed: [1]}\nreport: {metrics: [mean_wait]}",
            "4: report.metrics[0]: unknown metric 'mean_wait'; did you mean 'mean_wait_s'?",
        ),
        (
            "axes: {seed: [1]}\nmeasure: {warm_up_s: -1}",
            "4: measure.warm_up_s: expected a number >=",
        ),
    ],
)
def test_errors_have_file_line_and_field(tmp_path: Path, text: str, message: str) -> None:
    """An error names the line and the field of the experiment file, and the nearest name."""
    assert f"study.yaml:{message}" in problem(tmp_path, HEAD + text)


def test_values_are_counted_before_they_are_read(tmp_path: Path) -> None:
    """A list that would take YAML half a minute is an error at once."""
    path = tmp_path / "many.yaml"
    path.write_text("axes:\n  seed: [" + "0," * 200_000 + "not: YAML")
    with pytest.raises(ExperimentFileError, match=r"at most 20,000 lines and commas, got 200,001"):
        load_experiment(path)


def test_a_missing_scenario_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    """The error names the shipped scenario or the file with the most similar name."""
    found = problem(tmp_path, "name: a\nscenario: dmeo\naxes: {seed: [1]}")
    assert found == (
        "study.yaml:2: scenario: dmeo: no such file or shipped scenario; did you mean 'demo'?"
    )
    found = problem(tmp_path, "name: a\nscenario: smal.yml\naxes: {seed: [1]}")
    assert found.endswith("no such file or shipped scenario; did you mean 'small.yaml'?")
    found = problem(tmp_path, "name: a\naxes: {seed: [1]}")
    assert found == "study.yaml:1: the key `scenario` is missing"


def test_the_experiment_is_not_suggested_as_its_scenario(tmp_path: Path) -> None:
    """The suggestion leaves out the experiment file, whatever its name is."""
    found = problem(tmp_path, "name: a\nscenario: stdy.yaml\naxes: {seed: [1]}")
    assert "stdy.yaml: no such file or shipped scenario" in found
    assert "did you mean 'study.yaml'" not in found


def test_a_folder_as_scenario_is_an_error(tmp_path: Path) -> None:
    """The error says that it is a folder."""
    (tmp_path / "inputs").mkdir()
    found = problem(tmp_path, "name: a\nscenario: inputs\naxes: {seed: [1]}")
    assert found == (
        "study.yaml:2: scenario: inputs: expected a scenario file, but this is a folder"
    )


def test_errors_of_the_scenario_itself_have_its_line(tmp_path: Path) -> None:
    """An invalid scenario file is reported with its own path and line."""
    path = write(tmp_path, HEAD + "axes: {seed: [1]}")
    scenario = tmp_path / "small.yaml"
    scenario.write_text(scenario.read_text().replace("count: 4", "count: 0"))
    with pytest.raises(ScenarioError, match=r"small.yaml:5: platform.nodes\[0\].count"):
        checked_plan(path, {}, lambda warning: None)


def test_a_value_of_the_command_line_may_not_be_an_axis(tmp_path: Path) -> None:
    """The command line cannot set what an axis sets in all runs."""
    found = problem(tmp_path, HEAD + "axes: {load: [1]}", {"workload.load": 2})
    assert found.startswith("override workload.load: the axis 'load' sets workload.load")


def test_a_value_of_an_axis_replaces_the_common_one(tmp_path: Path) -> None:
    """`set` is the default for values of an axis that do not set the path."""
    run = only_run(
        tmp_path,
        "set: {power: {name: timeout, timeout_s: 7}, platform.nodes.0.count: 9}\n"
        "axes: {policy: {values: {A: {scheduler: fcfs, power: always-on}, B: {scheduler: fcfs}}}}\n"
        "exclude: [{policy: B}]",
    )
    assert run.scenario.scheduler.power == {"name": "always-on"}
    assert run.scenario.scheduler.name == "fcfs"
    assert run.scenario.platform.nodes[0].count == 9


def test_a_section_of_an_axis_replaces_common_values_in_it(tmp_path: Path) -> None:
    """`set` does not change a part of a section that an axis sets."""
    run = only_run(
        tmp_path,
        "set: {power: {name: timeout, timeout_s: 7}}\n"
        "axes: {scheduler: [{name: sjf}, fcfs]}\nexclude: [{scheduler: fcfs}]",
    )
    assert run.task.chosen.title == "sjf"


def test_a_scheduler_as_text_keeps_the_power_manager(tmp_path: Path) -> None:
    """The axis `scheduler` sets the name only."""
    run = only_run(
        tmp_path, "set: {power: {name: timeout, timeout_s: 7}}\naxes: {scheduler: [sjf]}"
    )
    assert run.task.chosen.title == "unaware sjf, timeout(timeout_s=7.0)"


def test_paths_start_at_the_folder_of_the_experiment(tmp_path: Path) -> None:
    """Files that an experiment names are next to it, also with a scenario of another folder."""
    (tmp_path / "mine.py").write_text("def quick(view):\n    pass\n")
    (tmp_path / "log.swf").write_text("1 0 0 60 4 -1 -1 4 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
    text = (
        "name: a\nscenario: demo\n"
        "set: {workload: {swf: log.swf}}\n"
        "axes: {scheduler: ['mine.py:quick']}"
    )
    (run,) = checked_plan(write(tmp_path, text), {}, lambda warning: None)[0].runs
    assert run.task.files == {"workload.swf": tmp_path / "log.swf"}
    assert run.task.chosen.files() == [tmp_path / "mine.py"]


def test_a_seed_without_effect_is_a_warning(tmp_path: Path) -> None:
    """An axis of seeds over fixed jobs is probably a mistake."""
    warned: list[str] = []
    text = (
        "name: a\nscenario: small.yaml\naxes: {seed: [1, 2]}\n"
        "set: {workload: {inline: [{job_id: 1, submit_s: 0, run_s: 5, cores: 1}]}}"
    )
    checked_plan(write(tmp_path, text), {}, warned.append)
    assert len(warned) == 1
    assert warned[0].startswith("the seed has no effect")


def test_the_seed_of_the_scenario_itself_is_no_warning(tmp_path: Path) -> None:
    """Deterministic policies run with one seed beside randomised ones with several."""
    warned: list[str] = []
    text = (
        "name: a\nscenario: small.yaml\ncombine: list\n"
        "axes: {scheduler: [fcfs, random-random], seed: [3, 4]}\n"
        'runs: [{scheduler: fcfs, seed: 3}, {scheduler: random-random, seed: "*"}]\n'
        "set: {workload: {inline: [{job_id: 1, submit_s: 0, run_s: 5, cores: 1}]}}"
    )
    plan, _ = checked_plan(write(tmp_path, text), {}, warned.append)
    assert (len(plan.runs), warned) == (3, [])


OWN = shipped_folder() / EXPERIMENTS
SHIPPED = [path for path in shipped_experiments().values() if path.is_relative_to(OWN)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_experiments_are_valid(path: Path) -> None:
    """Every shipped experiment can be planned without a warning."""
    warned: list[str] = []
    plan, _ = checked_plan(path, {}, warned.append)
    assert len({run.key for run in plan.runs}) == len(plan.runs)
    assert warned == []


def test_an_axis_has_a_printable_name(tmp_path: Path) -> None:
    """A line break in a name would break tables."""
    text = HEAD + 'axes:\n  "a\\nb": {path: seed, values: [1]}'
    assert "expected a name of printable characters" in problem(tmp_path, text)


@pytest.mark.parametrize(
    ("axis", "overlap"),
    [
        ("window: [[0, 9], [9, 20], [15, 30]]", "9-20 and 15-30"),
        ("window_s: [[0, 10], [5.5, 20]]", "0-10 and 5.5-20"),
        ("window: [[0, 9], [9, 20]]", ""),
        ("repeat: {values: {a: {workload.jobs: [0, 9]}, b: {workload.jobs: [0, 9], seed: 2}}}", ""),
    ],
)
def test_windows_that_overlap_are_a_warning(tmp_path: Path, axis: str, overlap: str) -> None:
    """Repeats that share jobs are not independent."""
    warned: list[str] = []
    text = f"name: a\nscenario: small.yaml\naxes: {{{axis}}}\n"
    checked_plan(write(tmp_path, text), {}, warned.append)
    assert len(warned) == bool(overlap)
    assert all(f"the windows {overlap} overlap" in warning for warning in warned)


def test_windows_that_are_compared_may_overlap(tmp_path: Path) -> None:
    """An axis that is not of repeats has no intervals over its labels."""
    warned: list[str] = []
    text = "name: a\nscenario: small.yaml\naxes: {window: [[0, 9], [5, 20]]}\nreport: {over: []}\n"
    checked_plan(write(tmp_path, text), {}, warned.append)
    assert warned == []
