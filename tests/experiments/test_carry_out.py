"""Experiments from the file to the tables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.executors import Local
from hpcosim_experiments.executors.local import WorkerPool
from hpcosim_scenarios import simulate
from hpcosim_schedulers import make_policy
from hpcosim_sim.errors import ResultsFolderError
from hpcosim_workloads.logs.swf import read_swf
from support.experiments import EXPERIMENT, SCENARIO, carry_out, write

pa = pytest.importorskip("pyarrow", reason="needs pyarrow")
pq = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")

FAILING = """
def fails(view):
    if view.now_s > 1000:
        raise ValueError("no idea")
    while view.queue and view.start(view.queue.first()):
        pass
"""


OVERRUNNING = """
name: overrunning
platform: {nodes: [{count: 2, processors: [{cores: 4, static_w: 100, dynamic_w: 5}]}]}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 4, run_s: 200, requested_s: 100}
    - {job_id: 2, submit_s: 1, cores: 4, run_s: 300, requested_s: 100}
    - {job_id: 3, submit_s: 2, cores: 4, run_s: 10, requested_s: 100}
"""


def rows(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the table of runs."""
    found: list[dict[str, Any]] = pq.read_table(folder / "results.parquet").to_pylist()
    return found


def test_a_row_has_the_metrics_of_the_run(tmp_path: Path) -> None:
    """The metrics are those of a run by itself, and rows are in the order of the experiment."""
    carry_out(write(tmp_path), tmp_path / "out")
    found = rows(tmp_path / "out")
    order = [(row["scheduler"], row["load"], row["seed"]) for row in found]
    assert order == [
        (s, load, seed) for s in ("fcfs", "easy") for load in (0.5, 1) for seed in (1, 2)
    ]
    for row in found:
        overrides = {"workload.load": row["load"], "seed": row["seed"]}
        policy = make_policy(row["scheduler"])
        metrics = simulate(tmp_path / "small.yaml", policy, overrides=overrides)
        assert {name: row[name] for name in metrics} == metrics
        assert (row["status"], row["error"], row["policy_name"]) == ("ok", "", row["scheduler"])


def test_killed_and_overrunning_jobs_are_counted_in_every_run(tmp_path: Path) -> None:
    """Rows have the numbers, also 0. The report has a column of those that are not 0."""
    text = EXPERIMENT.replace("[0.5, 1]", "[1]").replace("[1, 2]", "[1]")
    for kill, column in ((True, "timed out"), (False, "over requested time")):
        folder = tmp_path / f"{kill}"
        folder.mkdir()
        path = write(folder, text)
        (folder / "small.yaml").write_text(OVERRUNNING + f"kill_at_walltime: {kill}\n")
        carry_out(path, folder / "out")
        for row in rows(folder / "out"):
            assert (row["jobs_timed_out"], row["jobs_over_requested_time"]) == (
                (2, 0) if kill else (0, 2)
            )
        assert f"Jobs {column}, all runs" in (folder / "out/report.md").read_text()


def test_forecast_metrics_have_columns(tmp_path: Path) -> None:
    """If a scenario asks for explanations, the rows have the errors of the expected starts."""
    path = write(tmp_path, EXPERIMENT.replace("[0.5, 1]", "[2]"))
    (tmp_path / "small.yaml").write_text(SCENARIO.replace("easy}", "easy, explain: true}"))
    carry_out(path, tmp_path / "out")
    for row in rows(tmp_path / "out"):
        assert row["start_forecasts"] > 0
        assert row["mean_abs_start_error_s"] >= abs(row["mean_start_error_s"])
        assert row["start_forecasts_over_24h"] is None


