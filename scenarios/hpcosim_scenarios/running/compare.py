"""One scenario, several schedulers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcosim_client import PolicyError, expand
from hpcosim_client.catalogue.schedulers import folder_name
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running.chosen import chosen_by
from hpcosim_scenarios.running.formats import Format
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.run import default_folder, run_chosen, run_scenario
from hpcosim_scenarios.running.transport import Transport
from hpcosim_server.record.folder import prepare


def compare_schedulers(
    path: Path,
    schedulers: Sequence[str],
    *,
    transport: Transport = "inproc",
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
) -> dict[str, dict[str, int | float]]:
    """Return the metrics of a scenario under each scheduler, by its name.

    Args:
        path: the scenario's file.
        schedulers: names of schedulers or of groups of them.
        transport: as for `run_scenario`.
        out: folder for the results, one below it for each scheduler; None: none are kept,
            but for transports that need two processes, which write to `results`.
        force: replace the results in folders that are not empty.
        overrides: values of the scenario to change.
        formats: of results, beside our own.

    Raises:
        As `run_scenario`.
    """
    if not schedulers:
        raise PolicyError("no schedulers were named")
    scenario = load_scenario(path, overrides)
    compared = [chosen_by(scenario, path, name) for name in expand(schedulers)]
    for chosen in compared:
        chosen.check()
    if out is None and transport == "inproc":
        folders: list[Path | None] = [None] * len(compared)
    else:
        names = _unique(folder_name(each.called) for each in compared)
        folders = [default_folder(scenario, each) if out is None else out / each for each in names]
    for folder in folders:
        if folder is not None:
            prepare(folder, force=force)
    jobs = Library([path], overrides).first_jobs
    metrics = {}
    for chosen, folder in zip(compared, folders, strict=True):
        name = chosen.called
        if transport != "inproc":
            metrics[name], _ = run_scenario(
                path,
                scheduler=name,
                transport=transport,
                out=folder,
                force=True,  # checked above
                overrides=overrides,
                formats=formats,
            )
            continue
        with shown(f"{scenario.name} {name}") as report:
            metrics[name] = run_chosen(chosen, scenario, jobs, folder, report, formats)
    return metrics


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield each name, numbered from its second occurrence on."""
    used: Counter[str] = Counter()
    for name in names:
        used[name] += 1
        yield name if used[name] == 1 else f"{name}-{used[name]}"
