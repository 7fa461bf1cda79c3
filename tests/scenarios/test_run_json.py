"""`run.json`: everything that the results of a run depend on."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from hpcosim_protocol import PROTOCOL_VERSION
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_scenarios.running.run import run_scenario, simulate
from hpcosim_schedulers import make_policy
from hpcosim_sim.record.versions import git_checkout, package_versions

TEXT = """name: small
seed: 3
platform:
  nodes:
    - count: 2
      processors: [{cores: 4, static_w: 10, dynamic_w: 1}]
      power_states:
        {sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}
workload: {synthetic: {model: poisson, jobs: 8, mean_interarrival_s: 900, cores: [1, 4]}}
scheduler: {name: easy, power: {name: timeout, timeout_s: 60}}
"""
LOG = "".join(f"{n} {100 * n} -1 60 2 -1 -1 2 120 -1 1 -1 -1 -1 -1 -1 -1 -1\n" for n in range(9))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """The file of a small scenario, and a log beside it."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "nine.swf").write_text(LOG)
    file = tmp_path / "small.yaml"
    file.write_text(TEXT)
    return file


def recorded(file: Path, *, out: str = "out", **options: Any) -> dict[str, Any]:
    """Run a scenario in this process, and return the content of `run.json`."""
    folder = file.parent / out
    run_scenario(file, transport="inproc", out=folder, force=True, **options)
    about: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return about


def swf(file: Path) -> Path:
    """Replace the workload by a log, and return the scenario's file."""
    lines = [line for line in TEXT.splitlines() if "synthetic" not in line]
    file.write_text("\n".join([*lines, "workload: {swf: logs/nine.swf, jobs: [2, 7]}"]))
    return file


def test_the_scenario_is_recorded_with_defaults_and_overrides(small: Path, tmp_path: Path) -> None:
    """The recorded scenario, written to a file, is the same scenario."""
    overrides = {"workload.load": 2.0, "platform.nodes.0.count": 3}
    about = recorded(small, overrides=overrides)
    assert about["overrides"] == overrides
    assert about["effective_scenario"]["workload"]["load"] == 2.0
    assert about["effective_scenario"]["kill_at_walltime"] is False
    again = tmp_path / "again.yaml"
    again.write_text(yaml.safe_dump(about["effective_scenario"]))
    assert load_scenario(again) == load_scenario(small, overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        {"name": "other"},
        {"seed": 4},
        {"platform.nodes.0.memory_mb": 1000},
        {"platform.nodes.0.processors.0.clock_ghz": 2.0},
        {"workload.load": 1.01},
        {"workload.window_s": [0, 1e9]},
        {"workload.jobs": [0, 1000]},
        {"workload.max_cores": 100},
        {"workload.divide_cores": 2},
        {"workload.lenient": True},
        {"workload.synthetic.overestimate": 2.5},
        {"scheduler.power.timeout_s": 61},
        {"scheduler.power": {"name": "always-on"}},
        {"scheduler.power_awareness": "aware"},
        {"kill_at_walltime": True},
        {"dynamic_jobs": True},
    ],
    ids=str,
)
def test_every_changed_field_changes_the_file(small: Path, overrides: dict[str, Any]) -> None:
    """A changed field changes the recorded scenario, also if no result changes."""
    first, second = recorded(small), recorded(small, overrides=overrides, out="second")
    ignored = {"overrides": None, "ended_because": None, "warnings": None}
    assert first | ignored != second | ignored


def test_a_log_is_recorded_with_its_checksum(small: Path) -> None:
    """The source has the path as written, and the jobs before and after the selection."""
    assert recorded(swf(small))["workload_source"] == {
        "kind": "swf",
        "file": "logs/nine.swf",
        "sha256": hashlib.sha256(LOG.encode()).hexdigest(),
        "jobs_read": 9,
        "jobs_selected": 5,
    }


def test_a_log_with_other_bytes_changes_the_file(small: Path) -> None:
    """Another file changes the checksum, also if the jobs are the same."""
    first = recorded(swf(small))
    (small.parent / "logs" / "nine.swf").write_text(f"; a comment\n{LOG}")
    assert recorded(small)["workload_source"] != first["workload_source"]


def test_jobs_of_a_model_come_from_no_file(small: Path) -> None:
    """The source of a synthetic workload has counts, and no file."""
    source = recorded(small)["workload_source"]
    assert (source["kind"], source["file"], source["sha256"]) == ("synthetic", None, None)
    assert (source["jobs_read"], source["jobs_selected"]) == (8, 8)


def test_the_policy_is_recorded(small: Path) -> None:
    """The policy has the settings of the scheduler and of the power manager."""
    policy = recorded(small)["policy"]
    assert policy["settings"]["scheduler"] == "easy"
    assert policy["settings"]["power"]["timeout_s"] == 60


