"""The tables of all weeks, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpcosim_studies import measures
from hpcosim_studies.measures import table
from hpcosim_studies.node_centric.comparison import by_scheduler, wins
from hpcosim_studies.node_centric.paper import (
    BATCH,
    BUSY,
    CAPS,
    CHAINED,
    DRAWN,
    FAMILIES,
    NOTEWORTHY,
    OURS,
    READINGS,
    SCHEDULERS,
    TIE,
    Reading,
)
from hpcosim_studies.rows import Rows

RULE = " --- "
"""Of the second lines of tables."""


def summary(rows: Rows, known: Sequence[str]) -> str:
    """Return the paper's percentages beside ours, the medians behind them, and the wins.

    Args:
        rows: of all weeks.
        known: sentences about the workload.
    """
    lines = ["# The node-centric study", "", *(f"- {fact}" for fact in known), ""]
    lines += [
        "Changes are those of a scheduler's median over weeks against the mean of the medians of "
        "MinMin, MaxMin and Duplex; the best batch one is that of them with the lowest median.",
        "Chained are these as the paper's program runs them, immediate without its slips; in batch "
        "mode they map the whole queue anew at every event.",
        "",
    ]
    for cap, says in CAPS.items():
        lines += [f"## `{cap}`: {says}", "", *changetable(rows, cap), "", *verdict(rows, cap), ""]
        busy = [row for row in rows if row["jobs"] >= BUSY]
        if busy:
            full = {row["week"]: row["jobs"] for row in busy}
            mean = sum(full.values()) / len(full)
            lines += [
                f"The same over the {len(full)} weeks of at least {BUSY} jobs ({mean:.0f} on "
                "average):",
                "",
            ]
            lines += [*changetable(busy, cap), ""]
        lines += ["Medians over weeks:", "", *mediantable(rows, cap), ""]
        lines += [
            f"Weeks in which each is the best, ties counted (to {TIE:g} of the best), of the "
            f"paper's five / of all {len(SCHEDULERS)}:",
            "",
            *wintable(rows, cap),
            "",
        ]
    return "\n".join(lines)


def verdict(rows: Rows, cap: str) -> list[str]:
    """Return which leads over the paper's baselines remain over the batch ones, and which not."""
    lines = []
    for scheduler, label in OURS.items():
        kept: list[str] = []
        lost: list[str] = []
        for reading in DRAWN:
            of = medians(rows, cap, reading.column)
            if change(of, scheduler, list(CHAINED)) < -NOTEWORTHY:
                now = change(of, scheduler, list(BATCH))
                name = f"{reading.named} ({now:+.1f} %)"
                (kept if now < -NOTEWORTHY else lost).append(name)
        lines.append(
            f"- {label}: of its leads over the paper's baselines it keeps against the batch "
            f"ones {'; '.join(kept) or 'none'}. It loses {'; '.join(lost) or 'none'}."
        )
    return lines


def medians(rows: Rows, cap: str, column: str) -> dict[str, float]:
    """Return each scheduler's median over weeks."""
    values = by_scheduler(rows, cap, column)
    return {scheduler: float(np.median(each)) for scheduler, each in values.items()}


def change(of: Mapping[str, float], scheduler: str, baseline: Sequence[str]) -> float:
    """Return by how many percent a median lies above a baseline: the mean of their medians."""
    return measures.change(of[scheduler], float(np.mean([of[name] for name in baseline])))


def changetable(rows: Rows, cap: str) -> list[str]:
    """Return the paper's percentages beside ours, a line for each measure and reading."""
    groups = ("paper", "against chained", "against immediate", "against batch", "best batch")
    head = ["measure", "reading"]
    head += [f"{label}, {group}" for label in OURS.values() for group in groups]
    lines = []
    for reading in READINGS:
        of, cells = medians(rows, cap, reading.column), [reading.measure.title, reading.reading]
        for scheduler, paper in zip(OURS, reading.paper, strict=True):
            ours = [change(of, scheduler, list(names)) for names in FAMILIES]
            ours.append(max(change(of, scheduler, [name]) for name in BATCH))
            cells += [f"{value:+.1f} %" for value in (paper, *ours)]
        lines.append(cells)
    return table(head, lines, RULE)


def mediantable(rows: Rows, cap: str) -> list[str]:
    """Return the medians over weeks, a line for each measure and reading."""
    lines = []
    for reading in READINGS:
        of, measure = medians(rows, cap, reading.column), reading.measure
        values = [f"{of[scheduler] / measure.scale:.4g}" for scheduler in SCHEDULERS]
        lines.append([measure.named, reading.reading, *values])
    return table(["measure", "reading", *SCHEDULERS.values()], lines, RULE)


def wintable(rows: Rows, cap: str) -> list[str]:
    """Return the wins, a line for each measure and reading."""
    lines = []
    for reading in READINGS:
        five, every = both_wins(rows, cap, reading)
        values = [f"{five.get(name, '-')} / {every[name]}" for name in SCHEDULERS]
        lines.append([reading.measure.title, reading.reading, *values])
    return table(["measure", "reading", *SCHEDULERS.values()], lines, RULE)


def both_wins(rows: Rows, cap: str, reading: Reading) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wins among the paper's five schedulers, and among all."""
    values = by_scheduler(rows, cap, reading.column)
    return wins(values, [*OURS, *CHAINED]), wins(values, list(SCHEDULERS))
