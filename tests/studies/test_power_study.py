"""The study of power management: its managers, the arithmetic of its tables, and its files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from hpcosim_experiments.statistics.rows import Row
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_studies.errors import StudyError
from hpcosim_studies.power import claims, curricula, pareto, radar, sensitivity, timeouts
from hpcosim_studies.power.agents import PowerAgent, agent_of, contenders, find_agents
from hpcosim_studies.power.managers import RunSetup, always_on, run_of
from hpcosim_studies.power.managers import timeouts as timeout_runs
from hpcosim_studies.power.paper import CLUSTERS, FILLING, METRICS, UNTRAINED, WAIT, scenario_file
from hpcosim_studies.runs import run_all
from hpcosim_studies.study import carry_out

PNG = b"\x89PNG"
TINY = """
name: tiny
platform:
  nodes:
    - count: 4
      processors: [{cores: 1, static_w: 190, dynamic_w: 0, idle_fraction: 1.0}]
      power_states: {sleep_w: 9, switch_on_s: 60, switch_on_w: 190, switch_off_s: 40,
                     switch_off_w: 9}
workload:
  placement: whole_nodes
  inline:
    - {job_id: 1, submit_s: 0, run_s: 600, cores: 2}
    - {job_id: 2, submit_s: 100, run_s: 300, cores: 1}
    - {job_id: 3, submit_s: 4000, run_s: 500, cores: 4}
scheduler: {name: easy, power: {name: timeout, timeout_s: 300}}
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    """Return a scenario with three jobs on four nodes."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def row_of(
    kind: str,
    manager: str,
    awareness: str = "aware",
    *,
    value: float | None = None,
    seed: int | None = None,
    cluster: str = "",
    **metrics: float,
) -> Row:
    """Return a row whose other metrics are 1."""
    place = RunSetup(Path("test.yaml"), cluster)
    run = run_of(place, manager, {"name": kind}, awareness, value, seed=seed)
    return {**run.labels, **dict.fromkeys(METRICS, 1.0), **metrics}


def timeout_row(minutes: float, wasted_gj: float, wait_s: float = 1.0, **more: Any) -> Row:
    """Return the row of a timeout."""
    manager = f"timeout {minutes:g} min"
    wasted_j = wasted_gj * 1e9
    return row_of(
        "timeout", manager, value=minutes, wasted_energy_j=wasted_j, mean_wait_s=wait_s, **more
    )


def test_a_file_says_which_agent_it_is(tmp_path: Path) -> None:
    """Kind, curriculum and seed of an agent are read from its file name."""
    best = agent_of(tmp_path / "a2c-sampled-real-synthetic-2.safetensors")
    assert best is not None
    assert best[:3] == ("a2c", "sampled-real-synthetic", 2)
    assert best.label == "A2C sampled-real-synthetic"
    assert best.power["name"] == "rl"
    ours = agent_of(tmp_path / "adaptive-350-1.safetensors")
    assert ours is not None
    assert (ours.label, ours.power["name"]) == ("adaptive 350 W", "adaptive")
    assert agent_of(tmp_path / "actor.safetensors") is None
    other = PowerAgent("a2c", "real-sampled-synthetic", 1, tmp_path)
    assert contenders([best, ours, other]) == [best, ours]


def test_what_is_no_agent_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """A file that is no agent is left out with the reason."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    agents, why = find_agents(tmp_path)
    assert not agents
    assert why[0].startswith("No agent")
    (tmp_path / "actor.safetensors").touch()
    (tmp_path / "adaptive-350-1.safetensors").touch()
    agents, why = find_agents(tmp_path)
    assert [agent.seed for agent in agents] == [1]
    assert why == ["`actor.safetensors` is left out: expected a name KIND-VARIANT-SEED."]


