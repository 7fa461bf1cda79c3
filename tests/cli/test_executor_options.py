"""The options that choose an executor."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from hpcosim.cli.executors import Execution, megabytes_of, minutes_of
from hpcosim_experiments.executors import Local, Ray, Slurm


def test_options_become_settings() -> None:
    """Each executor gets its own options; defaults stay."""
    assert Execution("local", 3).settings() == Local(workers=3)
    assert Execution("ray", None, "auto").settings() == Ray(address="auto")
    assert Execution("slurm").settings() == Slurm()
    assert Execution("slurm", 2, None, "long", "90", "2G", 5, Path("jobs")).settings() == Slurm(
        workers=2,
        partition="long",
        time_min=90,
        memory_mb=2048,
        array_size=5,
        folder=Path("jobs"),
    )


def test_an_option_of_another_executor_is_an_error() -> None:
    """The message names the option and its executor."""
    with pytest.raises(typer.BadParameter, match="--partition applies only to --executor slurm"):
        Execution(partition="long").settings()
    with pytest.raises(typer.BadParameter, match="--address applies only to --executor ray"):
        Execution("slurm", None, "auto").settings()


@pytest.mark.parametrize(
    ("time", "minutes"),
    [
        ("90", 90),
        ("1:30:00", 90),
        ("0:30", 1),
        ("2-0", 2880),
        ("1-2:03", 1563),
        ("0-0:0:1", 1),
    ],
)
def test_times_are_in_the_notation_of_slurm(time: str, minutes: int) -> None:
    """Times are rounded up to minutes."""
    assert minutes_of(time) == minutes


@pytest.mark.parametrize("time", ["", "1h", "-5", "1:2:3:4", "0", "0:00", "1-", "1.5"])
def test_an_invalid_time_is_an_error(time: str) -> None:
    """The message names the option."""
    with pytest.raises(typer.BadParameter, match="--time: expected"):
        minutes_of(time)


def test_sizes_are_in_the_notation_of_slurm() -> None:
    """Sizes without a unit are MB; others are converted."""
    assert [megabytes_of(text) for text in ("700", "4g", "1TB")] == [700, 4096, 1048576]
    for text in ("", "4x", "0", "1.5G"):
        with pytest.raises(typer.BadParameter, match="--memory: expected a size"):
            megabytes_of(text)
