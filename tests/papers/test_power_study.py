"""The study of power management: its managers, clusters and files."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hpcosim_experiments.executors import IN_THIS_PROCESS
from hpcosim_experiments.runs.plan import Plan
from hpcosim_experiments.statistics.rows import Labels
from hpcosim_papers.power.study import curricula, paper
from hpcosim_papers.power.study.paper import (
    CLUSTERS,
    FILLING,
    METRICS,
    NO_CL,
    UNTRAINED,
    WAIT,
    agent_name,
    scenario_file,
)
from hpcosim_papers.power.study.reproduce import study_of
from hpcosim_papers.studies.study import (
    Request,
    Study,
    StudyError,
    carry_out,
    only,
    papers_folder,
    plan,
    rows_of,
)
from hpcosim_protocol import Platform
from hpcosim_protocol.platform import PowerStates
from hpcosim_scenarios.model.file import load_scenario

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
    """Return the folder of the study with a workload of three jobs on four nodes."""
    folder = tmp_path / "power"
    shutil.copytree(papers_folder() / "power", folder)
    for name in ("test", "train"):
        (folder / f"{name}.yaml").write_text(TINY)
    return folder


def study_in(folder: Path, name: str, wanted: Callable[[Labels], bool] | None = None) -> Study:
    """Return a part of the study in a folder, without agents."""

    def kept(labels: Labels) -> bool:
        learned = str(labels["manager"]).startswith(("A2C", "adaptive"))
        return not learned and (wanted is None or wanted(labels))

    return study_of(name)._replace(
        experiment=folder / "experiments" / f"{name}.yaml", changed=only(kept)
    )


def request_of(folder: Path, name: str = "power") -> Request:
    """Return the request to write a study into a new folder, in this process."""
    out = folder / f"results-{name}"
    return Request(name, out, executor=IN_THIS_PROCESS)


def test_columns_of_every_manager(tiny: Path) -> None:
    """Kind, value and awareness of a run are those of its manager."""
    runs = {str(run.labels["manager"]): run for run in plan(study_in(tiny, "power-pareto")).runs}
    found = {
        name: tuple(paper.columns_of(runs[name])[column] for column in ("kind", "value"))
        for name in ("always on", "timeout 15 min", "keep 4 idle", "slurm 15 min")
    }
    assert list(found.values()) == [
        ("always-on", None),
        ("timeout", 15),
        ("keep-idle", 4),
        ("slurm", None),
    ]
    priced = paper.columns_of(runs["timeout 60 min, wait at 350 W"])
    assert (priced["kind"], priced["value"], priced["awareness"]) == ("priced", 350, "planned")
    assert paper.columns_of(runs["always on"])["awareness"] == "any"


def test_an_agent_has_a_name_and_a_seed(tiny: Path) -> None:
    """Agents of one curriculum have the same name; the seed is that of the training."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    study = study_of("power-radar")._replace(experiment=tiny / "experiments/power-radar.yaml")
    columns = [paper.columns_of(run) for run in plan(study).runs]
    seeds = [row["seed"] for row in columns if row["manager"] == "adaptive 400 W"]
    assert seeds == [1, 2, 3]
    assert {row["manager"] for row in columns if row["kind"] == "a2c"} == {
        "A2C sampled-real-synthetic",
        agent_name(NO_CL),
    }


def test_a_manager_without_its_package_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the manager, the package and the extra; other managers stay."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert paper.missing("timeout 5 min") == ""
    assert paper.missing("oracle, no wait") == (
        "`oracle, no wait` is left out: it needs scipy (`pip install 'hpcosim[oracle]'`)."
    )


def test_clusters_are_those_of_the_paper(tiny: Path) -> None:
    """The clusters have the paper's switching times, powers and numbers of nodes."""
    planned = plan(study_in(tiny, "power-sensitivity"))
    assert [label for family in CLUSTERS.values() for label in family] == [
        value.label for value in planned.axes["cluster"].values
    ]
    (group,) = load_scenario(scenario_file()).platform.nodes
    assert group.power_states is not None
    assert (group.power_states.switch_off_s, group.power_states.switch_on_s) == (1800, 2700)
    assert (group.power_states.sleep_w, group.processors[0].static_w) == (9, 190)
    fast = states_on(planned, "off/on 20/30 min")
    assert (fast.switch_off_s, fast.switch_on_s) == (1200, 1800)
    dozing = states_on(planned, "sleep/active 90/190 W")
    assert (dozing.sleep_w, dozing.switch_off_w, dozing.switch_on_w) == (90, 90, 190)
    frugal = states_on(planned, "sleep/active 9/100 W")
    assert (frugal.switch_on_w, frugal.sleep_w) == (100, 9)
    assert platform_on(planned, "sleep/active 9/100 W").nodes[0].processors[0].static_w == 100
    assert platform_on(planned, "256 nodes").node_count == 256