def test_types_of_columns_do_not_depend_on_results(tmp_path: Path) -> None:
    """Labels and metrics have the type of their values, also if all runs failed."""
    (tmp_path / "bad.py").write_text("def fails(view):\n    1 / 0\n")
    text = EXPERIMENT.replace("[fcfs, easy]", "[bad.py:fails]")
    done, _, _ = carry_out(write(tmp_path, text), tmp_path / "failed")
    assert len(done.failed) == 4
    carry_out(write(tmp_path), tmp_path / "out")
    failed = pq.read_schema(tmp_path / "failed/results.parquet")
    schema = pq.read_schema(tmp_path / "out/results.parquet")
    assert failed.equals(schema)
    kinds = {name: str(schema.field(name).type) for name in ("scheduler", "load", "seed", "jobs")}
    assert kinds == {"scheduler": "string", "load": "double", "seed": "int64", "jobs": "int64"}


def test_metadata_have_the_experiment(tmp_path: Path) -> None:
    """The Parquet file has the text of the experiment file and the version."""
    path = write(tmp_path)
    carry_out(path, tmp_path / "out")
    found = pq.read_schema(tmp_path / "out/results.parquet").metadata
    assert found[b"experiment"].decode() == path.read_text()
    assert b"hpcosim" in found


def test_polars_and_duckdb_read_the_table(tmp_path: Path) -> None:
    """Both compute the same mean as the rows."""
    polars = pytest.importorskip("polars", reason="needs polars")
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    carry_out(write(tmp_path), tmp_path / "out")
    path = tmp_path / "out/results.parquet"
    waits = [row["mean_wait_s"] for row in rows(tmp_path / "out") if row["scheduler"] == "easy"]
    expected = sum(waits) / len(waits)
    table = polars.read_parquet(path).filter(polars.col("scheduler") == "easy")
    assert table["mean_wait_s"].mean() == pytest.approx(expected)
    query = f"select avg(mean_wait_s) from '{path}' where scheduler = 'easy'"
    assert duckdb.sql(query).fetchall()[0][0] == pytest.approx(expected)