def test_clusters_are_those_of_the_paper(tiny: Path) -> None:
    """The clusters have the paper's switching times, powers and numbers of nodes."""
    (group,) = load_scenario(scenario_file()).platform.nodes
    assert group.power_states is not None
    assert (group.power_states.switch_off_s, group.power_states.switch_on_s) == (1800, 2700)
    assert (group.power_states.sleep_w, group.processors[0].static_w) == (9, 190)
    assert [next(iter(family.values())) for family in CLUSTERS.values()] == [{}] * 3
    (fast,) = load_scenario(tiny, CLUSTERS["off/on"]["off/on 20/30 min"]).platform.nodes
    assert fast.power_states is not None
    assert (fast.power_states.switch_off_s, fast.power_states.switch_on_s) == (1200, 1800)
    powers = CLUSTERS["sleep/active"]
    (dozing,) = load_scenario(
        tiny, CLUSTERS["sleep/active"]["sleep/active 90/190 W"]
    ).platform.nodes
    states = dozing.power_states
    assert states is not None
    assert (states.sleep_w, states.switch_off_w, states.switch_on_w) == (90, 90, 190)
    (frugal,) = load_scenario(tiny, powers["sleep/active 9/100 W"]).platform.nodes
    assert frugal.processors[0].static_w == 100
    assert frugal.power_states is not None
    assert (frugal.power_states.switch_on_w, frugal.power_states.sleep_w) == (100, 9)
    assert load_scenario(tiny, CLUSTERS["nodes"]["256 nodes"]).platform.node_count == 256


def test_timeouts_beside_the_paper() -> None:
    """The table of timeouts equals a hand calculation for three timeouts."""
    rows = [
        row_of("always-on", "always on", "any", job_filling_rate=0.4),
        timeout_row(10, 8.0, 300),
        timeout_row(15, 9.0, 200, job_filling_rate=0.8),
        timeout_row(20, 10.0, 100),
    ]
    table = claims.timeout_claims(rows, ["aware"])
    assert [line.split(" | ")[-1].rstrip(" |") for line in table[2:]] == [
        "timeout 10 min",
        "8.00",
        "9.00",
        "200",
        "40.00 %",
        "80.0 %",
    ]


def test_the_best_agent_beside_the_paper() -> None:
    """The table of agents equals a hand calculation for two seeds."""
    best = [PowerAgent("a2c", "sampled-real-synthetic", seed, Path()) for seed in (1, 2)]
    without = PowerAgent("a2c", "real", 1, Path())
    gave = [(8e9, 90.0), (9e9, 110.0)]
    rows = [
        row_of("always-on", "always on", "any", job_filling_rate=0.5),
        timeout_row(10, 9.0, 150, node_shutdowns=300, job_filling_rate=0.7),
        timeout_row(15, 10.0, 125, node_shutdowns=200, job_filling_rate=0.7),
        *(
            row_of(
                "a2c",
                agent.label,
                seed=agent.seed,
                wasted_energy_j=wasted_j,
                mean_wait_s=wait_s,
                node_shutdowns=250,
                job_filling_rate=0.75,
            )
            for agent, (wasted_j, wait_s) in zip(best, gave, strict=True)
        ),
        row_of("a2c", without.label, seed=1, wasted_energy_j=17e9, mean_wait_s=50),
    ]
    table = claims.agent_claims(rows, [*best, without])
    assert [line.split(" | ")[-1].rstrip(" |") for line in table[2:]] == [
        "-15.00 %",
        "-5.56 %",
        "-50.00 %",
        "-20.00 %",
        "+100.00 %",
        "+25.00 points",
        "+5.00 points",
        "between 10 and 15 min",
    ]
    assert claims.agent_claims(rows, [without]) == []


def test_the_best_is_1_on_every_spoke() -> None:
    """Radar values equal a hand calculation: three metrics inverted, utilization not."""
    shapes = radar.shapes_of(
        [
            row_of("timeout", "a", max_wait_s=10, mean_response_s=4),
            row_of("a2c", "b", seed=1, max_wait_s=20, mean_response_s=1, job_filling_rate=0.5),
        ]
    )
    assert shapes["a"] == pytest.approx([1.0, 0.25, 1.0, 1.0])
    assert shapes["b"] == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_the_front_is_what_nothing_beats() -> None:
    """The Pareto front contains non-dominated runs, and the first of equal ones."""
    points = [(5, 50), (4, 90), (5, 60), (6, 50), (7, 10), (7, 10), (9, 11)]
    rows = [timeout_row(number, *point) for number, point in enumerate(points)]
    assert [row["value"] for row in pareto.front(rows)] == [1, 0, 4]


def test_the_front_leaves_out_the_oracle() -> None:
    """The Pareto front leaves out the oracle."""
    rows = [timeout_row(5, 8, 50), row_of("oracle", "oracle", wasted_energy_j=1e9, mean_wait_s=0)]
    assert pareto.front(rows) == rows[:1]


