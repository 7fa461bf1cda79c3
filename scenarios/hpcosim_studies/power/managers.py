"""The power managers that are compared, as runs."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.measures import Measure, table
from hpcosim_studies.power.agents import TRAINED_BESIDE, Agent
from hpcosim_studies.power.paper import Cluster
from hpcosim_studies.rows import Rows, groups
from hpcosim_studies.runs import NO_OVERRIDES, StudyRun

ALWAYS_ON = "always-on"
TIMEOUT = "timeout"
PRICED = "priced"
KEEP_IDLE = "keep-idle"
SLURM = "slurm"
ORACLE = "oracle"
ANY = "any"
"""The awareness of runs in which that of the job scheduler makes no difference."""

PRICED_MIN = (0, 15, 60)
"""The timeouts that are run with each price of waiting."""

SLURM_S = 900.0
"""SuspendTime of Slurm: the paper's 15 min."""

SLURM_GOES_WITH = ("unaware", "aware")
"""Slurm alone switches nodes: it does not go with a job scheduler that switches some, too."""

OF_AWARENESS: Mapping[str, str] = {
    "unaware": COLOURS[0],
    "aware": COLOURS[1],
    "planned": COLOURS[2],
    ANY: "#000000",
}
"""The colours of figures."""

MARKS: Mapping[str, str] = {
    TIMEOUT: "o",
    KEEP_IDLE: "s",
    SLURM: "^",
    "a2c": "D",
    "adaptive": "P",
    PRICED: "v",
    ORACLE: "*",
    ALWAYS_ON: "X",
}
"""The marks of figures, by kind of manager."""


class Place(NamedTuple):
    """Where managers are tried.

    Attributes:
        scenario: the scenario's file.
        cluster: the name of a cluster that differs from the scenario's; empty: it does not.
        overrides: how it differs, by dotted path.
        whole: all jobs of the log are run, whatever the scenario says.
    """

    scenario: Path
    cluster: str = ""
    overrides: Cluster = NO_OVERRIDES
    whole: bool = False


def run_of(
    place: Place,
    manager: str,
    power: Mapping[str, Any],
    awareness: str = ANY,
    value: float | None = None,
    *,
    kind: str = "",
    seed: int | None = None,
) -> StudyRun:
    """Return a run of a manager.

    Args:
        place: where.
        manager: its name in tables, the same for all seeds of an agent.
        power: the manager, as a scenario has it.
        awareness: the job scheduler's, of power states; or `ANY`.
        value: what tells managers of a kind apart, such as minutes; None: there is one.
        kind: of manager, such as `timeout` or `a2c`; empty: its name in `power`.
        seed: of the agent's training; None: it is no agent.
    """
    name = place.scenario.stem
    labels = {
        "scenario": f"{name}, whole log" if place.whole else name,
        "cluster": place.cluster,
        "kind": kind or power["name"],
        "manager": manager,
        "awareness": awareness,
        "seed": seed,
        "value": value,
    }
    overrides = {
        "scheduler.power": power,
        "scheduler.power_awareness": "unaware" if awareness == ANY else awareness,
        **place.overrides,
        **({"workload.jobs": None} if place.whole else {}),
    }
    return StudyRun(place.scenario, labels, overrides=overrides)


def always_on(place: Place) -> StudyRun:
    """Return the run in which nothing is switched."""
    return run_of(place, "always on", {"name": ALWAYS_ON})


def timeouts(place: Place, minutes: Iterable[float], awareness: str) -> list[StudyRun]:
    """Return a run for each timeout, in minutes."""
    runs = []
    for each in minutes:
        power = {"name": TIMEOUT, "timeout_s": 60.0 * each}
        runs.append(run_of(place, f"timeout {each:g} min", power, awareness, each))
    return runs


def priced(place: Place, prices_w: Iterable[float]) -> list[StudyRun]:
    """Return timeouts beside planned schedulers that let jobs wait where that saves enough.

    A price is the energy that a second of a job's wait is worth, J/s.
    """
    runs = []
    for price_w in prices_w:
        for each in PRICED_MIN:
            power = {"name": TIMEOUT, "timeout_s": 60.0 * each, "wait_price_w": price_w}
            manager = f"timeout {each:g} min, wait at {price_w:g} W"
            runs.append(run_of(place, manager, power, "planned", price_w, kind=PRICED))
    return runs


def keep_idle(place: Place, warm: Iterable[int], awareness: str) -> list[StudyRun]:
    """Return a run for each number of idle nodes kept on; the others go off at once."""
    return [
        run_of(place, f"keep {each} idle", {"name": KEEP_IDLE, "warm": each}, awareness, each)
        for each in warm
    ]


def slurm(place: Place, awareness: str) -> list[StudyRun]:
    """Return the run of Slurm's power saving, if it goes with a job scheduler so aware."""
    if awareness not in SLURM_GOES_WITH:
        return []
    power = {"name": SLURM, "suspend_time_s": SLURM_S}
    return [run_of(place, f"slurm {SLURM_S / 60:g} min", power, awareness)]


def oracle(place: Place) -> tuple[list[StudyRun], list[str]]:
    """Return the run of the oracle, or a sentence that says why there is none."""
    if not importlib.util.find_spec("scipy"):
        return [], ["No oracle: SciPy is missing (`pip install 'hpcosim[oracle]'`)."]
    return [run_of(place, "oracle, no wait", {"name": ORACLE})], []


def of_agents(place: Place, agents: Sequence[Agent]) -> list[StudyRun]:
    """Return a run for each agent, beside the job scheduler it was trained beside."""
    runs = []
    for agent in agents:
        power, beside = agent.power, TRAINED_BESIDE[agent.kind]
        kind, seed = agent.kind, agent.seed
        runs.append(run_of(place, agent.label, power, beside, kind=kind, seed=seed))
    return runs


def run_table(rows: Rows, measures: Sequence[Measure]) -> list[str]:
    """Return a line for each manager and awareness, with the spread over seeds."""
    lines = [
        [manager, awareness, *(measure.spread(runs) for measure in measures)]
        for (manager, awareness), runs in groups(rows, "manager", "awareness").items()
    ]
    return table(["manager", "scheduler", *(measure.named for measure in measures)], lines, RULE)


RULE = " --- "
"""Of the second lines of the study's tables."""
