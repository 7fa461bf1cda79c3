"""Power managers by name: in a scenario, on the command line, and together with schedulers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scheduler
from hpcosim_scenarios.model.yaml_tree import parse_yaml
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_scenarios.running.oracle import plan_scenario
from hpcosim_scenarios.running.policies import power_of
from hpcosim_scenarios.running.run import Transport, check, run_scenario
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue.power import from_folder, title, with_power
from hpcosim_schedulers.power.oracle import read_plan
from hpcosim_schedulers.power.settings import (
    NAMES,
    Adaptive,
    AlwaysOn,
    Awareness,
    Empirical,
    Icon,
    KeepIdle,
    Learned,
    OffAtNight,
    Oracle,
    Power,
    PowerSettingsError,
    Predictive,
    Rl,
    Slurm,
    Timeout,
    as_text,
    parse_power,
    read_power,
)
from support.commands import invoke
from support.paths import SCENARIOS
from support.recipes import write_recipe

NIGHT = """
name: night
platform:
  nodes:
    - count: 4
      processors: [{cores: 2, static_w: 100, dynamic_w: 5, idle_fraction: 0.5}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}
workload:
  placement: whole_nodes
  synthetic: {model: poisson, jobs: 60, mean_interarrival_s: 300, cores: [1, 8]}
"""
TRANSPORTS: tuple[Transport, ...] = ("inproc", "ipc", "tcp")
ORACLE = "{name: easy, power: {name: oracle}}"


def night(folder: Path, scheduler: str, more: str = "") -> Path:
    """Return the file of a scenario with a scheduler."""
    (folder / "night.yaml").write_text(f"{NIGHT}scheduler: {scheduler}\n{more}")
    return folder / "night.yaml"


def an_actor(path: Path, interval_s: float = 600.0) -> Path:
    """Write a small untrained network."""
    torch = pytest.importorskip("torch")
    from hpcosim_gym.learning.networks import arrays_of
    from hpcosim_papers.power.agent import NodePowerMetadata, Shape, save_actor
    from hpcosim_papers.power.learners.train import NodePowerActor, new_network

    shape = Shape(embedding=8, heads=2, layers=1)
    actor = new_network(NodePowerActor, shape, torch.Generator().manual_seed(1))
    save_actor(
        path, arrays_of(actor.state_dict()), NodePowerMetadata(shape=shape, interval_s=interval_s)
    )
    return path


# Settings


EVERY = [
    AlwaysOn(),
    OffAtNight(),
    OffAtNight(("Mon-Fri 20:00-06:00",), "0-9:2", 3600.0),
    Timeout(900.0),
    KeepIdle(3, 60.0),
    Slurm(600.0, suspend_exc_nodes="0-3:2", suspend_exc_states="PLANNED"),
    Icon(),
    Icon(1800.0, 15_000.0, None, fallback=False),
    Predictive(500.0),
    Learned("models/network.safetensors", 500.0),
    Learned("network.safetensors", 150.0, 16),
    Empirical("rises.safetensors", 500.0),
    Oracle(),
    Oracle("plans/easy.json"),
    Rl("models/actor.safetensors"),
    Rl("actor.safetensors", 900.0, 3600.0),
    Timeout(900.0, 7000.0),
    Adaptive("models/rule.safetensors"),
    Adaptive("rule.safetensors", 3600.0),
]


@pytest.mark.parametrize("power", EVERY, ids=repr)
def test_settings_are_read_as_they_are_written(power: Power) -> None:
    """The scheduler's process reads the settings that were passed to it."""
    assert read_power(as_text(power)) == power


def test_every_manager_is_tried_here() -> None:
    """None is left out above."""
    assert {type(power) for power in EVERY} == set(get_args(Power))


