"""Waiting against wasted energy, for every manager and setting: the paper does not draw it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_studies.measures import document, table
from hpcosim_studies.power.agents import Agent
from hpcosim_studies.power.managers import (
    ORACLE,
    RULE,
    Place,
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
from hpcosim_studies.rows import Row, Rows
from hpcosim_studies.study import Study

MEASURES = (WASTED, WAIT, MAX_WAIT, SHUTDOWNS, FILLING)
MINUTES = (0, *TIMEOUTS_MIN, 90, 120, 240)
"""The paper's timeouts, and some below and beyond them."""

WARM = (2, 4, 8, 16, 32)
"""Idle nodes that are kept on, of 128."""

PRICES_W = (350, 1000, 3000, 10000)
"""Energy that a second of a job's wait is worth, J/s."""

WITH_WARM: tuple[Awareness, ...] = ("aware", "planned")
"""Beside an unaware scheduler nodes kept on are not those that jobs are given."""


def study(
    agents: Sequence[Agent],
    left_out: Sequence[str],
    path: Path,
    minutes: Sequence[float] = MINUTES,
    warm: Sequence[int] = WARM,
    prices_w: Sequence[float] = PRICES_W,
) -> Study:
    """Return the study.

    Args:
        agents: trained networks to compare.
        left_out: agents that are not compared, with the reason; for the summary.
        path: the scenario.
        minutes: the timeouts.
        warm: the numbers of idle nodes to be kept on.
        prices_w: of waiting, J/s.
    """
    place = Place(path)
    runs = [always_on(place)]
    for awareness in AWARENESSES:
        runs += timeouts(place, minutes, awareness)
        runs += slurm(place, awareness)
    for awareness in WITH_WARM:
        runs += keep_idle(place, warm, awareness)
    clairvoyant, without = oracle(place)
    runs += [*priced(place, prices_w), *clairvoyant, *of_agents(place, agents)]
    text = partial(summary, left_out=[*left_out, *without])
    return Study(
        "power-pareto",
        runs,
        COLUMNS,
        {"summary.md": text},
        {"pareto.png": lambda path, rows: draw(path, rows, front(rows))},
    )


def front(rows: Rows) -> list[Row]:
    """Return the runs that no other beats in one measure and equals in the other.

    The oracle is left out, as it knows the future. They are sorted by wasted energy, the least
    first; of runs equal in both the first is returned.
    """
    found: list[Row] = []
    compared = [row for row in rows if row["kind"] != ORACLE]
    for row in sorted(compared, key=lambda row: (WASTED.of(row), WAIT.of(row))):
        if not found or WAIT.of(row) < WAIT.of(found[-1]):
            found.append(row)
    return found


def summary(rows: Rows, left_out: Sequence[str]) -> str:
    """Return the tables, as Markdown."""
    peer = [
        [f"{point['timeout_s'] / 60:g} min", WASTED.spread([point]), WAIT.spread([point])]
        for point in PEER
    ]
    return document(
        ["# Waiting against wasted energy"],
        list(left_out),
        ["## Not dominated, the oracle aside"],
        run_table(front(rows), MEASURES),
        ["## The peer, planned, by its timeout"],
        table(["timeout", WASTED.named, WAIT.named], peer, RULE),
        ["## All"],
        run_table(rows, MEASURES),
    )
