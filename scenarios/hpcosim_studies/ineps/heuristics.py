"""Experiments 1 to 4 under every heuristic that the pairing agent is compared with.

Lopez, Stafford, Bosque 2025 (Intelligent energy pairing scheduler) and Lopez Rauhut 2023, the
thesis before it, whose numbers the experiments bear. What they published stands beside this in
`scenarios/papers/ineps/README.md`.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hpcosim_client import expand, make_policy
from hpcosim_scenarios.errors import RunError, ScenariosError
from hpcosim_scenarios.figures.schedule import COLOURS, drawing
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.progress import shown
from hpcosim_studies import FOLDER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXPERIMENTS = ("exp1", "exp2", "exp3", "exp4_mem", "exp4_comp", "exp4_mixed")
SEEDS = range(30)  # of the schedulers that draw
TIE = 1e-9  # means this close, relatively, are the same
GROUPS = (PAPERS, REFERENCE, ONE, REFERENCE_ONE, MINMIN) = (
    "all-heuristics",
    "reference-heuristics",
    "one-per-event",
    "reference-one-per-event",
    "minmin-family",
)
WORST = "random-random"
KEEP_ORDER = "none-none"  # what the papers' program does under the name of random-random
SHOWN = ("first-high_gflops", "first-high_cores", "first-high_mem_bw", WORST)
"""The four heuristics that every figure of the papers has beside the best."""


@dataclass(frozen=True, slots=True)
class Row:
    """One run, a line of `results.csv`."""

    experiment: str
    scheduler: str
    seed: int
    energy_j: float
    edp_js: float
    makespan_s: float
    mean_wait_s: float


@dataclass(frozen=True, slots=True)
class Measure:
    """What schedulers are ranked by.

    Attributes:
        of: takes it from a row.
        title: for people.
        unit: of the tables and figures.
        per_unit: in what the row has.
    """

    of: Callable[[Row], float]
    title: str
    unit: str
    per_unit: float

    def text(self, value: float) -> str:
        """Return a value for a table."""
        return f"{value / self.per_unit:,.1f}"


ENERGY = Measure(lambda row: row.energy_j, "energy", "J", 1.0)
EDP = Measure(lambda row: row.edp_js, "EDP", "kJ s", 1e3)
MEASURES = (ENERGY, EDP)


class Results:
    """All runs, by experiment and scheduler."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._runs: dict[tuple[str, str], list[Row]] = {}
        for row in rows:
            self._runs.setdefault((row.experiment, row.scheduler), []).append(row)

    def runs(self, experiment: str, scheduler: str) -> list[Row]:
        """Return the runs of a scheduler, more than one where it draws."""
        return self._runs[experiment, scheduler]

    def mean(self, measure: Measure, experiment: str, scheduler: str) -> float:
        """Return the mean over the runs of a scheduler."""
        runs = self.runs(experiment, scheduler)
        return statistics.fmean(measure.of(row) for row in runs)

    def best(
        self, measure: Measure, experiment: str, contenders: Sequence[str]
    ) -> tuple[str, float, int]:
        """Return the best scheduler by its mean, that mean, and how many others have the same.

        On a tie the one named first, one that draws nothing before the others.
        """
        means = {name: self.mean(measure, experiment, name) for name in contenders}
        ties = [name for name in means if means[name] <= min(means.values()) * (1 + TIE)]
        name = min(ties, key=draws)
        return name, means[name], len(ties) - 1


def reproduce(out: Path) -> None:
    """Run every heuristic on every experiment; write `results.csv`, `tables.md` and figures.

    Args:
        out: the folder they go to.

    Raises:
        ScenarioError, WorkloadError: a scenario is not there, or is at fault.
        RunError: a simulation failed.
        FigureError: matplotlib is not installed.
        ScenariosError: the folder can't be written to.
    """
    drawing()  # better told before the runs than after
    try:
        out.mkdir(parents=True, exist_ok=True)
        results = Results(list(run_all()))
        write_csv(results.rows, out / "results.csv")
        (out / "tables.md").write_text(tables(results), encoding="utf-8")
        draw(results, ENERGY, out / "energy.png")
        draw(results, EDP, out / "edp.png")
    except OSError as error:
        raise ScenariosError(f"can't write {out}: {error.strerror or error}") from None


def run_all(experiments: Sequence[str] = EXPERIMENTS) -> Iterator[Row]:
    """Run every scheduler of every group on these experiments; those that draw, once a seed."""
    schedulers = expand(GROUPS)
    for experiment in experiments:
        library = Library([FOLDER / "ineps" / f"{experiment}.yaml"])
        runs = [(name, seed) for name in schedulers for seed in seeds(name)]
        with shown(experiment) as report:
            for done, (name, seed) in enumerate(runs):
                yield run_one(experiment, library, name, seed)
                report(0.0, done + 1, len(runs))


def run_one(experiment: str, library: Library, scheduler: str, seed: int) -> Row:
    """Run a scheduler on the scenario of a library.

    Raises:
        RunError: some job did not run.
    """
    scenario = msgspec.structs.replace(library.first, seed=seed)
    opened = open_scenario(scenario, library.first_jobs, scheduler)
    metrics = run_in_process(opened, make_policy(scheduler))
    if metrics["jobs_completed"] != len(library.first_jobs):
        raise RunError(f"not every job of {experiment} ran under {scheduler}")
    measures = (float(metrics[field.name]) for field in fields(Row)[3:])
    return Row(experiment, scheduler, seed, *measures)