@pytest.mark.parametrize(
    ("settings", "field", "what"),
    [
        ({}, "name", "is missing"),
        ({"name": 3}, "name", "expected text, got 3"),
        ({"name": "timeout"}, "timeout_s", "is missing"),
        ({"name": "off-at-night", "off": []}, "off", "expected at least one window"),
        ({"name": "off-at-night", "off": "20:00-06:00"}, "off", "expected a list, got '20:00"),
        (
            {"name": "off-at-night", "off": ["20-6"]},
            "off",
            "expected windows such as '20:00-06:00'",
        ),
        ({"name": "off-at-night", "off": ["20:00-24:30"]}, "off", "expected windows such as"),
        ({"name": "off-at-night", "keep_on": "a:b:c"}, "keep_on", "expected sets such as 20"),
        ({"name": "timeout", "timeout_s": -1}, "timeout_s", "expected a number >= 0, got -1"),
        ({"name": "timeout", "timeout_s": "9"}, "timeout_s", "expected a number, got '9'"),
        ({"name": "timeout", "timeout_s": 1, "warm": 1}, "warm", "timeout takes timeout_s, wait"),
        ({"name": "keep-idle", "wram": 1, "warm": 1}, "wram", "did you mean 'warm'"),
        ({"name": "always-on", "warm": 1}, "warm", "always-on takes no settings"),
        (
            {"name": "slurm", "suspend_time_s": 1, "suspend_exc_nodes": "a;b"},
            "suspend_exc_nodes",
            "expected sets such as 20, 0-9:4 or hm[01-04]:2, got 'a;b'",
        ),
        ({"name": "rl"}, "model", "is missing"),
        (
            {"name": "rl", "model": "m", "interval_s": 0},
            "interval_s",
            "expected a number > 0, got 0",
        ),
        ({"name": "timeout", "timeout_s": None}, "timeout_s", "expected a number, got null"),
        (
            {"name": "slurm", "suspend_time_s": "INFINITE"},
            "suspend_time_s",
            "expected a number, got 'INFINITE'; there is no infinite time, use the power manager",
        ),
        (
            {"name": "slurm", "suspend_time_s": 1, "suspend_exc_states": "DOWN"},
            "suspend_exc_states",
            "expected one of '', 'PLANNED', got 'DOWN'",
        ),
        ({"name": "rl", "model": "m", "origin_s": 604800}, "origin_s", "< 604800"),
    ],
)
def test_invalid_settings_name_their_field(
    settings: dict[str, object], field: str, what: str
) -> None:
    """The error states the expected value."""
    with pytest.raises(PowerSettingsError) as caught:
        parse_power(settings)
    assert caught.value.field == field
    assert what in caught.value.what
    assert str(caught.value) == f"power.{field}: {caught.value.what}"


@pytest.mark.parametrize("text", ["timeout", "[]", '{"name": "timeout"}'])
def test_a_text_that_is_no_power_manager(text: str) -> None:
    """The error shows one that is."""
    with pytest.raises(PolicyError, match="expected a power manager in JSON"):
        read_power(text)


def test_an_unknown_manager_names_the_nearest_and_all() -> None:
    """On the command line."""
    with pytest.raises(PolicyError, match=r"power manager 'timeouts'; did you mean timeout\?"):
        read_power('{"name": "timeouts"}')
    with pytest.raises(PolicyError, match=f"'zzz'; expected one of {', '.join(NAMES)}"):
        read_power('{"name": "zzz"}')


@pytest.mark.parametrize(
    ("power", "expected"),
    [
        (AlwaysOn(), "easy"),
        (Timeout(900.0), "aware easy, timeout(timeout_s=900.0)"),
        (KeepIdle(3), "aware easy, keep-idle(warm=3)"),
        (KeepIdle(3, 60.0), "aware easy, keep-idle(warm=3, timeout_s=60.0)"),
        (
            Slurm(600.0, resume_rate_per_min=0),
            "aware easy, slurm(suspend_time_s=600.0, resume_rate_per_min=0)",
        ),
        (Oracle(), "easy, oracle"),
        (Oracle("a/plan.json"), "easy, oracle"),
        (Rl("a/b.safetensors", 900), "aware easy, rl(model=b.safetensors, interval_s=900)"),
    ],
)
def test_titles(power: Power, expected: str) -> None:
    """A result says under which manager it came about; a path would be of one machine only."""
    assert title("easy", power, "aware") == expected


def test_paths_are_from_the_scenario_s_folder() -> None:
    """As those of workloads are; without a path nothing changes."""
    folder = Path("some") / "where"
    assert from_folder(Rl("actor"), folder) == Rl("some/where/actor")
    assert from_folder(Oracle("plan.json"), folder) == Oracle("some/where/plan.json")
    for power in (Oracle(), Timeout(900.0), AlwaysOn()):
        assert from_folder(power, folder) == power


# Together with schedulers


