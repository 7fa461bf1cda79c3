"""Runs of scenarios with failures and actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.shipped import find_scenario
from hpcosim_schedulers import make_policy
from hpcosim_sim.record.recording import STATES, Recording

SITE = """\
name: s
platform:
  nodes:
    - {count: 3, names: "n[1-3]", processors: [{cores: 4, static_w: 9, dynamic_w: 1}]}
workload:
  synthetic: {model: poisson, jobs: 40, mean_interarrival_s: 300, cores: [1, 8]}
failures:
  random:
    - until_failure: {distribution: weibull, mean_s: 5000, shape: 0.8}
      until_repair: {distribution: lognormal, mean_s: 500, shape: 0.5}
"""

JOBS = """\
name: s
platform:
  nodes:
    - {count: 2, names: "n[1-2]", processors: [{cores: 4, static_w: 9, dynamic_w: 1}]}
workload:
  inline:
    - {job_id: 1, submit_s: 0, cores: 4, run_s: 100, requeue: true}
    - {job_id: 2, submit_s: 0, cores: 4, run_s: 100}
    - {job_id: 3, submit_s: 0, cores: 1, run_s: 100, hold: true}
    - {job_id: 4, submit_s: 0, cores: 8, run_s: 100, array: 0-1}
"""


def recorded(folder: Path, text: str, scheduler: str = "fcfs", **overrides: Any) -> Recording:
    """Return the recording of a scenario under a scheduler."""
    path = folder / "s.yaml"
    path.write_text(text)
    library = Library([path], overrides)
    opened = open_scenario(library.first, library.first_jobs, scheduler)
    run_in_process(opened, make_policy(scheduler))
    return opened.simulation.recording


def failures(recording: Recording) -> list[tuple[float, int, int]]:
    """Return the changes of the nodes' states: time, node and code of the state."""
    columns = recording.power_s, recording.power_node, recording.power_state
    return list(zip(*columns, strict=True))


def states(recording: Recording) -> dict[int, str]:
    """Return the state of each job."""
    return {
        number: STATES[code] for number, code in zip(recording.job_id, recording.state, strict=True)
    }


def test_failures_do_not_depend_on_the_scheduler(tmp_path: Path) -> None:
    """Two schedulers see the same failures as long as both simulations last."""
    one, other = (failures(recorded(tmp_path, SITE, name)) for name in ("fcfs", "easy"))
    shared = min(len(one), len(other))
    assert shared > 5
    assert one[:shared] == other[:shared]


def test_the_seed_determines_the_failures(tmp_path: Path) -> None:
    """The same seed gives the same failures, another seed others."""
    first, again = (failures(recorded(tmp_path, SITE)) for _ in range(2))
    assert first == again
    assert first[0] != failures(recorded(tmp_path, SITE, seed=1))[0]


def test_a_failed_node_ends_or_requeues_its_jobs(tmp_path: Path) -> None:
    """A job that may be requeued runs again, the other one ends `node_failed`."""
    text = f"{JOBS}failures: {{events: [{{at_s: 50, nodes: ALL, repair_after_s: 10}}]}}\n"
    recording = recorded(tmp_path, text)
    assert states(recording)[1] == "completed"
    assert states(recording)[2] == "node_failed"
    assert recording.end_s[0] >= 160.0


def test_actions_reach_jobs_and_tasks(tmp_path: Path) -> None:
    """A released job runs, a cancelled task does not."""
    text = f"""{JOBS}actions:
  - {{at_s: 300, job: 3, kind: release}}
  - {{at_s: 20, job: 4_1, kind: cancel}}
"""
    recording = recorded(tmp_path, text)
    assert states(recording)[3] == "completed"
    assert recording.start_s[list(recording.job_id).index(3)] >= 300.0
    assert states(recording)[5] == "cancelled"


@pytest.mark.slow
def test_the_shipped_site_runs() -> None:
    """All its jobs complete; one of them loses work to a failure and is requeued."""
    library = Library([find_scenario("site")])
    opened = open_scenario(library.first, library.first_jobs, "easy")
    run_in_process(opened, make_policy("easy"))
    recording = opened.simulation.recording
    assert set(states(recording).values()) == {"completed"}
    assert recording.requeues == {"node_failed": 1}
