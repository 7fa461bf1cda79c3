"""The managers that are compared, as runs to be done."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from pathlib import Path

from hpcosim_studies.power.agents import Agent
from hpcosim_studies.power.batch import Spec
from hpcosim_studies.power.readings import TEST
from hpcosim_studies.power.settings import AS_IT_IS, Setting

ALWAYS_ON = "always_on"
TIMEOUT = "timeout"
PRICED = "priced"
KEEP_IDLE = "keep_idle"
SLURM = "slurm"
ORACLE = "oracle"

WARM = (2, 4, 8, 16, 32)
"""Idle nodes that are kept on, of 128."""

PRICES_W = (350, 1000, 3000, 10000)
"""Energy that a second of a job's wait is worth, J/s; see `hpcosim_client.PowerExchange`."""

PRICED_MIN = (0, 15, 60)
"""The timeouts that are run with each of these prices."""

SLURM_S = 900.0
"""SuspendTime of Slurm: the paper's 15 min."""

SLURM_GOES_WITH = ("unaware", "aware")
"""Slurm switches nodes alone: it does not go with a job scheduler that switches some, too."""


def always_on(path: Path = TEST, whole: bool = False) -> Spec:
    """Return the run in which nothing is switched."""
    return Spec(ALWAYS_ON, "always on", {"name": ALWAYS_ON}, path=path, whole=whole)


def timeouts(
    minutes: Iterable[float], awareness: str, setting: Setting = AS_IT_IS, path: Path = TEST
) -> list[Spec]:
    """Return a run for each timeout, in minutes."""
    return [
        Spec(
            TIMEOUT,
            f"timeout {each:g} min",
            {"name": TIMEOUT, "timeout_s": 60.0 * each},
            awareness,
            value=each,
            setting=setting,
            path=path,
        )
        for each in minutes
    ]


def priced(prices_w: Iterable[float], path: Path = TEST) -> list[Spec]:
    """Return timeouts beside planned schedulers that let jobs wait where that saves enough."""
    return [
        Spec(
            PRICED,
            f"timeout {each:g} min, wait at {price_w:g} W",
            {"name": TIMEOUT, "timeout_s": 60.0 * each, "wait_price_w": price_w},
            "planned",
            value=price_w,
            path=path,
        )
        for price_w in prices_w
        for each in PRICED_MIN
    ]


def keep_idle(warm: Iterable[int], awareness: str, path: Path = TEST) -> list[Spec]:
    """Return a run for each number of idle nodes kept on; the others go off at once."""
    return [
        Spec(
            KEEP_IDLE,
            f"keep {each} idle",
            {"name": KEEP_IDLE, "warm": each},
            awareness,
            value=each,
            path=path,
        )
        for each in warm
    ]


def slurm(awareness: str, path: Path = TEST) -> list[Spec]:
    """Return the run of Slurm's power saving, if it goes with a job scheduler so aware."""
    if awareness not in SLURM_GOES_WITH:
        return []
    power = {"name": SLURM, "suspend_time_s": SLURM_S}
    return [Spec(SLURM, f"slurm {SLURM_S / 60:g} min", power, awareness, path=path)]


def oracle(path: Path = TEST) -> tuple[list[Spec], list[str]]:
    """Return the run of the oracle, or why there is none, a sentence."""
    if not importlib.util.find_spec("scipy"):
        return [], ["No oracle: SciPy is missing (`pip install 'hpcosim[oracle]'`)."]
    return [Spec(ORACLE, "oracle, no wait", {"name": ORACLE}, path=path)], []


def of_agents(
    agents: Sequence[Agent], setting: Setting = AS_IT_IS, path: Path = TEST
) -> list[Spec]:
    """Return a run for each agent, beside the job scheduler it was trained beside."""
    return [
        Spec(
            agent.kind,
            agent.label,
            agent.power,
            agent.awareness,
            seed=agent.seed,
            setting=setting,
            path=path,
        )
        for agent in agents
    ]
