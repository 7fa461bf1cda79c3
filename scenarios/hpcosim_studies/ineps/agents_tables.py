"""The tables of trained agents: beside what needs no learning, the optimum, and what is published.

A cell of agents is of the training seeds: mean and standard deviation of what the best choices
come to; and of all runs with choices drawn, of all seeds: mean, deviation, least and most.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from hpcosim_client.agents.pairing.settings import Objective
from hpcosim_studies.ineps.heuristics import (
    EDP,
    ENERGY,
    Measure,
    Results,
    contenders,
    draws,
    head,
    line,
)
from hpcosim_studies.ineps.optima import CLASSES, Best
from hpcosim_studies.ineps.outcomes import Outcome, Spread
from hpcosim_studies.ineps.published import PUBLISHED, Published

MEASURES: dict[Objective, Measure] = {"energy": ENERGY, "edp": EDP}


class Agents:
    """What trained agents came to, by scenario, variant and objective."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        self.outcomes = outcomes

    def of(self, experiment: str, variant: str, objective: str) -> list[Outcome]:
        """Return those of all seeds."""
        return [
            one
            for one in self.outcomes
            if (one.experiment, one.variant, one.objective) == (experiment, variant, objective)
        ]

    def labels(self, experiment: str, objective: str) -> list[str]:
        """Return the variants tried on a scenario; the untrained ones, of any objective, first."""
        names = [one.variant for one in self.outcomes if one.experiment == experiment]
        return [
            name
            for name in sorted(dict.fromkeys(names), key=lambda name: "untrained" not in name)
            if self.of(experiment, name, objective) or "untrained" in name
        ]

    def shown(self, experiment: str, variant: str, objective: str) -> list[Outcome]:
        """Return those of all seeds; of untrained ones whatever objective they were to have."""
        return self.of(experiment, variant, "energy" if "untrained" in variant else objective)


def chosen(outcome: Outcome, objective: Objective) -> float:
    """Return what the best choices come to by an objective."""
    return outcome.energy_j if objective == "energy" else outcome.edp_js


def drawn(outcomes: Sequence[Outcome], objective: Objective) -> Spread:
    """Return the spread of all runs with drawn choices, of equally many runs of each seed."""
    spreads = [one.energy if objective == "energy" else one.edp for one in outcomes]
    mean = statistics.fmean(one.mean for one in spreads)
    square = statistics.fmean(one.deviation**2 + (one.mean - mean) ** 2 for one in spreads)
    return Spread(
        mean, square**0.5, min(one.least for one in spreads), max(one.most for one in spreads)
    )


def best_without(results: Results, experiment: str, objective: Objective) -> tuple[str, float]:
    """Return the best of all that does not learn and does not draw: name, and J or J s."""
    names = [name for group in contenders().values() for name in group if not draws(name)]
    name, value, _ = results.best(MEASURES[objective], experiment, list(dict.fromkeys(names)))
    return name, value


def summary(
    agents: Agents, results: Results, optima: Sequence[Best], experiments: Sequence[str]
) -> str:
    """Return all tables of a study, as Markdown."""
    parts: list[str] = []
    for experiment in experiments:
        for objective in MEASURES:
            parts += _comparison(agents, results, optima, experiment, objective)
        parts += _published(agents, results, experiment)
    return "\n".join(parts)


def _comparison(
    agents: Agents,
    results: Results,
    optima: Sequence[Best],
    experiment: str,
    objective: Objective,
) -> Iterator[str]:
    """Yield what everybody comes to by the objective."""
    measure = MEASURES[objective]
    best_name, best = best_without(results, experiment, objective)
    yield f"### {experiment}, {measure.title}, {measure.unit}\n"
    yield from head(
        "scheduler",
        "best choices",
        "deviation over seeds",
        f"of {best_name}, %",
        "drawn: mean",
        "deviation",
        "least",
        "most",
        "training, s",
    )

    def row(name: str, value: float, *rest: str) -> str:
        share = f"{100 * value / best:.2f}"
        cells = (*rest, *[""] * 6)[:6]
        return line(name, measure.text(value), cells[0], share, *cells[1:])

    for optimum in optima:
        if (optimum.experiment, optimum.objective) == (experiment, objective):
            yield row(f"optimum: {CLASSES[optimum.placements]}", optimum.value)
    for title, names in contenders().items():
        name, value, others = results.best(measure, experiment, names)
        yield row(f"{title}: {name}" + (f" (+ {others})" if others else ""), value)
    for label in agents.labels(experiment, objective):
        found = agents.shown(experiment, label, objective)
        values = [chosen(one, objective) for one in found]
        deviation = measure.text(statistics.stdev(values)) if len(values) > 1 else ""
        training = statistics.fmean(one.training_s for one in found)
        runs = map(measure.text, drawn(found, objective))
        name = f"{label} ({len(found)} {'seed' if len(found) == 1 else 'seeds'})"
        yield row(name, statistics.fmean(values), deviation, *runs, f"{training:.0f}")
    yield ""


def _published(agents: Agents, results: Results, experiment: str) -> Iterator[str]:
    """Yield the papers' reductions beside ours."""
    rows = [row for row in PUBLISHED if row.experiment == experiment]
    rows = [row for row in rows if agents.of(experiment, row.variant, row.objective)]
    if not rows:
        return
    yield f"### {experiment}: below a heuristic, %; greatest, mean, least of the runs drawn\n"
    yield from head(
        "agent",
        "below",
        "energy: published",
        "energy: here",
        "EDP: published",
        "EDP: here",
    )
    for row in rows:
        found = agents.of(experiment, row.variant, row.objective)
        yield line(
            f"{row.variant}, for {MEASURES[row.objective].title}",
            row.base,
            _three(row.energy),
            _three(_reductions(found, results, row, "energy")),
            _three(row.edp) if row.edp else "",
            _three(_reductions(found, results, row, "edp")),
        )
    yield ""


def _reductions(
    found: Sequence[Outcome], results: Results, row: Published, objective: Objective
) -> tuple[float, float, float]:
    base = _base(results, row, MEASURES[objective])
    runs = drawn(found, objective)
    greatest, mean, least = (100 * (1 - v / base) for v in (runs.least, runs.mean, runs.most))
    return greatest, mean, least


def _base(results: Results, row: Published, measure: Measure) -> float:
    names = contenders()["best as run"] if row.base == "best as run" else [row.base]
    return results.best(measure, row.experiment, names)[1]


def _three(values: tuple[float, float, float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)
