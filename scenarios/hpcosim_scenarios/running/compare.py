"""One scenario, several schedulers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hpcosim_client import PolicyError, expand
from hpcosim_client.catalogue.schedulers import folder_name
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.running.chosen import chosen_by
from hpcosim_scenarios.running.formats import Format
from hpcosim_scenarios.running.library import Library, Overrides
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.run import run_chosen, run_scenario
from hpcosim_scenarios.running.transport import Transport


def compare_schedulers(
    path: Path,
    names: Sequence[str],
    *,
    transport: Transport = "inproc",
    out: Path | None = None,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
) -> dict[str, dict[str, int | float]]:
    """Return the metrics of a scenario under each scheduler, by its name.

    Args:
        path: the scenario's file.
        names: the schedulers, or groups of them.
        transport: as for `run_scenario`.
        out: folder for the results, one below it for each scheduler; None: none are kept,
            but for transports that need two processes, which write to `results`.
        overrides: values of the scenario to change.
        formats: of results, beside our own.

    Raises:
        As `run_scenario`.
    """
    if not names:
        raise PolicyError("no schedulers were named")
    scenario = load_scenario(path, overrides)
    compared = [chosen_by(scenario, path, name) for name in expand(names)]
    for chosen in compared:
        chosen.check()
    jobs = Library([path], overrides).first_jobs
    metrics = {}
    for chosen, below in zip(compared, _folders(each.called for each in compared), strict=True):
        folder, name = out / below if out is not None else None, chosen.called
        if transport != "inproc":
            metrics[name], _ = run_scenario(
                path,
                scheduler=name,
                transport=transport,
                out=folder,
                overrides=overrides,
                formats=formats,
            )
            continue
        with shown(f"{scenario.name} {name}") as report:
            metrics[name] = run_chosen(chosen, scenario, jobs, folder, report, formats)
    return metrics


def _folders(names: Iterable[str]) -> Iterator[str]:
    """Yield a folder for each scheduler, no two the same."""
    used: Counter[str] = Counter()
    for name in map(folder_name, names):
        used[name] += 1
        yield name if used[name] == 1 else f"{name}-{used[name]}"
