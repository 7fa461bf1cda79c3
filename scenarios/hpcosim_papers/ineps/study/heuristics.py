"""Experiments 1 to 4 under every heuristic that the pairing agent is compared with.

The experiments are those of Lopez, Stafford, Bosque 2025 (Intelligent energy pairing scheduler) and
Lopez Rauhut 2023, the thesis that numbers them. `scenarios/papers/ineps/README.md` compares the
published figures with the reproduced ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, groups
from hpcosim_papers.studies.figures import horizontal_bars
from hpcosim_papers.studies.study import (
    Figures,
    Request,
    Study,
    Tables,
    carry_out,
    deviation,
    experiment_file,
    only,
)
from hpcosim_schedulers import expand
from hpcosim_view.figure import COLOURS

EXPERIMENTS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
SEEDS = 30
"""Number of seeds of randomised schedulers. Deterministic ones run with the first seed only."""

TIE = 1e-9
"""Relative difference below which two means are a tie."""

PAPERS, REFERENCE, ONE, REFERENCE_ONE, MINMIN = (
    "all-heuristics",
    "reference-heuristics",
    "one-per-event",
    "reference-one-per-event",
    "minmin-family",
)
WORST = "random-random"
KEEP_ORDER = "none-none"
"""The policy that the papers' program runs under the name random-random."""

SHOWN = ("first-high-gflops", "first-high-cores", "first-high-mem-bw", WORST)
"""The four heuristics in every figure of the papers, next to the best one."""

ENERGY = Measure("energy_j", "energy", "J", digits=1)
EDP = Measure("edp_js", "EDP", "kJ s", 1e3, digits=1)
MEASURES = (ENERGY, EDP)
COLUMNS = (
    *("experiment", "scheduler", "seed"),
    *("energy_j", "edp_js", "makespan_s", "mean_wait_s"),
)

Index = Mapping[tuple[str, str], list[Row]]
"""The runs by experiment and scheduler; a randomised scheduler has one run per seed."""


def reproduce(request: Request) -> None:
    """Run every heuristic on every experiment; write `results.csv`, `tables.md` and figures."""
    figures = {
        f"{measure.title.lower()}.png": partial(draw, measure=measure) for measure in MEASURES
    }
    carry_out(study_of({"tables.md": tables}, figures), request)


def study_of(tables: Tables, figures: Figures, experiments: Sequence[str] = EXPERIMENTS) -> Study:
    """Return the study of every heuristic on some experiments."""
    return Study(
        experiment_file("ineps", "ineps"),
        COLUMNS,
        tables,
        figures,
        arranged=by_scheduler,
        changed=only(lambda labels: labels["experiment"] in experiments),
        digits=None,
    )


def by_scheduler(rows: Rows) -> list[Row]:
    """Return the rows by experiment, in it by scheduler, and in it by seed."""
    return [
        row
        for here in groups(rows, "experiment").values()
        for same in groups(here, "scheduler").values()
        for row in same
    ]


def is_random(scheduler: str) -> bool:
    """Return whether a scheduler is randomised."""
    return "random" in scheduler.split("-")


def contenders() -> dict[str, Sequence[str]]:
    """Return the groups of schedulers whose best member is reported, by title."""
    return {
        "best": [name for name in expand([PAPERS]) if not is_random(name)],
        "best with chance": expand([PAPERS]),
        "best as run": expand([REFERENCE]),
        "best one an event": [name for name in expand([ONE, REFERENCE_ONE]) if not is_random(name)],
        "best MinMin": expand([MINMIN]),
    }


def indexed(rows: Rows) -> Index:
    """Return the runs by experiment and scheduler."""
    return {(key[0], key[1]): runs for key, runs in groups(rows, "experiment", "scheduler").items()}


def best_of(
    runs: Index, measure: Measure, experiment: str, names: Sequence[str]
) -> tuple[str, float, int]:
    """Return the scheduler with the lowest mean, that mean, and the number of other ties.

    Among ties, the first deterministic scheduler is returned, or the first one if all are random.
    """
    means = {name: measure.mean(runs[experiment, name]) for name in names}
    ties = [name for name in means if means[name] <= min(means.values()) * (1 + TIE)]
    name = min(ties, key=is_random)
    return name, means[name], len(ties) - 1


