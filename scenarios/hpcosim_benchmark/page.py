"""The page of leaderboards, in Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from hpcosim_benchmark.leaderboard import Ranked, columns_of
from hpcosim_benchmark.suite import Suite
from hpcosim_experiments.report.markdown import document, escape, table
from hpcosim_experiments.statistics.bootstrap import Estimate

Boards = Mapping[str, tuple[Suite, Sequence[Ranked]]]
"""A suite and its rows, by its name."""

ABOUT = (
    "Each row is a submission whose journals were replayed; all figures are means over the "
    "instances, computed from the replays. Less is better. A difference is that of the ratios to "
    "the bound, paired by instance, with its 95 % bootstrap interval; below 0 is better than the "
    "reference. What a scheduler knows, and the time of a decision, are as the submission states "
    "them. The reference of the benchmark defines the columns."
)
"""What a reader must know of the tables."""

NAMES: Mapping[str, str] = {
    "mean_bounded_slowdown": "slowdown",
    "mean_wait_s": "mean wait, s",
    "p95_wait_s": "95 % wait, s",
    "max_wait_s": "longest wait, s",
    "utilization": "utilization",
    "makespan_s": "makespan, s",
    "wasted_energy_kwh": "wasted, kWh",
    "node_shutdowns": "shutdowns",
    "energy_j": "energy, J",
    "edp_js": "EDP, J s",
    "mean_normalised_edp": "normalised EDP, W",
    "mean_response_s": "mean response, s",
}
"""Titles of columns, by metric; others have the name of the metric."""


def markdown(boards: Boards) -> str:
    """Return the leaderboards of several suites in Markdown."""
    parts: list[Sequence[str]] = [["# Leaderboard"], [ABOUT]]
    for suite, rows in boards.values():
        head, lines = cells(suite, rows)
        rule = ["---"] * 4 + ["---:"] * (len(head) - 4)
        parts += [
            [f"## {suite.file.name}"],
            [sentence(suite)],
            table(head, ([escape(cell) for cell in line] for line in lines), rule),
        ]
    return document(*parts)


def page(boards: Boards) -> str:
    """Return the leaderboards of several suites as one HTML file."""
    parts = []
    for suite, rows in boards.values():
        head, lines = cells(suite, rows)
        body = "".join(_row("td", line) for line in lines)
        parts.append(
            f"<h2>{html.escape(suite.file.name)}</h2>\n<p>{html.escape(sentence(suite))}</p>\n"
            f"<table>\n{_row('th', head)}{body}</table>\n"
        )
    style = "body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left}"
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>hpcosim benchmark"
        f"</title><style>{style}</style></head>\n<body><h1>Leaderboard</h1>\n"
        f"<p>{ABOUT}</p>\n{''.join(parts)}"
        "</body></html>\n"
    )


def sentence(suite: Suite) -> str:
    """Return what a suite measures, its score and its reference."""
    file = suite.file
    return (
        f"{file.title} {len(file.instances)} instances; score: {score_text(suite)}; bound: "
        f"{file.bound}; reference: {reference_name(suite)}."
    )


def score_text(suite: Suite) -> str:
    """Return the score of a suite as a sum of metrics."""
    return " + ".join(
        name if factor == 1 else f"{factor:g} x {name}" for name, factor in suite.file.score.items()
    )


def reference_name(suite: Suite) -> str:
    """Return the name of the reference policy of a suite."""
    reference = suite.file.reference
    settings = {key: value for key, value in reference.power.items() if key != "name"}
    power = str(reference.power["name"])
    if power == "always-on":
        return reference.scheduler
    detail = ", ".join(f"{key}={value:g}" for key, value in settings.items())
    return f"{reference.scheduler} + {power}{detail and f' ({detail})'}"


def cells(suite: Suite, rows: Sequence[Ranked]) -> tuple[list[str], list[list[str]]]:
    """Return the titles and the cells of the table of a suite."""
    metrics = columns_of(suite)
    head = [
        *("scheduler", "source", "knows", "decision"),
        *("ratio to the bound", "difference to the reference, 95 %", "wins"),
        *(NAMES.get(name, name) for name in metrics),
    ]
    lines = [
        [
            row.verified.about.name,
            row.verified.about.source,
            row.verified.about.information,
            row.decision,
            f"{row.ratio:.3f}",
            _interval(row.difference),
            f"{row.wins} of {len(suite.seals)}",
            *(_number(row.mean_of(name)) for name in metrics),
        ]
        for row in rows
    ]
    return head, lines


def _interval(value: Estimate) -> str:
    if not value.has_interval:
        return f"{value.value:+.3f}"
    return f"{value.value:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _row(kind: str, line: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in line)}</tr>\n"