def test_slurm_beside_a_scheduler_that_switches_nodes(tmp_path: Path) -> None:
    """It does that alone; said of the policy, and of the scenario with its field."""
    with pytest.raises(PolicyError, match="slurm does not permit power_awareness: planned"):
        with_power("easy", Slurm(60.0), "planned")
    scheduler = "{name: easy, power: {name: slurm, suspend_time_s: 60}, power_awareness: planned}"
    with pytest.raises(ScenarioError, match=r"scheduler\.power: the power manager slurm"):
        check(night(tmp_path, scheduler))


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (
            "suspend_timeout_s: 29",
            "suspend_timeout_s: expected at least 30.0, the switch_off_s",
        ),
        ("resume_timeout_s: 59", "resume_timeout_s"),
        ("suspend_exc_nodes: '4'", "suspend_exc_nodes: expected node numbers from 0 to 3, got 4"),
        ("suspend_exc_nodes: 'hm[01-04]'", "suspend_exc_nodes: unknown node 'hm01'; the nodes"),
    ],
)
def test_slurm_beside_a_platform_it_does_not_fit(settings: str, error: str, tmp_path: Path) -> None:
    """Before anything runs, with the field."""
    file = night(tmp_path, f"{{power: {{name: slurm, suspend_time_s: 60, {settings}}}}}")
    with pytest.raises(ScenarioError, match=rf"scheduler\.power: {error}"):
        check(file)


def test_the_oracle_beside_a_platform_it_does_not_fit(tmp_path: Path) -> None:
    """Before anything runs, with the field."""
    file = night(tmp_path, ORACLE)
    file.write_text(file.read_text().replace("sleep_w: 9,", "sleep_w: 9, switch_on_sd_s: 1,"))
    with pytest.raises(ScenarioError, match=r"scheduler\.power: the oracle needs fixed"):
        check(file)


@pytest.mark.parametrize(
    "power",
    ["timeout, timeout_s: 60", "slurm, suspend_time_s: 300", "rl, model: actor.safetensors"],
)
def test_a_manager_that_only_switches_off_needs_waking(power: str, tmp_path: Path) -> None:
    """Where nothing would switch nodes on for a job."""
    file = night(tmp_path, f"{{power: {{name: {power}}}}}", "wake_on_allocation: false\n")
    with pytest.raises(ScenarioError, match="wake_on_allocation: true"):
        check(file)


def same_on_every_transport(file: Path, folder: Path) -> dict[str, int | float]:
    """Run a scenario over all transports, compare all bytes, and return the metrics."""
    written = []
    for transport in TRANSPORTS:
        metrics, out = run_scenario(file, transport=transport, out=folder / transport)
        written.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert written[0] == written[1] == written[2]
    return metrics


# The oracle


@pytest.mark.slow
def test_an_oracle_s_run_is_the_same_on_every_transport(tmp_path: Path) -> None:
    """The plan is made before, kept with the results, and its energy is the run's."""
    metrics = same_on_every_transport(night(tmp_path, ORACLE), tmp_path)
    plan = read_plan(tmp_path / "ipc" / "plan.json")
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9)
    assert (plan.scheduler, len(plan.start_s)) == ("easy", 60)
    assert metrics["node_shutdowns"] > 0
    assert json.loads((tmp_path / "ipc" / "run.json").read_text())["scheduler"] == "easy, oracle"


@pytest.mark.parametrize("more", ["wake_on_allocation: false\n", "kill_at_walltime: true\n"])
def test_an_oracle_wakes_nodes_itself(more: str, tmp_path: Path) -> None:
    """The oracle needs no wake_on_allocation."""
    file = night(tmp_path, ORACLE, more)
    metrics, out = run_scenario(file, transport="inproc", out=tmp_path / "out")
    assert metrics["jobs_completed"] + metrics["jobs_killed"] == 60
    wasted_j = read_plan(out / "plan.json").wasted_j
    assert metrics["wasted_energy_j"] == pytest.approx(wasted_j, rel=1e-9)


@pytest.mark.parametrize("awareness", get_args(Awareness))
def test_awareness_makes_no_difference_to_the_oracle(awareness: str, tmp_path: Path) -> None:
    """Its plan is made with every node on."""
    file = night(tmp_path, f"{{name: easy, power: {{name: oracle}}, power_awareness: {awareness}}}")
    _, out = run_scenario(file, transport="inproc", out=tmp_path / "out")
    assert read_plan(out / "plan.json").wasted_j == plan_scenario(night(tmp_path, ORACLE)).wasted_j