def test_a_policy_of_the_caller_is_recorded_by_name(small: Path) -> None:
    """`simulate` records the name of the policy and the same scenario as other runs."""
    simulate(small, make_policy("fcfs"), name="mine", out=small.parent / "mine")
    about = json.loads((small.parent / "mine" / "run.json").read_text())
    assert about["policy"] == {"name": "mine"}
    assert about["effective_scenario"] == recorded(small)["effective_scenario"]


def test_versions_are_recorded(small: Path) -> None:
    """The file has versions of hpcosim, the protocol and the packages that compute results."""
    about = recorded(small)
    assert about["hpcosim"]
    assert about["protocol"] == PROTOCOL_VERSION
    assert set(about["packages"]) == {"python", "simpy", "numpy", "msgspec", "pyzmq"}
    assert about["packages"] == package_versions()


def test_no_path_of_the_machine_is_recorded(small: Path) -> None:
    """The file has no absolute path, so results of two machines can be compared."""
    assert str(small.parent) not in json.dumps(recorded(swf(small)))


def commit_of(folder: Path, *words: str) -> None:
    """Run git in a folder."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_a_checkout_is_recorded_with_its_commit(tmp_path: Path) -> None:
    """A checkout has its commit and a flag for changes; an untracked folder is no checkout."""
    git_checkout.cache_clear()
    (tmp_path / "versions.py").write_text("")
    commit_of(tmp_path, "init")
    assert git_checkout(tmp_path) is None
    git_checkout.cache_clear()
    commit_of(tmp_path, "add", "versions.py")
    commit_of(tmp_path, "commit", "-m", "first")
    clean = git_checkout(tmp_path)
    assert clean is not None
    assert (len(clean.commit), clean.dirty) == (40, False)
    git_checkout.cache_clear()
    (tmp_path / "versions.py").write_text("changed")
    changed = git_checkout(tmp_path)
    assert changed is not None
    assert changed.dirty
    git_checkout.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_every_transport_records_the_same(small: Path, transport: Transport) -> None:
    """The file and the warnings are the same on every transport."""
    overrides = {"workload.load": 50.0, "workload.jobs": [1, 6], "seed": 9}
    here: list[str] = []
    recorded(swf(small), overrides=overrides, warn=here.append)
    out, there = small.parent / transport, list[str]()
    run_scenario(small, transport=transport, out=out, overrides=overrides, warn=there.append)
    assert (out / "run.json").read_bytes() == (small.parent / "out" / "run.json").read_bytes()
    assert sorted(there) == sorted(here)
    assert len(here) == 2


def test_a_comparison_records_the_same_as_a_run(small: Path) -> None:
    """The file of a comparison has the same bytes as that of a run."""
    recorded(small, scheduler="sjf")
    compare_schedulers(small, ["easy", "sjf"], out=small.parent / "both")
    one, both = (small.parent / name / "run.json" for name in ("out", "both/sjf"))
    assert one.read_bytes() == both.read_bytes()


# Warnings


def warnings_of(file: Path, **options: Any) -> list[str]:
    """Return the warnings of a run after checking that those about the run are recorded."""
    found: list[str] = []
    about = recorded(file, warn=found.append, **options)
    assert set(about["warnings"]) <= set(found)
    return found


def test_a_usual_run_has_no_warning(small: Path) -> None:
    """A run with a usual load, no rejected jobs and an effective seed has no warning."""
    assert warnings_of(small, overrides={"seed": 5}) == []


def test_rejected_jobs_are_a_warning(small: Path) -> None:
    """The warning has the number of rejected jobs and the first reason."""
    overrides = {"workload.synthetic.cores": [9, 9], "workload.load": 0.1}
    (warning,) = warnings_of(small, overrides=overrides)
    assert warning.startswith("8 of 8 jobs were rejected; the first, job 1: ")


@pytest.mark.parametrize(
    ("load", "words"),
    [(1e-3, r"load is 0\.\d+, so jobs rarely wait"), (50.0, r"load is \d+.*, so the queue grows")],
)
def test_an_unusual_load_is_a_warning(small: Path, load: float, words: str) -> None:
    """The warning has the load, and a value of `workload.load` that makes it usual."""
    (warning,) = warnings_of(small, overrides={"workload.load": load})
    assert re.search(words, warning)
    factor = float(warning.partition("workload.load=")[2].split()[0])
    assert warnings_of(small, overrides={"workload.load": factor}) == []


def test_a_seed_without_effect_is_a_warning(small: Path) -> None:
    """A seed is useless if jobs and switching times are fixed and the scheduler draws nothing."""
    (warning,) = warnings_of(swf(small), overrides={"seed": 5})
    assert warning.startswith("the seed has no effect")
    assert warnings_of(small, overrides={"seed": 5}, scheduler="first-random") == []
    assert warnings_of(small) == []


def test_a_comparison_gives_each_warning_once(small: Path) -> None:
    """A warning about every scheduler is given once."""
    found: list[str] = []
    overrides = {"workload.load": 50.0}
    compare_schedulers(small, ["easy", "fcfs"], overrides=overrides, warn=found.append)
    assert len(found) == 1
