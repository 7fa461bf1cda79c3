"""Wait and wasted energy of every manager and setting; not in the paper."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.statistics.pareto import front as undominated
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_papers.power.study.managers import ORACLE, RULE, run_table
from hpcosim_papers.power.study.paper import FILLING, MAX_WAIT, PEER, SHUTDOWNS, WAIT, WASTED

MEASURES = (WASTED, WAIT, MAX_WAIT, SHUTDOWNS, FILLING)


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