def tables(rows: Rows) -> str:
    """Return all tables, as Markdown."""
    runs = indexed(rows)
    return document(
        *(part for measure in MEASURES for part in _best_table(runs, measure)),
        *(part for measure in MEASURES for part in _shown_table(runs, measure)),
        *_random_table(runs),
        *_reduction_table(runs),
    )


def with_others(name: str, others: int) -> str:
    """Return the name of a best scheduler with the number of its ties."""
    return f"{name} (+ {others})" if others else name


def _best_table(runs: Index, measure: Measure) -> tuple[list[str], list[str]]:
    """Return the table of the best scheduler of each group and experiment."""
    lines = []
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for names in contenders().values():
            name, mean, others = best_of(runs, measure, experiment, names)
            cells += [with_others(name, others), measure.text(mean)]
        lines.append(cells)
    head = ["experiment", *(cell for title in contenders() for cell in (title, ""))]
    return [f"### Best by {measure.title}, {measure.unit}"], table(head, lines)


def _shown_table(runs: Index, measure: Measure) -> tuple[list[str], list[str]]:
    """Return the table of the four heuristics in the papers' figures."""
    names = (*SHOWN, KEEP_ORDER)
    lines = [
        [experiment, *(measure.text(measure.mean(runs[experiment, name])) for name in names)]
        for experiment in EXPERIMENTS
    ]
    title = f"### Heuristics of the papers' figures, {measure.title}, {measure.unit}"
    return [title], table(["experiment", *names], lines)


def _random_table(runs: Index) -> tuple[list[str], list[str]]:
    """Return the table of the spread of random-random over its seeds."""
    spread = ("mean", "standard deviation", "least", "most")
    head = [f"{measure.title}, {measure.unit}: {of}" for measure in MEASURES for of in spread]
    lines = []
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for measure in MEASURES:
            found = measure.values(runs[experiment, WORST])
            of = (measure.mean(runs[experiment, WORST]), deviation(found), min(found), max(found))
            cells += map(measure.text, of)
        lines.append(cells)
    return [f"### {WORST}, {SEEDS} seeds"], table(["experiment", *head], lines)


def _reduction_table(runs: Index) -> tuple[list[str], list[str]]:
    """Return the table of reductions relative to random-random, as the papers define them."""
    head = [f"{title}, {measure.title}" for title in contenders() for measure in MEASURES]
    lines = []
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for title, names in contenders().items():
            base = runs[experiment, KEEP_ORDER if title == "best as run" else WORST]
            for measure in MEASURES:
                _, mean, _ = best_of(runs, measure, experiment, names)
                cells.append(f"{100 * (1 - mean / measure.mean(base)):.2f}")
        lines.append(cells)
    title = f"### Below {WORST}; as run: below {KEEP_ORDER}; %"
    return [title], table(["experiment", *head], lines)


def draw(path: Path, rows: Rows, measure: Measure) -> None:
    """Draw a panel per experiment with the best of each group and the papers' four heuristics."""
    runs = indexed(rows)
    with panels(path, 2, 3, (11, 5), style={}, dpi=110) as all_axes:
        for axes, experiment in zip(all_axes, EXPERIMENTS, strict=True):
            bars = dict.fromkeys(SHOWN, COLOURS[0]) | dict.fromkeys((WORST, KEEP_ORDER), COLOURS[7])
            for title, colour in {"best MinMin": 1, "best as run": 4, "best": 2}.items():
                name, _, _ = best_of(runs, measure, experiment, contenders()[title])
                bars = {f"{title}: {name}": COLOURS[colour]} | bars
            found = [runs[experiment, label.rpartition(" ")[2]] for label in bars]
            means = [measure.mean(each) for each in found]
            deviations = [deviation(measure.values(each)) for each in found]
            horizontal_bars(axes, list(bars), means, list(bars.values()), deviations, ticks=3)
            axes.set_title(experiment, loc="left", fontsize=9)
        all_axes[0].figure.suptitle(
            f"{measure.title}, {measure.unit}; with chance: mean of {SEEDS} seeds "
            "and standard deviation",
            fontsize=10,
        )
