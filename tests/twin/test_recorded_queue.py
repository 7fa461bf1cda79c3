"""The queue of a cluster at an instant of the past, from its accounting."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hpcosim_protocol import NodeGroup, Partition, Platform, Processor
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.convert import SlurmOptions
from hpcosim_twin.cluster.observation import Site
from hpcosim_twin.cluster.observer import configured_site
from hpcosim_twin.cluster.queue_state import adopted
from hpcosim_twin.cluster.recorded import MISSING_PARTITION, Accounting, read_accounting, state_at
from support.golden_slurm import GOLDEN_SLURM, recorded_run
from support.slurm_site import PENDING, record, sacct_text

PLATFORM = Platform(
    (NodeGroup(4, (Processor(16, 1.0, 1.0, 0.0, 1.0),), names="c[01-04]"),),
    partitions=(Partition(name="cpu", nodes=((0, 3),), default=True),),
)
SITE = Site(PLATFORM, {"priority": {"decay_half_life_s": 3600.0}})


def unix(clock: str) -> float:
    """Return the time of a clock on the day of the records, s."""
    return datetime.fromisoformat(f"2026-03-02T{clock}").replace(tzinfo=UTC).timestamp()


def accounting(tmp_path: Path, *records: Any) -> tuple[Accounting, ImportReport]:
    """Return the accounting of records."""
    path, report = tmp_path / "sacct.psv", ImportReport()
    path.write_text(sacct_text(*records))
    return read_accounting(path, SITE, report), report


def test_a_job_waits_then_runs_then_is_over(tmp_path: Path) -> None:
    """The record was submitted at 8:00, started at 8:05 and ended at 9:05."""
    found, _ = accounting(tmp_path, record())
    shown = {
        at: state_at(found, unix(at)).state.jobs for at in ("07:59", "08:04", "09:04", "09:05")
    }
    assert shown["07:59"] == {}
    assert [jobs[101].state for jobs in list(shown.values())[1:]] == ["pending", "running", "over"]
    assert shown["08:04"][101].nodes == ()
    assert shown["09:04"][101].nodes == ("c01",)
    assert shown["09:04"][101].ended_s is None


def test_the_history_has_only_what_has_ended(tmp_path: Path) -> None:
    """A run time is known from the end on."""
    found, _ = accounting(tmp_path, record())
    assert state_at(found, unix("09:04")).history == ()
    (job,) = state_at(found, unix("09:06")).history
    assert (job.user, job.requested_s, job.run_s) == ("ada", 7200.0, 3600.0)


def test_a_requeued_job_waits_again_between_its_runs(tmp_path: Path) -> None:
    """The second record has the time of the requeue as its submission."""
    found, _ = accounting(
        tmp_path,
        record(State="NODE_FAIL", ElapsedRaw="600", End="2026-03-02T08:15:00"),
        record(
            Submit="2026-03-02T08:15:00",
            Start="2026-03-02T08:20:00",
            End="2026-03-02T09:20:00",
        ),
    )
    clocks = ("08:01", "08:10", "08:16", "08:30", "09:30")
    states = [state_at(found, unix(at)).state.jobs[101].state for at in clocks]
    assert states == ["pending", "running", "pending", "running", "over"]


def test_a_job_that_was_cancelled_while_it_waited_was_in_the_queue(tmp_path: Path) -> None:
    """It waits until the cancellation, and is no run time of the history."""
    waiting = {**PENDING, "State": "CANCELLED by 1000", "End": "2026-03-02T08:30:00"}
    found, _ = accounting(tmp_path, record(JobID="102", **waiting))
    assert state_at(found, unix("08:29")).state.jobs[102].state == "pending"
    after = state_at(found, unix("08:31"))
    assert (after.state.jobs[102].state, after.history) == ("over", ())


def test_a_job_that_becomes_eligible_later_for_an_unknown_reason_is_held(tmp_path: Path) -> None:
    """It is not known before when it may start."""
    found, _ = accounting(tmp_path, record(Eligible="2026-03-02T08:04:00"))
    assert state_at(found, unix("08:03")).state.jobs[101].is_held
    assert not state_at(found, unix("08:04")).state.jobs[101].is_held


def test_the_usage_decays_with_the_half_life(tmp_path: Path) -> None:
    """8 CPUs for an hour, whose half decays in an hour: 8 h/ln2 (1 - 1/2) at the end."""
    found, _ = accounting(tmp_path, record())
    hour_s = 8 * 3600.0 / 0.6931471805599453 / 2
    assert state_at(found, unix("09:05")).usage_s["physics"]["ada"] == pytest.approx(hour_s)
    assert state_at(found, unix("10:05")).usage_s["physics"]["ada"] == pytest.approx(hour_s / 2)


def test_clock_jumps_runaways_and_unknown_partitions_are_counted(tmp_path: Path) -> None:
    """Each is corrected in a way that the report names."""
    found, report = accounting(
        tmp_path,
        record(Start="2026-03-02T07:05:00", End="2026-03-02T09:05:00"),
        record(JobID="102", State="RUNNING", End="Unknown", ElapsedRaw="90000"),
        record(
            JobID="103",
            Partition="gone",
            Submit="2026-03-09T08:00:00",
            Start="2026-03-09T08:05:00",
            End="2026-03-09T09:05:00",
        ),
    )
    counts = {what: entry.count for what, entry in report.entries["guessed"].items()}
    assert counts == {
        "starts before submissions, as after a jump of the clock: the submission": 1,
        "jobs that run long after their limit: they ended at the limit": 1,
        f"{MISSING_PARTITION}: no forecast": 1,
    }
    by_id = {job.asked.id: job for job in found.jobs}
    assert by_id[101].start_s == by_id[101].submit_s
    assert by_id[102].over_s == unix("08:05") + 7200.0


def test_a_file_without_jobs_is_one_clear_error(tmp_path: Path) -> None:
    """The message names the file and how to make it."""
    with pytest.raises(InputError, match=r"sacct\.psv.*no jobs were found.*sacct -a"):
        accounting(tmp_path)


@pytest.mark.skipif(
    not GOLDEN_SLURM.is_dir(), reason="the recorded runs of Slurm are not on this machine"
)
def test_states_of_a_recorded_run_are_those_of_its_events() -> None:
    """Of 500 jobs of a real Slurm: the same wait, run and are over, on the same nodes."""
    site = configured_site(GOLDEN_SLURM / "etc" / "slurm.conf", SlurmOptions())
    found = read_accounting(GOLDEN_SLURM / "run1" / "sacct.psv", site, ImportReport())
    run = recorded_run(GOLDEN_SLURM / "run1")
    for at_s in (100.5, 1000.5, 2500.5):
        shown = state_at(found, run.epoch_s + at_s)
        jobs = shown.state.jobs.values()
        settled = [
            each
            for each in run.jobs.values()
            if min(abs(time_s - at_s) for time_s in (each.submit_s, each.start_s, each.end_s)) > 2.0
            and each.submit_s < at_s
        ]
        expected = {
            each.job_id: "over"
            if each.end_s < at_s
            else "running"
            if each.start_s < at_s
            else "pending"
            for each in settled
        }
        states = {each.id: each.state for each in jobs}
        assert {number: states[number] for number in expected} == expected
        nodes = {each.id: each.nodes for each in jobs if each.state == "running"}
        for each in settled:
            if expected[each.job_id] == "running":
                assert nodes[each.job_id] == each.nodes
        assert len(adopted(shown).state.waiting) == Counter(states.values())["pending"]
