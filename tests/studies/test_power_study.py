"""The study of power managers: who is compared, the arithmetic of its tables, and its files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import astuple

from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_studies import POWER, power
from hpcosim_studies.power import (
    claims,
    curriculum_report,
    pareto,
    radar,
    sensitivity,
    tables,
    timeouts,
)
from hpcosim_studies.power.agents import Agent, agent_of, contenders, find_agents
from hpcosim_studies.power.batch import Row, Spec, run_all
from hpcosim_studies.power.managers import always_on
from hpcosim_studies.power.managers import timeouts as timeout_specs
from hpcosim_studies.power.readings import TEST, UNTRAINED, Part
from hpcosim_studies.power.runs import KEPT
from hpcosim_studies.power.settings import AS_IT_IS, SETTINGS, Setting, changed

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
    """Three jobs on four nodes."""
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def row_of(
    kind: str,
    label: str,
    awareness: str = "aware",
    *,
    value: float | None = None,
    seed: int | None = None,
    setting: Setting = AS_IT_IS,
    **metrics: float,
) -> Row:
    """Return a run in which all metrics not given are 1."""
    spec = Spec(kind, label, {"name": kind}, awareness, value, seed, setting)
    return Row(spec, dict.fromkeys(KEPT, 1.0) | metrics)


def timeout_row(minutes: float, wasted_gj: float, wait_s: float = 1.0, **more: Any) -> Row:
    """Return the run of a timeout."""
    label = f"timeout {minutes:g} min"
    wasted_j = wasted_gj * 1e9
    return row_of(
        "timeout", label, value=minutes, wasted_energy_j=wasted_j, mean_wait_s=wait_s, **more
    )


def test_a_file_says_which_agent_it_is(tmp_path: Path) -> None:
    """Kind, curriculum and seed stand in the name; the rest follows from them."""
    best = agent_of(tmp_path / "a2c-sampled-real-synthetic-2.safetensors")
    assert best is not None
    assert best[:3] == ("a2c", "sampled-real-synthetic", 2)
    assert (best.label, best.awareness) == ("A2C sampled-real-synthetic", "aware")
    assert best.power["name"] == "rl"
    ours = agent_of(tmp_path / "adaptive-350-1.safetensors")
    assert ours is not None
    assert (ours.awareness, ours.power["name"]) == ("planned", "adaptive")
    assert agent_of(tmp_path / "actor.safetensors") is None
    other = Agent("a2c", "real-sampled-synthetic", 1, tmp_path)
    assert contenders([best, ours, other]) == [best, ours]


def test_what_is_no_agent_is_left_out_with_the_reason(tmp_path: Path) -> None:
    """Nothing is passed over in silence."""
    agents, why = find_agents(tmp_path)
    assert not agents
    assert why[0].startswith("No agent")
    (tmp_path / "actor.safetensors").touch()
    (tmp_path / "adaptive-350-1.safetensors").touch()
    agents, why = find_agents(tmp_path)
    assert [agent.seed for agent in agents] == [1]
    assert why == ["`actor.safetensors` is left out: it is not named KIND-VARIANT-SEED."]


def test_settings_are_those_of_the_paper() -> None:
    """Off 30 and on 45 min are the study's own, and so on; power on the way follows."""
    platform = load_scenario(TEST).platform
    (group,) = platform.nodes
    assert group.power_states is not None
    assert astuple(group.power_states)[:5] == (9, 2700, 190, 1800, 9)
    assert [changed(platform, each[0]) for each in SETTINGS.values()] == [platform] * 3
    fast = changed(platform, SETTINGS["off/on"][1]).nodes[0].power_states
    assert fast is not None
    assert (fast.switch_off_s, fast.switch_on_s) == (1200, 1800)
    (frugal,) = changed(platform, SETTINGS["sleep/active"][2]).nodes
    assert frugal.processors[0].static_w == 100
    assert frugal.power_states is not None
    assert (frugal.power_states.switch_on_w, frugal.power_states.sleep_w) == (100, 9)
    dozing = changed(platform, SETTINGS["sleep/active"][1]).nodes[0].power_states
    assert dozing is not None
    assert (dozing.sleep_w, dozing.switch_off_w, dozing.switch_on_w) == (90, 90, 190)
    assert changed(platform, SETTINGS["nodes"][2]).node_count == 256