def test_the_two_best_timeouts_of_a_cluster_are_shown() -> None:
    """The two timeouts with the least wasted energy on a cluster are shown."""
    here, there = "128 nodes", "160 nodes"
    rows = [timeout_row(minutes, wasted, cluster=here) for minutes, wasted in ((5, 3), (10, 1))]
    rows += [timeout_row(15, 2, cluster=here), timeout_row(20, 0.5, cluster=there)]
    rows += [row_of("a2c", "agent", seed=1, cluster=here)]
    found = sensitivity.shown(rows, here, "aware")
    assert list(found) == ["agent", *sensitivity.BEST_TIMEOUTS]
    assert [found[name][0]["value"] for name in sensitivity.BEST_TIMEOUTS] == [10, 15]


def test_the_studys_own_cluster_is_simulated_once(tiny: Path) -> None:
    """The study's own cluster, in three families, is simulated once."""
    runs = sensitivity.runs_of([], tiny, [5])
    assert (len(runs), len({run.key for run in runs})) == (27, 21)


def test_a_run_has_the_metrics_of_its_manager(tiny: Path) -> None:
    """Wasted energy and wait equal a hand calculation.

    With all nodes on: 4 nodes at 190 W for 4500 s, minus 3500 node-seconds of jobs.
    """
    (row,) = run_all([always_on(RunSetup(tiny))], 1)
    assert row["wasted_energy_j"] == pytest.approx(190 * (4 * 4500 - 3500))
    assert FILLING.of(row) == pytest.approx(100 * 3500 / (4 * 4500))
    (row,) = run_all(timeout_runs(RunSetup(tiny), [5], "unaware"), 1)
    assert WAIT.of(row) == pytest.approx(60 / 3)


@pytest.mark.slow
def test_timeouts_make_their_files(tiny: Path, tmp_path: Path) -> None:
    """The study writes a row for each run, a summary and a figure."""
    parts = {"all of it": RunSetup(tiny)}
    study = timeouts.study([], ["No agent."], tiny, minutes=(5, 15), parts=parts)
    carry_out(study, tmp_path, 1)
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    # Always on, twice; with three schedulers two timeouts and two keep-idle; Slurm with two.
    assert len(rows) == 2 + 3 * (2 + 2) + 2
    assert rows[0]["awareness"] == "any"
    summary = (tmp_path / "summary.md").read_text()
    assert "No agent." in summary
    assert "| all of it | 19.44 % | 48.17 % |" in summary
    assert (tmp_path / "timeouts.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_the_other_parts_make_their_files(tiny: Path, tmp_path: Path) -> None:
    """The Pareto, radar and sensitivity studies write their files."""
    studies = {
        "pareto": pareto.study([], [], tiny, minutes=(0, 5), warm=(1, 2), prices_w=(350,)),
        "radar": radar.study([], [], tiny),
        "sensitivity": sensitivity.study([], [], tiny, minutes=(5, 10, 15)),
    }
    for name, study in studies.items():
        carry_out(study, tmp_path, 1)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
        if name == "pareto":
            assert "oracle, no wait" in (tmp_path / "summary.md").read_text()


def test_curricula_are_read_from_their_table(tiny: Path, tmp_path: Path) -> None:
    """The table is in the paper's order, with changes from no curriculum."""
    lines = [
        ("a2c", "real", 1, 100.0, 8e9),
        ("a2c", UNTRAINED, 1, 400.0, 9e9),
        ("a2c", "sampled-real-synthetic", 1, 40.0, 5e9),
        ("a2c", "sampled-real-synthetic", 2, 60.0, 7e9),
    ]
    path = tmp_path / "curricula.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("algorithm", "curriculum", "seed", *METRICS))
        for *about, wait_s, wasted_j in lines:
            metrics = dict.fromkeys(METRICS, 1.0) | {"mean_wait_s": wait_s}
            writer.writerow((*about, *(metrics | {"wasted_energy_j": wasted_j}).values()))
    curricula.compare_curricula(tmp_path, path, tiny, minutes=(5,), workers=1)
    summary = (tmp_path / "summary.md").read_text()
    assert "6.00 (5.00 to 7.00) | 50 (40 to 60) | -25.00 % | -50.00 % |" in summary
    assert summary.index("sampled-real-synthetic |") < summary.index("real | no curriculum")
    assert (tmp_path / "curricula.png").read_bytes().startswith(PNG)
    path.write_text(path.read_text().splitlines()[0])
    with pytest.raises(StudyError, match=r"curricula.csv: expected at least one training"):
        curricula.read_trainings(path)
