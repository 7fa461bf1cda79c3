"""Tables that compare the pairing agent with heuristics, optima and the published results.

An agent's cells are statistics over training seeds: mean and standard deviation of greedy runs, and
mean, standard deviation, minimum and maximum of sampled runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, where
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.study.experiments import OBJECTIVES, UNTRAINED
from hpcosim_papers.ineps.study.heuristics import (
    EDP,
    ENERGY,
    Index,
    best_of,
    contenders,
    is_random,
    with_others,
)
from hpcosim_papers.ineps.study.published import PUBLISHED, Published

MEASURES: Mapping[Objective, Measure] = {"energy": ENERGY, "edp": EDP}
CLASSES = {
    "one": "one job an event, never waits",
    "all": "all that fit, never waits",
    "any": "may wait for the next event",
}
"""Classes of schedules with a known optimum, see `planning.optimum`."""


class Results(NamedTuple):
    """The results that tables and figures show.

    Attributes:
        agents: the rows of `agents.csv`.
        runs: the runs of heuristics.
        optima: the rows of `optimum.csv`.
    """

    agents: Rows
    runs: Index
    optima: Rows

    def labels(self, experiment: str, objective: Objective) -> list[str]:
        """Return the variants with results in an experiment, untrained ones first."""
        names = dict.fromkeys(row["variant"] for row in where(self.agents, experiment=experiment))
        ordered = sorted(names, key=lambda name: UNTRAINED not in name)
        return [name for name in ordered if self.shown(experiment, name, objective)]

    def shown(self, experiment: str, variant: str, objective: Objective) -> list[Row]:
        """Return the agents of a variant, one per seed. Untrained agents have no objective."""
        objective = "energy" if UNTRAINED in variant else objective
        return where(self.agents, experiment=experiment, variant=variant, objective=objective)

    def optima_of(self, experiment: str, objective: Objective) -> Iterator[tuple[str, float]]:
        """Yield each class of schedules with its optimum, in the unit of the measure."""
        for row in where(self.optima, experiment=experiment, objective=objective):
            yield CLASSES[row["placements"]], row["value"] / MEASURES[objective].scale

    def best_heuristic(self, experiment: str, objective: Objective) -> tuple[str, float]:
        """Return the best deterministic heuristic and its value."""
        names = [name for group in contenders().values() for name in group if not is_random(name)]
        unique = list(dict.fromkeys(names))
        return best_of(self.runs, MEASURES[objective], experiment, unique)[:2]


class Spread(NamedTuple):
    """Statistics of many runs, in the unit of a measure."""

    mean: float
    deviation: float
    least: float
    most: float


def sampled_spread(agents: Rows, measure: Measure) -> Spread:
    """Return the spread of all sampled runs of agents; each agent has the same number of runs."""
    column = f"drawn_{measure.column}_"
    means, deviations, least, most = (
        [row[column + of] / measure.scale for row in agents] for of in Spread._fields
    )
    mean = statistics.fmean(means)
    square = statistics.fmean(
        deviation**2 + (each - mean) ** 2 for each, deviation in zip(means, deviations, strict=True)
    )
    return Spread(mean, square**0.5, min(least), max(most))


def summary(results: Results, experiments: Sequence[str]) -> str:
    """Return all tables of a study, as Markdown."""
    parts: list[list[str]] = []
    for experiment in experiments:
        for objective in OBJECTIVES:
            parts += _comparison(results, experiment, objective)
        parts += _published(results, experiment)
    return document(*parts)


def _comparison(
    results: Results, experiment: str, objective: Objective
) -> tuple[list[str], list[str]]:
    """Return the table of optima, heuristics and agents for an objective."""
    measure = MEASURES[objective]
    best_name, best = results.best_heuristic(experiment, objective)

    def line(name: str, value: float, *rest: str) -> list[str]:
        deviation, *drawn_cells = (*rest, *[""] * 6)[:6]
        return [name, measure.text(value), deviation, f"{100 * value / best:.2f}", *drawn_cells]

    lines = [
        line(f"optimum: {of}", least) for of, least in results.optima_of(experiment, objective)
    ]
    for title, names in contenders().items():
        name, value, others = best_of(results.runs, measure, experiment, names)
        lines.append(line(f"{title}: {with_others(name, others)}", value))
    for title in ("rule", "search"):
        name = f"pairing-{title}-{objective}"
        lines.append(line(f"{title}: {name}", measure.mean(results.runs[experiment, name])))
    for label in results.labels(experiment, objective):
        found = results.shown(experiment, label, objective)
        values = measure.values(found)
        deviation = measure.text(statistics.stdev(values)) if len(values) > 1 else ""
        training_s = statistics.fmean(row["training_s"] for row in found)
        spread = map(measure.text, sampled_spread(found, measure))
        name = f"{label} ({len(found)} {'seed' if len(found) == 1 else 'seeds'})"
        lines.append(line(name, statistics.fmean(values), deviation, *spread, f"{training_s:.0f}"))
    head = ["scheduler", "best choices", "deviation over seeds", f"of {best_name}, %"]
    head += ["drawn: mean", "deviation", "least", "most", "training, s"]
    return [f"### {experiment}, {measure.title}, {measure.unit}"], table(head, lines)


def _published(results: Results, experiment: str) -> list[list[str]]:
    """Return the table of published and reproduced reductions."""
    lines = []
    for row in PUBLISHED:
        found = results.shown(experiment, row.variant, row.objective)
        if row.experiment != experiment or not found:
            continue
        energy, edp = (_reductions(found, results, row, measure) for measure in (ENERGY, EDP))
        agent = f"{row.variant}, for {MEASURES[row.objective].title}"
        published_edp = _three(row.edp) if row.edp else ""
        lines.append([agent, row.base, _three(row.energy), energy, published_edp, edp])
    if not lines:
        return []
    title = f"### {experiment}: below a heuristic, %; greatest, mean, least of the runs drawn"
    head = ["agent", "below", "energy: published", "energy: here", "EDP: published", "EDP: here"]
    return [[title], table(head, lines)]


def _reductions(agents: Rows, results: Results, row: Published, measure: Measure) -> str:
    """Return the reductions of agents' sampled runs relative to a heuristic, in %."""
    names = contenders()["best as run"] if row.base == "best as run" else [row.base]
    base = best_of(results.runs, measure, row.experiment, names)[1]
    runs = sampled_spread(agents, measure)
    return _three([100 * (1 - value / base) for value in (runs.least, runs.mean, runs.most)])


def _three(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
