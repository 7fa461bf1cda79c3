"""The table of all weeks, and what it says, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from hpcosim_studies.node_centric.comparison import by_scheduler, wins
from hpcosim_studies.node_centric.readings import (
    BATCH,
    BUSY,
    CAPS,
    CHAINED,
    DRAWN,
    FAMILIES,
    MEASURES,
    NOTEWORTHY,
    OURS,
    SCHEDULERS,
    TIE,
    Measure,
    Row,
)


def write_summary(path: Path, rows: Sequence[Row], known: Sequence[str]) -> None:
    """Write `summary.md`: the paper's percentages beside ours, what they come from, the wins."""
    lines = ["# The node-centric study", "", *(f"- {fact}" for fact in known), ""]
    lines += [
        "Changes are those of a scheduler's median over weeks against the mean of the medians of "
        "MinMin, MaxMin and Duplex; the best batch one is that of them with the lowest median.",
        "Chained are these as the paper's program runs them, immediate without its slips; in batch "
        "mode they map the whole queue anew at every event.",
        "",
    ]
    for cap, says in CAPS.items():
        lines += [f"## `{cap}`: {says}", "", *change_table(rows, cap), "", *verdict(rows, cap), ""]
        busy = [row for row in rows if row.jobs >= BUSY]
        if busy:
            full = {row.week: row.jobs for row in busy}
            mean = sum(full.values()) / len(full)
            lines += [
                f"The same over the {len(full)} weeks of at least {BUSY} jobs ({mean:.0f} on "
                "average):",
                "",
            ]
            lines += [*change_table(busy, cap), ""]
        lines += ["Medians over weeks:", "", *median_table(rows, cap), ""]
        lines += [
            f"Weeks in which each is the best, ties counted (to {TIE:g} of the best), of the "
            f"paper's five / of all {len(SCHEDULERS)}:",
            "",
            *win_table(rows, cap),
            "",
        ]
    path.write_text("\n".join(lines), encoding="utf-8")


def verdict(rows: Sequence[Row], cap: str) -> list[str]:
    """Return what is left of each lead over the baselines when these are the batch ones."""
    lines = []
    for scheduler, label in OURS.items():
        kept: list[str] = []
        lost: list[str] = []
        for measure in DRAWN:
            of = medians(rows, cap, measure.column)
            if change(of, scheduler, list(CHAINED)) < -NOTEWORTHY:
                now = change(of, scheduler, list(BATCH))
                name = f"{named(measure)} ({now:+.1f} %)"
                (kept if now < -NOTEWORTHY else lost).append(name)
        lines.append(
            f"- {label}: of its leads over the paper's baselines it keeps against the batch "
            f"ones {'; '.join(kept) or 'none'}. It loses {'; '.join(lost) or 'none'}."
        )
    return lines


def named(measure: Measure) -> str:
    """Return a measure with its reading."""
    return ", ".join(filter(None, (measure.title, measure.reading)))


def medians(rows: Sequence[Row], cap: str, column: str) -> dict[str, float]:
    """Return each scheduler's median over weeks."""
    values = by_scheduler(rows, cap, column)
    return {scheduler: float(np.median(each)) for scheduler, each in values.items()}


def change(of: Mapping[str, float], scheduler: str, baseline: Sequence[str]) -> float:
    """Return by how many percent a median lies above a baseline: the mean of their medians."""
    pooled = np.mean([of[name] for name in baseline])
    return float(100 * (of[scheduler] / pooled - 1)) if pooled else float("nan")


def change_table(rows: Sequence[Row], cap: str) -> list[str]:
    """Return the paper's percentages beside ours, a line for each measure and reading."""
    groups = ("paper", "against chained", "against immediate", "against batch", "best batch")
    head = ["measure", "reading"]
    head += [f"{label}, {group}" for label in OURS.values() for group in groups]
    lines = []
    for measure in MEASURES:
        of, cells = medians(rows, cap, measure.column), [measure.title, measure.reading]
        for scheduler, paper in zip(OURS, measure.paper, strict=True):
            ours = [change(of, scheduler, list(names)) for names in FAMILIES]
            ours.append(max(change(of, scheduler, [name]) for name in BATCH))
            cells += [f"{value:+.1f} %" for value in (paper, *ours)]
        lines.append(cells)
    return _table(head, lines)


def median_table(rows: Sequence[Row], cap: str) -> list[str]:
    """Return the medians over weeks, a line for each measure and reading."""
    lines = []
    for measure in MEASURES:
        of = medians(rows, cap, measure.column)
        name = f"{measure.title} ({measure.unit})" if measure.unit else measure.title
        values = [f"{of[scheduler] / measure.scale:.4g}" for scheduler in SCHEDULERS]
        lines.append([name, measure.reading, *values])
    return _table(["measure", "reading", *SCHEDULERS.values()], lines)


def win_table(rows: Sequence[Row], cap: str) -> list[str]:
    """Return the wins, a line for each measure and reading."""
    lines = []
    for measure in MEASURES:
        five, every = both_wins(rows, cap, measure)
        values = [f"{five.get(name, '-')} / {every[name]}" for name in SCHEDULERS]
        lines.append([measure.title, measure.reading, *values])
    return _table(["measure", "reading", *SCHEDULERS.values()], lines)


def both_wins(
    rows: Sequence[Row], cap: str, measure: Measure
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wins among the paper's five schedulers, and among all."""
    values = by_scheduler(rows, cap, measure.column)
    return wins(values, [*OURS, *CHAINED]), wins(values, list(SCHEDULERS))


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(head)
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *lines)]
