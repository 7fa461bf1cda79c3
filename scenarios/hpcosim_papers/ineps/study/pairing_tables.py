"""Experiments 1 to 4 of the pairing agent: their trainings, and tables of their results.

The papers' settings are those of tables 4.5, 4.10, 4.13 and 4.17 of the thesis and of table 5 of
the paper. Their trajectories of 6 and of 18 jobs are whole workloads. Their other settings are the
defaults of `PairingTraining`. An agent's cells are statistics over training seeds: mean and
standard deviation of greedy runs; mean, standard deviation, minimum and maximum of sampled runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from msgspec.structs import replace as changed

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, where
from hpcosim_papers.ineps.agent.settings import Objective, Pairing
from hpcosim_papers.ineps.environments.pairing_task import default_reward
from hpcosim_papers.ineps.learners.settings import FORESEEING, PairingTraining, Windows
from hpcosim_papers.ineps.study.heuristics import (
    EDP,
    ENERGY,
    Index,
    best_of,
    contenders,
    is_random,
    with_others,
)

# Published results of the papers' agent.

Base = Literal[
    "best as run",
    "low-mem-ops-high-mem-bw",
    "none-none",
    "first-high-gflops",
    "first-high-cores",
    "first-high-mem-bw",
]


PAPERS, OURS, UNTRAINED = "papers", "foreseen", "untrained"

_PAPERS = Pairing(
    sees="papers", placements_per_event="one", wait=False, wait_s=1.0, most_wait_s=3600.0
)
_OURS = Pairing(sees="foreseen")

VARIANTS: Mapping[str, Pairing] = {
    PAPERS: _PAPERS,
    "papers, no energy features": changed(_PAPERS, sees="papers_no_energy"),
    "papers, wait": changed(_PAPERS, wait=True, most_wait_s=60.0),
    "papers, all": changed(_PAPERS, placements_per_event="all"),
    "papers, all, wait": changed(_PAPERS, placements_per_event="all", wait=True, most_wait_s=60.0),
    OURS: _OURS,
    "foreseen, no wait": changed(_OURS, wait=False),
    "foreseen, one, no wait": changed(_OURS, placements_per_event="one", wait=False),
}
"""Actions and observations of the agents: the papers' agent, our agent, and ablations of both."""


OBJECTIVES: tuple[Objective, ...] = ("energy", "edp")
SEEDS = (0, 1, 2, 3, 4)
FEWER = (0, 1, 2)
"""Seeds of ablations, and of agents that train for about ten minutes."""


class Published(NamedTuple):
    """Reductions relative to a heuristic over 100 runs.

    Attributes:
        base: the heuristic; `best as run`: the best of the 36 as the papers' program runs them.
            In Experiment 1 the thesis names another heuristic as the best.
        energy: maximum, mean and minimum reduction of energy, in %.
        edp: maximum, mean and minimum reduction of the energy-delay product, in %; None: not
            published.
    """

    experiment: str
    variant: str
    objective: Objective
    base: Base
    energy: tuple[float, float, float]
    edp: tuple[float, float, float] | None = None


_RUN: Base = "best as run"
_BW: Base = "low-mem-ops-high-mem-bw"
_NO_ENERGY = "papers, no energy features"
_GFLOPS: Base = "first-high-gflops"
_CORES: Base = "first-high-cores"
_MEM_BW: Base = "first-high-mem-bw"

PUBLISHED = (
    Published("exp1", "papers", "energy", _BW, (20.20, 11.84, 0.28), (35.04, 22.54, 5.26)),
    Published("exp1", "papers", "edp", _BW, (20.20, 11.84, 0.28), (35.04, 22.54, 5.26)),
    Published("exp1", "papers, wait", "energy", _BW, (20.58, 14.05, 0.03), (55.58, 29.13, 2.20)),
    Published("exp1", "papers, wait", "edp", _BW, (20.58, 8.80, -0.09), (55.58, 20.01, 1.77)),
    Published("exp2", "papers", "energy", _RUN, (26.02, 26.01, 26.00), (48.60, 48.59, 48.57)),
    Published("exp2", "papers", "edp", _RUN, (28.46, 28.25, 24.71), (55.62, 55.24, 49.22)),
    Published("exp2", _NO_ENERGY, "energy", _RUN, (28.45, 28.10, 23.22), (55.61, 54.96, 42.28)),
    Published("exp3", "papers", "energy", _RUN, (3.37, -19.52, -61.58), (3.21, -90.49, -286.22)),
    Published("exp3", "papers", "edp", _RUN, (3.46, -16.87, -59.99), (3.33, -79.63, -285.67)),
    Published(
        "exp3", "papers", "energy", "none-none", (40.18, 26.01, -0.03), (71.52, 43.96, -13.62)
    ),
    Published("exp3", "papers", "edp", "none-none", (40.23, 27.65, 0.96), (71.56, 47.16, -13.46)),
    Published("exp4_mem", "papers", "energy", _GFLOPS, (12.66, -1.31, -12.87)),
    Published("exp4_mem", "papers", "energy", _CORES, (15.32, 1.77, -9.43)),
    Published("exp4_mem", "papers", "energy", _MEM_BW, (21.98, 9.50, -0.83)),
    Published("exp4_comp", "papers", "energy", _GFLOPS, (23.36, 4.02, -0.35)),
    Published("exp4_comp", "papers", "energy", _CORES, (2.28, -22.37, -27.95)),
    Published("exp4_comp", "papers", "energy", _MEM_BW, (23.36, 4.02, -0.35)),
)


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


