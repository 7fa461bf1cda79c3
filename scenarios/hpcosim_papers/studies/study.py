"""The studies of papers: experiments, and the tables and figures that a paper has of its results.

The studies also share what stands here: the paths of the papers, measures, and single runs.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from hpcosim_client.errors import rl_extra
from hpcosim_experiments.carry_out import Say, simulate_plan
from hpcosim_experiments.definition import Combinations
from hpcosim_experiments.executors import ExecutorSettings, Local
from hpcosim_experiments.output import MARKER
from hpcosim_experiments.runs.plan import Plan, PlannedRun, plan_of
from hpcosim_experiments.runs.task import Measures, RunResult
from hpcosim_experiments.statistics.rows import Labels, Row, Rows, write_rows
from hpcosim_protocol.errors import HpcosimError
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_scenarios.running.run import opened_with
from hpcosim_scenarios.running.warnings import Warn, ignore_warning
from hpcosim_scenarios.shipped import EXPERIMENTS, PAPERS, shipped_folder
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.record.folder import prepare
from hpcosim_view.figure import drawing
from hpcosim_workloads.table import JobTable

Tables = Mapping[str, Callable[[Rows], str]]
Figures = Mapping[str, Callable[[Path, Rows], None]]


Metrics = Mapping[str, float]
NO_OVERRIDES: Mapping[str, Any] = {}


class Request(NamedTuple):
    """What to do for a study.

    Attributes:
        out: the existing output folder. Results of runs in it are used again.
        train: train the networks of the study into the folder first, instead of using the shipped
            ones.
        executor: where runs are simulated. Trainings run on this machine.
        force: accept an output folder with other files, and simulate all runs again.
    """

    name: str
    out: Path
    train: bool = False
    executor: ExecutorSettings = Local()
    force: bool = False
    warn: Warn = ignore_warning
    say: Say = ignore_warning

    @property
    def workers(self) -> int | None:
        """Number of processes of trainings on this machine; None: one per core."""
        return self.executor.workers


class Study(NamedTuple):
    """An experiment and its output files.

    Attributes:
        columns: columns of `results.csv`; empty: no `results.csv`.
        tables: functions that return a Markdown text for the rows, by file name.
        figures: functions that draw the rows into a file, by file name.
        described: returns columns of a run, in addition to its labels and metrics.
        arranged: returns the rows of all runs as the output files have them.
        changed: returns the combinations to run.
        measures: see `plan_of`.
        overrides: changes of the scenario, by dotted path.
        digits: significant digits of floats in `results.csv`; None: full precision.
    """

    experiment: Path
    columns: Sequence[str]
    tables: Tables
    figures: Figures
    described: Callable[[PlannedRun], Row] = lambda _: {}
    arranged: Callable[[list[Row]], Rows] = lambda rows: rows
    changed: Callable[[Combinations], Combinations] = lambda all_runs: all_runs
    measures: Measures | None = None
    overrides: Mapping[str, Any] = {}
    digits: int | None = 10


def experiment_file(paper: str, name: str) -> Path:
    """Return the path of an experiment of a paper."""
    return papers_folder() / paper / EXPERIMENTS / f"{name}.yaml"


def only(wanted: Callable[[Labels], bool]) -> Callable[[Combinations], Combinations]:
    """Return a function that keeps the combinations with wanted labels."""

    def kept(found: Combinations) -> Combinations:
        runs = [run for run in found.runs if wanted(found.labels(run))]
        return found._replace(runs=runs)

    return kept


def plan(study: Study, warn: Warn = ignore_warning) -> Plan:
    """Return the runs of a study."""
    return plan_of(
        study.experiment, study.overrides, warn, changed=study.changed, measures=study.measures
    )


def carry_out(study: Study, request: Request, known: Sequence[Row] = ()) -> Rows:
    """Simulate the runs of a study that are not stored, and write its files.

    Args:
        request: output folder and executor; files of the same names are replaced.

    Returns:
        All rows.

    Raises:
        ExperimentFileError, ScenarioError, WorkloadError, PolicyError: the experiment, a job log
            or a policy is invalid or missing.
        RunError: a run failed, or left jobs incomplete.
        ExperimentError: the output folder has another study, or it is not writable.
        FigureError: matplotlib is missing. OSError: a file is not writable.
    """
    rows = [*known, *study.arranged(rows_of(study, request))]
    if study.columns:
        write_rows(request.out / "results.csv", study.columns, rows, study.digits)
    for name, made in study.tables.items():
        (request.out / name).write_text(made(rows), encoding="utf-8")
    for name, draw in study.figures.items():
        draw(request.out / name, rows)
    return rows


def rows_of(study: Study, request: Request) -> list[Row]:
    """Simulate the runs of a study that are not stored, and return a row for each run.

    Arguments and errors are those of `carry_out`.
    """
    planned = plan(study, request.warn)
    _, results = simulate_plan(
        planned,
        request.out,
        executor=request.executor,
        force=request.force or request.train,
        again=request.force,
        warn=request.warn,
        say=request.say,
    )
    _check(planned, results)
    return [
        {**run.labels, **results[run.key].metrics, **study.described(run)} for run in planned.runs
    ]


def _check(planned: Plan, results: Mapping[str, RunResult]) -> None:
    """Check that all jobs of all runs completed."""
    for run in planned.runs:
        result = results[run.key]
        named = ", ".join(str(label) for label in run.labels.values())
        if result.status == "failed":
            failed = sum(result.status == "failed" for result in results.values())
            raise RunError(f"{failed} runs failed, the first of them {named}: {result.error}")
        completed, count = result.metrics["jobs_completed"], result.metrics["jobs"]
        if completed != count:
            raise RunError(f"{named}: only {completed} of {count} jobs completed")


class StudyError(HpcosimError):
    """A study cannot run: it is unknown, an input is missing, or a file is not writable."""


def papers_folder() -> Path:
    """Return the folder `papers` of the shipped scenarios."""
    return shipped_folder() / PAPERS


def scenario_path(paper: str, name: str) -> Path:
    """Return the path of a scenario of a paper, such as `scenario_path("ineps", "exp1")`."""
    return papers_folder() / paper / f"{name}.yaml"


def deviation(values: Sequence[float]) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def change(value: float, base: float) -> float:
    """Return the relative difference of a value to a base, %; NaN if the base is 0."""
    return 100 * (value / base - 1) if base else float("nan")


class Simulated(NamedTuple):
    """A completed run."""

    simulation: Simulation
    metrics: Metrics
    jobs: JobTable


def simulate(
    path: Path, scheduler: str | None = None, overrides: Mapping[str, Any] = NO_OVERRIDES
) -> Simulated:
    """Simulate a scenario.

    Args:
        scheduler: name of the scheduler; None: the scheduler of the scenario.
        overrides: changes of the scenario, by dotted path.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario, its log or its scheduler is
            invalid.
        RunError: the simulation failed, or a job did not complete.
    """
    library = Library([path], overrides)
    chosen = chosen_by(library.first, path, scheduler)
    return _simulated(library.first, library.first_jobs, chosen)


def simulate_again(run: PlannedRun) -> Simulated:
    """Simulate a run of an experiment, whose stored result has the metrics only."""
    return _simulated(run.scenario, jobs_of(run.scenario, Path()), run.task.chosen)


def _simulated(scenario: Scenario, jobs: JobTable, chosen: Chosen) -> Simulated:
    with opened_with(chosen, LoadedScenario(scenario, jobs, {}, None)) as (opened, policy):
        metrics = run_in_process(opened, policy)
    if metrics["jobs_completed"] != len(jobs):
        raise RunError(
            f"{scenario.name}: only {metrics['jobs_completed']} of {len(jobs)} jobs completed "
            f"under {chosen.title}"
        )
    return Simulated(opened.simulation, metrics, jobs)


class StudyEntry(NamedTuple):
    """A study of the catalogue.

    Attributes:
        module: module with `reproduce(request)`, imported when the study runs.
        trains: whether the study trains networks.
    """

    module: str
    about: str
    trains: bool = False


_PAIRING = "hpcosim_papers.ineps.study.pairing"
_POWER = "hpcosim_papers.power.study.reproduce"
_DEEP_EAS = "hpcosim_papers.deep_eas.study.reproduce"

STUDIES: Mapping[str, StudyEntry] = {
    "ineps": StudyEntry(
        "hpcosim_papers.ineps.study.heuristics", "heuristics of the InEPS paper and thesis"
    ),
    "pairing-exp1": StudyEntry(_PAIRING, "pairing agent on InEPS Experiment 1", trains=True),
    "pairing-exp2": StudyEntry(_PAIRING, "pairing agent on InEPS Experiment 2", trains=True),
    "pairing-exp3": StudyEntry(_PAIRING, "pairing agent on InEPS Experiment 3", trains=True),
    "pairing-exp4": StudyEntry(_PAIRING, "pairing agent on InEPS Experiment 4", trains=True),
    "pairing-unseen": StudyEntry(
        "hpcosim_papers.ineps.study.unseen",
        "pairing agent, rule and search on workloads never trained on",
        trains=True,
    ),
    "node-centric": StudyEntry(
        "hpcosim_papers.node_centric.reproduce",
        "HighGFlops and LowPower against MinMin; needs kit-fh2-25326",
    ),
    "power-timeouts": StudyEntry(_POWER, "power managers, figures 12 to 15; needs nasa-ipsc"),
    "power-curricula": StudyEntry(_POWER, "training curricula, figure 11", trains=True),
    "power-radar": StudyEntry(
        _POWER, "power managers and scheduling metrics, figure 16; needs nasa-ipsc"
    ),
    "power-sensitivity": StudyEntry(
        _POWER, "power managers on other clusters, figure 17; needs nasa-ipsc"
    ),
    "power-pareto": StudyEntry(
        _POWER, "power managers: waiting time against wasted energy; needs nasa-ipsc"
    ),
    "deep-eas-fig3": StudyEntry(_DEEP_EAS, "Deep-EAS by arrival rate, figure 3", trains=True),
    "deep-eas-fig4": StudyEntry(_DEEP_EAS, "Deep-EAS learning curves, figure 4", trains=True),
    "deep-eas-fig5": StudyEntry(_DEEP_EAS, "Deep-EAS delayed jobs, figure 5", trains=True),
    "deep-eas-beta": StudyEntry(_DEEP_EAS, "Deep-EAS by share of short jobs", trains=True),
    "deep-eas-perfect": StudyEntry(_DEEP_EAS, "Deep-EAS with exact run times", trains=True),
    "deep-eas-machines": StudyEntry(_DEEP_EAS, "Deep-EAS on three and four machines", trains=True),
    "deep-eas-lengths": StudyEntry(
        _DEEP_EAS, "Deep-EAS on sequences of 4 to 480 steps and other loads"
    ),
    "deep-eas-optimum": StudyEntry(
        _DEEP_EAS, "Deep-EAS and a lower bound, on small sequences", trains=True
    ),
}
"""The studies by name."""


def reproduce_study(request: Request) -> None:
    """Run the experiments of a study, and write their tables and figures.

    Results of runs that are stored in the output folder are used again. Training takes from half
    an hour to many hours; networks that are complete in the folder are kept.

    Raises:
        StudyError: the study is unknown, it trains no network or not with this executor, or
            its scenarios or results are missing.
        ResultsFolderError: the output folder has other files, or it cannot be written to.
        ExperimentError: the output folder has the results of another study.
        StoreError: the disk is full.
        ScenarioError, WorkloadError, PolicyError: a scenario, its job log, a model or a package is
            missing or invalid.
        OracleError: SciPy is missing.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
    """
    name, out = request.name, request.out
    if name not in STUDIES:
        raise StudyError(f"unknown study {name!r}; expected one of {', '.join(STUDIES)}")
    entry = STUDIES[name]
    if request.train and not entry.trains:
        trained = ", ".join(name for name, other in STUDIES.items() if other.trains)
        raise StudyError(f"{name} trains no network; expected one of {trained}")
    if request.train and not isinstance(request.executor, Local):
        raise StudyError("trainings run on this machine only; use the executor local")
    drawing()  # reports a missing matplotlib before the simulations
    # the results of another experiment are an error of `carry_out`
    prepare(out, force=request.force or request.train or (out / MARKER).exists())
    try:
        out.mkdir(parents=True, exist_ok=True)
        with rl_extra(f"the study {name}"):
            module = import_module(entry.module)
        module.reproduce(request)
    except OSError as error:
        where = error.filename or out
        raise StudyError(f"{where}: cannot be read or written: {error.strerror or error}") from None
