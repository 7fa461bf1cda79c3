"""Running, checking and serving scenarios: what the commands do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import as_options
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.chosen import Chosen, chosen_by, with_plan
from hpcosim_scenarios.running.formats import Format, also_of
from hpcosim_scenarios.running.formats import as_options as formats_as_options
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.json_log import log_as_json
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.processes import Wire, run_processes
from hpcosim_scenarios.running.progress import Report, ignore, shown
from hpcosim_server.service.service import Limits, Service
from hpcosim_server.service.socket_loop import serve
from hpcosim_workloads.table import JobTable

Overrides = Mapping[str, Scalar]
Transport = Wire | Literal["inproc"]


def run_scenario(
    path: Path,
    *,
    scheduler: str | None = None,
    transport: Transport = "ipc",
    out: Path | None = None,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
) -> tuple[dict[str, int | float], Path]:
    """Run a scenario and write its results.

    Args:
        path: the scenario's file.
        scheduler: instead of its own.
        transport: `ipc` or `tcp`: simulator and scheduler in processes of their own;
            `inproc`: both in this one. The results are the same to the last byte.
        out: the results folder; None: `results/SCENARIO-SCHEDULER`.
        overrides: values of the scenario to change, by dotted path.
        formats: of results, beside our own.

    Returns:
        The metrics, and the results folder.

    Raises:
        ScenarioError, WorkloadError, PolicyError, OracleError: bad input.
        RunError: the run failed; what was recorded is written.
        ResultsError: the results can't be written.
    """
    scenario = load_scenario(path, overrides)
    chosen = chosen_by(scenario, path.parent, scheduler)
    chosen.check()
    folder = out or Path("results") / f"{scenario.name}-{folder_name(chosen.called)}"
    with shown(f"{scenario.name} {chosen.called}") as report:
        if transport == "inproc":
            jobs = Library([path], overrides).first_jobs
            return run_chosen(chosen, scenario, jobs, folder, report, formats), folder
        options = [*as_options(overrides or {}), *formats_as_options(formats)]
        return _run_processes(
            path, chosen, folder, transport, overrides or {}, options, report
        ), folder


def run_chosen(
    chosen: Chosen,
    scenario: Scenario,
    jobs: JobTable,
    out: Path | None,
    report: Report = ignore,
    formats: Sequence[Format] = (),
) -> dict[str, int | float]:
    """Run a scenario in this process, and return the metrics.

    Args:
        chosen: who schedules.
        scenario: what.
        jobs: its jobs.
        out: the results folder; None: nothing is written.
        report: told now and then how far it has got.
        formats: of results, beside our own.

    Raises:
        As `run_scenario`.
    """
    with with_plan(chosen, scenario, jobs, out) as ready:
        opened = open_scenario(scenario, jobs, chosen.title)
        return run_in_process(opened, ready.policy(), out, report, also_of(formats))


def _run_processes(
    path: Path,
    chosen: Chosen,
    out: Path,
    wire: Wire,
    overrides: Overrides,
    options: Sequence[str],
    report: Report,
) -> dict[str, int | float]:
    with _planned(path, chosen, out, overrides) as ready:
        return run_processes(
            path,
            chosen.name,
            out,
            wire,
            server_options=options,
            scheduler_options=ready.options(),
            report=report,
        )


def _planned(
    path: Path, chosen: Chosen, out: Path, overrides: Overrides
) -> AbstractContextManager[Chosen]:
    """Read the jobs, which may be many, only for a plan: the server reads them, too."""
    if not chosen.needs_plan:
        return nullcontext(chosen)
    library = Library([path], overrides)
    return with_plan(chosen, library.first, library.first_jobs, out)


def folder_name(scheduler: str) -> str:
    """Return a scheduler's name without the path it may end with."""
    return scheduler.partition(":")[0]


def check(path: Path, overrides: Overrides | None = None) -> tuple[Scenario, JobTable]:
    """Return a scenario and its jobs.

    Raises:
        ScenarioError, WorkloadError, PolicyError: something in it can't be.
    """
    library = Library([path], overrides)
    chosen_by(library.first, path.parent).check()
    return library.first, library.first_jobs


def serve_scenarios(
    paths: Sequence[Path],
    address: str,
    *,
    out: Path | None = None,
    sessions: int | None = None,
    folder_per_session: bool = True,
    limits: Limits | None = None,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
) -> list[str]:
    """Serve scenarios until told to stop, and return what went wrong in sessions.

    Raises:
        ScenarioError, WorkloadError: bad input.
        BindError: the address can't be had.
    """
    log_as_json()
    limits = limits or Limits()
    library = Library(paths, overrides, limits.jobs)
    service = Service(
        library.open,
        limits,
        out,
        sessions=sessions,
        folder_per_session=folder_per_session,
        also=also_of(formats),
    )
    serve(service, address)
    return service.failures