def platform_on(planned: Plan, cluster: str) -> Platform:
    """Return the platform of a cluster."""
    return next(run for run in planned.runs if run.labels["cluster"] == cluster).scenario.platform


def states_on(planned: Plan, cluster: str) -> PowerStates:
    """Return the power states of the nodes of a cluster."""
    states = platform_on(planned, cluster).nodes[0].power_states
    assert states is not None
    return states


def test_the_studys_own_cluster_is_simulated_once(tiny: Path) -> None:
    """The study's own cluster, in three families, is simulated once."""
    runs = plan(study_in(tiny, "power-sensitivity")).runs
    assert (len(runs), len({run.key for run in runs})) == (9 * 36, 7 * 36)


def test_a_run_has_the_metrics_of_its_manager(tiny: Path) -> None:
    """Wasted energy and wait equal a hand calculation.

    With all nodes on: 4 nodes at 190 W for 4500 s, minus 3500 node-seconds of jobs.
    """
    both = {("test", "unaware", "always on"), ("test", "unaware", "timeout 5 min")}
    study = study_in(tiny, "power-timeouts", lambda labels: tuple(labels.values()) in both)
    on, timeout = rows_of(study, request_of(tiny))
    assert on["wasted_energy_j"] == pytest.approx(190 * (4 * 4500 - 3500))
    assert FILLING.of(on) == pytest.approx(100 * 3500 / (4 * 4500))
    assert WAIT.of(timeout) == pytest.approx(60 / 3)


@pytest.mark.slow
def test_timeouts_make_their_files(tiny: Path) -> None:
    """The study writes a row for each run, a summary and a figure."""
    request = request_of(tiny)
    carry_out(study_in(tiny, "power-timeouts"), request)
    with (request.out / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    # Always on, also in three parts; with three schedulers twelve timeouts and two keep-idle;
    # Slurm with two.
    assert len(rows) == 1 + 3 * (12 + 2) + 2 + 3
    assert rows[0]["awareness"] == "any"
    assert [row["scenario"] for row in rows[-3:]] == ["test", "train", "test, whole log"]
    summary = (request.out / "summary.md").read_text()
    assert "| whole log | 19.44 % | 48.17 % |" in summary
    assert (request.out / "timeouts.png").read_bytes().startswith(PNG)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pareto", "radar", "sensitivity"])
def test_the_other_parts_make_their_files(name: str, tiny: Path) -> None:
    """The Pareto, radar and sensitivity studies write their files."""
    pytest.importorskip("scipy", reason="the oracle needs the extra oracle")
    fewer = ("always", "timeout 5", "timeout 10 min", "timeout 15", "keep", "slurm", "oracle")
    study = study_in(tiny, f"power-{name}", lambda labels: str(labels["manager"]).startswith(fewer))
    request = request_of(tiny, name)
    carry_out(study, request)
    assert (request.out / f"{name}.png").read_bytes().startswith(PNG)
    if name == "pareto":
        assert "oracle, no wait" in (request.out / "summary.md").read_text()


def test_curricula_are_read_from_their_table(tiny: Path, tmp_path: Path) -> None:
    """The table is in the paper's order, with changes from no curriculum."""
    lines = [
        ("a2c", "real", 1, 100.0, 8e9),
        ("a2c", UNTRAINED, 1, 400.0, 9e9),
        ("a2c", "sampled-real-synthetic", 1, 40.0, 5e9),
        ("a2c", "sampled-real-synthetic", 2, 60.0, 7e9),
    ]
    path, request = tmp_path / "curricula.csv", request_of(tiny)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("algorithm", "curriculum", "seed", *METRICS))
        for *about, wait_s, wasted_j in lines:
            metrics = dict.fromkeys(METRICS, 1.0) | {"mean_wait_s": wait_s}
            writer.writerow((*about, *(metrics | {"wasted_energy_j": wasted_j}).values()))
    study = study_in(tiny, "power-curricula", lambda labels: labels["manager"] == "timeout 5 min")
    carry_out(study, request, curricula.read_trainings(path))
    summary = (request.out / "summary.md").read_text()
    assert "6.00 (5.00 to 7.00) | 50 (40 to 60) | -25.00 % | -50.00 % |" in summary
    assert summary.index("sampled-real-synthetic |") < summary.index("real | no curriculum")
    assert (request.out / "curricula.png").read_bytes().startswith(PNG)
    path.write_text(path.read_text().splitlines()[0])
    with pytest.raises(StudyError, match=r"curricula.csv: expected at least one training"):
        curricula.read_trainings(path)