@pytest.mark.parametrize("transport", ["inproc", pytest.param("ipc", marks=pytest.mark.slow)])
def test_schedulers_compared_have_a_plan_each(transport: Transport, tmp_path: Path) -> None:
    """Of their own schedules, kept with their results."""
    file = night(tmp_path, ORACLE)
    metrics = compare_schedulers(file, ["fcfs", "sjf"], transport=transport, out=tmp_path / "out")
    for name, each in metrics.items():
        wasted_j = plan_scenario(file, scheduler=name).wasted_j
        assert each["wasted_energy_j"] == pytest.approx(wasted_j, rel=1e-9)
        assert read_plan(tmp_path / "out" / name / "plan.json").wasted_j == wasted_j


def test_nothing_is_left_behind_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison without a results folder writes its plans nowhere they stay."""
    monkeypatch.chdir(tmp_path)
    compare_schedulers(night(tmp_path, ORACLE), ["fcfs"])
    assert [path.name for path in tmp_path.iterdir()] == ["night.yaml"]


@pytest.mark.slow
def test_a_plan_given_is_used(tmp_path: Path) -> None:
    """From the scenario's folder, wherever the command is run; none is written then."""
    file = night(tmp_path, "{name: easy, power: {name: oracle, plan: plans/easy.json}}")
    plan = plan_scenario(file, tmp_path / "plans" / "easy.json")
    metrics, out = run_scenario(file, transport="ipc", out=tmp_path / "out")
    assert metrics["wasted_energy_j"] == pytest.approx(plan.wasted_j, rel=1e-9)
    assert not (out / "plan.json").exists()


def test_a_plan_of_another_scheduler_is_refused(tmp_path: Path) -> None:
    """The results would bear the wrong name."""
    file = night(tmp_path, "{name: easy, power: {name: oracle, plan: plan.json}}")
    plan_scenario(file, tmp_path / "plan.json", scheduler="fcfs")
    with pytest.raises(PolicyError, match="a plan for the scheduler fcfs, not for easy"):
        run_scenario(file, out=tmp_path / "out")


def test_an_invalid_plan_names_the_setting(tmp_path: Path) -> None:
    """And with its file."""
    file = night(tmp_path, "{name: easy, power: {name: oracle, plan: gone.json}}")
    with pytest.raises(PolicyError, match=r"power\.plan: .*gone\.json: the plan cannot be read"):
        check(file)


def test_a_scheduler_alone_has_no_plan() -> None:
    """The error names the command that writes a plan."""
    done = invoke("schedule", "easy", "--power", '{"name": "oracle"}')
    assert done.status == 2
    assert "write it with `hpcosim oracle SCENARIO --out plan.json`" in done.error


def test_the_command_oracle_prints_the_optimum(tmp_path: Path) -> None:
    """By the names of a run's metrics, and writes the plan."""
    file, out = night(tmp_path, "{name: easy}"), tmp_path / "new" / "plan.json"
    done = invoke("oracle", file, "--scheduler", "fcfs", "--out", out, "--json")
    assert (done.status, done.err) == (0, "")
    told, plan = json.loads(done.out), read_plan(out)
    assert plan.scheduler == "fcfs"
    assert told["wasted_energy_j"] == plan.wasted_j
    parts = ("idle", "sleeping", "switching_on", "switching_off")
    assert sum(told[f"{part}_energy_j"] for part in parts) == pytest.approx(plan.wasted_j)
    assert told["node_shutdowns"] == sum(s.nodes for s in plan.switches if s.state == "off")


def test_the_command_oracle_prints_a_table(tmp_path: Path) -> None:
    """For people, with where the plan is."""
    file, out = night(tmp_path, "{name: easy}"), tmp_path / "plan.json"
    done = invoke("oracle", file, "--out", out)
    assert done.status == 0
    assert "wasted_energy_j" in done.out
    assert f"plan: {out}" in done.out
    assert invoke("oracle", file).out.count("plan") == 0


# What was learned


@pytest.mark.slow
def test_a_learned_manager_is_the_same_on_every_transport(tmp_path: Path) -> None:
    """By the path from the scenario's folder, and named by the file alone."""
    (tmp_path / "models").mkdir()
    an_actor(tmp_path / "models" / "a.safetensors")
    power = "{name: rl, model: models/a.safetensors}"
    same_on_every_transport(night(tmp_path, f"{{name: easy, power: {power}}}"), tmp_path)
    called = json.loads((tmp_path / "ipc" / "run.json").read_text())["scheduler"]
    assert called == "unaware easy, rl(model=a.safetensors)"