def draws(scheduler: str) -> bool:
    """Return whether a scheduler decides by chance."""
    return "random" in scheduler.split("-")


def contenders() -> dict[str, Sequence[str]]:
    """Return the schedulers among which a best one is sought, by what tables call them."""
    return {
        "best": [name for name in expand([PAPERS]) if not draws(name)],
        "best with chance": expand([PAPERS]),
        "best as run": expand([REFERENCE]),
        "best one an event": [name for name in expand([ONE, REFERENCE_ONE]) if not draws(name)],
        "best MinMin": expand([MINMIN]),
    }


def seeds(scheduler: str) -> Sequence[int]:
    """Return the seeds a scheduler is run with."""
    return SEEDS if draws(scheduler) else SEEDS[:1]


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write the runs, one a line."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        writer.writerows(astuple(row) for row in rows)


def tables(results: Results) -> str:
    """Return all tables, as Markdown."""
    return "\n".join(
        (
            *_best_table(results, ENERGY),
            *_best_table(results, EDP),
            *_shown_table(results, ENERGY),
            *_shown_table(results, EDP),
            *_random_table(results),
            *_reduction_table(results),
        )
    )


def _best_table(results: Results, measure: Measure) -> Iterator[str]:
    """Yield the best of each group in each experiment."""
    yield f"### Best by {measure.title}, {measure.unit}\n"
    yield from head("experiment", *(cell for title in contenders() for cell in (title, "")))
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for names in contenders().values():
            name, mean, others = results.best(measure, experiment, names)
            cells += [f"{name} (+ {others})" if others else name, measure.text(mean)]
        yield line(*cells)
    yield ""


def _shown_table(results: Results, measure: Measure) -> Iterator[str]:
    """Yield the four heuristics of the papers' figures."""
    yield f"### Heuristics of the papers' figures, {measure.title}, {measure.unit}\n"
    yield from head("experiment", *SHOWN, KEEP_ORDER)
    for experiment in EXPERIMENTS:
        means = (results.mean(measure, experiment, name) for name in (*SHOWN, KEEP_ORDER))
        yield line(experiment, *map(measure.text, means))
    yield ""


def _random_table(results: Results) -> Iterator[str]:
    """Yield what chance makes of random-random."""
    yield f"### {WORST}, {len(SEEDS)} seeds\n"
    spread = ("mean", "standard deviation", "least", "most")
    yield from head(
        "experiment",
        *(f"{measure.title}, {measure.unit}: {of}" for measure in MEASURES for of in spread),
    )
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for measure in MEASURES:
            values = [measure.of(row) for row in results.runs(experiment, WORST)]
            mean, deviation = statistics.fmean(values), statistics.stdev(values)
            cells += map(measure.text, (mean, deviation, min(values), max(values)))
        yield line(*cells)
    yield ""


def _reduction_table(results: Results) -> Iterator[str]:
    """Yield by how much the best are below a random-random, as the papers count it."""
    yield f"### Below {WORST}; as run: below {KEEP_ORDER}; %\n"
    heads = (f"{title}, {measure.title}" for title in contenders() for measure in MEASURES)
    yield from head("experiment", *heads)
    for experiment in EXPERIMENTS:
        cells = [experiment]
        for title, names in contenders().items():
            base = KEEP_ORDER if title == "best as run" else WORST
            for measure in MEASURES:
                _, mean, _ = results.best(measure, experiment, names)
                below = 1 - mean / results.mean(measure, experiment, base)
                cells.append(f"{100 * below:.2f}")
        yield line(*cells)
    yield ""


def head(*cells: str) -> list[str]:
    """Return the first two lines of a table."""
    return [line(*cells), "|" + "---|" * len(cells)]


def line(*cells: str) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def draw(results: Results, measure: Measure, path: Path) -> None:
    """Draw a panel an experiment, a bar a heuristic."""
    _, pyplot = drawing()
    figure, panels = pyplot.subplots(2, 3, figsize=(11, 5), layout="constrained")
    for axes, experiment in zip(panels.flat, EXPERIMENTS, strict=True):
        _draw_experiment(axes, results, measure, experiment)
    figure.suptitle(
        f"{measure.title}, {measure.unit}; with chance: mean of {len(SEEDS)} seeds "
        "and standard deviation",
        fontsize=10,
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _draw_experiment(axes: Axes, results: Results, measure: Measure, experiment: str) -> None:
    """Draw the best of each group but by chance, and the four that the papers show."""
    bars = dict.fromkeys(SHOWN, COLOURS[0]) | dict.fromkeys((WORST, KEEP_ORDER), COLOURS[7])
    for title, colour in {"best MinMin": 1, "best as run": 4, "best": 2}.items():
        name, _, _ = results.best(measure, experiment, contenders()[title])
        bars = {f"{title}: {name}": COLOURS[colour]} | bars
    names = [label.rpartition(" ")[2] for label in bars]
    runs = [[measure.of(row) for row in results.runs(experiment, name)] for name in names]
    means = [statistics.fmean(values) / measure.per_unit for values in runs]
    spread = [
        statistics.stdev(values) / measure.per_unit if len(values) > 1 else 0.0 for values in runs
    ]
    axes.barh(range(len(bars)), means, xerr=spread, color=list(bars.values()))
    axes.set_yticks(range(len(bars)), list(bars), fontsize=7)
    axes.invert_yaxis()
    axes.locator_params(axis="x", nbins=3)
    axes.ticklabel_format(axis="x", style="plain")
    axes.tick_params(axis="x", labelsize=7)
    axes.set_title(experiment, loc="left", fontsize=9)
