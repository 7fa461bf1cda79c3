"""The runs of the power managers."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_experiments.report.markdown import table
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.statistics.rows import Rows, groups
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.power.agents import TRAINED_WITH, PowerAgent
from hpcosim_studies.power.paper import Cluster
from hpcosim_studies.runs import NO_OVERRIDES, StudyRun

ALWAYS_ON = "always-on"
TIMEOUT = "timeout"
PRICED = "priced"
KEEP_IDLE = "keep-idle"
SLURM = "slurm"
ORACLE = "oracle"
ANY = "any"
"""Label of runs that do not depend on the job scheduler's power awareness."""

PRICED_MIN = (0, 15, 60)
"""Timeouts for each price of waiting, min."""

SLURM_S = 900.0
"""SuspendTime of Slurm, s: the paper's timeout of 15 min."""

SLURM_AWARENESSES = ("unaware", "aware")
"""Slurm's power saving excludes `planned` schedulers, because these switch nodes themselves."""

AWARENESS_COLOURS: Mapping[str, str] = {
    "unaware": COLOURS[0],
    "aware": COLOURS[1],
    "planned": COLOURS[2],
    ANY: "#000000",
}
"""Colours of figures, by power awareness."""

KIND_MARKERS: Mapping[str, str] = {
    TIMEOUT: "o",
    KEEP_IDLE: "s",
    SLURM: "^",
    "a2c": "D",
    "adaptive": "P",
    PRICED: "v",
    ORACLE: "*",
    ALWAYS_ON: "X",
}
"""Markers of figures, by kind of manager."""


class RunSetup(NamedTuple):
    """The scenario of a run, with changes of its cluster.

    Attributes:
        scenario: the scenario file.
        cluster: name of the changed cluster; empty: the scenario's own.
        overrides: changes of the cluster, by dotted path.
        whole: run all jobs of the log instead of the scenario's selection.
    """

    scenario: Path
    cluster: str = ""
    overrides: Cluster = NO_OVERRIDES
    whole: bool = False


def run_of(
    setup: RunSetup,
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
        setup: scenario and cluster.
        manager: its name in tables, the same for all seeds of an agent.
        power: the manager as in a scenario file.
        awareness: the job scheduler's power awareness, or `ANY`.
        value: parameter of the manager within its kind, such as minutes; None: no parameter.
        kind: kind of manager, such as `timeout` or `a2c`; empty: its name in `power`.
        seed: seed of the agent's training; None: no agent.
    """
    name = setup.scenario.stem
    labels = {
        "scenario": f"{name}, whole log" if setup.whole else name,
        "cluster": setup.cluster,
        "kind": kind or power["name"],
        "manager": manager,
        "awareness": awareness,
        "seed": seed,
        "value": value,
    }
    overrides = {
        "scheduler.power": power,
        "scheduler.power_awareness": "unaware" if awareness == ANY else awareness,
        **setup.overrides,
        **({"workload.jobs": None} if setup.whole else {}),
    }
    return StudyRun(setup.scenario, labels, overrides=overrides)


def always_on(setup: RunSetup) -> StudyRun:
    """Return the run without switching."""
    return run_of(setup, "always on", {"name": ALWAYS_ON})


def timeouts(setup: RunSetup, minutes: Iterable[float], awareness: str) -> list[StudyRun]:
    """Return a run for each timeout, in minutes."""
    runs = []
    for each in minutes:
        power = {"name": TIMEOUT, "timeout_s": 60.0 * each}
        runs.append(run_of(setup, f"timeout {each:g} min", power, awareness, each))
    return runs


def priced(setup: RunSetup, prices_w: Iterable[float]) -> list[StudyRun]:
    """Return timeouts with planned schedulers that delay jobs if that saves enough energy.

    A price is the energy per second of a job's wait, J/s.
    """
    runs = []
    for price_w in prices_w:
        for each in PRICED_MIN:
            power = {"name": TIMEOUT, "timeout_s": 60.0 * each, "wait_price_w": price_w}
            manager = f"timeout {each:g} min, wait at {price_w:g} W"
            runs.append(run_of(setup, manager, power, "planned", price_w, kind=PRICED))
    return runs


def keep_idle(setup: RunSetup, warm: Iterable[int], awareness: str) -> list[StudyRun]:
    """Return a run for each number of idle nodes kept on; others switch off immediately."""
    return [
        run_of(setup, f"keep {each} idle", {"name": KEEP_IDLE, "warm": each}, awareness, each)
        for each in warm
    ]


def slurm(setup: RunSetup, awareness: str) -> list[StudyRun]:
    """Return the run of Slurm's power saving, if it supports this power awareness."""
    if awareness not in SLURM_AWARENESSES:
        return []
    power = {"name": SLURM, "suspend_time_s": SLURM_S}
    return [run_of(setup, f"slurm {SLURM_S / 60:g} min", power, awareness)]


def oracle(setup: RunSetup) -> tuple[list[StudyRun], list[str]]:
    """Return the run of the oracle, or the reason why it is missing."""
    if not importlib.util.find_spec("scipy"):
        return [], ["No oracle: SciPy is missing (`pip install 'hpcosim[oracle]'`)."]
    return [run_of(setup, "oracle, no wait", {"name": ORACLE})], []


def of_agents(setup: RunSetup, agents: Sequence[PowerAgent]) -> list[StudyRun]:
    """Return a run for each agent, with the job scheduler of its training."""
    runs = []
    for agent in agents:
        power, awareness = agent.power, TRAINED_WITH[agent.kind]
        kind, seed = agent.kind, agent.seed
        runs.append(run_of(setup, agent.label, power, awareness, kind=kind, seed=seed))
    return runs


def run_table(rows: Rows, measures: Sequence[Measure]) -> list[str]:
    """Return a line for each manager and awareness, with the spread over seeds."""
    lines = [
        [manager, awareness, *(measure.spread(runs) for measure in measures)]
        for (manager, awareness), runs in groups(rows, "manager", "awareness").items()
    ]
    return table(["manager", "scheduler", *(measure.named for measure in measures)], lines, RULE)


RULE = " --- "
"""Separator cell of the study's Markdown tables."""
