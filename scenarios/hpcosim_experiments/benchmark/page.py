"""The page of leaderboards, in Markdown and as HTML."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from hpcosim_experiments.benchmark.leaderboard import Ranked, columns_of
from hpcosim_experiments.benchmark.suite import Suite
from hpcosim_experiments.report.markdown import document, escape, table
from hpcosim_experiments.report.units import measure_of, with_digits
from hpcosim_experiments.statistics.bootstrap import Estimate

Boards = Mapping[str, tuple[Suite, Sequence[Ranked]]]
"""A suite and its rows, by its name."""

ABOUT = (
    "Schedulers on the same fixed workloads, the best first. The score of each is divided by a "
    "lower bound that no scheduler can beat: 1.0 would be optimal, 2.0 is twice as bad. Less is "
    "better in all columns but the wins, the number of instances on which a scheduler beats the "
    "reference scheduler. A difference is that of the ratios, paired by instance, with its 95 % "
    "bootstrap interval; below 0 is better than the reference. All figures are means over the "
    "instances and come from replays of the submitted journals; what a scheduler knows of run "
    "times, and its time for a decision, are as the submission states them. The reference of the "
    "benchmark defines the columns."
)
"""What a reader must know of the tables."""


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
    style = (
        "body{font-family:sans-serif;max-width:90em;margin:2em auto;padding:0 1em;line-height:1.4}"
        "table{border-collapse:collapse}td,th{padding:.2em .6em;text-align:left;vertical-align:top}"
        "th{border-bottom:2px solid}tr:nth-child(even){background:#8881}"
        "td:nth-child(n+5){text-align:right;white-space:nowrap}"
    )
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
    means = {name: [row.mean_of(name) for row in rows] for name in columns_of(suite)}
    measures = {
        name: with_digits(measure_of(name, values), values) for name, values in means.items()
    }
    head = [
        *("scheduler", "source", "knows of run times", "time for a decision"),
        *("score / bound", "difference to the reference, 95 %", "wins"),
        *(measure.named for measure in measures.values()),
    ]
    lines = [
        [
            row.verified.about.name,
            row.verified.about.source or row.verified.about.author,
            row.verified.about.information,
            row.decision,
            f"{row.ratio:.3f}",
            _interval(row.difference),
            f"{row.wins} of {len(suite.seals)}",
            *(
                measure.text(row.mean_of(name) / measure.scale)
                for name, measure in measures.items()
            ),
        ]
        for row in rows
    ]
    return head, lines


def _interval(value: Estimate) -> str:
    if not value.has_interval:
        return f"{value.value:+.3f}"
    return f"{value.value:+.3f} [{value.low:+.3f}, {value.high:+.3f}]"


def _row(kind: str, line: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in line)}</tr>\n"
