"""Recorded accounting that is played, and which commands a live source runs."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from hpcosim_protocol import NodeGroup, Partition, Platform, Processor
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.hooks import Bell
from hpcosim_slurm.reading import LICENSES, NODES, PARTITIONS, RESERVATIONS, command
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.tools import Tools
from hpcosim_twin.cluster.follow import Follower, FollowSettings
from hpcosim_twin.cluster.observation import Site
from hpcosim_twin.cluster.observer import SACCT, SSHARE, STARTS
from hpcosim_twin.cluster.read_only import is_read_only, read_only
from hpcosim_twin.cluster.recorded import Accounting, read_accounting, state_at
from hpcosim_twin.cluster.sources import LiveSource, RecordedSource
from support.slurm_site import record, sacct_text

PLATFORM = Platform(
    (NodeGroup(4, (Processor(16, 1.0, 1.0, 0.0, 1.0),), names="c[01-04]"),),
    partitions=(Partition(name="cpu", nodes=((0, 3),), default=True),),
)


def clock(at_s: int) -> str:
    """Return the time of the accounting at a second of the day after 8:00."""
    return f"2026-03-02T{8 + at_s // 3600:02}:{at_s // 60 % 60:02}:{at_s % 60:02}"


def random_records(jobs: int, seed: int = 0) -> list[dict[str, str]]:
    """Return records of jobs that wait up to 10 min and run up to 10 min, within an hour."""
    generator, found = np.random.default_rng(seed), []
    for at in range(jobs):
        submit, wait, run = (int(generator.integers(n)) for n in (3600, 600, 600))
        times = {"Submit": submit, "Eligible": submit, "Start": submit + wait}
        times["End"] = submit + wait + run
        clocks = {name: clock(at_s) for name, at_s in times.items()}
        number = str(at + 1)
        more = {"JobID": number, "JobIDRaw": number, "ElapsedRaw": str(run)}
        found.append(record(**clocks, **more))
    return found


def accounting_of(folder: Path, text: str) -> Accounting:
    """Return the accounting of a file with this text."""
    path = folder / "sacct.psv"
    path.write_text(text)
    return read_accounting(path, Site(PLATFORM, {}), ImportReport())


def present(state: ClusterState) -> dict[int, LiveJob]:
    """Return the jobs that wait or run."""
    return {number: job for number, job in state.jobs.items() if job.state != "over"}


def test_the_picture_of_played_accounting_is_that_of_each_instant(tmp_path: Path) -> None:
    """Changes since the last poll give the queue that is rebuilt from all records."""
    found = accounting_of(tmp_path, sacct_text(*random_records(100)))
    source = RecordedSource(found, speed=float("inf"))
    follower = Follower(source, FollowSettings(poll_s=30.0, check_s=120.0, fresh_s=1.0))
    over = threading.Event()
    while not source.is_over:
        follower.step()
        assert follower.snapshot is not None
        state = follower.snapshot.observation.state
        assert present(state) == present(state_at(found, source.now_s).state)
        source.wait(30.0, over)
    assert follower.counts.checks > 20
    assert not follower.counts.differences


def test_a_gap_is_bridged(tmp_path: Path) -> None:
    """After twenty minutes without a reading, the next one has all that has happened."""
    found = accounting_of(tmp_path, sacct_text(*random_records(100)))
    source = RecordedSource(found, speed=float("inf"))
    follower = Follower(source, FollowSettings(poll_s=30.0, check_s=60.0))
    follower.step()
    source.now_s += 1200.0
    follower.step()
    assert follower.snapshot is not None
    state = follower.snapshot.observation.state
    assert present(state) == present(state_at(found, source.now_s).state)
    assert not follower.counts.differences


def test_time_stands_still_at_the_end_of_the_accounting(tmp_path: Path) -> None:
    """Questions are answered at the last instant."""
    found = accounting_of(tmp_path, sacct_text(record()))
    source, over = RecordedSource(found, speed=float("inf")), threading.Event()
    source.wait(1e9, over)
    assert source.is_over
    over.set()
    source.wait(1e9, over)
    assert source.now_s == found.last_s


def test_accounting_in_mid_write_has_its_whole_records(tmp_path: Path) -> None:
    """A last line that is cut off is left out; a file that ends in its header is refused."""
    text = sacct_text(*random_records(3))
    whole = accounting_of(tmp_path, text)
    torn = accounting_of(tmp_path, text[:-60])
    assert [job.asked.id for job in torn.jobs] != []
    assert len(torn.jobs) == len(whole.jobs) - 1
    with pytest.raises(InputError, match=r"sacct\.psv"):
        accounting_of(tmp_path, text[:20])


READING = (
    *(tuple(command("X")), NODES, PARTITIONS, RESERVATIONS, LICENSES, SACCT, SSHARE, STARTS),
    ("scontrol", "show", "config"),
    ("sacctmgr", "--immediate", "dump", "cluster", "file=/tmp/accounts"),
    ("sacctmgr", "--parsable2", "show", "qos"),
)
CHANGING = (
    *(("scancel", "1"), ("sbatch", "job.sh"), ("srun", "true"), ("scontrol", "reconfigure")),
    ("scontrol", "update", "job=1", "priority=0"),
    ("scontrol", "--oneliner", "requeue", "1"),
    ("scontrol", "-o", "hold", "show"),
    ("sacctmgr", "--immediate", "delete", "user", "ann"),
    ("sacctmgr", "-i", "modify", "account", "show", "set", "fairshare=1"),
    ("sh", "-c", "scancel 1"),
)


@pytest.mark.parametrize("each", READING)
def test_commands_that_read_are_allowed(each: tuple[str, ...]) -> None:
    """All that the twin reads a cluster with."""
    assert is_read_only(each)


@pytest.mark.parametrize("each", CHANGING)
def test_commands_that_change_a_cluster_are_not_run(each: tuple[str, ...]) -> None:
    """They are errors before a process is started."""
    with pytest.raises(SlurmError, match="expected a command that only reads"):
        read_only(Tools()).output(*each)


@pytest.mark.slow
def test_a_hook_of_slurm_ends_a_wait(tmp_path: Path) -> None:
    """So does the end of the twin; hooks that ring again and again cause a reading a second."""
    with Bell(tmp_path / "fifo") as bell:
        source, over = LiveSource(Tools(), bell=bell), threading.Event()
        (tmp_path / "fifo").write_text("ended 17 COMPLETED\n")
        source.wait(3600.0, over)
        over.set()
        source.wait(3600.0, over)


def test_time_may_go_back(tmp_path: Path) -> None:
    """As when the accounting is played from an earlier instant: the queue is that of then."""
    found = accounting_of(tmp_path, sacct_text(*random_records(100)))
    source = RecordedSource(found)
    source.now_s += 2400.0
    follower = Follower(source, FollowSettings(check_s=1e9))
    follower.step()
    source.now_s -= 1200.0
    follower.step()
    assert follower.snapshot is not None
    state = follower.snapshot.observation.state
    assert present(state) == present(state_at(found, source.now_s).state)
    assert follower.counts.clock_jumps == 1
