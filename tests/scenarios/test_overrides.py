"""Values of a scenario that a caller changes by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import as_options, parse
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.run import check
from hpcosim_server.errors import SessionRefused

TEXT = """name: small
platform:
  nodes:
    - {count: 2, processors: [{cores: 4, static_w: 10, dynamic_w: 1}]}
    - {count: 1, processors: [{cores: 8, static_w: 10, dynamic_w: 1}]}
workload:
  synthetic: {model: poisson, jobs: 5, mean_interarrival_s: 300}
  jobs: [0, 5]
scheduler: {name: easy, power: {name: timeout, timeout_s: 900}}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a small scenario."""
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    return file


def changed(file: Path, *changes: str) -> Scenario:
    """Return the scenario with `--set` options."""
    return load_scenario(file, parse(changes))


def test_a_value_can_be_a_list(small: Path) -> None:
    """A list is read as JSON or YAML."""
    assert changed(small, "workload.jobs=[0, 2000]").workload.jobs == (0, 2000)
    assert changed(small, "workload.jobs=\n- 1\n- 3").workload.jobs == (1, 3)


def test_a_path_can_have_list_positions(small: Path) -> None:
    """A path leads into mappings in lists, to items, and to whole mappings as items."""
    scenario = changed(
        small,
        "platform.nodes.0.count=64",
        "platform.nodes.1={count: 3, processors: [{cores: 2, static_w: 1, dynamic_w: 0}]}",
        "workload.jobs.1=4",
    )
    assert [group.count for group in scenario.platform.nodes] == [64, 3]
    assert scenario.workload.jobs == (0, 4)


def test_a_value_can_be_a_mapping(small: Path) -> None:
    """A mapping replaces the old mapping."""
    assert changed(small, "scheduler.power={name: always-on}").scheduler.power == {
        "name": "always-on"
    }
    assert changed(small, "scheduler={name: sjf}").scheduler.name == "sjf"


@pytest.mark.parametrize(
    ("changes", "power"),
    [
        (["scheduler.power.name=always-on"], {"name": "always-on"}),
        (["scheduler.power.name=timeout"], {"name": "timeout", "timeout_s": 900}),
        (
            ["scheduler.power.warm=4", "scheduler.power.name=keep-idle"],
            {"name": "keep-idle", "warm": 4},
        ),
        (["scheduler.power=always-on"], {"name": "always-on"}),
        (["scheduler=fcfs", "scheduler.power.name=oracle"], {"name": "oracle"}),
    ],
)
def test_a_new_power_manager_loses_the_settings_of_the_old_one(
    small: Path, changes: list[str], power: dict[str, Any]
) -> None:
    """Settings in other options stay, in any order of the options."""
    assert changed(small, *changes).scheduler.power == power
    assert changed(small, *reversed(changes)).scheduler.power == power


def test_a_new_model_loses_the_settings_of_the_old_one(small: Path) -> None:
    """A new synthetic model removes the settings of the old one."""
    model = changed(
        small,
        "workload.synthetic.jobs=9",
        "workload.synthetic.processors=64",
        "workload.synthetic.model=lublin",
    ).workload.synthetic
    assert model is not None
    assert (type(model).__name__, model.jobs) == ("Lublin", 9)  # type: ignore[union-attr]


def test_options_carry_any_value(small: Path) -> None:
    """Another process reads the same values from its command line."""
    changes = ["a=[0, 2000]", "b={name: x, y: [1, null]}", 'c="1"', "d=text", "e=1e3", "f=true"]
    overrides = parse(changes)
    assert parse([option.removeprefix("--set=") for option in as_options(overrides)]) == overrides


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("workload.lod=2", r"^override workload\.lod: unknown key 'lod'; did you mean 'load'\?$"),
        ("worklod.load=2", r"^override worklod\.load: unknown key 'worklod'; did you mean 'workl"),
        ("workload.load=x", r"^override workload\.load: expected a number, got 'x'$"),
        ("workload.jobs=[1, 2, 3]", r"^override workload\.jobs: expected a list of length 2, got"),
        ("workload.jobs=[0, x]", r"^override workload\.jobs\.1: expected an integer, got 'x'"),
        (
            "scheduler={nmae: easy}",
            r"^override scheduler\.nmae: unknown key 'nmae'; did you mean 'name'\?$",
        ),
        ("name.x=2", r"^override name\.x: name is 'small', which has no key 'x'"),
        (
            "platform.nodes.2.count=1",
            r"^override platform\.nodes\.2\.count: platform\.nodes has 2 items; .* from 0 to 1",
        ),
        (
            "platform.nodes.first.count=1",
            r"platform\.nodes is a list; expected a position from 0 to 1, got 'first'",
        ),
        ("workload.jobs", r"expected PATH=VALUE, such as workload\.load=1\.2, got 'workload\.jobs"),
        ("=3", r"expected PATH=VALUE"),
        ("workload..jobs=3", r"expected PATH=VALUE"),
        ("workload.jobs=[0, 5", r"^override workload\.jobs: expected a YAML value, such as"),
        ("scheduler={name: a, name: b}", r"override scheduler: .*'name' is there twice"),
    ],
)
def test_an_error_names_the_override(small: Path, change: str, error: str) -> None:
    """The error has the path, the expected value and the nearest key, and no line of the file."""
    with pytest.raises(ScenarioError, match=error):
        changed(small, change)


def test_an_error_that_only_the_client_finds_names_the_override(small: Path) -> None:
    """Errors of scheduler settings, which the client validates, have the path, too."""
    with pytest.raises(ScenarioError, match=r"^override scheduler\.power\.name: .*'timeot'"):
        check(small, parse(["scheduler.power.name=timeot"]))


def test_an_error_in_the_file_names_the_file(small: Path) -> None:
    """An error in the file has its line, also with overrides of other values."""
    small.write_text(TEXT.replace("count: 2", "count: two"))
    with pytest.raises(
        ScenarioError, match=r"small\.yaml:4: platform\.nodes\[0\]\.count: expected"
    ):
        changed(small, "workload.load=2")


@pytest.mark.parametrize(
    "path", ["platform.nodes.0.count", "platform.nodes.1.processors.0.cores", "workload.swf"]
)
def test_a_client_cannot_enlarge_the_platform(small: Path, path: str) -> None:
    """A client can set neither node groups nor file names."""
    with pytest.raises(SessionRefused, match=path):
        Library([small]).open(Hello(versions=[1], client="x", overrides={path: 64}))


def test_a_client_can_set_numbers(small: Path) -> None:
    """A client can set other scalars."""
    opened = Library([small]).open(
        Hello(
            versions=[1],
            client="x",
            overrides={"workload.synthetic.jobs": 4},
        )
    )
    assert opened.jobs == 4
