"""The bell of the bridge, and the programs of Slurm that ring it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import pytest

from hpcosim_slurm.commands import Carrier, Order, Place, PowerDown
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.hooks import NOTIFY, Bell, Ring
from hpcosim_slurm.reading import read_state
from hpcosim_slurm.tools import Tools
from support.processes import eventually
from support.slurm_cluster import SOON_S, SlurmCluster

WITHIN_S = 5.0  # for a program that does not wait, on a busy machine


def ring(path: Path, event: str = "started", text: str = "17") -> None:
    """Run the hook, which must succeed without delay."""
    subprocess.run([NOTIFY, path, event, text], check=True, timeout=WITHIN_S)


def fill(bell: Bell) -> None:
    """Write to a FIFO until it is full."""
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(bell.fileno(), b"x" * 4096)


def test_a_hook_rings_the_bell(tmp_path: Path) -> None:
    """Each line arrives once, and the FIFO is removed."""
    path = tmp_path / "bell"
    with Bell(path) as bell:
        assert bell.wait(0) == []
        ring(path)
        ring(path, "ended", "17 COMPLETED")
        assert bell.wait(WITHIN_S) == [Ring("started", "17"), Ring("ended", "17 COMPLETED")]
        assert bell.rings() == []
    assert not path.exists()


def test_long_lines_of_hooks_are_cut(tmp_path: Path) -> None:
    """A long text does not join with the next line, and control characters are replaced."""
    path = tmp_path / "bell"
    with Bell(path) as bell:
        ring(path, "e" * 100, "\x1b" + "n" * 1000)
        ring(path)
        assert bell.wait(WITHIN_S) == [Ring("e" * 20, "?" + "n" * 399), Ring("started", "17")]


def test_a_hook_without_a_bridge_succeeds(tmp_path: Path) -> None:
    """Without a FIFO and without a reader it does nothing, and creates no file."""
    path = tmp_path / "bell"
    ring(path)
    assert not path.exists()
    os.mkfifo(path)
    ring(path)


def test_a_hook_never_waits_for_a_stuck_bridge(tmp_path: Path) -> None:
    """The line is lost if the FIFO is full."""
    path = tmp_path / "bell"
    with Bell(path) as bell:
        fill(bell)
        ring(path)
        assert all(each.event.startswith("x") for each in bell.rings())


def test_a_bell_of_a_killed_bridge_is_used_again(tmp_path: Path) -> None:
    """A FIFO at the path is no error; a file is one, and stays."""
    path = tmp_path / "bell"
    os.mkfifo(path)
    with Bell(path) as bell:
        ring(path)
        assert bell.wait(WITHIN_S) == [Ring("started", "17")]
    path.write_text("mine")
    with pytest.raises(SlurmError, match=r"bell: expected a FIFO or no file; remove it"):
        Bell(path)
    assert path.read_text() == "mine"
    with pytest.raises(SlurmError, match=r"cannot create a FIFO: No such file"):
        Bell(tmp_path / "missing" / "bell")


@pytest.mark.slow
def test_slurm_rings_at_each_change(placed: SlurmCluster, tools: Tools) -> None:
    """The start and the end of a job and the switching of a node ring."""
    job = placed.submit()
    expected = {
        Ring("started", str(job)),
        Ring("ended", f"{job} COMPLETED"),
        Ring("suspend", "node4"),
    }
    told: list[Ring] = []

    def heard() -> bool:
        told.extend(bell.wait(0.1))
        return expected <= set(told)

    with Bell(placed.folder / "bridge") as bell:
        orders = [
            Order(Place(str(job), ("node2",), "main"), "test"),
            Order(PowerDown(("node4",)), "test"),
        ]
        Carrier(tools).carry_out(orders)
        eventually(heard, within_s=SOON_S)
    eventually(lambda: read_state(tools).nodes["node4"].power == "off", within_s=SOON_S)
    placed.run("scontrol", "update", "NodeName=node4", "State=POWER_UP")


@pytest.mark.slow
def test_a_stuck_bridge_delays_no_job_and_misses_nothing(
    placed: SlurmCluster, tools: Tools
) -> None:
    """With a full FIFO a job starts and ends as soon as ever, and polling shows both."""
    with Bell(placed.folder / "bridge") as bell:
        fill(bell)
        job = placed.submit(sleep_s=0.5)
        Carrier(tools).carry_out([Order(Place(str(job), ("node2",), "main"), "test")])
        begin_s = time.monotonic()
        eventually(lambda: read_state(tools).jobs[job].state == "over", within_s=SOON_S)
        assert time.monotonic() - begin_s < WITHIN_S
    found = read_state(tools).jobs[job]
    assert (found.slurm_state, found.nodes, found.exit_code) == ("COMPLETED", ("node2",), 0)
    assert found.started_s is not None
    assert found.ended_s is not None