def test_csv_has_the_same_values(tmp_path: Path) -> None:
    """`--format csv` writes the same rows with full precision."""
    path = write(tmp_path, EXPERIMENT + "jobs: true\n")
    carry_out(path, tmp_path / "out")
    carry_out(path, tmp_path / "csv", table_format="csv")
    expected = rows(tmp_path / "out")
    with (tmp_path / "csv/results.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert [float(row["mean_wait_s"]) for row in found] == [row["mean_wait_s"] for row in expected]
    assert [row["run_key"] for row in found] == [row["run_key"] for row in expected]
    with (tmp_path / "csv/jobs.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 8 * 30


def test_the_table_of_jobs_has_the_jobs_of_each_run(tmp_path: Path) -> None:
    """A row per run and job, with the columns of `jobs.csv`, in the order of the experiment."""
    carry_out(write(tmp_path, EXPERIMENT + "jobs: true\n"), tmp_path / "out")
    table = pq.read_table(tmp_path / "out/jobs.parquet").to_pylist()
    assert len(table) == 8 * 30
    overrides = {"workload.load": 1.0, "seed": 2}
    simulate(
        tmp_path / "small.yaml", make_policy("easy"), overrides=overrides, out=tmp_path / "one"
    )
    with (tmp_path / "one/jobs.csv").open(newline="") as file:
        expected = list(csv.DictReader(file))
    last = table[-30:]
    assert {(row["scheduler"], row["load"], row["seed"]) for row in last} == {("easy", 1.0, 2)}
    for name in ("job_id", "submit_s", "start_s", "end_s", "state", "nodes", "energy_j"):
        assert [str(row[name]) for row in last] == [row[name] for row in expected]


def test_size_classes_make_a_table(tmp_path: Path) -> None:
    """`breakdowns.parquet` has a row per run and class."""
    text = EXPERIMENT + "measure: {size_classes: [1, 8]}\n"
    carry_out(write(tmp_path, text), tmp_path / "out")
    found = pq.read_table(tmp_path / "out/breakdowns.parquet").to_pylist()
    assert {row["class"] for row in found} == {"1-7", "8+"}
    assert sum(row["jobs"] for row in found) == 8 * 30


def test_stored_results_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second start simulates nothing and writes the same bytes."""
    path = write(tmp_path)
    carry_out(path, tmp_path / "out")
    before = (tmp_path / "out/results.parquet").read_bytes()
    monkeypatch.setattr("hpcosim_experiments.carry_out.run_task", None)  # would fail
    _, said, _ = carry_out(path, tmp_path / "out")
    assert said[0] == "study: 8 runs; 8 stored results are used; 0 runs to simulate"
    assert (tmp_path / "out/results.parquet").read_bytes() == before


def test_a_changed_experiment_runs_only_what_is_new(tmp_path: Path) -> None:
    """What is used, new and left over is said; results that are not used stay."""
    carry_out(write(tmp_path), tmp_path / "out")
    path = write(tmp_path, EXPERIMENT.replace("seed: [1, 2]", "seed: [2, 3, 4]"))
    _, said, _ = carry_out(path, tmp_path / "out")
    assert said[0] == (
        f"{path} has changed since the last start. study: 12 runs; 4 stored results are used; "
        "8 runs to simulate; 4 stored results of other runs are kept"
    )
    _, said, _ = carry_out(write(tmp_path), tmp_path / "out")
    assert "8 stored results are used; 0 runs to simulate" in said[0]


def test_force_simulates_all_again(tmp_path: Path) -> None:
    """Stored results are replaced."""
    path = write(tmp_path)
    carry_out(path, tmp_path / "out")
    _, said, _ = carry_out(path, tmp_path / "out", force=True)
    assert said[0] == "study: 8 runs; 8 runs to simulate"


def test_equal_runs_are_simulated_once(tmp_path: Path) -> None:
    """Combinations that are the same run share a result and have a row each."""
    text = EXPERIMENT.replace("[fcfs, easy]", "[easy, EASY]")
    _, said, _ = carry_out(write(tmp_path, text), tmp_path / "out")
    assert said[0] == "study: 8 runs, 4 of them different; 4 runs to simulate"
    found = rows(tmp_path / "out")
    assert [row["scheduler"] for row in found[::4]] == ["easy", "EASY"]
    assert [row["mean_wait_s"] for row in found[:4]] == [row["mean_wait_s"] for row in found[4:]]


def test_a_failed_run_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    """The row has the error and no metrics, and the run is repeated at the next start."""
    policy = tmp_path / "mine.py"
    policy.write_text(FAILING)
    path = write(tmp_path, EXPERIMENT.replace("[fcfs, easy]", "['mine.py:fails', easy]"))
    done, _, _ = carry_out(path, tmp_path / "out")
    assert [run.labels["scheduler"] for run in done.failed] == ["mine.py:fails"] * 4
    found = rows(tmp_path / "out")
    assert {row["status"] for row in found[4:]} == {"ok"}
    assert found[0]["status"] == "failed"
    assert found[0]["error"].endswith("mine.py:4: ValueError: no idea")
    assert found[0]["mean_wait_s"] is None
    _, said, _ = carry_out(path, tmp_path / "out")
    assert "4 stored results are used; 4 runs to simulate" in said[0]


def test_a_damaged_result_is_simulated_again(tmp_path: Path) -> None:
    """The table is the same as before, and the file is named once."""
    path = write(tmp_path)
    carry_out(path, tmp_path / "out")
    before = (tmp_path / "out/results.parquet").read_bytes()
    result = next((tmp_path / "out/runs").glob("*/*.json"))
    result.write_bytes(result.read_bytes()[:-40])
    _, said, warned = carry_out(path, tmp_path / "out")
    assert "7 stored results are used; 1 runs to simulate" in said[0]
    assert warned == [f"{result} is damaged or no result of this run; the run is repeated"]
    assert (tmp_path / "out/results.parquet").read_bytes() == before


@pytest.mark.slow
def test_the_number_of_workers_makes_no_difference(tmp_path: Path) -> None:
    """No worker, one and two give the same bytes of all tables."""
    path = write(tmp_path, EXPERIMENT + "jobs: true\nmeasure: {size_classes: [1, 8]}\n")
    contents = []
    for workers in (0, 1, 2):
        out = tmp_path / str(workers)
        carry_out(path, out, executor=Local(workers=workers))
        contents.append({file.name: file.read_bytes() for file in out.glob("*.parquet")})
    assert set(contents[0]) == {"results.parquet", "jobs.parquet", "breakdowns.parquet"}
    assert contents[0] == contents[1] == contents[2]


@pytest.mark.parametrize("start_s", [1e9, 0.0])
def test_short_compiled_runs_need_no_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_s: float
) -> None:
    """They are simulated in this process, up to the time in which workers start; then by those."""
    path = write(tmp_path)
    by_workers: list[Any] = []
    run = WorkerPool.run

    def counted(pool: WorkerPool, function: Any, tasks: Any) -> Any:
        by_workers.extend(tasks)
        return run(pool, function, tasks)

    monkeypatch.setattr(WorkerPool, "run", counted)
    monkeypatch.setattr("hpcosim_experiments.carry_out.is_compiled", lambda *_: True)
    monkeypatch.setattr("hpcosim_experiments.carry_out.START_S", start_s)
    done, _, _ = carry_out(path, tmp_path / "here", executor=Local())
    assert len(by_workers) == (0 if start_s else 8)
    assert not done.failed
    carry_out(path, tmp_path / "workers", executor=Local(workers=0))
    table = (tmp_path / "workers/results.parquet").read_bytes()
    assert (tmp_path / "here/results.parquet").read_bytes() == table


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    """Files of others and results of another experiment need --force."""
    path, out = write(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").touch()
    with pytest.raises(ResultsFolderError, match="is not empty"):
        carry_out(path, out)
    carry_out(path, out, force=True)
    other = write(tmp_path, EXPERIMENT.replace("name: study", "name: other"))
    with pytest.raises(ExperimentError, match="has the results of the experiment study"):
        carry_out(other, out)
    assert (out / "thesis.tex").exists()


def test_warnings_of_runs_are_listed(tmp_path: Path) -> None:
    """The first run with a warning is named, the others are counted."""
    text = "set: {platform.nodes.0.count: 3}\n" + EXPERIMENT  # jobs of 16 cores do not fit
    _, _, warned = carry_out(write(tmp_path, text), tmp_path / "out")
    assert warned[0].startswith("scheduler=fcfs, load=0.5, seed=1 and 7 other runs: ")
    assert "jobs were rejected" in warned[0]


def test_a_log_is_read_once_for_all_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process reads the log once for the check and once for all runs."""
    reads: list[Path] = []

    def counted(path: Path, **options: Any) -> Any:
        reads.append(path)
        return read_swf(path, **options)

    line = "{n} {n}0 0 60 4 -1 -1 4 60 -1 1 1 -1 -1 -1 -1 -1 -1\n"
    (tmp_path / "log.swf").write_text("".join(line.format(n=n) for n in range(1, 60)))
    monkeypatch.setattr("hpcosim_scenarios.model.logs.read_swf", counted)
    text = (
        "name: study\nscenario: small.yaml\nset: {workload: {swf: log.swf}}\n"
        "axes: {scheduler: [fcfs, easy], window: [[0, 9], [9, 18], [18, 59]], load: [1, 2]}\n"
        "report: {figures: []}"
    )
    _, said, _ = carry_out(write(tmp_path, text), tmp_path / "out")
    assert said[0] == "study: 12 runs; 12 runs to simulate"
    assert len(reads) == 2
    assert [row["jobs"] for row in rows(tmp_path / "out")][:6] == [9, 9, 9, 9, 41, 41]


def test_a_window_without_jobs_is_an_error_before_the_first_run(tmp_path: Path) -> None:
    """The error names the value of the axis."""
    text = "name: study\nscenario: small.yaml\naxes: {window: [[0, 9], [90, 99]]}\n"
    with pytest.raises(ExperimentError, match=r"study.yaml:3: axes.window\[1\]: no jobs numbered"):
        carry_out(write(tmp_path, text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def files_in(folder: Path) -> set[str]:
    """Return the tables and the files of the report, without the stored results."""
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in paths if path.parts[0] != "runs"}


def test_outdated_files_are_removed(tmp_path: Path) -> None:
    """Tables and figures that the experiment no longer has go; files of others stay."""
    more = "measure: {size_classes: [1, 8]}\njobs: true\n"
    figures = "report: {figures: [{kind: box, metric: mean_wait_s, by: scheduler}]}\n"
    text = EXPERIMENT.replace("report: {figures: []}\n", figures)
    carry_out(write(tmp_path, text + more), tmp_path / "out")
    assert {"breakdowns.parquet", "jobs.parquet", "tables/by-cores.tex"} < files_in(
        tmp_path / "out"
    )
    for name in ("tables/mine.tex", "notes.txt"):
        (tmp_path / "out" / name).write_text("mine")
    done, _, _ = carry_out(write(tmp_path), tmp_path / "out", table_format="csv")
    expected = {str(path.relative_to(done.folder)) for path in done.files}
    assert files_in(tmp_path / "out") == {
        *expected,
        "experiment.json",
        "tables/mine.tex",
        "notes.txt",
    }
    assert "results.csv" in expected
    assert not (tmp_path / "out/figures").exists()


def test_a_marker_removes_only_files_of_experiments(tmp_path: Path) -> None:
    """A damaged or foreign list names no file that is removed."""
    carry_out(write(tmp_path), tmp_path / "out")
    marker = tmp_path / "out/experiment.json"
    kept = [tmp_path / "report.md", tmp_path / "out/notes.txt"]
    for path in kept:
        path.write_text("mine")
    names = '"files": ["../report.md", "notes.txt", '
    marker.write_text(marker.read_text().replace('"files": [', names))
    carry_out(write(tmp_path), tmp_path / "out")
    assert all(path.exists() for path in kept)


def test_a_report_is_written_if_all_runs_failed(tmp_path: Path) -> None:
    """It replaces that of an earlier start, and lists the failures."""
    policy = tmp_path / "mine.py"
    policy.write_text(
        "def mine(view):\n    while view.queue and view.start(view.queue.first()):\n        pass\n"
    )
    text = EXPERIMENT.replace("[fcfs, easy]", "[mine.py:mine]").replace("{figures: []}", "{}")
    carry_out(write(tmp_path, text), tmp_path / "out")
    policy.write_text("def mine(view):\n    1 / 0\n")
    done, _, _ = carry_out(write(tmp_path, text), tmp_path / "out")
    assert len(done.failed) == 4
    report = (tmp_path / "out/report.md").read_text()
    assert "- runs: 4, of which 4 failed" in report
    assert report.count("ZeroDivisionError") == 4
    assert "figures/" not in report


def test_a_warm_up_longer_than_the_submissions_is_an_error_before_the_first_run(
    tmp_path: Path,
) -> None:
    """The error has the line and the run, and nothing is written."""
    path = write(tmp_path, EXPERIMENT + "measure: {warm_up_s: 9e9}\n")
    with pytest.raises(ExperimentError) as caught:
        carry_out(path, tmp_path / "out")
    assert str(caught.value).startswith(
        f"{path}:8: measure: scheduler=fcfs, load=0.5, seed=1: no job is submitted within"
    )
    assert not (tmp_path / "out").exists()


def write_log(path: Path, user: int) -> None:
    """Write a log of 30 jobs of one user."""
    line = "{n} {n}0 0 60 4 -1 -1 4 60 -1 1 {user} -1 -1 -1 -1 -1 -1\n"
    path.write_text("".join(line.format(n=n, user=user) for n in range(1, 31)))


LOGS = """name: study
scenario: small.yaml
axes: {workload: [{swf: a.swf}, {swf: b.swf}]}
measure: {per_user: true}
report: {figures: []}
"""


def test_workloads_without_users_are_left_out_by_user(tmp_path: Path) -> None:
    """It suffices that one workload has users, also if its results are stored."""
    write_log(tmp_path / "a.swf", -1)
    write_log(tmp_path / "b.swf", 7)
    path = write(tmp_path, LOGS)
    for _ in range(2):
        done, _, _ = carry_out(path, tmp_path / "out")
        assert not done.failed
        found = pq.read_table(tmp_path / "out/breakdowns.parquet").to_pylist()
        assert [(row["class"], row["jobs"]) for row in found] == [("7", 30)]
        for result in (tmp_path / "out/runs").glob("??/*.json"):
            if '"breakdowns":[]' in result.read_text():
                result.unlink()


def test_an_experiment_without_users_is_an_error_before_the_first_run(tmp_path: Path) -> None:
    """The error has the line of the key."""
    for name in ("a.swf", "b.swf"):
        write_log(tmp_path / name, -1)
    path = write(tmp_path, LOGS)
    with pytest.raises(
        ExperimentError, match=r":4: measure.per_user: no workload has names of a user"
    ):
        carry_out(path, tmp_path / "out")


@pytest.mark.slow
def test_a_site_is_measured_by_partition_and_account(tmp_path: Path) -> None:
    """The tables of the report have a row for each of them and each scheduler."""
    text = "name: study\nscenario: site\naxes: {scheduler: [multifactor, slurm]}\n"
    text += "measure: {by: [partition, account]}\nreport: {figures: []}\n"
    text += "set: {workload.jobs: [0, 120]}\n"
    done, _, _ = carry_out(write(tmp_path, text), tmp_path / "out")
    assert not done.failed
    found = pq.read_table(tmp_path / "out/breakdowns.parquet").to_pylist()
    assert {(row["breakdown"], row["class"]) for row in found} == {
        ("partition", "(none)"),  # the default one
        ("partition", "gpu"),
        ("account", "physics"),
        ("account", "chemistry"),
        ("account", "students"),
    }
    report = (tmp_path / "out/report.md").read_text()
    assert "Metrics by account" in report
    assert "students" in report


def test_warnings_that_differ_by_numbers_are_one_line(tmp_path: Path) -> None:
    """The line has the first run and the number of the others."""
    text = EXPERIMENT.replace("[0.5, 1]", "[10]").replace("[fcfs, easy]", "[fcfs]")
    _, _, warned = carry_out(write(tmp_path, text), tmp_path / "out")
    (line,) = (one for one in warned if "offered load" in one)
    assert line.startswith("scheduler=fcfs, load=10, seed=1 and 1 other run: ")


def test_the_table_of_jobs_says_which_jobs_are_measured(tmp_path: Path) -> None:
    """The metrics of a run are those of the rows with `measured`."""
    text = EXPERIMENT + "jobs: true\nmeasure: {warm_up_s: 1000, cool_down_s: 500}\n"
    carry_out(write(tmp_path, text), tmp_path / "out")
    table = pq.read_table(tmp_path / "out/jobs.parquet").to_pylist()
    for row in rows(tmp_path / "out"):
        of = [job for job in table if all(job[a] == row[a] for a in ("scheduler", "load", "seed"))]
        measured = [job for job in of if job["measured"]]
        assert len(of) == 30
        assert 0 < len(measured) == row["jobs"] < 30
        waits_s = [job["start_s"] - job["submit_s"] for job in measured]
        assert sum(waits_s) / len(waits_s) == pytest.approx(row["mean_wait_s"])


def test_a_policy_edited_in_a_run_is_a_failure(tmp_path: Path) -> None:
    """A result of changed files is not stored under the key of the files of the start."""
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\n\n\n"
        "def edited(view):\n"
        "    Path(__file__).write_text('another policy')\n"
        "    while view.queue and view.start(view.queue.first()):\n"
        "        pass\n"
    )
    path = write(
        tmp_path, "name: study\nscenario: small.yaml\naxes: {scheduler: ['mine.py:edited']}\n"
    )
    done, _, _ = carry_out(path, tmp_path / "out")
    (result,) = done.results.values()
    assert (result.status, "mine.py has changed since" in result.error) == ("failed", True)
