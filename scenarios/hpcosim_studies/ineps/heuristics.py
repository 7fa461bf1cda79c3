"""Experiments 1 to 4 under every heuristic that the pairing agent is compared with.

Lopez, Stafford, Bosque 2025 (Intelligent energy pairing scheduler) and Lopez Rauhut 2023, the
thesis before it, whose numbers the experiments bear. Their published figures stand beside ours in
`scenarios/papers/ineps/README.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from hpcosim_client import expand
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.figures import horizontal_bars, panels
from hpcosim_studies.measures import Measure, deviation, document, table
from hpcosim_studies.papers import scenario_path
from hpcosim_studies.rows import Row, Rows, groups
from hpcosim_studies.runs import StudyRun, run_all
from hpcosim_studies.study import Study, carry_out

EXPERIMENTS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
SEEDS = range(30)
"""The seeds of schedulers that draw; the others have the first alone."""

TIE = 1e-9
"""Means that differ by less than this, relatively, are equal."""

PAPERS, REFERENCE, ONE, REFERENCE_ONE, MINMIN = GROUPS = (
    "all-heuristics",
    "reference-heuristics",
    "one-per-event",
    "reference-one-per-event",
    "minmin-family",
)
WORST = "random-random"
KEEP_ORDER = "none-none"
"""What the papers' program does under the name of random-random."""

SHOWN = ("first-high-gflops", "first-high-cores", "first-high-mem-bw", WORST)
"""The four heuristics that every figure of the papers has beside the best."""

ENERGY = Measure("energy_j", "energy", "J", digits=1)
EDP = Measure("edp_js", "EDP", "kJ s", 1e3, digits=1)
MEASURES = (ENERGY, EDP)
COLUMNS = (
    *("experiment", "scheduler", "seed"),
    *("energy_j", "edp_js", "makespan_s", "mean_wait_s"),
)

Index = Mapping[tuple[str, str], list[Row]]
"""The runs by experiment and scheduler; several where the scheduler draws."""


def reproduce(name: str, out: Path, *, train: bool = False, workers: int | None = None) -> None:
    """Run every heuristic on every experiment; write `results.csv`, `tables.md` and figures."""
    del name, train
    study = Study(
        "ineps",
        runs_of(EXPERIMENTS),
        COLUMNS,
        {"tables.md": tables},
        {
            f"{measure.title.lower()}.png": partial(draw, measure=measure)
            for measure in (ENERGY, EDP)
        },
        digits=None,
    )
    carry_out(study, out, workers)


def run_heuristics(experiments: Sequence[str], workers: int | None = None) -> list[Row]:
    """Return the rows of every scheduler on some experiments."""
    return run_all(runs_of(experiments), workers, "heuristics")


def runs_of(experiments: Sequence[str]) -> list[StudyRun]:
    """Return a run for each experiment, scheduler and seed."""
    return [
        StudyRun(
            scenario_path("ineps", experiment),
            {"experiment": experiment, "scheduler": scheduler, "seed": seed},
            scheduler,
            seed=seed,
        )
        for experiment in experiments
        for scheduler in expand(GROUPS)
        for seed in (SEEDS if draws(scheduler) else SEEDS[:1])
    ]


def draws(scheduler: str) -> bool:
    """Return whether a scheduler decides by chance."""
    return "random" in scheduler.split("-")


def contenders() -> dict[str, Sequence[str]]:
    """Return the schedulers among which a best one is sought, by the title of that group."""
    return {
        "best": [name for name in expand([PAPERS]) if not draws(name)],
        "best with chance": expand([PAPERS]),
        "best as run": expand([REFERENCE]),
        "best one an event": [name for name in expand([ONE, REFERENCE_ONE]) if not draws(name)],
        "best MinMin": expand([MINMIN]),
    }


def indexed(rows: Rows) -> Index:
    """Return the runs by experiment and scheduler."""
    return {(key[0], key[1]): runs for key, runs in groups(rows, "experiment", "scheduler").items()}


def best_of(
    runs: Index, measure: Measure, experiment: str, names: Sequence[str]
) -> tuple[str, float, int]:
    """Return the best scheduler by its mean, that mean, and how many others have the same.

    Of equal ones it is the first that draws nothing, else the first.
    """
    means = {name: measure.mean(runs[experiment, name]) for name in names}
    ties = [name for name in means if means[name] <= min(means.values()) * (1 + TIE)]
    name = min(ties, key=draws)
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
    """Return the name of a best scheduler, with the number of those that are as good."""
    return f"{name} (+ {others})" if others else name


def _best_table(runs: Index, measure: Measure) -> tuple[list[str], list[str]]:
    """Return the best of each group in each experiment."""
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
    """Return the four heuristics of the papers' figures."""
    names = (*SHOWN, KEEP_ORDER)
    lines = [
        [experiment, *(measure.text(measure.mean(runs[experiment, name])) for name in names)]
        for experiment in EXPERIMENTS
    ]
    title = f"### Heuristics of the papers' figures, {measure.title}, {measure.unit}"
    return [title], table(["experiment", *names], lines)


def _random_table(runs: Index) -> tuple[list[str], list[str]]:
    """Return the spread of random-random over its seeds."""
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
    return [f"### {WORST}, {len(SEEDS)} seeds"], table(["experiment", *head], lines)


def _reduction_table(runs: Index) -> tuple[list[str], list[str]]:
    """Return by how much the best are below a random-random, as the papers count it."""
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
    """Draw a panel for each experiment, in it the best of each group and the papers' four."""
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
            f"{measure.title}, {measure.unit}; with chance: mean of {len(SEEDS)} seeds "
            "and standard deviation",
            fontsize=10,
        )
