"""The pairing agent on Experiments 1 to 4: training, evaluation, comparison and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np

from hpcosim_experiments.report.panels import panels
from hpcosim_experiments.statistics.rows import Row, read_rows, write_rows
from hpcosim_gym.environments.arguments import totals
from hpcosim_gym.learning.curve import Iteration, read_curve
from hpcosim_papers.ineps.agent.policy import load_pairing
from hpcosim_papers.ineps.agent.settings import Objective
from hpcosim_papers.ineps.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_papers.ineps.environments.pairing_task import PairingTask
from hpcosim_papers.ineps.learners.networks import load_actor
from hpcosim_papers.ineps.learners.train import ACTOR, play_greedy, play_sampled, train_pairing
from hpcosim_papers.ineps.study import heuristics
from hpcosim_papers.ineps.study.pairing_tables import (
    EXPERIMENTS,
    MEASURES,
    OBJECTIVES,
    OURS,
    PAPERS,
    UNTRAINED,
    PairingRun,
    Results,
    Spread,
    model_name,
    sampled_spread,
    summary,
    trainings,
    trainings_of,
)
from hpcosim_papers.studies.agents import TABLE, keep_best, train_all
from hpcosim_papers.studies.figures import band, gantt, horizontal_bars
from hpcosim_papers.studies.study import (
    Request,
    Simulated,
    deviation,
    papers_folder,
    rows_of,
    scenario_path,
    simulate,
)
from hpcosim_scenarios.planning.optimum import Placements, find_optimum
from hpcosim_scenarios.running.library import Library, rules_of
from hpcosim_sim.record.metrics import energies
from hpcosim_view.figure import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Training and evaluation of the pairing agent, and the optima of small experiments.

OPTIMA = "optimum.csv"
OPTIMA_COLUMNS = ("experiment", "placements", "objective", "value", "explored")
SMALL = ("exp1", "exp2")
"""Experiments that are small enough to search their optimum."""

RUNS = 100
"""Number of runs of each agent with sampled actions."""

SIDE_BY_SIDE = 20
STREAM = 1_000_004
"""Random stream of the sampled runs; other draws with the same seed use other streams."""

DRAWN = ("mean", "deviation", "least", "most")
COLUMNS = (
    *("variant", "objective", "seed", "experiment", "training_s", "energy_j", "edp_js"),
    *(f"drawn_{metric}_{of}" for metric in ("energy_j", "edp_js") for of in DRAWN),
)
"""Columns of `agents.csv`: energy and EDP of an agent's greedy run and of `RUNS` sampled runs."""


BEYOND = 1.05
"""End of the axis of bars, relative to the longest bar of a trained agent or heuristic."""

STYLES = ("-", "--", ":")
"""Line styles of the optima, one per class of schedules."""

QUANTITIES = {
    "mean_return": "return of an episode",
    "objective": "objective / the teacher's",
    "policy_loss": "actor's loss",
    "value_loss": "critic's loss",
}
"""Columns of a learning curve to draw, with their titles."""


def train_study(study: str, out: Path, workers: int | None = None) -> None:
    """Search the optima of a study, train its agents, and copy the best agent of each kind.

    Args:
        study: a key of `EXPERIMENTS`.
        workers: number of processes; None: one per core.
    """
    find_optima(EXPERIMENTS[study].trained_on, out / OPTIMA)
    train_all(trainings(study), out, train_one, COLUMNS, workers=workers, title=study)
    for variant in (PAPERS, OURS):
        for objective in OBJECTIVES:
            folders = [out / one.name for one in trainings_of(study, variant, objective)]
            keep_best(folders, ACTOR, out / model_name(variant, objective), validation_of)


def train_one(task: PairingRun, folder: Path) -> list[Row]:
    """Train an agent into a folder, and return a row per test scenario."""
    experiment = EXPERIMENTS[task.study]
    train_pairing(scenario_path("ineps", experiment.trained_on), folder, task.training)
    training_s = sum(line.seconds for line in read_curve(folder))
    about = {"variant": task.label, "objective": task.objective, "seed": task.seed}
    return [
        {
            **about,
            "experiment": name,
            "training_s": training_s,
            **evaluate(folder / ACTOR, name, task.seed),
        }
        for name in experiment.tested_on
    ]


