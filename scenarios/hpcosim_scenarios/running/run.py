"""Running and checking one scenario."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_client import Policy
from hpcosim_client.catalogue.schedulers import folder_name
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import Overrides, as_options
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.formats import Format, writers_of
from hpcosim_scenarios.running.formats import as_options as formats_as_options
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_scenarios.running.oracle import with_plan
from hpcosim_scenarios.running.processes import run_processes
from hpcosim_scenarios.running.progress import Report, ignore, shown
from hpcosim_scenarios.running.transport import Transport as Transport
from hpcosim_scenarios.running.transport import Wire
from hpcosim_server.record.folder import prepare
from hpcosim_workloads.table import JobTable


def run_scenario(
    path: Path,
    *,
    scheduler: str | None = None,
    transport: Transport = "ipc",
    out: Path | None = None,
    force: bool = False,
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
        force: replace the results in a folder that is not empty.
        overrides: values of the scenario to change, by dotted path.
        formats: of results, beside our own.

    Returns:
        The metrics, and the results folder.

    Raises:
        ScenarioError, WorkloadError, PolicyError, OracleError: bad input.
        RunError: the run failed; what was recorded is written.
        ResultsFolderError: the results folder cannot be used; raised before the simulation starts.
        ResultsError: the results cannot be written; it has the metrics.
    """
    scenario = load_scenario(path, overrides)
    chosen = chosen_by(scenario, path, scheduler)
    chosen.check()
    folder = out or default_folder(scenario, folder_name(chosen.called))
    prepare(folder, force=force)
    with shown(f"{scenario.name} {chosen.called}") as report:
        if transport == "inproc":
            jobs = Library([path], overrides).first_jobs
            return run_chosen(chosen, scenario, jobs, folder, report, formats), folder
        options = [*as_options(overrides or {}), *formats_as_options(formats)]
        metrics = _run_processes(path, chosen, folder, transport, overrides or {}, options, report)
        return metrics, folder


def default_folder(scenario: Scenario, scheduler: str) -> Path:
    """Return the results folder of a run whose caller names none."""
    return Path("results") / f"{scenario.name}-{scheduler}"


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
        scenario: what is simulated.
        jobs: its jobs.
        out: the results folder; None: nothing is written.
        report: told now and then how far it has got.
        formats: of results, beside our own.

    Raises:
        As `run_scenario`.
    """
    with with_plan(chosen, scenario, jobs, out) as ready:
        opened = open_scenario(scenario, jobs, chosen.title)
        opened.run.policy = ready.description()
        return run_in_process(opened, ready.policy(), out, report, writers_of(formats))


def simulate(
    path: Path,
    policy: Policy,
    *,
    name: str = "policy",
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
) -> dict[str, int | float]:
    """Run a scenario in this process under a policy of the caller's, and return the metrics.

    Args:
        path: the scenario's file. Its own scheduler is passed over.
        policy: called with the view whenever something happened; decides by it.
        name: the policy's name in results.
        out: the results folder; None: nothing is written.
        force: replace the results in a folder that is not empty.
        overrides: values of the scenario to change, by dotted path.

    Raises:
        ScenarioError, WorkloadError: bad input.
        RunError: the simulation got stuck, or the policy raised PolicyError.
        ResultsFolderError: the results folder cannot be used.
        ResultsError: the results cannot be written; it has the metrics.
    """
    if out is not None:
        prepare(out, force=force)
    library = Library([path], overrides)
    opened = open_scenario(library.first, library.first_jobs, name)
    opened.run.policy = {"name": name}
    return run_in_process(opened, policy, out)


def _run_processes(
    path: Path,
    chosen: Chosen,
    out: Path,
    wire: Wire,
    overrides: Overrides,
    options: Sequence[str],
    report: Report,
) -> dict[str, int | float]:
    def run(ready: Chosen) -> dict[str, int | float]:
        return run_processes(
            path,
            chosen.name,
            out,
            wire,
            server_options=options,
            scheduler_options=ready.options(),
            report=report,
        )

    if not chosen.needs_plan:  # the jobs, which may be many, are read by the server alone
        return run(chosen)
    library = Library([path], overrides)
    with with_plan(chosen, library.first, library.first_jobs, out) as ready:
        return run(ready)


class Checked(NamedTuple):
    """A scenario in which nothing is wrong.

    Attributes:
        scenario: the scenario.
        jobs: its jobs.
        chosen: who schedules it.
    """

    scenario: Scenario
    jobs: JobTable
    chosen: Chosen


def check(path: Path, overrides: Overrides | None = None) -> Checked:
    """Return a scenario with all that belongs to it.

    Raises:
        ScenarioError, WorkloadError, PolicyError: something in it is wrong.
    """
    library = Library([path], overrides)
    chosen = chosen_by(library.first, path)
    chosen.check()
    return Checked(library.first, library.first_jobs, chosen)