def test_it_decides_as_often_as_it_was_trained_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the settings say otherwise."""
    pytest.importorskip("torch")
    from hpcosim_papers.power import agent as learned

    model = str(an_actor(tmp_path / "a.safetensors", 420.0))
    asked: list[Any] = []
    monkeypatch.setattr(learned, "Periodic", asked.append)
    with_power("easy", Rl(model))
    with_power("easy", Rl(model, 99.0))
    assert asked == [420.0, 99.0]


def test_an_invalid_model_names_the_setting(tmp_path: Path) -> None:
    """And with its file, before anything runs."""
    file = night(tmp_path, "{power: {name: rl, model: gone.safetensors}}")
    expected = r"power\.model: .*gone\.safetensors: no such file"
    with pytest.raises(PolicyError, match=expected):
        check(file)


@pytest.fixture
def no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if it were not installed, and nothing that needs it imported."""
    for name in list(sys.modules):
        if name.startswith(("hpcosim_schedulers.agents", "hpcosim_gym", "hpcosim_papers")):
            monkeypatch.delitem(sys.modules, name)
    for name in ("torch", "safetensors"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("no_torch")
def test_trained_policies_run_without_torch() -> None:
    """Job schedulers and power managers of shipped networks need NumPy only."""
    papers = SCENARIOS / "papers"
    with_power("easy", Rl(str(papers / "power" / "models" / "a2c-real-2.safetensors")))
    for name in (
        "pairing:ineps/pairing-exp1/energy",
        "deep-eas-search:deep_eas/lambda_0.5",
        "deep-eas:deep_eas/lambda_0.9-paper",
    ):
        kind, _, model = name.partition(":")
        make_policy(f"{kind}:{papers / model}.safetensors")


@pytest.mark.usefixtures("no_torch")
def test_training_names_the_missing_package(tmp_path: Path) -> None:
    """And the extra that installs it, in one line; without the extra, gymnasium is missed first."""
    recipe = write_recipe(tmp_path, "power", night(tmp_path, "{}"))
    done = invoke("train", recipe, "--out", tmp_path / "out")
    assert done.status == 2
    asked = r"training needs (torch|gymnasium): pip install 'hpcosim\[rl\]'"
    assert re.fullmatch(asked, done.error)


@pytest.mark.slow
def test_a_power_manager_is_trained_and_used(tmp_path: Path) -> None:
    """A line an epoch, and the network's file, which a scenario then names."""
    pytest.importorskip("torch")
    file = night(tmp_path, "{power: {name: rl, model: out/actor.safetensors}}")
    out = tmp_path / "out"
    environment = {"curriculum": ["sampled", "real"], "interval_s": 3600.0, "calendar": True}
    recipe = write_recipe(
        tmp_path, "power", file, environment=environment, budget={"iterations": 1}
    )
    done = invoke("train", recipe, "--out", out)
    assert (done.status, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert [line[:2] for line in lines[:2]] == [["1", "sampled"], ["2", "real"]]
    assert lines[-1] == ["network:", str(out / "actor.safetensors")]
    metrics, _ = run_scenario(file, transport="inproc", out=tmp_path / "results")
    assert metrics["jobs_completed"] == 60


@pytest.mark.parametrize(
    ("out", "curriculum", "expected"),
    [
        ("out", ["easy"], "curriculum: expected workloads among real"),
        ("night.yaml/out", ["real"], "night.yaml/out/seed-0: expected a results folder"),
    ],
)
def test_bad_training_is_an_error_in_one_line(
    out: str, curriculum: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it, and nothing is written."""
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    environment = {"curriculum": curriculum}
    recipe = write_recipe(tmp_path, "power", night(tmp_path, "{}"), environment=environment)
    assert invoke("train", recipe, "--out", out).error.startswith(expected)


def test_scenarios_hold_every_manager() -> None:
    """By its name."""
    for power in EVERY:
        assert power_of(Scheduler(power=msgspec.to_builtins(power))) == power


def test_the_readme_shows_managers_that_are() -> None:
    """Every one, with settings that can be."""
    text = (SCENARIOS / "README.md").read_text(encoding="utf-8")
    shown = re.findall(r"^  (?:# )?power: (\{.*\})$", text, re.MULTILINE)
    managers = [msgspec.convert(parse_yaml(line), Power) for line in shown]
    assert {type(manager) for manager in managers} == set(get_args(Power)) - {AlwaysOn}
