"""The leaderboard of a suite: a row for each verified submission. A pure function of them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_experiments.benchmark.submission import Verified, Verifier, read_submission
from hpcosim_experiments.benchmark.suite import BenchmarkError, Suite, find_suite
from hpcosim_experiments.report.markup import document, escape, table
from hpcosim_experiments.report.units import measure_of, with_digits
from hpcosim_experiments.statistics.bootstrap import (
    Bootstrap,
    Estimate,
    estimate,
    paired_difference,
)

CLASSES_S = ((0.001, "< 1 ms"), (0.01, "< 10 ms"), (0.1, "< 100 ms"), (math.inf, "100 ms or more"))
"""Upper limits of the classes of decision times, s, and their names."""


Boards = Mapping[str, tuple[Suite, Sequence["Ranked"]]]
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


SUFFIX = ".zip"


class Ranked(NamedTuple):
    """A row of a leaderboard.

    Attributes:
        verified: the submission.
        ratio: mean over the instances of score / bound.
        difference: mean over the instances of (score - score of the reference) / bound, with its
            confidence interval: a paired difference of ratios.
        wins: number of instances with a smaller score than the reference.
        decision: class of the mean decision time; not verified.
    """

    verified: Verified
    ratio: float
    difference: Estimate
    wins: int
    decision: str

    def mean_of(self, metric: str) -> float:
        """Return the mean of a metric over the instances."""
        values = [float(each[metric]) for each in self.verified.metrics.values()]
        return sum(values) / len(values)


def ranked(suite: Suite, submissions: Iterable[Verified]) -> list[Ranked]:
    """Return the rows of the leaderboard of a suite, the best first."""
    rows = [_row(suite, each) for each in submissions]
    return sorted(rows, key=lambda row: (row.ratio, row.verified.about.name))


def decision_class(verified: Verified) -> str:
    """Return the class of the mean decision time that a submission states."""
    if verified.about.transport == "schedule":
        return "unknown"
    entries = verified.about.instances.values()
    mean_s = sum(each.decision_s for each in entries) / sum(each.requests for each in entries)
    return next(name for limit_s, name in CLASSES_S if mean_s < limit_s)


def _row(suite: Suite, verified: Verified) -> Ranked:
    seals = suite.seals.values()
    own = verified.scores
    scores = np.array([own[seal.instance] for seal in seals])
    references = np.array([seal.reference for seal in seals])
    bounds = np.array([seal.bound for seal in seals])
    pairs = np.stack([scores, references], axis=-1) / bounds[:, None]
    return Ranked(
        verified,
        float(pairs[:, 0].mean()),
        estimate([pairs], paired_difference, Bootstrap()),
        int((scores < references).sum()),
        decision_class(verified),
    )


def columns_of(suite: Suite) -> Sequence[str]:
    """Return the metrics of the leaderboard: those of the score, and the further ones."""
    return list(dict.fromkeys((*suite.file.score, *suite.file.shown)))


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
        body = "".join(_html_row("td", line) for line in lines)
        parts.append(
            f"<h2>{html.escape(suite.file.name)}</h2>\n<p>{html.escape(sentence(suite))}</p>\n"
            f"<table>\n{_html_row('th', head)}{body}</table>\n"
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


def _html_row(kind: str, line: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in line)}</tr>\n"


def submissions_in(paths: Sequence[Path]) -> list[Path]:
    """Return the submissions that are named, and those in named folders and below.

    Raises:
        BenchmarkError: there are none.
    """
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
    if not found:
        raise BenchmarkError(f"{paths[0]}: expected submissions ({SUFFIX}), got none")
    return found


def verified_in(paths: Iterable[Path], suite: str = "") -> Iterator[Verified]:
    """Verify submissions.

    Args:
        suite: the suite that they must be of; empty: the shipped one that each names.

    Raises:
        BenchmarkError: as `Verifier`.
    """
    verifiers: dict[str, Verifier] = {}
    for path in paths:
        submission = read_submission(path)
        name = suite or submission.about.suite
        if name not in verifiers:
            verifiers[name] = Verifier(find_suite(name))
        yield verifiers[name](submission)


def boards_of(submissions: Iterable[Verified]) -> Boards:
    """Return the leaderboard of each suite that has submissions, by the suites' names."""
    by_suite: dict[str, list[Verified]] = {}
    for each in submissions:
        by_suite.setdefault(each.suite.file.name, []).append(each)
    return {
        name: (of_suite[0].suite, ranked(of_suite[0].suite, of_suite))
        for name, of_suite in sorted(by_suite.items())
    }