def evaluate(model: Path, experiment: str, seed: int) -> dict[str, float]:
    """Return the energy and EDP of an agent: of its greedy run, and of `RUNS` sampled runs."""
    actor, about = load_actor(model)
    library = Library([scenario_path("ineps", experiment)])
    scenario, jobs = library.first, library.first_jobs
    task = PairingTask(scenario.platform, about.pairing, "spent", rules_of(scenario), scenario.seed)

    def sampled() -> Iterator[dict[str, float]]:
        for first in range(0, RUNS, SIDE_BY_SIDE):
            runs = [JobNodePairingEnv(task=task, jobs=jobs) for _ in range(SIDE_BY_SIDE)]
            streams = [[seed, STREAM, first + run] for run in range(SIDE_BY_SIDE)]
            play_sampled(actor, runs, [np.random.default_rng(stream) for stream in streams])
            yield from (totals(run.simulation) for run in runs)

    greedy = JobNodePairingEnv(task=task, jobs=jobs)
    play_greedy(actor, [greedy])
    found = {name: totals(greedy.simulation)[name] for name in ("energy_j", "edp_js")}
    drawn = list(sampled())
    for metric in tuple(found):
        values = np.array([run[metric] for run in drawn])
        spread = (values.mean(), values.std(ddof=1), values.min(), values.max())
        for of, value in zip(DRAWN, spread, strict=True):
            found[f"drawn_{metric}_{of}"] = float(value)
    return found


def validation_of(folder: Path) -> float:
    """Return the objective of a trained agent relative to its teacher's; lower is better.

    It is the validation score, or, without validation, the mean over the sampled runs of the last
    ten iterations. Test results are not used.
    """
    _, about = load_pairing(folder / ACTOR)
    if "validation" in about.training:
        return float(about.training["validation"])
    last = [line.measures["objective"] for line in read_curve(folder)[-10:]]
    return sum(last) / len(last)


def find_optima(experiment: str, path: Path) -> None:
    """Write the optima of a small experiment unless the file exists."""
    if path.exists() or experiment not in SMALL:
        return
    library = Library([scenario_path("ineps", experiment)])
    found = []
    for placements in get_args(Placements):
        for objective in get_args(Objective):
            optimum = find_optimum(library.first, library.first_jobs, objective, placements)
            values = (experiment, placements, objective, optimum.value, optimum.explored)
            found.append(dict(zip(OPTIMA_COLUMNS, values, strict=True)))
    write_rows(path, OPTIMA_COLUMNS, found, digits=None)


def reproduce(request: Request) -> None:
    """Write `summary.md` and figures of an experiment; of a training also learning curves."""
    name, out = request.name, request.out
    source = out if request.train else papers_folder() / "ineps" / name
    if request.train:
        train_study(name, out, request.workers)
        draw_curves(out / "curves.png", name, out)
    experiments = EXPERIMENTS[name].tested_on
    runs = rows_of(heuristics.study_of({}, {}, experiments), request)
    optima = source / OPTIMA
    results = Results(
        read_rows(source / TABLE),
        heuristics.indexed(runs),
        read_rows(optima) if optima.exists() else [],
    )
    (out / "summary.md").write_text(summary(results, experiments), encoding="utf-8")
    draw_bars(out / "bars.png", results, experiments)
    for experiment in experiments:
        path = out / f"schedules-{experiment}.png"
        draw_schedules(path, experiment, results, source)


class Bar(NamedTuple):
    """A bar, in the unit of the measure.

    Attributes:
        value: length; of an agent: the mean of its greedy runs over seeds.
        spread: spread of the random runs; None: the scheduler is deterministic.
    """

    label: str
    value: float
    colour: str
    spread: Spread | None = None


def draw_bars(path: Path, results: Results, experiments: Sequence[str]) -> None:
    """Draw a panel per experiment and objective, with the optima as lines."""
    size = (13, 0.6 + 4.6 * len(experiments))
    with panels(path, len(experiments), 2, size, style={}, dpi=110) as all_axes:
        kinds = [(name, objective) for name in experiments for objective in OBJECTIVES]
        for axes, (experiment, objective) in zip(all_axes, kinds, strict=True):
            _draw_panel(axes, _bars(results, experiment, objective))
            measure = MEASURES[objective]
            axes.set_title(f"{experiment}, {measure.title}, {measure.unit}", loc="left", fontsize=9)
            optima = results.optima_of(experiment, objective)
            for style, (of, value) in zip(STYLES, optima, strict=False):
                line = {"color": "black", "linestyle": style, "linewidth": 0.8}
                axes.axvline(value, label=f"optimum: {of}", **line)
        figure = all_axes[0].figure
        handles, labels = all_axes[0].get_legend_handles_labels()
        if handles:
            place = {"loc": "outside lower center", "ncols": len(labels)}
            figure.legend(handles, labels, fontsize=8, **place)
        figure.suptitle(
            "bars: best choices, mean over seeds; by chance: dot the mean, thick line the standard "
            "deviation, thin line from least to most",
            fontsize=9,
        )


