"""Trainings with several seeds, side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs the extra rl")

from hpcosim_experiments.executors import IN_THIS_PROCESS
from hpcosim_gym.learning.curve import CURVE
from hpcosim_gym.learning.seeds import SeedTask, final_measure, train_seeds
from support.commands import CommandResult, invoke
from support.paths import SCENARIOS

SCENARIO = SCENARIOS / "papers" / "ineps" / "exp1.yaml"
FILES = ("actor.safetensors", "checkpoint.safetensors")


def trained(out: Path, *options: str) -> CommandResult:
    """Run a short training of a pairing agent."""
    short = ("--sees", "papers", "--iterations", "1", "--episodes", "2")
    return invoke("train", "pairing", SCENARIO, "--out", out, *short, *options)


@pytest.mark.slow
def test_each_seed_trains_what_it_trains_alone(tmp_path: Path) -> None:
    """Networks, checkpoints and curves equal those of `--seed N`; resuming adds missing seeds."""
    out, alone = tmp_path / "several", tmp_path / "alone"
    done = trained(out, "--seeds", "3,1", "-j", "2")
    assert done.status == 0
    for words in ("seed", "validation", "seed-3/actor", "seed-1/actor", "mean", "deviation"):
        assert words in done.out
    assert trained(alone, "--seed", "1").status == 0
    for name in FILES:
        assert (out / "seed-1" / name).read_bytes() == (alone / name).read_bytes()
        assert (out / "seed-3" / name).read_bytes() != (alone / name).read_bytes()
    assert final_measure(out / "seed-1") == final_measure(alone)

    assert "seed-1: the folder holds the checkpoint" in trained(out, "--seeds", "1,0").error
    again = trained(out, "--seeds", "1,0", "--resume", "-j", "1")
    assert (again.status, again.err.count("error")) == (0, 0)
    assert (out / "seed-1" / FILES[0]).read_bytes() == (alone / FILES[0]).read_bytes()
    assert (out / "seed-0" / FILES[0]).is_file()


@pytest.mark.slow
def test_a_failed_seed_does_not_stop_the_others(tmp_path: Path) -> None:
    """The table has the values of the others; the error names the seed; the status is 1."""
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0" / "checkpoint.safetensors").write_bytes(b"damaged")
    done = trained(tmp_path, "--seeds", "0,1", "--resume", "-j", "1")
    assert done.status == 1
    assert "failed" in done.out
    assert "seed-1/actor" in done.out
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]
    assert [error[:14] for error in errors] == ["error: seed 0:"]


def write_curve(folder: Path, settings: Any, *, text: str) -> Path:
    """Write a learning curve in place of a training; seed 7 fails."""
    if settings.seed == 7:
        raise OSError(28, "No space left on device")
    folder.mkdir()
    (folder / CURVE).write_text(text)
    return folder / "network"


@pytest.mark.parametrize(
    ("text", "measure"),
    [
        ("mean_return,validation\n1,nan\n2,0.5\n3,0.7\n", ("validation", 0.5)),
        ("mean_return,validation\n1,nan\n2,nan\n", ("mean_return", 2.0)),
        ("number,mean_j,best_j\n1,9,8\n2,7,6\n", ("mean_j", 7.0)),
    ],
)
def test_the_final_value_is_the_best_validation_or_the_last(
    text: str, measure: tuple[str, float], tmp_path: Path
) -> None:
    """Validation keeps the best network; other trainings end with the last one."""
    from hpcosim_papers.power.learners.train import A2C

    tasks = [SeedTask(seed, tmp_path / str(seed)) for seed in (7, 8)]
    train = partial(write_curve, text=text)
    failed, done = train_seeds(train, A2C, tasks, IN_THIS_PROCESS)
    assert failed.error == f"{tmp_path / '7'}: No space left on device"
    assert (done.network, done.measure, done.value) == (tmp_path / "8" / "network", *measure)
