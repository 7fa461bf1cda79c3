"""Run a scenario with several schedulers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from hpcosim_client import PolicyError, expand
from hpcosim_client.catalogue.schedulers import folder_name
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.formats import Format
from hpcosim_scenarios.running.incomplete import incomplete_results_named, is_incomplete
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.run import default_folder, run_chosen, run_scenario
from hpcosim_scenarios.running.transport import Transport
from hpcosim_scenarios.running.warnings import Warn, check_seed, ignore_warning, once
from hpcosim_server.errors import ResultsError
from hpcosim_server.record.folder import prepare

Metrics = dict[str, int | float]
OnResult = Callable[[str, Mapping[str, int | float]], None]
"""Takes the name of a scheduler in results and its metrics."""


def compare_schedulers(
    path: Path,
    schedulers: Sequence[str],
    *,
    transport: Transport = "inproc",
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
    warn: Warn = ignore_warning,
    on_result: OnResult = lambda name, metrics: None,
) -> dict[str, Metrics]:
    """Run a scenario with several schedulers, and return the metrics by scheduler.

    Args:
        path: the scenario's file.
        schedulers: names of schedulers or of groups of them.
        transport: as for `run_scenario`.
        out: folder for the results, with a folder for each scheduler. None: with `inproc` no
            results are written, with `ipc` and `tcp` they are written to
            `results/SCENARIO-SCHEDULER`.
        force: replace the results in folders that are not empty; not needed for the results of a
            run that did not complete.
        overrides: values to change in the scenario, by dotted path.
        formats: additional formats of results.
        warn: called with each warning; a warning about several schedulers comes once.
        on_result: called with the name and the metrics of a scheduler when its run has ended, even
            if its results cannot be written.

    Raises:
        ScenarioError, WorkloadError, PolicyError, OracleError, RunError, ResultsFolderError,
        ResultsError: as `run_scenario`.
    """
    if not schedulers:
        raise PolicyError("no scheduler is named; expected names separated by commas")
    scenario = load_scenario(path, overrides)
    compared = [chosen_by(scenario, path, name, overrides) for name in expand(schedulers)]
    for chosen in compared:
        chosen.check()
    keep = out is not None or transport != "inproc"
    folders = _folders(out, scenario, compared) if keep else [None] * len(compared)
    for folder in folders:
        if folder is not None:
            prepare(folder, force=force or is_incomplete(folder))
    run: Callable[[Chosen, Path | None], Metrics]
    if transport == "inproc":
        loaded = Library([path], overrides).default
        run = partial(_run_in_process, loaded, formats, once(warn))
    else:
        run = partial(_run_over, transport, path, overrides, formats, once(warn))
    metrics = {}
    for chosen, folder in zip(compared, folders, strict=True):
        try:
            metrics[chosen.called] = run(chosen, folder)
        except ResultsError as error:
            if error.metrics is not None:
                on_result(chosen.called, error.metrics)
            raise
        on_result(chosen.called, metrics[chosen.called])
    return metrics


def _run_in_process(
    loaded: LoadedScenario,
    formats: Sequence[Format],
    warn: Warn,
    chosen: Chosen,
    folder: Path | None,
) -> Metrics:
    check_seed(loaded.scenario, loaded.overrides, chosen.name, warn)
    with (
        incomplete_results_named(folder, warn) if folder is not None else nullcontext(),
        shown(f"{loaded.scenario.name} {chosen.called}") as report,
    ):
        return run_chosen(chosen, loaded, folder, report, formats, warn)


def _run_over(
    transport: Transport,
    path: Path,
    overrides: Overrides | None,
    formats: Sequence[Format],
    warn: Warn,
    chosen: Chosen,
    folder: Path | None,
) -> Metrics:
    metrics, _ = run_scenario(
        path,
        scheduler=chosen.called,
        transport=transport,
        out=folder,
        force=True,  # the folders are checked before the first run
        overrides=overrides,
        formats=formats,
        warn=warn,
    )
    return metrics


def _folders(out: Path | None, scenario: Scenario, compared: Sequence[Chosen]) -> list[Path | None]:
    """Return a results folder for each scheduler, all different."""
    names = list(_unique(folder_name(chosen.called) for chosen in compared))
    return [default_folder(scenario, name) if out is None else out / name for name in names]


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield each name, numbered from its second occurrence on."""
    used: Counter[str] = Counter()
    for name in names:
        used[name] += 1
        yield name if used[name] == 1 else f"{name}-{used[name]}"
