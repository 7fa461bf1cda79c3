"""Wait and wasted energy of every manager and setting; not in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.statistics.pareto import front as undominated
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_studies.power.agents import PowerAgent
from hpcosim_studies.power.managers import (
    ORACLE,
    RULE,
    RunSetup,
    always_on,
    keep_idle,
    of_agents,
    oracle,
    priced,
    run_table,
    slurm,
    timeouts,
)
from hpcosim_studies.power.paper import (
    AWARENESSES,
    COLUMNS,
    FILLING,
    MAX_WAIT,
    PEER,
    SHUTDOWNS,
    TIMEOUTS_MIN,
    WAIT,
    WASTED,
)
from hpcosim_studies.power.pareto_figure import draw
from hpcosim_studies.study import Study

MEASURES = (WASTED, WAIT, MAX_WAIT, SHUTDOWNS, FILLING)
MINUTES = (0, *TIMEOUTS_MIN, 90, 120, 240)
"""The paper's timeouts, and shorter and longer ones, min."""

WARM = (2, 4, 8, 16, 32)
"""Numbers of idle nodes kept on, of 128."""

PRICES_W = (350, 1000, 3000, 10000)
"""Prices of a second of waiting, J/s."""

WITH_WARM: tuple[Awareness, ...] = ("aware", "planned")
"""`unaware` is excluded: it allocates nodes regardless of those kept on."""


def study(
    agents: Sequence[PowerAgent],
    left_out: Sequence[str],
    path: Path,
    minutes: Sequence[float] = MINUTES,
    warm: Sequence[int] = WARM,
    prices_w: Sequence[float] = PRICES_W,
) -> Study:
    """Return the study.

    Args:
        agents: trained networks to compare.
        left_out: reasons for agents that are not compared; for the summary.
        path: the scenario.
        minutes: timeouts, min.
        warm: numbers of idle nodes kept on.
        prices_w: prices of waiting, J/s.
    """
    setup = RunSetup(path)
    runs = [always_on(setup)]
    for awareness in AWARENESSES:
        runs += timeouts(setup, minutes, awareness)
        runs += slurm(setup, awareness)
    for awareness in WITH_WARM:
        runs += keep_idle(setup, warm, awareness)
    clairvoyant, without = oracle(setup)
    runs += [*priced(setup, prices_w), *clairvoyant, *of_agents(setup, agents)]
    text = partial(summary, left_out=[*left_out, *without])
    return Study(
        "power-pareto",
        runs,
        COLUMNS,
        {"summary.md": text},
        {"pareto.png": lambda path, rows: draw(path, rows, front(rows))},
    )


def front(rows: Rows) -> list[Row]:
    """Return the Pareto front: runs that no other run dominates.

    The oracle is left out, because it knows the future. The rows are sorted by wasted energy,
    ascending; of equal runs the first is returned.
    """
    compared = [row for row in rows if row["kind"] != ORACLE]
    return [compared[at] for at in undominated([(WASTED.of(r), WAIT.of(r)) for r in compared])]


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables as Markdown."""
    peer = [
        [f"{point['timeout_s'] / 60:g} min", WASTED.spread([point]), WAIT.spread([point])]
        for point in PEER
    ]
    return document(
        ["# Wait and wasted energy"],
        list(left_out),
        ["## Pareto front, without the oracle"],
        run_table(front(rows), MEASURES),
        ["## SPARS, planned, by timeout"],
        table(["timeout", WASTED.named, WAIT.named], peer, RULE),
        ["## All runs"],
        run_table(rows, MEASURES),
    )
