"""Random scenarios that mix all features end, and their results fulfil the invariants.

`make fuzz` runs 20,000 of them. A scenario that fails is made smaller and written to
`results/fuzz`; once its cause is mended, it is kept in `cases`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from hpcosim_client import PolicyError
from hpcosim_scenarios import run_scenario
from hpcosim_scenarios.errors import RunError, ScenarioError
from support.paths import ROOT
from support.random_scenarios import Scenario, minimised, scenario_of
from support.scenario_invariants import violations

CASES = sorted((Path(__file__).parent / "cases").glob("*.yaml"))
FAILED = ROOT / "results" / "fuzz"

REFUSALS = (
    "place each job on cores of one node",
    "places each job on cores of one node",
    "on no single node",
    "more than the horizon",
)
"""Parts of the errors of schedulers for jobs that they do not support."""


def failure_of(scenario: Scenario, folder: Path) -> str:
    """Run a scenario in a new folder; return what is wrong with it or its results."""
    folder.mkdir(parents=True)
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(scenario))
    try:
        run_scenario(file, transport="inproc", out=folder / "out", warn=lambda _: None)
    except (PolicyError, ScenarioError):
        return ""  # the scheduler does not support the scenario
    except RunError as error:
        return "" if any(text in str(error) for text in REFUSALS) else str(error)
    return "; ".join(violations(scenario, folder / "out"))


def assert_sound(scenario: Scenario, folder: Path) -> None:
    """Fail with a smaller scenario if a scenario or its results are wrong."""
    failure = failure_of(scenario, folder / "0")
    if not failure:
        return
    tries = iter(range(1, 1_000_000))
    smaller = minimised(scenario, lambda each: bool(failure_of(each, folder / f"{next(tries)}")))
    FAILED.mkdir(parents=True, exist_ok=True)
    file = FAILED / f"{scenario['name']}.yaml"
    file.write_text(json.dumps(smaller, indent=1) + "\n")
    pytest.fail(f"{scenario['name']}: {failure}\nA smaller scenario that fails is {file}")


def test_random_scenarios_end_with_sound_results(
    seeds: Iterable[int], scheduler: str | None, tmp_path: Path
) -> None:
    """Each run ends within a bounded number of wake-ups for each job, and nothing is violated."""
    for seed in seeds:
        assert_sound(scenario_of(seed, scheduler), tmp_path / f"{seed}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_kept_cases_end_with_sound_results(case: Path, tmp_path: Path) -> None:
    """Scenarios that failed once do not fail again."""
    scenario = json.loads(case.read_text())
    assert failure_of(scenario, tmp_path / "run") == ""


def test_a_scenario_that_fails_is_made_smaller() -> None:
    """Only what a failure needs is left."""
    scenario = scenario_of(7)
    jobs = scenario["workload"]["inline"]
    assert len(jobs) > 3

    def fails(each: Scenario) -> bool:
        return any(job.get("job_id") == 3 for job in each.get("workload", {}).get("inline", ()))

    smaller = minimised(scenario, fails)
    assert [job["job_id"] for job in smaller["workload"]["inline"]] == [3]
    assert set(smaller) == {"workload"}


def test_violations_are_found(tmp_path: Path) -> None:
    """Results that were changed by hand are not sound."""
    scenario: Scenario = {
        "name": "small",
        "platform": {"nodes": [{"count": 1, "processors": [PROCESSOR]}]},
        "workload": {
            "inline": [
                {"job_id": number, "submit_s": 0, "cores": 1, "run_s": 10} for number in (1, 2)
            ]
        },
    }
    assert failure_of(scenario, tmp_path / "run") == ""
    folder = tmp_path / "run" / "out"
    for name, before, after, found in (
        ("schedule.csv", "2,10.0", "2,5.0", "cores of node 0 are held"),
        ("jobs.csv", "2,0.0,10.0", "2,30.0,10.0", "submission 30.0, start 10.0"),
        ("nodes.csv", ",0,computing", ",0,idle", "which is idle"),
        ("metrics.json", '"energy_j": ', '"energy_j": 1', "the integral of power"),
    ):
        text = (folder / name).read_text()
        assert before in text
        (folder / name).write_text(text.replace(before, after))
        assert any(found in each for each in violations(scenario, folder)), name
        (folder / name).write_text(text)


PROCESSOR = {"cores": 1, "static_w": 10, "dynamic_w": 5}
