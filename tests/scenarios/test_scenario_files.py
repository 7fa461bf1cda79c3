"""Scenario files: what is read, and the errors."""

from __future__ import annotations

import inspect
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from msgspec import Struct

from hpcosim_protocol import platform as platforms
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model import events, platform, scenario, series, workload
from hpcosim_scenarios.model import scenario as scheduler
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running.run import check

TEXT = """name: small
platform:
  nodes:
    - count: 2
      memory_mb: 1000
      processors:
        - cores: 4
          static_w: 10
          dynamic_w: 1
          contention:
            {c_mbps: 9, b_per_mbps: -1.0e-5, da: 1, db_mbps: 9, dc_mbps: 25000, dd_mbps: 9}
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}
workload: {synthetic: {model: poisson, jobs: 5, mean_interarrival_s: 300}}
scheduler: {name: easy}
"""


def written(folder: Path, old: str = "", new: str = "") -> Path:
    """Return the file of the scenario with a part of it replaced."""
    assert old in TEXT
    file = folder / "small.yaml"
    file.write_text(TEXT.replace(old, new, 1))
    return file


def structs_of(module: object) -> set[type[Struct]]:
    """Return the structs that a module defines."""
    return {
        kind
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, Struct) and kind.__module__ == getattr(module, "__name__", "")
    }


def test_advice_about_unknown_keys_knows_every_kind_of_mapping() -> None:
    """Messages know the structs of all mappings of a scenario."""
    modules = (scenario, scheduler, workload, platforms, events, series)
    own = set().union(*map(structs_of, modules))
    assert own - {workload.Imitated} <= set(scenario.KINDS)


def test_every_number_of_a_platform_is_bounded() -> None:
    """Every number of a platform has bounds, and every bound has a field."""
    numbers = {
        field.name
        for kind in structs_of(platforms)
        for field in msgspec.structs.fields(kind)
        if has_numbers(field.type)
    }
    assert numbers == set(platform.BOUNDS)


def has_numbers(kind: Any) -> bool:
    """Return whether a value of a type is or contains a number, outside a struct of its own."""
    if get_origin(kind) is Literal:
        return False
    return kind in (int, float) or any(map(has_numbers, get_args(kind)))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("count: 2", "count: 1000001", r":4: platform\.nodes\[0\]\.count: expected a number"),
        ("cores: 4", "cores: 1000001", r":7: .*processors\[0\]\.cores: expected a number from 1"),
        ("static_w: 10", "static_w: .inf", r":8: .*static_w: expected a number .* got inf"),
        ("sleep_w: 9", "sleep_w: 1.0e10", r":13: .*power_states\.sleep_w: .* to 1e\+09, got 1e"),
        ("da: 1", "da: 1.0e7", r":11: .*processors\[0\]\.contention\.da: expected a number"),
        ("          dynamic_w: 1\n", "", r":7: .*processors\[0\]: the key `dynamic_w` is missing"),
        ("memory_mb", "memory", r":5: platform\.nodes\[0\]: unknown key 'memory'; did you"),
        ("sleep_w", "slep_w", r":13: .*power_states: unknown key 'slep_w'; did you mean 'sleep_w'"),
        ("switch_on_s:", "switch_on_sd_s: 1, switch_on_z: 1, switch_on_s:", "'switch_on_z'; did"),
        ("dd_mbps: 9", "dd_mbps: 9000", r":7: .*processors\[0\]: contention: dc_mbps"),
        ("scheduler:", "sheduler:", r":15: unknown key 'sheduler'; did you mean 'scheduler'"),
    ],
)
def test_a_bad_platform_is_told_with_line_and_field(
    old: str, new: str, error: str, tmp_path: Path
) -> None:
    """A value out of bounds, a missing or unknown key, and an inconsistent model are errors."""
    with pytest.raises(ScenarioError, match=f"small.yaml{error}" if error[0] == ":" else error):
        load_scenario(written(tmp_path, old, new))


def test_nodes_of_all_groups_together_are_bounded(tmp_path: Path) -> None:
    """The total number of nodes is bounded, also if each group is within bounds."""
    group = "{count: 600000, processors: [{cores: 1, static_w: 0, dynamic_w: 0}]}"
    file = tmp_path / "many.yaml"
    file.write_text(f"name: x\nplatform: {{nodes: [{group}, {group}]}}\nworkload: {{swf: a.swf}}\n")
    with pytest.raises(ScenarioError, match=r":2: platform: expected at most 1000000 nodes, got"):
        load_scenario(file)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ("power: {name: timeout}", r":15: scheduler\.power\.timeout_s: is missing"),
        ("power: {name: sleepy}", r":15: scheduler\.power\.name: there is no power manager"),
        ("power_awareness: some", r":15: scheduler\.power_awareness: expected one of"),
        ("agents: {mine: easy}", r":15: scheduler\.agents\.mine: expected a trained scheduler"),
    ],
)
def test_settings_of_the_scheduler_are_left_to_the_client(
    settings: str, error: str, tmp_path: Path
) -> None:
    """A server accepts any settings; `check` reports the field."""
    file = written(tmp_path, "name: easy", f"name: easy, {settings}")
    load_scenario(file)
    with pytest.raises(ScenarioError, match=f"small.yaml{error}"):
        check(file)


