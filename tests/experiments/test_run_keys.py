"""Keys of runs: equal if and only if the results must be equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpcosim_experiments.runs.plan import plan_of
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable
from support.experiments import SCENARIO, only_run

AXIS = "axes: {scheduler: [easy]}\n"
SWF = "{job} {at} 0 60 4 -1 -1 4 60 -1 1 {user} -1 -1 -1 -1 -1 -1\n"


def key(folder: Path, text: str = "", *, axes: str = AXIS) -> str:
    """Return the key of the only run of an experiment."""
    return only_run(folder, axes + text).key


@pytest.mark.parametrize(
    "text",
    [
        "set: {workload.load: 0.5}",
        "set: {seed: 4}",
        "set: {platform.nodes.0.count: 5}",
        "set: {power: {name: timeout, timeout_s: 9}}",
        "set: {power_awareness: aware}",
        "set: {wake_on_allocation: false}",
        "set: {economics: {price_per_kwh: 0.3}}",
        "measure: {warm_up_s: 10}",
        "measure: {size_classes: [1, 8]}",
    ],
)
def test_a_setting_that_changes_results_changes_the_key(tmp_path: Path, text: str) -> None:
    """Every part of the scenario and the measurement is in the key."""
    assert key(tmp_path, text) != key(tmp_path)


def test_the_scheduler_changes_the_key(tmp_path: Path) -> None:
    """Another scheduler is another run."""
    assert key(tmp_path, axes="axes: {scheduler: [fcfs]}\n") != key(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "set: {workload.load: 1.0}",  # the default
        "set: {power: always-on}",  # the default
        "set: {seed: 3}",  # that of the scenario
        "report: {figures: []}",
        "jobs: true",
    ],
)
def test_a_setting_without_effect_on_the_run_keeps_the_key(tmp_path: Path, text: str) -> None:
    """Defaults that are written out, the report and the tables are not in the key."""
    assert key(tmp_path, text) == key(tmp_path)


def test_names_and_folders_are_not_in_the_key(tmp_path: Path) -> None:
    """The name of the scenario, spellings, labels and the folder make no difference."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    before = key(tmp_path)
    assert key(other, axes="axes: {policy: {values: {A: {scheduler: EASY}}}}\n") == before
    (tmp_path / "renamed.yaml").write_text(SCENARIO.replace("name: small", "name: renamed"))
    assert key(tmp_path, axes="axes: {scenario: [renamed.yaml]}\n") == before


def test_the_content_of_a_job_log_is_in_the_key_and_its_name_is_not(tmp_path: Path) -> None:
    """A log that changes is simulated again; a log that is moved is not."""
    for name, users in (("one.swf", (1, 2)), ("same.swf", (1, 2)), ("other.swf", (1, 3))):
        lines = [SWF.format(job=job, at=job, user=user) for job, user in enumerate(users, 1)]
        (tmp_path / name).write_text("".join(lines))
    keys = [
        key(tmp_path, f"set: {{workload: {{swf: {name}}}}}")
        for name in ("one.swf", "same.swf", "other.swf")
    ]
    assert keys[0] == keys[1] != keys[2]


def test_the_content_of_a_policy_file_and_its_modules_is_in_the_key(tmp_path: Path) -> None:
    """A policy that changes, or a module that it imports, is simulated again."""
    policy, module = tmp_path / "mine.py", tmp_path / "order.py"
    axes = "axes: {scheduler: ['mine.py:quick']}\n"
    module.write_text("A = 1\n")
    policy.write_text("import order\n\n\ndef quick(view):\n    pass\n")
    keys = {key(tmp_path, axes=axes)}
    module.write_text("A = 2\n")
    keys.add(key(tmp_path, axes=axes))
    policy.write_text("import order\n\n\ndef quick(view):\n    return\n")
    keys.add(key(tmp_path, axes=axes))
    assert len(keys) == 3


def test_the_version_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of hpcosim simulates all runs again."""
    before = key(tmp_path)
    monkeypatch.setattr("hpcosim_experiments.runs.plan.hpcosim_version", lambda: "99.0")
    assert key(tmp_path) != before


def test_all_runs_of_an_experiment_have_keys_of_their_own(tmp_path: Path) -> None:
    """Different combinations have different keys, unless they are the same run."""
    only_run(tmp_path, AXIS)
    (tmp_path / "many.yaml").write_text(
        "name: a\nscenario: small.yaml\n"
        "axes: {scheduler: [easy, EASY, fcfs], load: [0.5, 0.7], seed: [1, 2, 3]}"
    )
    runs = plan_of(tmp_path / "many.yaml").runs
    assert len({run.key for run in runs}) == 2 * 2 * 3
    assert [run.key for run in runs[:6]] == [run.key for run in runs[6:12]]


def test_further_measures_are_in_the_key(tmp_path: Path) -> None:
    """A result without the measures of a study is no result of that study."""
    before = only_run(tmp_path, AXIS)
    (run,) = plan_of(tmp_path / "study.yaml", measures=count_of).runs
    assert run.key != before.key


def count_of(record: RunRecord, jobs: JobTable) -> dict[str, int]:
    """Return a metric of a run."""
    return {"count": len(record.recording) + len(jobs)}
