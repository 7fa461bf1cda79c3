"""`scheduler.settings`: on every transport, and messages with the line of the scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.running.run import run_scenario

SCENARIO = """name: shares
platform:
  nodes: [{count: 4, processors: [{cores: 8, static_w: 100, dynamic_w: 10, idle_fraction: 0.5}]}]
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 32, run_s: 3600, user: ann, account: physics}
    - {job_id: 2, submit_s: 10, cores: 32, run_s: 600, user: ben, account: physics}
    - {job_id: 3, submit_s: 20, cores: 16, run_s: 900, user: cat, account: biology}
scheduler:
  name: fairshare
  settings:
    accounts:
      physics: {users: {ann: {}, ben: {}}}
      biology: {shares: 1}
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """Return a scenario whose last job has the better fair-share."""
    path = tmp_path / "shares.yaml"
    path.write_text(SCENARIO)
    return path


def starts(folder: Path) -> list[str]:
    """Return the starts of the jobs of a results folder."""
    return [line.split(",")[2] for line in (folder / "jobs.csv").read_text().splitlines()[1:]]


def test_the_scheduler_has_the_settings_of_the_scenario(scenario: Path, tmp_path: Path) -> None:
    """The account without usage starts first."""
    _, folder = run_scenario(scenario, transport="inproc", out=tmp_path / "out")
    assert starts(folder) == ["0.0", "4500.0", "3600.0"]


@pytest.mark.slow
def test_results_are_the_same_with_the_scheduler_in_a_process(
    scenario: Path, tmp_path: Path
) -> None:
    """The settings reach the scheduler's process; results are equal byte for byte."""
    written = []
    for transport in ("inproc", "ipc"):
        _, folder = run_scenario(scenario, transport=transport, out=tmp_path / transport)
        written.append((folder / "jobs.csv").read_bytes())
    assert written[0] == written[1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "shares: 1",
            "share: 1",
            "shares.yaml:14: scheduler.settings.accounts.biology.share: unknown setting; did you",
        ),
        ("name: fairshare", "name: easy", "shares.yaml:12: scheduler.settings: the scheduler easy"),
    ],
)
def test_wrong_settings_have_file_line_and_path(
    scenario: Path, tmp_path: Path, old: str, new: str, message: str
) -> None:
    """A message names the line and the setting; settings need a scheduler that takes some."""
    scenario.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError) as error:
        run_scenario(scenario, transport="inproc", out=tmp_path / "out")
    assert message in str(error.value)


def test_a_scheduler_that_replaces_another_may_ignore_its_settings(
    scenario: Path, tmp_path: Path
) -> None:
    """`--scheduler easy` runs a scenario with settings for another scheduler."""
    _, folder = run_scenario(scenario, scheduler="easy", transport="inproc", out=tmp_path / "out")
    assert starts(folder) == ["0.0", "3600.0", "4200.0"]
