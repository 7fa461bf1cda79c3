"""The public name: `import hpcosim`."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import pytest

import hpcosim
from hpcosim import Run, View, runs
from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.jobs import source_jobs
from support.commands import SCENARIO, invoke

CONTENTS = {
    "name": "small",
    "platform": {
        "nodes": [{"count": 2, "processors": [{"cores": 2, "static_w": 10, "dynamic_w": 5}]}]
    },
    "workload": {
        "inline": [
            {"job_id": 1, "submit_s": 0, "cores": 4, "run_s": 60, "user": "ann"},
            {"job_id": 2, "submit_s": 10, "cores": 1, "run_s": 20},
        ]
    },
}


def first_fit(view: View) -> None:
    """Start every job that fits."""
    for job in list(view.queue.values()):
        view.start(job)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A scenario file with 20 synthetic jobs."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def test_a_run_has_the_metrics_of_the_command(small: Path, tmp_path: Path) -> None:
    """Files, functions and the command give the same results."""
    run = hpcosim.run(small, "fcfs", set={"seed": 3})
    words = ("--scheduler", "fcfs", "--set", "seed=3", "--transport", "inproc", "--json")
    printed = invoke("run", small, *words, "--out", tmp_path / "out").out
    assert run.metrics == json.loads(printed)
    assert hpcosim.read(tmp_path / "out").metrics == run.metrics


@pytest.mark.filterwarnings("ignore:the offered load")
def test_many_runs_are_those_that_are_run_alone(small: Path) -> None:
    """In the order of their settings, also of other schedulers and workloads."""
    settings: list[dict[str, Any]] = [
        {"seed": 1},
        {"scheduler.name": "sjf"},
        {"workload.synthetic.jobs": 5},
        {},
    ] * 2
    many = list(hpcosim.run_many(small, settings, threads=3))
    assert many == [hpcosim.run(small, set=each).metrics for each in settings]
    assert len({metrics["mean_wait_s"] for metrics in many}) > 2


def test_an_invalid_run_of_many_is_an_error_in_its_place(small: Path) -> None:
    """The runs before it are there."""
    runs = hpcosim.run_many(small, [{}, {"seed": 2}, {"sede": 1}], "fcfs", threads=4)
    assert [next(runs)["jobs"], next(runs)["jobs"]] == [20, 20]
    with pytest.raises(ScenarioError, match="sede"):
        next(runs)


@pytest.mark.filterwarnings("ignore:the offered load")
def test_runs_of_the_same_jobs_draw_them_once(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log would be read once."""
    drawn: list[None] = []

    def counted(*arguments: Any) -> Any:
        drawn.append(None)
        return source_jobs(*arguments)

    monkeypatch.setattr("hpcosim_scenarios.model.jobs.source_jobs", counted)
    assert len(list(hpcosim.run_many(small, [{"workload.load": 0.5}, {}, {}], "fcfs"))) == 3
    assert len(drawn) == 1


def test_contents_of_a_file_are_a_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They leave no file behind."""
    monkeypatch.chdir(tmp_path)
    run = hpcosim.run(CONTENTS, first_fit)
    assert run.scheduler == "first_fit"
    assert run.jobs["wait_s"].tolist() == [0.0, 50.0]
    assert run.jobs["user"][0] == "ann"
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_scenario_names_the_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for the command."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ScenarioError, match="platfrom"):
        hpcosim.run({**CONTENTS, "platfrom": {}})


def test_tables_are_read_by_data_frames(small: Path) -> None:
    """By their own methods and by the Arrow interface."""
    polars = pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    run = hpcosim.run(small)
    waits = run.jobs["wait_s"].tolist()
    assert run.jobs.to_arrow()["wait_s"].to_pylist() == waits
    assert run.jobs.to_polars()["wait_s"].to_list() == waits
    assert polars.DataFrame(run.jobs)["wait_s"].to_list() == waits
    assert "power_w" in run.power
    assert "state" in run.nodes


def test_tables_for_pandas(small: Path) -> None:
    """A table of a run, and the metrics of a comparison."""
    pandas = pytest.importorskip("pandas")
    run = hpcosim.run(small)
    assert run.jobs.to_pandas()["wait_s"].tolist() == run.jobs["wait_s"].tolist()
    compared = hpcosim.compare(small, ["fcfs", "easy"]).to_pandas()
    assert isinstance(compared, pandas.DataFrame)
    assert compared.loc["easy", "jobs_completed"] == 20


def test_a_comparison_takes_names_groups_and_functions(small: Path) -> None:
    """Each run is listed once, by the name of its scheduler."""
    one_node = {"workload.placement": "one_node", "workload.synthetic.cores": [1, 2]}
    found = hpcosim.compare(small, ["easy", "minmin-family", first_fit], set=one_node)
    assert list(found)[:2] == ["easy", "minmin"]
    assert list(found)[-1] == "first_fit"
    assert found["easy"].metrics["jobs_completed"] == 20
    with pytest.raises(PolicyError, match="two schedulers are called first_fit"):
        hpcosim.compare(small, [first_fit, first_fit])


def test_a_notebook_shows_a_picture(small: Path) -> None:
    """And a table of the main metrics."""
    pytest.importorskip("matplotlib")
    run = hpcosim.run(small)
    shown = run._repr_html_()
    assert "data:image/png;base64," in shown
    assert f"<td>{run.metrics['mean_wait_s']:,.6g}</td>" in shown
    assert hpcosim.compare(small, ["fcfs"])._repr_html_().count("<tr>") == 2


def test_why_jobs_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explain` records it."""
    monkeypatch.chdir(tmp_path)
    run = hpcosim.run(CONTENTS, "easy", explain=True)
    assert run.explanations["reason"][0] == "Resources"


def test_reports_and_experiments(small: Path, tmp_path: Path) -> None:
    """Both write their files."""
    pytest.importorskip("jinja2")
    page = hpcosim.report(
        [hpcosim.run(small, name) for name in ("fcfs", "easy")], tmp_path / "a.html"
    )
    assert page.read_text().startswith("<!doctype html>")
    study = tmp_path / "study.yaml"
    study.write_text("name: study\nscenario: small.yaml\naxes: {scheduler: [fcfs, easy]}\n")
    done = hpcosim.experiment(study, out=tmp_path / "study")
    assert not done.failed
    assert (tmp_path / "study" / "report.md").is_file()


def test_results_in_a_folder_stay(small: Path, tmp_path: Path) -> None:
    """Those in no folder go with their run."""
    assert hpcosim.run(small, out=tmp_path / "out").folder == tmp_path / "out"
    run = hpcosim.run(small)
    folder = run.folder
    assert folder.is_dir()
    del run
    assert not folder.exists()
    assert isinstance(hpcosim.read(tmp_path / "out"), Run)


def test_examples_of_docstrings() -> None:
    """They run as shown."""
    assert doctest.testmod(runs).failed == 0
    assert doctest.testmod(runs).attempted > 0


def test_every_public_name_is_there() -> None:
    """And described."""
    for name in {*hpcosim.__all__} - {"__version__", "Policy"}:
        assert getattr(hpcosim, name).__doc__
    assert hpcosim.__version__
