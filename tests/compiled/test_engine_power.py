"""Power states of nodes in the compiled engine: boots, power managers and their energy."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled import policies
from hpcosim_compiled.simulation import CompiledSimulation
from hpcosim_scenarios.model.jobs import source_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import LoadedScenario, load_with, rules_of
from hpcosim_scenarios.running.run import run_scenario
from hpcosim_schedulers.power.settings import AlwaysOn, KeepIdle, Power, Timeout
from hpcosim_sim.physics.power import NODE_STATES
from support.engines import differences

STATES = {"sleep_w": 1, "switch_on_s": 30, "switch_on_w": 9, "switch_off_s": 5, "switch_off_w": 2}


def scenario_of(jobs: list[dict[str, Any]], **states: float) -> dict[str, Any]:
    """Return a scenario of jobs on two nodes of one core, which boot in 30 s."""
    processors = [{"cores": 1, "static_w": 10, "dynamic_w": 0}]
    group = {"count": 2, "processors": processors, "power_states": STATES | states}
    return {
        "name": "sleeping",
        "platform": {"nodes": [group]},
        "workload": {"inline": jobs},
        "scheduler": {"name": "fcfs", "power": {"name": "timeout", "timeout_s": 10}},
    }


def simulation_of(scenario: dict[str, Any], power: Power) -> CompiledSimulation:
    """Return the compiled simulation of a scenario with another power manager."""
    read = convert(scenario, Scenario)
    loaded: LoadedScenario = load_with(read, Path(), source_jobs(read, Path()))
    return CompiledSimulation(
        read.platform, loaded.jobs, rules_of(read), read.scheduler.name, power=power
    )


TWO = [
    {"job_id": 1, "submit_s": 0, "cores": 1, "run_s": 5},
    {"job_id": 2, "submit_s": 100, "cores": 2, "run_s": 5},
]


def test_a_job_on_sleeping_nodes_starts_after_their_boot(tmp_path: Path) -> None:
    """It is allocated at its submission, and runs from the end of the boot on."""
    simulation = simulation_of(scenario_of(TWO), Timeout(10.0))
    while simulation.advance():
        pass
    record = simulation.record()
    assert record.recording.start_s.tolist() == [0.0, 130.0]
    seconds = dict(zip(NODE_STATES, record.metered_node_s[0], strict=True))
    # One node idles from the begin, the other from 5 s on, for 10 s each.
    assert seconds["computing"] == 5 + 2 * 5
    assert seconds["idle"] == 20
    assert seconds["switching_off"] == 2 * 5
    assert seconds["sleeping"] == (100 - 15) + (100 - 20)
    assert seconds["switching_on"] == 2 * 30


def test_nodes_sleep_before_the_first_job_that_fits() -> None:
    """The begin of the simulation calls the power manager, although the first job is rejected."""
    simulation = simulation_of(scenario_of([{**TWO[0], "cores": 3}, TWO[1]]), Timeout(10.0))
    while simulation.advance():
        pass
    assert simulation.record().recording.start_s[1] == 130.0


def test_the_results_are_those_of_the_reference(tmp_path: Path) -> None:
    """Also `nodes.csv`, with each change of a power state."""
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario_of(TWO, switch_on_sd_s=10, switch_off_sd_s=2)))
    for name in ("reference", "compiled"):
        run_scenario(file, transport="inproc", out=tmp_path / name, overrides={"engine": name})
    assert differences(tmp_path / "reference", tmp_path / "compiled") == []
    assert json.loads((tmp_path / "compiled" / "run.json").read_text())["engine"] == "compiled"
    assert "switching_on" in (tmp_path / "compiled" / "nodes.csv").read_text()


def test_one_node_is_kept_idle() -> None:
    """The node that has idled for longer sleeps, and is allocated if its number is the lowest."""
    jobs = [{"job_id": n, "submit_s": 100 * n, "cores": 1, "run_s": 5} for n in range(3)]
    simulation = simulation_of(scenario_of(jobs), KeepIdle(1))
    while simulation.advance():
        pass
    assert simulation.record().recording.start_s.tolist() == [0.0, 100.0, 230.0]


LATER: list[dict[str, Any]] = [
    {"job_id": 1, "submit_s": 0, "cores": 1, "run_s": 200},
    {"job_id": 2, "submit_s": 150, "cores": 2, "run_s": 5},
    {"job_id": 3, "submit_s": 190, "cores": 1, "run_s": 5, "requested_s": 50},
]
"""One node sleeps from 15 s on; two nodes are free from 200 s on."""


@pytest.mark.parametrize(
    ("scheduler", "awareness", "start_s"),
    [
        ("easy", "unaware", 230.0),
        pytest.param("easy", "aware", 230.0, marks=pytest.mark.compiles),
        ("easy", "planned", 200.0),
        ("conservative", "aware", 230.0),
        ("conservative", "planned", 200.0),
    ],
)
def test_a_policy_that_plans_wakes_nodes_in_time(
    tmp_path: Path, scheduler: str, awareness: str, start_s: float
) -> None:
    """Others wake them when they are allocated; the reference does the same."""
    scenario = scenario_of(LATER)
    scenario["scheduler"] |= {"name": scheduler, "power_awareness": awareness}
    file = tmp_path / "scenario.yaml"
    file.write_text(json.dumps(scenario))
    for name in ("reference", "compiled"):
        run_scenario(file, transport="inproc", out=tmp_path / name, overrides={"engine": name})
    assert differences(tmp_path / "reference", tmp_path / "compiled") == []
    assert json.loads((tmp_path / "compiled" / "run.json").read_text())["engine"] == "compiled"
    rows = csv.DictReader((tmp_path / "compiled" / "jobs.csv").read_text().splitlines())
    assert [float(row["start_s"]) for row in rows if row["job_id"] == "2"] == [start_s]


def test_a_partial_record_has_all_nodes_at_all_times() -> None:
    """After each instant the node-seconds of all states are those of the nodes."""
    jobs = [{"job_id": n, "submit_s": 50 * n, "cores": 1 + n % 2, "run_s": 9} for n in range(20)]
    simulation = simulation_of(scenario_of(jobs, switch_on_sd_s=10), Timeout(10.0))
    goes_on, waiting = True, 0
    while goes_on:
        simulation._instants = 1
        goes_on = simulation.advance()
        record = simulation.record()
        assert sum(map(sum, record.metered_node_s)) == pytest.approx(2 * record.duration_s)
        waiting = max(waiting, record.recording.state.count(0))
    assert waiting > 0  # jobs whose nodes boot have not started


def test_what_simulates_power_states_is_a_part_of_its_own() -> None:
    """A run with all nodes on does not wait for its compilation."""
    scenario = convert(scenario_of(TWO), Scenario)
    of = partial(policies.part_of, scenario.platform, source_jobs(scenario, Path()), "easy")
    assert of(AlwaysOn()) == "easy"
    assert of(Timeout(10.0)) == of(explains=True) == "easy with all"