class Experiment(NamedTuple):
    """An experiment of the papers.

    Attributes:
        papers: training settings of the papers' agent.
        variants: keys of `VARIANTS` that are trained.
        papers_seeds: training seeds of the papers' agent.
    """

    trained_on: str
    tested_on: tuple[str, ...]
    papers: PairingTraining
    ours: PairingTraining
    variants: tuple[str, ...] = (PAPERS, OURS)
    papers_seeds: tuple[int, ...] = SEEDS

    def seeds(self, variant: str) -> tuple[int, ...]:
        """Return the training seeds of a variant."""
        return {OURS: SEEDS, PAPERS: self.papers_seeds}.get(variant, FEWER)


_SMALL = replace(FORESEEING, epochs=6, minibatch=256)
"""Settings of our agent for the small experiments, 1 and 2."""

_PAPERS_TRAINING = PairingTraining(validate_every=0)

EXPERIMENTS: Mapping[str, Experiment] = {
    "pairing-exp1": Experiment(
        "exp1",
        ("exp1",),
        replace(_PAPERS_TRAINING, episodes=3, minibatch=18, swa=False),
        replace(_SMALL, iterations=60, episodes=32, learning_rate=1e-3, entropy_coefficient=0.05),
        tuple(VARIANTS),
    ),
    "pairing-exp2": Experiment(
        "exp2",
        ("exp2",),
        replace(_PAPERS_TRAINING, episodes=5, minibatch=45, swa=False),
        replace(_SMALL, iterations=100, episodes=24, learning_rate=5e-4, entropy_coefficient=0.02),
        tuple(VARIANTS),
    ),
    "pairing-exp3": Experiment(
        "exp3",
        ("exp3",),
        replace(_PAPERS_TRAINING, episodes=5, minibatch=32, windows=Windows(jobs=90)),
        replace(FORESEEING, iterations=30, episodes=8, validate_every=2),
        papers_seeds=FEWER,
    ),
    "pairing-exp4": Experiment(
        "exp4_mixed",
        ("exp4_mem", "exp4_comp"),
        replace(_PAPERS_TRAINING, episodes=3, minibatch=25, windows=Windows(jobs=50)),
        replace(
            FORESEEING,
            windows=Windows(jobs=100, kinds=True),
            validate_every=5,
            validation_windows=12,
        ),
    ),
}
"""The experiments by the name of their study."""


class PairingRun(NamedTuple):
    """The training of one agent.

    Attributes:
        trained: False: an untrained baseline, which keeps its initial weights.
    """

    study: str
    variant: str
    objective: Objective
    seed: int
    trained: bool = True

    @property
    def label(self) -> str:
        """The label of the variant in tables."""
        return self.variant if self.trained else f"{UNTRAINED} {self.variant}"

    @property
    def name(self) -> str:
        """The name of the training's folder."""
        return "-".join([*self.label.replace(",", "").split(), self.objective, str(self.seed)])

    @property
    def training(self) -> PairingTraining:
        """The training settings."""
        experiment, form = EXPERIMENTS[self.study], VARIANTS[self.variant]
        training = replace(
            experiment.ours if form.sees == "foreseen" else experiment.papers,
            pairing=changed(form, objective=self.objective),
            seed=self.seed,
            reward=default_reward(form.sees),
        )
        if self.trained:
            return training
        return replace(training, iterations=0, cloning_epochs=0, validate_every=0)


def model_name(variant: str, objective: Objective) -> str:
    """Return the name of the file of the best agent of a variant."""
    return f"{objective}.safetensors" if variant == OURS else f"{variant}-{objective}.safetensors"


def trainings(study: str) -> list[PairingRun]:
    """Return all trainings of a study, ordered by seed.

    An untrained agent is independent of the objective; it is listed under energy.
    """
    experiment = EXPERIMENTS[study]
    found = []
    for seed in SEEDS:
        found += [
            PairingRun(study, variant, objective, seed)
            for objective in OBJECTIVES
            for variant in experiment.variants
            if seed in experiment.seeds(variant)
        ]
        found += [PairingRun(study, variant, "energy", seed, False) for variant in (PAPERS, OURS)]
    return found


def trainings_of(study: str, variant: str, objective: Objective) -> list[PairingRun]:
    """Return the trainings of a variant for an objective, one per seed."""
    return [
        one
        for one in trainings(study)
        if (one.variant, one.objective, one.trained) == (variant, objective, True)
    ]
