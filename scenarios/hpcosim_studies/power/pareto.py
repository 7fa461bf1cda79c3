"""Waiting against wasted energy, for every manager and setting: what the paper does not draw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_studies.power.agents import Agent
from hpcosim_studies.power.batch import Row, Spec, run_all, write_rows
from hpcosim_studies.power.managers import (
    ORACLE,
    PRICES_W,
    WARM,
    always_on,
    keep_idle,
    of_agents,
    oracle,
    priced,
    slurm,
    timeouts,
)
from hpcosim_studies.power.pareto_figure import draw_pareto
from hpcosim_studies.power.readings import (
    AWARENESSES,
    PEER,
    TEST,
    TIMEOUTS_MIN,
    WORKERS,
)
from hpcosim_studies.power.tables import (
    FILLING,
    MAX_WAIT,
    SHUTDOWNS,
    WAIT,
    WASTED,
    run_table,
    table,
    text_of,
)

COLUMNS = (WASTED, WAIT, MAX_WAIT, SHUTDOWNS, FILLING)
MINUTES = (0, *TIMEOUTS_MIN, 90, 120, 240)
"""The paper's timeouts, and what lies below and beyond them."""

WITH_WARM: tuple[Awareness, ...] = ("aware", "planned")
"""Beside an unaware scheduler nodes kept on are not those that jobs are given."""


def compare_all(
    out: Path,
    agents: Sequence[Agent],
    left_out: Sequence[str] = (),
    *,
    path: Path = TEST,
    minutes: Sequence[float] = MINUTES,
    warm: Sequence[int] = WARM,
    prices_w: Sequence[float] = PRICES_W,
    workers: int = WORKERS,
) -> None:
    """Run all, and write `results.csv`, `summary.md` and `pareto.png`.

    Args:
        out: the folder, which exists.
        agents: trained networks to compare.
        left_out: what is not compared, and why; for the summary.
        path: the scenario.
        minutes: the timeouts.
        warm: the numbers of idle nodes to be kept on.
        prices_w: of waiting, J/s.
        workers: processes.

    Raises:
        As `run_all`, and `draw_pareto`; OSError: the folder can't be written to.
    """
    clairvoyant, without = oracle(path)
    specs = [*specs_of(path, minutes, warm), *priced(prices_w, path), *clairvoyant]
    specs += of_agents(agents, path=path)
    rows = run_all(specs, workers, "power-pareto")
    write_rows(out / "results.csv", rows)
    best = front([row for row in rows if row.spec.kind != ORACLE])
    draw_pareto(out / "pareto.png", rows, best)
    told = summary(rows, best, [*left_out, *without])
    (out / "summary.md").write_text(told, encoding="utf-8")


def specs_of(path: Path, minutes: Sequence[float], warm: Sequence[int]) -> list[Spec]:
    """Return the runs of managers that neither learn, nor know prices, nor the future."""
    specs = [always_on(path)]
    for awareness in AWARENESSES:
        specs += timeouts(minutes, awareness, path=path)
        specs += slurm(awareness, path)
    for awareness in WITH_WARM:
        specs += keep_idle(warm, awareness, path)
    return specs


def front(rows: Sequence[Row]) -> list[Row]:
    """Return the runs that no other beats in one measure and equals in the other.

    By wasted energy, the least first; of equals in both the first.
    """
    found: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.wasted_gj, row.wait_s)):
        if not found or row.wait_s < found[-1].wait_s:
            found.append(row)
    return found


def summary(rows: Sequence[Row], best: Sequence[Row], left_out: Sequence[str]) -> str:
    """Return the tables, as Markdown."""
    peer = [
        [f"{timeout_s / 60:g} min", f"{wasted_j / 1e9:.2f}", f"{wait_s:,.0f}"]
        for timeout_s, wait_s, wasted_j in PEER
    ]
    return text_of(
        ["# Waiting against wasted energy"],
        list(left_out),
        ["## Not dominated, the oracle aside"],
        run_table(best, COLUMNS),
        ["## The peer, planned, by its timeout"],
        table(["timeout", WASTED.named, WAIT.named], peer),
        ["## All"],
        run_table(rows, COLUMNS),
    )
