"""`--explain` and `scheduler.explain`: over every link, in comparisons and in Python."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hpcosim.cli.main import app
from hpcosim_client import View
from hpcosim_scenarios import simulate
from hpcosim_scenarios.running.run import run_scenario
from support.paths import SCENARIOS

SCENARIO = """name: small
platform:
  nodes: [{count: 1, processors: [{cores: 2, static_w: 20, dynamic_w: 1}]}]
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 2, run_s: 50, requested_s: 80,
       user: 3, group: 5, partition: 0}
    - {job_id: 2, submit_s: 0, cores: 2, run_s: 10}
    - {job_id: 3, submit_s: 0, cores: 1, run_s: 10}
scheduler: {name: easy, explain: true}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A scenario with three jobs of which two wait, and explanations."""
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO)
    return path


def explanations(folder: Path) -> list[list[str]]:
    """Return the rows of `explanations.csv`."""
    with (folder / "explanations.csv").open() as file:
        return list(csv.reader(file))[1:]


EXPECTED = [
    ["3", "0.0", "Priority", ""],
    ["2", "0.0", "Resources", "80.0"],
    ["3", "50.0", "Resources", "60.0"],
]


def test_a_scenario_can_ask_for_explanations(scenario: Path, tmp_path: Path) -> None:
    """The results have the explanations, and the metrics the errors of the expected starts."""
    metrics, folder = run_scenario(scenario, transport="inproc", out=tmp_path / "out")
    assert explanations(folder) == EXPECTED
    assert (metrics["start_forecasts"], metrics["mean_start_error_s"]) == (2, -15.0)
    assert json.loads((folder / "metrics.json").read_text()) == metrics


@pytest.mark.slow
def test_explanations_are_the_same_over_every_link(scenario: Path, tmp_path: Path) -> None:
    """Simulator and scheduler in two processes give the same bytes as in one."""
    for transport in ("inproc", "ipc"):
        run_scenario(scenario, transport=transport, out=tmp_path / transport)
    for file in (tmp_path / "inproc").iterdir():
        assert (tmp_path / "ipc" / file.name).read_bytes() == file.read_bytes()


def test_the_options_ask_for_explanations(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run` and `compare` explain with `--explain`, and not without it."""
    monkeypatch.chdir(tmp_path)
    scenario.write_text(SCENARIO.replace(", explain: true", ""))
    link = ("--transport", "inproc")
    for arguments in (
        ["run", "small.yaml", *link, "--out", "plain"],
        ["run", "small.yaml", *link, "--out", "told", "--explain"],
        ["compare", "small.yaml", "--schedulers", "fcfs,easy", "--out", "both", "--explain"],
    ):
        assert CliRunner().invoke(app, arguments).exit_code == 0
    assert not Path("plain/explanations.csv").exists()
    assert explanations(Path("told")) == explanations(Path("both/easy")) == EXPECTED
    assert explanations(Path("both/fcfs"))
    for name in ("jobs.csv", "nodes.csv", "schedule.csv"):
        assert Path("plain", name).read_bytes() == Path("told", name).read_bytes()


def test_a_policy_of_the_caller_can_explain(scenario: Path, tmp_path: Path) -> None:
    """`simulate` records the explanations of a function if it is asked to."""

    def one_by_one(view: View) -> None:
        for job in view.queue.values():
            if not view.start(job):
                view.explain(job, "Site_rule", 1e6)

    simulate(scenario, one_by_one, out=tmp_path / "out", explain=True)
    assert explanations(tmp_path / "out")[0] == ["2", "0.0", "Site_rule", "1000000.0"]
    simulate(scenario, one_by_one, out=tmp_path / "silent")
    assert not (tmp_path / "silent" / "explanations.csv").exists()


def test_jobs_csv_has_the_submitter(scenario: Path, tmp_path: Path) -> None:
    """The last columns are the request, the submitter, and the runs of the job."""
    _, folder = run_scenario(scenario, transport="inproc", out=tmp_path / "out")
    rows = (folder / "jobs.csv").read_text().splitlines()
    assert rows[0].endswith(
        ",reason,requested_s,placement,user,group,partition,account,qos,name,runs,suspended_s,"
        "lost_core_s"
    )
    assert rows[1].endswith(",,80.0,cores,3,5,0,,,,1,0.0,0.0")
    assert rows[2].endswith(",,10.0,cores,,,,,,,1,0.0,0.0")


@pytest.mark.slow
@pytest.mark.parametrize("scheduler", ["multifactor", "fairshare"])
def test_explanations_do_not_depend_on_addresses_of_objects(scheduler: str, tmp_path: Path) -> None:
    """Two runs in one process write the same bytes."""
    written = []
    for name in ("first", "second"):
        out = tmp_path / name
        run_scenario(
            SCENARIOS / "site.yaml",
            scheduler=scheduler,
            transport="inproc",
            out=out,
            overrides={"scheduler.explain": True},
        )
        written.append((out / "explanations.csv").read_bytes())
    assert written[0] == written[1]
