"""Vector environments whose episodes begin when the caller says so, as learners expect."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="environments need the extra rl")

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from hpcosim_gym.environments import vectors
from hpcosim_gym.environments.batch_vector import BatchSchedulingVectorEnv
from hpcosim_gym.environments.vectors import unless_numba_fails
from hpcosim_papers.ineps.environments.pairing_vector import JobNodePairingVectorEnv
from support.paths import ROOT

VectorEnv = gymnasium.vector.VectorEnv[Any, Any, Any]


def batch(**how: Any) -> VectorEnv:
    """Return two short episodes of the demo."""
    short: dict[str, Any] = {"observation": "flat", "episode_jobs": 80, "window_jobs": 4}
    return BatchSchedulingVectorEnv(2, "demo", **short, **how)


def pairing(**how: Any) -> VectorEnv:
    """Return two episodes of Experiment 1, one of which will be longer."""
    return JobNodePairingVectorEnv(2, "ineps/exp1", invalid="first", **how)


MAKERS = [batch, pairing]


@pytest.fixture(params=["compiled", "reference"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the engine that plays."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="the extra fast is not installed")
    else:
        monkeypatch.setattr(vectors, "missing_package", lambda: "none")
    return str(request.param)


@pytest.mark.compiles
@pytest.mark.parametrize("make", MAKERS)
def test_the_caller_begins_single_episodes_anew(make: Any, engine: str) -> None:
    """The others keep observation and mask, and go on as without that reset."""
    envs = make(autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=3)
    for _ in range(2):
        seen, _, _, _, info = envs.step(np.zeros(2, np.int64))
    begun, again = envs.reset(seed=[3, None], options={"reset_mask": np.array([True, False])})
    assert begun[1].tolist() == seen[1].tolist()
    assert again["action_mask"][1].tolist() == info["action_mask"][1].tolist()
    other = make(autoreset_mode=AutoresetMode.DISABLED)
    first, _ = other.reset(seed=3)
    assert begun[0].tolist() == first[0].tolist()
    one, two = envs.step(np.zeros(2, np.int64)), other.step(np.zeros(2, np.int64))
    assert one[0][0].tolist() == two[0][0].tolist()
    assert one[1][0] == two[1][0]


@pytest.mark.parametrize("make", MAKERS)
def test_a_step_after_an_end_is_an_error(make: Any, engine: str) -> None:
    """An episode that is over stays so until it is reset."""
    envs = make(autoreset_mode=AutoresetMode.DISABLED)
    envs.reset(seed=3)
    over = np.zeros(2, np.bool_)
    while not over.any():
        _, _, over, _, _ = envs.step(np.zeros(2, np.int64))
    with pytest.raises(ResetNeeded, match=r"over; call reset\(\) with the option reset_mask"):
        envs.step(np.zeros(2, np.int64))
    envs.reset(options={"reset_mask": over})
    envs.step(np.zeros(2, np.int64))


@pytest.mark.parametrize("make", MAKERS)
def test_wrong_arguments_of_a_reset_are_errors(make: Any) -> None:
    """A mode that there is not, a mask of another length, too few seeds."""
    with pytest.raises(ValueError, match=r"autoreset_mode: expected .*NEXT_STEP or .*DISABLED"):
        make(autoreset_mode=AutoresetMode.SAME_STEP)
    envs = make()
    with pytest.raises(ValueError, match=r"options\['reset_mask'\]: expected 2 booleans"):
        envs.reset(options={"reset_mask": np.array([True])})
    with pytest.raises(ValueError, match="seed: expected 2 seeds, got 1"):
        envs.reset(seed=[1])


@pytest.mark.slow
def test_torchrl_collects_steps() -> None:
    """The block of the tutorial: TorchRL takes a vector as it is, and goes on after ends."""
    if find_spec("torchrl") is None:
        pytest.skip("TorchRL is not installed: pip install torchrl")
    page = (ROOT / "docs" / "tutorials" / "train-an-agent.md").read_text(encoding="utf-8")
    block = next(
        each for each in re.findall(r"```python\n(.*?)```", page, re.S) if "torchrl" in each
    )
    program = (
        "import gymnasium, hpcosim_gym.gymnasium_envs\n"
        + block.replace("256", "3")
        + "print(*steps.batch_size, steps['next', 'reward'].isfinite().all().item())\n"
    )
    # In a process of its own: TorchRL tries to import `gym`, which is a folder of tests here.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "3 100 True\n", done.stderr


def test_a_failure_of_numba_is_a_warning() -> None:
    """The reference engine then steps the environments, and the user knows why they are slow."""

    def fails() -> None:
        raise RuntimeError("no such processor")

    with pytest.warns(RuntimeWarning, match="because Numba failed: RuntimeError"):
        assert unless_numba_fails(fails) is None
