"""Comparisons of schedulers and power managers, and the savings against a baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import RunError, ScenarioError
from hpcosim_scenarios.running.compare import (
    Comparison,
    Outcome,
    compare_platforms,
    compare_policies,
    savings_of,
)
from hpcosim_scenarios.running.oracle import plan_scenario
from hpcosim_scenarios.running.policies import PowerSettings, parse_power_list
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_schedulers.catalogue.schedulers import folder_name

# One node of 100 W idle and computing. It sleeps at 0 W; switching takes 10 s at 100 W each way.
TEXT = """name: night
platform:
  nodes:
    - count: 1
      processors: [{cores: 1, static_w: 100, dynamic_w: 0, idle_fraction: 1}]
      power_states:
        {sleep_w: 0, switch_on_s: 10, switch_on_w: 100, switch_off_s: 10, switch_off_w: 100}
workload:
  inline:
    - {job_id: 7, submit_s: 0, run_s: 100, requested_s: 100, cores: 1}
    - {job_id: 9, submit_s: 4000, run_s: 100, requested_s: 100, cores: 1}
economics: {price_per_kwh: 0.5, co2_g_per_kwh: 400}
"""
OFF = {"name": "timeout", "timeout_s": 60}
OFF_NAME = "timeout(timeout_s=60.0)"


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """The file of two jobs with an idle hour between them."""
    file = tmp_path / "night.yaml"
    file.write_text(TEXT)
    return file


def against_always_on(file: Path, **options: Any) -> Comparison:
    """Compare a timeout with nodes that are always on."""
    return compare_policies(file, power=["always-on", OFF], baseline="always-on", **options)


def test_platforms_are_compared(night: Path, tmp_path: Path) -> None:
    """Each policy runs on each platform, with its name and a folder; overrides still hold."""
    fast = tmp_path / "fast.yaml"
    fast.write_text(TEXT.replace("static_w: 100", "static_w: 40").replace("workload", "ignored"))
    out, seen = tmp_path / "out", []
    one = compare_platforms(night, [night, fast], on_result=lambda name, _: seen.append(name))
    assert list(one.metrics) == seen == ["night", "fast"]
    energy = {name: metrics["energy_j"] for name, metrics in one.metrics.items()}
    assert energy["fast"] == pytest.approx(0.4 * energy["night"])
    two = compare_platforms(night, [night, fast], ["fcfs", "easy"], out=out, by=["user"])
    names = ["night, fcfs", "night, easy", "fast, fcfs", "fast, easy"]
    assert list(two.metrics) == list(two.groups) == names
    assert (out / "fast" / "easy" / "metrics.json").is_file()
    larger = compare_platforms(night, [night], overrides={"platform.nodes.0.count": 2})
    assert larger.metrics["night"]["energy_j"] == pytest.approx(2 * energy["night"])


def test_a_platform_without_its_section_is_an_error(night: Path, tmp_path: Path) -> None:
    """Before the first run, with the file; as is one that the scenario does not fit."""
    empty, seen = tmp_path / "empty.yaml", []
    empty.write_text("name: empty\n")
    with pytest.raises(ScenarioError, match=r"empty\.yaml: expected a scenario file with"):
        compare_platforms(night, [night, empty], on_result=lambda name, _: seen.append(name))
    empty.write_text("platform: {nodes: []}\n")
    with pytest.raises(ScenarioError, match="override platform"):
        compare_platforms(night, [night, empty], on_result=lambda name, _: seen.append(name))
    assert seen == []


def test_savings_by_hand(night: Path) -> None:
    """The node sleeps from 170 s to 4000 s; the second job waits for it to boot."""
    compared = against_always_on(night)
    saved_kwh = (100 * (4000 - 170) - 100 * 10) / 3.6e6  # the run takes 10 s longer
    years = 365 * 86400 / 4100
    assert list(compared.metrics) == ["always-on", OFF_NAME]
    assert compared.savings == {
        OFF_NAME: pytest.approx(
            {
                "saved_energy_kwh": saved_kwh,
                "saved_energy_share": saved_kwh / (100 * 4100 / 3.6e6),
                "saved_energy_cost": saved_kwh * 0.5,
                "saved_co2_kg": saved_kwh * 0.4,
                "saved_energy_kwh_per_year": saved_kwh * years,
                "saved_energy_cost_per_year": saved_kwh * 0.5 * years,
                "saved_co2_kg_per_year": saved_kwh * 0.4 * years,
                "extra_mean_wait_s": 5.0,
                "extra_p95_wait_s": 9.5,
                "extra_max_wait_s": 10.0,
                "jobs_compared": 2,
                "jobs_delayed": 1,
                "longest_delay_s": 10.0,
                "longest_delay_job_id": 9,
            }
        )
    }


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_a_comparison_records_what_a_run_with_this_manager_records(
    night: Path, transport: Any
) -> None:
    """Each policy has a results folder, and the same savings come from every transport."""
    out = night.parent / "out"
    compared = against_always_on(night, transport=transport, out=out)
    assert compared == against_always_on(night)
    own = night.parent / "own"
    run_scenario(night, transport="inproc", out=own, overrides={"scheduler.power": OFF})
    for file in ("run.json", "jobs.csv", "metrics.json"):
        assert (out / "fcfs-timeout" / file).read_bytes() == (own / file).read_bytes()


def test_settings_of_a_scheduler_are_in_the_name_of_its_folder(night: Path) -> None:
    """Settings with characters that are unsafe in a file name are left out."""
    signals: dict[str, Any] = {"signals": {"price_per_kwh": {}}}
    settings = (
        "signal=price_per_kwh:slack_s=60",
        "signal=price_per_kwh",
        "slack_s=60.5:signal=x/y",
    )
    schedulers = [f"carbon-aware:{each}" for each in settings[:2]]
    compare_policies(night, schedulers, out=night.parent / "out", overrides=signals)
    assert sorted(folder.name for folder in (night.parent / "out").iterdir()) == [
        "carbon-aware-signal=price_per_kwh",
        "carbon-aware-signal=price_per_kwh-slack_s=60",
    ]
    assert folder_name(f"carbon-aware:{settings[2]}") == "carbon-aware"


def test_every_scheduler_runs_with_every_manager(night: Path) -> None:
    """The names of the policies have both; equal policies run once."""
    compared = compare_policies(night, ["fcfs", "easy"], power=["always-on", OFF, "Always-On"])
    assert list(compared.metrics) == [
        f"{scheduler}, {power}"
        for scheduler in ("fcfs", "easy")
        for power in ("always-on", OFF_NAME)
    ]
    assert (compared.baseline, compared.savings) == ("", {})


def test_managers_with_files_of_one_name_are_different_policies(night: Path) -> None:
    """Names leave out folders; the second policy of a name has a number."""
    pytest.importorskip("scipy", reason="a plan needs the extra oracle")
    plans = [night.parent / name / "plan.json" for name in ("a", "b")]
    overrides = {"workload.placement": "whole_nodes"}
    for plan in plans:
        plan.parent.mkdir()
        plan_scenario(night, plan, overrides=overrides)
    power = [{"name": "oracle", "plan": str(plan)} for plan in plans]
    out = night.parent / "out"
    compared = compare_policies(night, power=power, overrides=overrides, out=out)
    assert list(compared.metrics) == ["oracle(plan=plan.json)", "oracle(plan=plan.json)-2"]
    assert sorted(path.name for path in out.iterdir()) == ["fcfs-oracle", "fcfs-oracle-2"]


def test_a_failed_run_leaves_no_temporary_folder_in_its_warnings(night: Path) -> None:
    """A comparison without `out` names no results folder."""
    policy = night.parent / "broken.py"
    policy.write_text("def never(view):\n    pass\n")
    found: list[str] = []
    names = ["fcfs", f"{policy}:never"]
    with pytest.raises(RunError):
        compare_policies(night, names, baseline="fcfs", warn=found.append)
    assert not found


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("easy, always-on", "easy, always-on"),
        ("fcfs", "fcfs, always-on"),
        ("{name: always-on}", None),
        ("fcfs, alway", None),
        ("always-on", None),
    ],
)
def test_a_baseline_is_named_in_full_or_by_what_only_it_has(
    night: Path, text: str, name: str | None
) -> None:
    """An ambiguous or unknown name is an error with the nearest, before the first run."""
    started: list[str] = []
    options: dict[str, Any] = {"baseline": text, "on_result": lambda name, _: started.append(name)}
    power = ["always-on"]
    if name is None:
        with pytest.raises(PolicyError, match=r"did you mean '.*, always-on'\? expected one of"):
            compare_policies(night, ["fcfs", "easy"], power=power, **options)
        assert not started
    else:
        found = compare_policies(night, ["fcfs", "easy"], power=power, **options)
        assert found.baseline == name


def test_a_baseline_may_repeat_the_mapping_of_its_manager(night: Path) -> None:
    """The name in the table, with all settings, is long to type."""
    mapping = "{name: timeout, timeout_s: 60}"
    found = compare_policies(night, power=["always-on", OFF], baseline=mapping)
    assert found.baseline == OFF_NAME
    with pytest.raises(PolicyError, match="baseline: expected one power manager"):
        compare_policies(night, power=[OFF], baseline=f"{mapping}, always-on")


def test_an_unknown_manager_is_an_error_with_the_nearest(night: Path) -> None:
    """The settings are checked before the first run."""
    with pytest.raises(ScenarioError, match="did you mean timeout"):
        compare_policies(night, power=["always-on", {"name": "timeot"}])


def test_a_manager_that_lacks_a_setting_is_an_error_with_the_option(night: Path) -> None:
    """The message shows how to write the setting."""
    with pytest.raises(ScenarioError) as caught:
        compare_policies(night, power=["always-on", "timeout"])
    example = "expected a mapping such as {name: timeout, timeout_s: 900}"
    assert str(caught.value) == f"--power timeout: timeout_s: is missing; {example}"


@pytest.mark.parametrize(("power", "warnings"), [(["always-on"], 1), (["always-on", OFF], 0)])
def test_a_baseline_alone_gives_a_warning(
    night: Path, power: list[PowerSettings], warnings: int
) -> None:
    """No savings are printed, and the warning says why."""
    found: list[str] = []
    compare_policies(night, power=power, baseline="always-on", warn=found.append)
    alone = "there is no policy to compare with the baseline always-on"
    assert [what for what in found if what.startswith(alone)] == found
    assert len(found) == warnings


def test_a_platform_that_cannot_be_switched_is_an_error(night: Path) -> None:
    """Without power states no node can sleep, and nothing can be saved."""
    overrides = {"platform.nodes.0.power_states": None}
    with pytest.raises(ScenarioError, match="add power_states to a node group"):
        against_always_on(night, overrides=overrides)


def test_nodes_that_cannot_be_switched_give_a_warning(night: Path) -> None:
    """A power manager has no effect on a node group without power states."""
    group = "processors: [{cores: 1, static_w: 100, dynamic_w: 0, idle_fraction: 1}]"
    night.write_text(
        TEXT.replace("    - count: 1\n", f"    - count: 3\n      {group}\n    - count: 1\n")
    )
    found: list[str] = []
    against_always_on(night, warn=found.append)
    assert found == ["3 of 4 nodes are never switched off: their node groups have no power_states"]
    compare_policies(night, ["fcfs", "easy"], warn=found.append)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("always-on", ["always-on"]),
        ("always-on,slurm", ["always-on", "slurm"]),
        ("always-on, {name: timeout, timeout_s: 60}", ["always-on", OFF]),
        ('{"name":"timeout","timeout_s":60},always-on', [OFF, "always-on"]),
    ],
)
def test_power_managers_are_names_and_mappings(text: str, expected: list[Any]) -> None:
    """A mapping is YAML or JSON."""
    assert parse_power_list(text) == expected


@pytest.mark.parametrize("text", ["", "always-on, 3", "{name: timeout", "a]", "- x\n- y", "[[[["])
def test_another_text_is_an_error(text: str) -> None:
    """The message has an example."""
    with pytest.raises(PolicyError, match="power: expected power managers such as `always-on"):
        parse_power_list(text)


NOTHING = {"energy_kwh": 0.0, "makespan_s": 0.0, "mean_wait_s": 0, "p95_wait_s": 0, "max_wait_s": 0}


def test_jobs_are_matched_by_id() -> None:
    """A job that started in one run only is not compared, and rounding errors are no delay."""
    one = Outcome(NOTHING, {1: 5.0, 2: 0.0, 3: 10.0})
    two = Outcome(NOTHING, {3: 10.0 + 1e-9, 1: 7.0, 4: 100.0})
    found = savings_of(two, one)
    assert {name: found[name] for name in found if name.startswith(("jobs", "longest"))} == {
        "jobs_compared": 2,
        "jobs_delayed": 1,
        "longest_delay_s": 2.0,
        "longest_delay_job_id": 1,
    }


def test_a_run_of_no_time_saves_nothing() -> None:
    """There is no year to scale to, and no job that waits."""
    empty = Outcome(NOTHING, {})
    assert savings_of(empty, empty) == {
        "saved_energy_kwh": 0.0,
        "saved_energy_share": 0.0,
        "extra_mean_wait_s": 0,
        "extra_p95_wait_s": 0,
        "extra_max_wait_s": 0,
        "jobs_compared": 0,
        "jobs_delayed": 0,
        "longest_delay_s": 0.0,
    }