def _bars(results: Results, experiment: str, objective: Objective) -> list[Bar]:
    measure = MEASURES[objective]
    bars = []
    for name in (heuristics.WORST, *heuristics.SHOWN[:3]):
        values = measure.values(results.runs[experiment, name])
        mean = measure.mean(results.runs[experiment, name])
        spread = Spread(mean, deviation(values), min(values), max(values))
        bars.append(Bar(name, mean, COLOURS[7], spread if len(values) > 1 else None))
    for title, names in heuristics.contenders().items():
        if "chance" not in title:
            name, mean, _ = heuristics.best_of(results.runs, measure, experiment, names)
            bars.append(Bar(f"{title}: {name}", mean, COLOURS[0]))
    for label in results.labels(experiment, objective):
        found = results.shown(experiment, label, objective)
        colour = COLOURS[6 if UNTRAINED in label else 2 if OURS in label else 1]
        bars.append(Bar(label, measure.mean(found), colour, sampled_spread(found, measure)))
    return bars


def _draw_panel(axes: Axes, bars: Sequence[Bar]) -> None:
    """Draw the bars. Longer bars, those of untrained agents, end at the end of the axis."""
    labels, values, colours, _ = zip(*bars, strict=True)
    horizontal_bars(axes, labels, values, colours)
    others = [bar for bar in bars if not bar.label.startswith(UNTRAINED)]
    most = BEYOND * max(max(bar.value, bar.spread.most if bar.spread else 0.0) for bar in others)
    axes.set_xlim(0.0, most)
    for place, bar in enumerate(bars):
        if bar.value > most:
            text: dict[str, Any] = {
                "ha": "right",
                "va": "center",
                "fontsize": 7,
                "backgroundcolor": bar.colour,
            }
            axes.text(most, place, f"{bar.value:,.0f} ", **text)
        if bar.spread is not None:
            mean, width, least, greatest = bar.spread
            axes.hlines(place, least, greatest, color="black", linewidth=0.6)
            axes.hlines(place, mean - width, mean + width, color="black", linewidth=2.0)
            axes.plot(mean, place, "o", color="black", markersize=3)


def draw_curves(path: Path, study: str, trained: Path) -> None:
    """Draw learning curves: mean and range over seeds, a column per agent and objective."""
    kinds = [(variant, objective) for variant in (PAPERS, OURS) for objective in OBJECTIVES]
    size = (12, 7)
    with panels(path, len(QUANTITIES), len(kinds), size, style={}, dpi=90, sharex="col") as grid:
        for number, (variant, objective) in enumerate(kinds):
            folders = [trained / one.name for one in trainings_of(study, variant, objective)]
            column = grid[number :: len(kinds)]
            _draw_column(column, folders)
            title = f"{variant}, for {MEASURES[objective].title}: {len(folders)} seeds"
            column[0].set_title(title, fontsize=9)
            column[-1].set_xlabel("iterations", fontsize=8)
        for axes, label in zip(grid[:: len(kinds)], QUANTITIES.values(), strict=True):
            axes.set_ylabel(label, fontsize=8)


def _draw_column(column: Sequence[Axes], folders: Sequence[Path]) -> None:
    curves = [[line for line in read_curve(folder) if line.iteration > 0] for folder in folders]
    for axes, name in zip(column, QUANTITIES, strict=True):
        band(axes, [[_quantity(line, name) for line in curve] for curve in curves])
        axes.tick_params(labelsize=7)
        if name == "value_loss":
            axes.set_yscale("log")


def _quantity(line: Iteration, name: str) -> float:
    return line.measures[name] if name in line.measures else float(getattr(line, name))


def draw_schedules(path: Path, experiment: str, results: Results, models: Path) -> None:
    """Draw Gantt charts of the best heuristic and the best agents, a column per objective."""
    columns = [_simulated(experiment, results, models, objective) for objective in OBJECTIVES]
    rows = len(columns[0])
    size = (13, 2.6 * rows)
    with panels(path, rows, 2, size, style={}, dpi=110, sharex="col") as grid:
        for number, column in enumerate(columns):
            for axes, (title, done) in zip(grid[number::2], column.items(), strict=True):
                gantt(axes, done.simulation, done.jobs.profile.tolist())
                found = energies(done.simulation.record())
                came = f"{found['energy_j']:,.0f} J, {found['edp_js'] / 1e3:,.1f} kJ s"
                axes.set_title(f"{title}: {came}", loc="left", fontsize=8)
            ends_s = [max(done.simulation.recording.end_s) for done in column.values()]
            grid[number].set_xlim(0, max(ends_s))
            grid[-2 + number].set_xlabel("simulated time, s", fontsize=8)
        figure = grid[0].figure
        figure.suptitle(f"{experiment}: jobs on cores, a colour a profile", fontsize=9)


def _simulated(
    experiment: str, results: Results, models: Path, objective: Objective
) -> dict[str, Simulated]:
    """Return the runs to draw for an objective, by title."""
    name, _ = results.best_heuristic(experiment, objective)
    schedulers = {name: name}
    for variant in (PAPERS, OURS):
        title = f"{variant}, for {MEASURES[objective].title}"
        schedulers[title] = f"pairing:{models / model_name(variant, objective)}"
    path = scenario_path("ineps", experiment)
    return {title: simulate(path, scheduler) for title, scheduler in schedulers.items()}