def test_timeouts_beside_the_paper() -> None:
    """Three timeouts, by hand: the least wasteful, and that of 15 min."""
    rows = [
        row_of("always_on", "always on", "any", job_filling_rate=0.4),
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
    """Two seeds, by hand: means against the 15-min timeout and no curriculum."""
    best = [Agent("a2c", "sampled-real-synthetic", seed, Path()) for seed in (1, 2)]
    without = Agent("a2c", "real", 1, Path())
    gave = [(8e9, 90.0), (9e9, 110.0)]
    rows = [
        row_of("always_on", "always on", "any", job_filling_rate=0.5),
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


def test_seeds_are_pooled() -> None:
    """Mean, least and most; a single run has neither."""
    rows = [
        row_of("a2c", "A2C real", seed=seed, mean_wait_s=wait_s)
        for seed, wait_s in enumerate([100.0, 200.0, 600.0])
    ]
    assert tables.spread(rows, tables.WAIT) == "300 (100 to 600)"
    assert tables.spread(rows[:1], tables.WAIT) == "100"
    assert list(tables.groups(rows)) == [("A2C real", "aware")]


def test_the_best_is_1_on_every_spoke() -> None:
    """Two managers, by hand: three metrics inverted, utilization not."""
    shapes = radar.shape_of(
        [
            row_of("timeout", "a", max_wait_s=10, mean_response_s=4),
            row_of("a2c", "b", seed=1, max_wait_s=20, mean_response_s=1, job_filling_rate=0.5),
        ]
    )
    assert shapes["a"] == pytest.approx([1.0, 0.25, 1.0, 1.0])
    assert shapes["b"] == pytest.approx([0.5, 1.0, 1.0, 0.5])


def test_the_front_is_what_nothing_beats() -> None:
    """Of equals the first; what is worse in one and no better in the other is not of it."""
    points = [(5, 50), (4, 90), (5, 60), (6, 50), (7, 10), (7, 10), (9, 11)]
    rows = [timeout_row(number, *point) for number, point in enumerate(points)]
    assert [row.spec.value for row in pareto.front(rows)] == [1, 0, 4]


def test_the_two_best_timeouts_of_a_cluster_are_shown() -> None:
    """By wasted energy, on that cluster alone, beside that scheduler alone."""
    here, there = SETTINGS["nodes"][:2]
    rows = [timeout_row(minutes, wasted, setting=here) for minutes, wasted in ((5, 3), (10, 1))]
    rows += [timeout_row(15, 2, setting=here), timeout_row(20, 0.5, setting=there)]
    rows += [row_of("a2c", "agent", seed=1, setting=here)]
    found = sensitivity.shown(rows, here, "aware")
    assert list(found) == ["agent", *sensitivity.BEST_TIMEOUTS]
    assert [found[name][0].spec.value for name in sensitivity.BEST_TIMEOUTS] == [10, 15]


def test_equal_runs_are_done_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The study's own cluster stands in three families of settings, and is run once."""
    done = []

    def run(spec: Spec) -> dict[str, float]:
        done.append(spec)
        return dict.fromkeys(KEPT, float(len(done)))

    monkeypatch.setattr("hpcosim_studies.power.batch.run_one", run)
    specs = sensitivity.specs_of([], tiny, [5])
    rows = run_all(specs, 1)
    assert [row.spec for row in rows] == specs
    assert (len(specs), len(done)) == (27, 21)


def test_a_run_says_what_it_measures(tiny: Path) -> None:
    """By hand: always on, 4 nodes at 190 W for 4500 s, less 3500 node-seconds of jobs."""
    (row,) = run_all([always_on(tiny)], 1)
    assert row.metrics["wasted_energy_j"] == pytest.approx(190 * (4 * 4500 - 3500))
    assert row.filling == pytest.approx(100 * 3500 / (4 * 4500))
    (row,) = run_all(timeout_specs([5], "unaware", path=tiny), 1)
    assert row.wait_s == pytest.approx(60 / 3)


@pytest.mark.slow
def test_timeouts_make_their_files(tiny: Path, tmp_path: Path) -> None:
    """A row for each run, a summary, a picture."""
    parts = (Part("all of it", tiny),)
    timeouts.compare_timeouts(
        tmp_path, [], ["No agent."], path=tiny, minutes=(5, 15), parts=parts, workers=1
    )
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    # Always on, twice; beside three schedulers two timeouts, two of idle nodes; Slurm beside two.
    assert len(rows) == 2 + 3 * (2 + 2) + 2
    assert rows[0]["awareness"] == "any"
    summary = (tmp_path / "summary.md").read_text()
    assert "No agent." in summary
    assert "| all of it | 19.44 % | 48.17 % |" in summary
    assert (tmp_path / "timeouts.png").read_bytes().startswith(PNG)


@pytest.mark.slow
def test_the_other_parts_make_their_files(tiny: Path, tmp_path: Path) -> None:
    """Pareto, radar and sensitivity, on three jobs."""
    pareto.compare_all(
        tmp_path, [], path=tiny, minutes=(0, 5), warm=(1, 2), prices_w=(350,), workers=1
    )
    assert "oracle, no wait" in (tmp_path / "summary.md").read_text()
    radar.compare_scheduling(tmp_path, [], path=tiny, workers=1)
    sensitivity.compare_settings(tmp_path, [], path=tiny, minutes=(5, 10, 15), workers=1)
    for name in ("pareto", "radar", "sensitivity"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)


def test_curricula_are_read_from_their_table(tiny: Path, tmp_path: Path) -> None:
    """In the paper's order, with changes against no curriculum, by hand."""
    lines = [
        ("a2c", "real", 1, 100.0, 8e9),
        ("a2c", UNTRAINED, 1, 400.0, 9e9),
        ("a2c", "sampled-real-synthetic", 1, 40.0, 5e9),
        ("a2c", "sampled-real-synthetic", 2, 60.0, 7e9),
    ]
    path = tmp_path / "curricula.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("algorithm", "curriculum", "seed", *KEPT))
        for *about, wait_s, wasted_j in lines:
            metrics = dict.fromkeys(KEPT, 1.0) | {"mean_wait_s": wait_s}
            writer.writerow((*about, *(metrics | {"wasted_energy_j": wasted_j}).values()))
    curriculum_report.compare_curricula(tmp_path, path, path=tiny, minutes=(5,), workers=1)
    summary = (tmp_path / "summary.md").read_text()
    assert "6.00 (5.00 to 7.00) | 50 (40 to 60) | -25.00 % | -50.00 % |" in summary
    assert summary.index("sampled-real-synthetic |") < summary.index("real | no curriculum")
    assert (tmp_path / "curricula.png").read_bytes().startswith(PNG)
    with pytest.raises(ScenariosError, match="is no table of trainings"):
        curriculum_report.read_trainings(tmp_path / "missing.csv")


def test_every_part_has_a_command() -> None:
    """Those that `hpcosim reproduce` knows are those there are."""
    assert {*power.COMPARED, "power-curricula"} == set(POWER)
