"""Run or check one scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hpcosim_client import Policy
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import Overrides, as_options
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running import Transport as Transport
from hpcosim_scenarios.running import Wire
from hpcosim_scenarios.running.engine import (
    REFERENCE,
    EngineChoice,
    compiled_simulation,
    engine_of,
    may_be_compiled,
    run_compiled,
)
from hpcosim_scenarios.running.in_process import Report, ignore, run_in_process, shown
from hpcosim_scenarios.running.library import (
    Library,
    LoadedScenario,
    about_loaded,
    open_loaded,
    scenario_warnings,
)
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_scenarios.running.results import (
    Format,
    incomplete_results_named,
    is_incomplete,
    writers_of,
)
from hpcosim_scenarios.running.results import as_options as formats_as_options
from hpcosim_scenarios.running.status import WatchedRun
from hpcosim_scenarios.running.warnings import (
    Warn,
    check_seed,
    ignore_warning,
    recorded_warnings,
    signal_warnings,
)
from hpcosim_schedulers.catalogue.policy_files import is_policy_file
from hpcosim_schedulers.catalogue.schedulers import folder_name
from hpcosim_server.service.session import Opened
from hpcosim_sim.record.folder import prepare
from hpcosim_sim.record.results import Run, WorkloadSource
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable


def run_scenario(
    path: Path,
    *,
    scheduler: str | None = None,
    transport: Transport | None = None,
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
    warn: Warn = ignore_warning,
    watched: WatchedRun | None = None,
    realtime: float | None = None,
    journal: Path | None = None,
    scenario: Scenario | None = None,
) -> tuple[dict[str, int | float], Path]:
    """Run a scenario and write its results.

    Args:
        path: the scenario's file.
        scheduler: a job scheduler that replaces the scenario's.
        transport: `ipc` or `tcp`: simulator and scheduler in separate processes; `inproc`: both in
            this process. The results are the same bytes. None: `inproc` where the compiled engine
            may simulate, otherwise `ipc`.
        out: the results folder; None: `results/SCENARIO-SCHEDULER`.
        force: replace the results in a folder that is not empty; not needed for the results of a
            run that did not complete.
        overrides: values to change in the scenario, by dotted path.
        formats: additional formats of results.
        warn: called with each warning about the scenario or the run.
        watched: how people watch the run; None: it is not watched.
        realtime: simulated seconds per wall-clock second, for a run in real time; None: as fast as
            possible.
        journal: folder for a journal of the run, with separate processes; None: none is kept.
        scenario: the scenario in the file after `overrides`, for a caller that has read it.

    Returns:
        The metrics, and the results folder.

    Raises:
        ScenarioError, WorkloadError, PolicyError, OracleError: the scenario, its workload or its
            policy is invalid.
        RunError: the run failed. The results up to then are written.
        ResultsFolderError: the results folder cannot be used; raised before the simulation starts.
        ResultsError: the results cannot be written; it has the metrics.
    """
    scenario = scenario or load_scenario(path, overrides)
    chosen = chosen_by(scenario, path, scheduler, overrides)
    chosen.check()
    check_seed(scenario, overrides or {}, chosen.name, warn)
    for warning in signal_warnings(scenario, path, chosen, overrides):
        warn(warning)
    folder = out or default_folder(scenario, folder_name(chosen.called))
    prepare(folder, force=force or is_incomplete(folder))
    if transport is None:
        watches = watched is not None or realtime is not None or journal is not None
        in_process = not watches and may_be_compiled(scenario, chosen)
        transport = "inproc" if in_process else "ipc"
    if scenario.engine == "compiled" and transport != "inproc":
        warn(f"{REFERENCE} the scheduler is in a process of its own")
    with (
        incomplete_results_named(folder, warn),
        shown(f"{scenario.name} {chosen.called}", at_once=watched is None) as report,
    ):
        if transport == "inproc":
            loaded = Library([path], overrides, first=scenario).default
            ran = run_chosen(
                chosen, loaded, folder, report, formats, warn, watched, realtime=realtime
            )
            return ran.metrics, folder
        values: dict[str, object] = dict(overrides or {})
        if realtime is not None:
            values["realtime"] = realtime
        if journal is not None:
            values["journal.folder"] = str(journal)
        options = [*as_options(values), *formats_as_options(formats)]
        metrics = _run_processes(
            path, chosen, folder, transport, overrides or {}, options, report, watched
        )
        for warning in recorded_warnings(folder):
            warn(warning)
        return metrics, folder


def default_folder(scenario: Scenario, scheduler: str) -> Path:
    """Return the results folder of a run whose caller names none."""
    return Path("results") / f"{scenario.name}-{scheduler}"


class Ran(NamedTuple):
    """A run that is complete.

    Attributes:
        record: the run.
        about: the content of `run.json`.
        metrics: metrics by name.
    """

    record: RunRecord
    about: Run
    metrics: dict[str, int | float]


def run_chosen(
    chosen: Chosen,
    loaded: LoadedScenario,
    out: Path | None = None,
    report: Report = ignore,
    formats: Sequence[Format] = (),
    warn: Warn = ignore_warning,
    watched: WatchedRun | None = None,
    *,
    realtime: float | None = None,
    batch_jobs: int = 0,
) -> Ran:
    """Run a scenario in this process.

    Args:
        chosen: the policy.
        out: the results folder; None: nothing is written.
        report: called with the progress about ten times a second.
        formats: additional formats of results.
        warn: called with each warning at the end of the run.
        watched: how people watch the run; None: it is not watched.
        realtime: simulated seconds per wall-clock second; None: as fast as possible.
        batch_jobs: see `engine_of`.

    Raises:
        PolicyError, OracleError, RunError, ResultsError: as `run_scenario`.
    """
    also = writers_of(formats)
    if watched is None and realtime is None:
        simulation = compiled_simulation(loaded, chosen, warn, batch_jobs)
        if simulation is not None:
            about = about_chosen(loaded, chosen)
            record, metrics = run_compiled(simulation, about, out, report, also, warn)
            return Ran(record, about, metrics)
    watched = watched or WatchedRun()
    with opened_with(chosen, loaded, out) as (opened, policy):
        opened.run.realtime = realtime
        watched.before_run()
        explain, watch = chosen.explain, watched.watch
        metrics = run_in_process(
            opened, policy, out, report, also, warn, explain=explain, watch=watch
        )
        return Ran(opened.simulation.record(), opened.run, metrics)


def about_chosen(loaded: LoadedScenario, chosen: Chosen) -> Run:
    """Return the content of `run.json` before a run with a policy without a plan."""
    about = about_loaded(loaded, chosen.title)
    about.policy = chosen.description()
    return about


@contextmanager
def opened_with(
    chosen: Chosen, loaded: LoadedScenario, out: Path | None = None
) -> Iterator[tuple[Opened, Policy]]:
    """Open the simulation of a scenario, and make its policy.

    Args:
        chosen: the policy; an oracle without a plan gets one.
        out: the results folder for the plan of an oracle; None: the plan is not kept.

    Raises:
        PolicyError, OracleError, RunError: as `run_scenario`.
    """
    with _planned(chosen, loaded, out) as ready:
        opened = open_loaded(loaded, chosen.title)
        opened.run.policy = ready.description()
        yield opened, ready.policy()


def simulate(
    path: Path,
    policy: Policy,
    *,
    name: str = "policy",
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
    explain: bool = False,
) -> dict[str, int | float]:
    """Run a scenario in this process with a policy of the caller, and return the metrics.

    Args:
        path: the scenario's file; its `scheduler` section is ignored.
        policy: called with the view after every batch of events; makes decisions by its methods.
        name: name of the policy in results.
        out: the results folder; None: nothing is written.
        force: replace the results in a folder that is not empty; not needed for the results of a
            run that did not complete.
        overrides: values to change in the scenario, by dotted path.
        explain: record explanations of the policy (`View.explain`) in `explanations.csv`.

    Raises:
        ScenarioError, WorkloadError: the scenario or its workload is invalid.
        RunError: the simulation is stuck, or the policy raised PolicyError.
        ResultsFolderError: the results folder cannot be used.
        ResultsError: the results cannot be written; it has the metrics.
    """
    if out is not None:
        prepare(out, force=force or is_incomplete(out))
    library = Library([path], overrides)
    opened = open_loaded(library.default, name)
    opened.run.policy = {"name": name}
    return run_in_process(opened, policy, out, explain=explain)


def _run_processes(
    path: Path,
    chosen: Chosen,
    out: Path,
    wire: Wire,
    overrides: Overrides,
    options: Sequence[str],
    report: Report,
    watched: WatchedRun | None,
) -> dict[str, int | float]:
    from hpcosim_scenarios.running.processes import run_processes

    def run(ready: Chosen) -> dict[str, int | float]:
        return run_processes(
            path,
            chosen.name,
            out,
            wire,
            server_options=options,
            scheduler_options=ready.options(),
            settings=ready.settings,
            report=report,
            watched=watched,
            fork=not is_policy_file(chosen.name),  # the check of the policy has executed the file
        )

    if not chosen.needs_plan:  # then only the server reads the jobs
        return run(chosen)
    loaded = Library([path], overrides).default
    with _planned(chosen, loaded, out) as ready:
        return run(ready)


@contextmanager
def _planned(chosen: Chosen, loaded: LoadedScenario, out: Path | None) -> Iterator[Chosen]:
    """Yield the policy, as `oracle.with_plan`; the planner is imported only for an oracle."""
    if not chosen.needs_plan:
        yield chosen
        return
    from hpcosim_scenarios.running.oracle import with_plan

    with with_plan(chosen, loaded.scenario, loaded.jobs, out, loaded.signals) as ready:
        yield ready


class Checked(NamedTuple):
    """A valid scenario."""

    scenario: Scenario
    jobs: JobTable
    source: WorkloadSource
    chosen: Chosen
    warnings: Sequence[str]
    engine: EngineChoice


def check(path: Path, overrides: Overrides | None = None) -> Checked:
    """Return a scenario with its jobs and its scheduler.

    Args:
        overrides: values of the scenario to replace, by dotted path.

    Raises:
        ScenarioError, WorkloadError, PolicyError: the scenario, its workload or its scheduler is
            invalid.
    """
    loaded = Library([path], overrides).default
    chosen = chosen_by(loaded.scenario, path, None, overrides)
    chosen.check()
    assert loaded.source is not None
    warnings = [
        *scenario_warnings(loaded),
        *signal_warnings(loaded.scenario, path, chosen, overrides),
    ]
    engine = engine_of(loaded, chosen)
    return Checked(loaded.scenario, loaded.jobs, loaded.source, chosen, warnings, engine)
