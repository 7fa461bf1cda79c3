"""What the page computes from a run, against slow and obvious computations from the columns."""

from __future__ import annotations

import json
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpcosim_scenarios import run_scenario
from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import Frame, encode_frame

NODE = shutil.which("node")
FOLDER = Path(__file__).parent
JOBS = 150
USERS = ["ann", "bob", "user two", "user two too"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None, reason="no node here"),
]

SCENARIO = f"""name: crowded
seed: 3
platform:
  nodes:
    - count: 6
      processors: [{{cores: 4, static_w: 40, dynamic_w: 7}}]
      power_states:
        {{sleep_w: 9, switch_on_s: 60, switch_on_w: 90, switch_off_s: 30, switch_off_w: 9}}
workload:
  synthetic:
    model: poisson
    jobs: {JOBS}
    mean_interarrival_s: 70
    cores: [1, 20]
    run_s: [10, 900]
scheduler: {{name: SCHEDULER, power: {{name: timeout, timeout_s: 100}}}}
"""


class Run:
    """A run, its columns by short names, and what the page computes from it."""

    def __init__(self, folder: Path, frame: Frame, facts: dict[str, Any]) -> None:
        self.folder, self.frame, self.facts = folder, frame, facts
        columns = frame.columns
        self.submit_s = columns["job.submit_s"]
        self.cores = columns["job.cores"]
        self.start_s = np.full(JOBS, np.nan)
        self.start_s[columns["start.job"]] = columns["start.time_s"]
        self.end_s = np.full(JOBS, np.nan)
        self.end_s[columns["end.job"]] = columns["end.time_s"]

    @property
    def wait_s(self) -> Any:
        """Wait of each job, s."""
        return self.start_s - self.submit_s

    def held_at(self, time_s: float) -> int:
        """Return the cores that jobs hold at a time."""
        return int(self.cores[(self.start_s <= time_s) & (time_s < self.end_s)].sum())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with backfilling and nodes that sleep, and one with another scheduler beside it."""
    folder = tmp_path_factory.mktemp("page_facts")
    frames = [_frame_of(folder, name) for name in ("easy", "fcfs")]
    files = []
    for number, frame in enumerate(frames):
        files.append(folder / f"{number}.hpcf")
        files[-1].write_bytes(encode_frame(frame))
    done = subprocess.run(
        [NODE or "node", str(FOLDER / "facts_of_run.mjs"), *map(str, files)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return Run(folder / "easy", frames[0], json.loads(done.stdout))


def _frame_of(folder: Path, scheduler: str) -> Frame:
    """Return the run of a scheduler; the log of the jobs names no users, so some are added."""
    scenario = folder / f"{scheduler}.yaml"
    scenario.write_text(SCENARIO.replace("SCHEDULER", scheduler))
    run_scenario(scenario, transport="inproc", out=folder / scheduler)
    frame = read_folder(folder / scheduler)
    users = np.arange(JOBS, dtype="<i4") % 5 - 1
    return Frame({**frame.about, "users": USERS}, {**frame.columns, "job.user": users})


def test_energy_is_the_integral_of_the_drawn_power(run: Run) -> None:
    """The energy on the page is that of metrics.json."""
    metrics = json.loads((run.folder / "metrics.json").read_text())
    assert metrics["sleeping_energy_j"] > 0
    assert run.facts["energyJ"] == pytest.approx(metrics["energy_j"], rel=1e-9)


def test_share_of_the_wait_in_which_cores_are_scarce(run: Run) -> None:
    """It is the share of the wait with fewer free cores than requested, between all changes."""
    changes = np.unique(np.concatenate([run.start_s, run.end_s]))
    for row, facts in enumerate(run.facts["waits"]):
        first_s, last_s = run.submit_s[row], run.start_s[row]
        inner = changes[(changes > first_s) & (changes < last_s)]
        times_s = [first_s, *inner, last_s]
        scarce = [
            (end_s - begin_s, end_s)
            for begin_s, end_s in pairwise(times_s)
            if 24 - run.held_at(begin_s) < run.cores[row] and end_s > begin_s
        ]
        expected = sum(s for s, _ in scarce) / (last_s - first_s) if last_s > first_s else 0.0
        assert facts["scarceShare"] == pytest.approx(expected, abs=1e-9)
        if scarce:
            assert facts["scarceUntilS"] == scarce[-1][1]
    assert any(0 < facts["scarceShare"] < 1 for facts in run.facts["waits"])


def test_order_of_a_job_among_the_others(run: Run) -> None:
    """Earlier jobs that waited, later jobs that overtook and the jobs that ended at the start."""
    for row, facts in enumerate(run.facts["waits"]):
        first_s, last_s = run.submit_s[row], run.start_s[row]
        ahead = [other for other in range(row) if run.start_s[other] > first_s]
        overtakers = [
            other for other in range(row + 1, JOBS) if first_s <= run.start_s[other] < last_s
        ]
        freed_by = [
            other
            for other in range(JOBS)
            if last_s > first_s and run.end_s[other] == last_s and run.start_s[other] < last_s
        ]
        assert facts["ahead"] == len(ahead)
        assert facts["overtaken"] == len(overtakers)
        assert facts["overtakers"] == overtakers[:20]
        assert facts["freedBy"] == freed_by
        assert facts["freedCores"] == run.cores[freed_by].sum()
    assert any(facts["overtaken"] for facts in run.facts["waits"])


def test_step_functions_of_queue_and_cores(run: Run) -> None:
    """Their means are those of the sums over jobs, and the range is that of all changes."""
    about = run.frame.about
    first_s, last_s = about["start_s"], about["now_s"]
    span_s = last_s - first_s
    assert run.facts["meanQueue"] == pytest.approx(run.wait_s.sum() / span_s)
    core_s = (run.cores * (run.end_s - run.start_s)).sum()
    assert run.facts["meanHeld"] == pytest.approx(core_s / span_s)
    lengths = [
        int(((run.submit_s <= at_s) & (at_s < run.start_s)).sum())
        for at_s in np.concatenate([run.submit_s, run.start_s])
    ]
    assert run.facts["greatestQueue"] == max(lengths)
    from_s, to_s = first_s + span_s / 3, last_s - span_s / 4
    changes = np.concatenate([[from_s], run.start_s, run.end_s])
    held = [run.held_at(at_s) for at_s in changes[(changes >= from_s) & (changes <= to_s)]]
    assert run.facts["rangeHeld"] == [min(held), max(held)]


def test_longest_waits_are_sorted(run: Run) -> None:
    """The jobs that waited longest, the longest first."""
    order = sorted(range(JOBS), key=lambda row: (-run.wait_s[row], row))
    assert run.facts["longest"] == order[:7]


def test_distributions_are_those_of_numpy(run: Run) -> None:
    """Counts, means and quantiles of the waits by size, and of the slowdowns by user."""
    bounds = {"1 core": (1, 1), "2–4 cores": (2, 4), "5–16 cores": (5, 16), "17–64 cores": (17, 64)}  # noqa: RUF001
    assert [row["name"] for row in run.facts["bySize"]] == list(bounds)
    for row in run.facts["bySize"]:
        least, most = bounds[row["name"]]
        _check_summary(row["runs"][0], run.wait_s[(run.cores >= least) & (run.cores <= most)])
    run_s = run.end_s - run.start_s
    slowdown = np.maximum(1, (run_s + run.wait_s) / np.maximum(run_s, 10))
    users = run.frame.columns["job.user"]
    assert {row["name"] for row in run.facts["byUser"]} == set(USERS)
    for row in run.facts["byUser"]:
        _check_summary(row["runs"][0], slowdown[users == USERS.index(row["name"])])


def _check_summary(summary: dict[str, Any], values: Any) -> None:
    assert summary["count"] == len(values)
    assert summary["mean"] == pytest.approx(values.mean())
    assert summary["quantiles"] == pytest.approx(np.percentile(values, [5, 25, 50, 75, 95]))
    assert summary["greatest"] == values.max()


def test_differences_of_waits(run: Run) -> None:
    """Each job of both runs, and how many are in each class of the histogram."""
    other = read_folder(run.folder.with_name("fcfs"))
    start_s = np.full(JOBS, np.nan)
    start_s[other.columns["start.job"]] = other.columns["start.time_s"]
    expected = start_s - run.start_s
    found = run.facts["differences"]
    assert [row["differenceS"] for row in found] == pytest.approx(expected)
    classes = run.facts["classes"]
    counts = {row["name"]: row["count"] for row in classes}
    ends = [classes[0], classes[-1]]
    assert all(row["count"] > 0 or row["side"] == 0 for row in ends)  # no empty class at an end
    assert sum(counts.values()) == JOBS
    assert counts["less than 1 s"] == (np.abs(expected) < 1).sum()
    assert counts["+1 min to +10 min"] == ((expected >= 60) & (expected < 600)).sum()
    assert counts["+10 min to +1 h"] == ((expected >= 600) & (expected < 3600)).sum()


def test_search_finds_ids_users_and_states(run: Run) -> None:
    """An exact id comes first, then ids that begin so; users by part, states by their begin."""
    by_one, by_twelve, by_user, by_state, nobody, with_prefix, joined = run.facts["found"]
    ids = [int(job) for job in run.frame.columns["job.id"]]
    assert [ids[row] for row in by_one["rows"]] == [1, 10, 11, 12, 13]
    assert by_one["total"] == sum(str(job).startswith("1") for job in ids)
    assert [ids[row] for row in by_twelve["rows"]] == [12, *range(120, 124)]
    users = run.frame.columns["job.user"]
    assert by_user["total"] == int(np.isin(users, [2, 3]).sum())
    assert by_state["total"] == JOBS
    assert nobody == {"rows": [], "total": 0}
    assert with_prefix == by_twelve
    assert ids[joined["rows"][0]] == 3