def test_a_manager_needs_nodes_that_can_be_switched(tmp_path: Path) -> None:
    """The error has the field of the power manager."""
    file = written(tmp_path, "name: easy", "name: easy, power: {name: timeout, timeout_s: 60}")
    text = file.read_text().splitlines()
    file.write_text(
        "\n".join(line for line in text if "switch" not in line and "states" not in line)
    )
    with pytest.raises(
        ScenarioError, match=r"scheduler\.power: .*add power_states to a node group"
    ):
        check(file)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "memory_mb: 1000",
            "count: 3",
            r"small\.yaml:5: the key 'count' is there twice; the first is at line 4$",
        ),
        (
            "scheduler:",
            "name: again\nscheduler:",
            r":15: the key 'name' .* first is at line 1$",
        ),
        ("dd_mbps: 9", "c_mbps: 9", r":11: the key 'c_mbps' .* the first is at line 11$"),
    ],
)
def test_a_key_that_is_there_twice_is_an_error(
    old: str, new: str, error: str, tmp_path: Path
) -> None:
    """The error has both lines, at any depth."""
    with pytest.raises(ScenarioError, match=error):
        load_scenario(written(tmp_path, old, new))


def test_yaml_merge_keys_still_work(tmp_path: Path) -> None:
    """A key that is both merged from an anchor and stated is no duplicate."""
    text = TEXT.replace("- count: 2", "- &group\n      count: 2")
    file = tmp_path / "merged.yaml"
    file.write_text(text.replace("workload:", "    - {<<: *group, count: 3}\nworkload:"))
    assert [group.count for group in load_scenario(file).platform.nodes] == [2, 3]


def test_a_name_stands_for_a_mapping_with_that_name(tmp_path: Path) -> None:
    """`scheduler: easy` and `power: oracle` are short for mappings with a name."""
    scheduler = load_scenario(written(tmp_path, "scheduler: {name: easy}", "scheduler: easy"))
    assert scheduler.scheduler == load_scenario(written(tmp_path)).scheduler
    power = load_scenario(written(tmp_path, "{name: easy}", "{name: easy, power: oracle}"))
    assert power.scheduler.power == {"name": "oracle"}


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "mean_interarrival_s: 300",
            "mean_interarrival_s: 10m",
            r":14: workload\.synthetic\.mean_interarrival_s: expected a number in seconds, without "
            r"the unit, got '10m'; write 600$",
        ),
        ("static_w: 10", "static_w: 60W", r":8: .*\.static_w: .* number in W, .*; write 60$"),
        ("cores: 4", "clock_ghz: 2500 MHz", r"clock_ghz: .* number in GHz, .*write 2\.5$"),
        ("memory_mb: 1000", "memory_mb: 1GB", r":5: .*memory_mb: .* number in MB, .*write 1000$"),
        ("jobs: 5", "jobs: 5k", r"jobs: expected a number without a unit, got '5k'$"),
        ("300}", "300, run_s: [60, 2h]}", r"run_s\[1\]: .* in seconds, .*; write 7200$"),
    ],
)
def test_a_number_with_a_unit_gets_a_hint(old: str, new: str, error: str, tmp_path: Path) -> None:
    """The error has the unit of the field and the number to write."""
    with pytest.raises(ScenarioError, match=error):
        load_scenario(written(tmp_path, old, new))


def test_a_setting_of_the_power_manager_with_a_unit_gets_a_hint(tmp_path: Path) -> None:
    """Settings that only the client validates get the hint, too."""
    power = "{name: easy, power: {name: timeout, timeout_s: 15min}}"
    with pytest.raises(ScenarioError, match=r"power\.timeout_s: .* in seconds, .*; write 900$"):
        check(written(tmp_path, "{name: easy}", power))


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "count: 2",
            "count: -3",
            r":4: platform\.nodes\[0\]\.count: .* integer >= 1, got -3",
        ),
        ("count: 2", "count: 2.5", r"expected an integer, got 2\.5"),
        (
            "name: small",
            "name: a/b",
            r":1: name: .* name of 1 to 100 letters, .* got 'a/b'",
        ),
        ("jobs: 5", "jobs: [5]", r"jobs: expected an integer, got \[5\]"),
        (
            "model: poisson",
            "model: poison",
            r"one of bernoulli, .*; did you mean 'poisson'",
        ),
        ("300}}", "300}, placement: nodes}", r"placement: expected one of .*, got 'nodes'"),
        ("300}}", "300}, load: much}", r"workload\.load: expected a number, got 'much'"),
        ("300}}", "300}, jobs: 5}", r"workload\.jobs: expected a list or null, got 5"),
        ("platform:", "platform: 7\nrest:", r":2: platform: expected a mapping, got 7"),
        ("name: small\n", "", r"small\.yaml:1: the key `name` is missing"),
    ],
)
def test_an_error_says_what_was_expected_and_given(
    old: str, new: str, error: str, tmp_path: Path
) -> None:
    """The error has file, line, field, the expected value in plain words, and the given value."""
    with pytest.raises(ScenarioError, match=error):
        load_scenario(written(tmp_path, old, new))


def test_scenarios_have_a_json_schema() -> None:
    """The schema has the types of all sections."""
    assert {"Scenario", "Workload", "Scheduler", "Processor"} <= set(
        msgspec.json.schema(scenario.Scenario)["$defs"]
    )


def test_every_key_of_a_scenario_is_documented() -> None:
    """Every key has an entry in a docstring, from which the reference is generated."""
    missing = [
        f"{kind.__name__}.{name}"
        for kind in (*structs_of(scenario), *structs_of(scheduler), *structs_of(workload))
        for name in kind.__struct_fields__
        if not any(f"\n    {name}: " in cleandoc(base.__doc__ or "") for base in kind.__mro__)
    ]
    assert not missing
