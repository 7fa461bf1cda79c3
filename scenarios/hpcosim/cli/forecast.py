"""The command `hpcosim forecast`: when waiting jobs of a Slurm cluster will start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line
from hpcosim.cli.options import Json

if TYPE_CHECKING:
    from hpcosim_slurm.starts.observation import Observation


def forecast(
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Nodes, partitions and scheduler settings of the site, as `hpcosim import slurm` "
            "writes them. Default: from the cluster's slurm.conf and accounting.",
        ),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of --record. Default: the Slurm cluster of this machine."
        ),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Ended jobs: output of `sacct -P`. Default: the accounting, or the jobs that "
            "Slurm remembers.",
        ),
    ] = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Output of an earlier --json. Ranges are as wide as those of earlier forecasts "
            "should have been. Give the option several times for several files.",
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of simulations with drawn run times.")
    ] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the queue, the site and the history to a new file, for --state. It "
            "has the names of users.",
        ),
    ] = None,
    workers: Annotated[
        int,
        typer.Option("--workers", "-j", min=0, help="Processes; 0: one for each core."),
    ] = 1,
    as_json: Json = False,
) -> None:
    """Forecast when the waiting jobs of a Slurm cluster start.

    The queue is simulated forward under the site's own settings, several times, with run times
    drawn from what users' jobs did before. For each waiting job: the median of its starts and the
    range from 10 to 90 %, beside what `squeue --start` says.
    """
    with errors_in_one_line():
        from hpcosim.cli.report import print_warning
        from hpcosim_experiments.executors import Local, parallel_map
        from hpcosim_sim.record.results import to_json
        from hpcosim_slurm.starts.calibration import margins, past_ranges, widened
        from hpcosim_slurm.starts.forecast import forecast_starts
        from hpcosim_slurm.starts.observation import write_observation
        from hpcosim_slurm.starts.queue_state import adopted
        from hpcosim_slurm.starts.table import as_json as data_of
        from hpcosim_slurm.starts.table import table_of

        seen = _observation(state, scenario, history)
        if record is not None:
            write_observation(seen, record)
        by = margins(past_ranges(earlier or [], seen), seen.state.at_s)
        found = adopted(seen, print_warning)
        chosen = Local(workers=None if workers == 0 else workers if workers > 1 else 0)
        with parallel_map(chosen) as parallel:
            drawn = forecast_starts(found.state, seen.history, samples, seed, parallel)
        starts = widened(drawn, by, found.state.now_s)
        if as_json:
            sys.stdout.write(to_json(data_of(seen, found, starts, drawn, samples, seed)))
            return
        for line in table_of(seen, found, starts):
            typer.echo(line)


def _observation(state: Path | None, scenario: Path | None, history: Path | None) -> Observation:
    """Return the observation in a file, or that of the cluster of this machine."""
    from msgspec.structs import replace

    from hpcosim.cli.report import print_warning
    from hpcosim_slurm.starts.observation import read_observation
    from hpcosim_slurm.starts.observer import history_of, observe, site_of
    from hpcosim_slurm.tools import Tools

    ended = None if history is None else history_of(history)
    if state is None:
        return observe(Tools(), scenario, ended, print_warning)
    seen = read_observation(state)
    if scenario is not None:
        seen = replace(seen, **site_of(scenario)._asdict())
    return seen if ended is None else replace(seen, history=tuple(ended))
