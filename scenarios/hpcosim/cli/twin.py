"""Commands of the twin: questions about the jobs of a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.options import Json
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_twin.observation import Observation


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
    job: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OPTIONS",
            help="Say when a job with these options of sbatch would start and end if it was "
            "submitted now. Give it several times to compare ways to ask for the same work.",
        ),
    ] = None,
    user: Annotated[
        str, typer.Option(metavar="NAME", help="User of --job, whose earlier jobs are its history.")
    ] = "",
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
        from hpcosim.cli.printing import print_warning
        from hpcosim_experiments.executors import Local, parallel_map
        from hpcosim_sim.record.results import to_json
        from hpcosim_twin.asked import answers_of, asked_job
        from hpcosim_twin.calibration import margins, past_ranges, widened
        from hpcosim_twin.forecast import forecast_starts
        from hpcosim_twin.observation import write_observation
        from hpcosim_twin.queue_state import adopted
        from hpcosim_twin.table import answer_table, answers_as_json, table_of
        from hpcosim_twin.table import as_json as data_of

        if job and earlier:
            raise typer.BadParameter("--earlier applies only to waiting jobs, not to --job")
        if user and not job:
            raise typer.BadParameter("--user applies only to --job")
        seen = _observation(state, scenario, history)
        if record is not None:
            write_observation(seen, record)
        asked = [asked_job(options, seen, user) for options in job or []]
        by = margins(past_ranges(earlier or [], seen), seen.state.at_s)
        found = adopted(seen, print_warning)
        chosen = Local(workers=None if workers == 0 else workers if workers > 1 else 0)
        with parallel_map(chosen) as parallel:
            if asked:
                answers = answers_of(asked, seen, found, samples, seed, parallel)
                data = answers_as_json(answers, seen, found, samples, seed)
                lines = answer_table(answers, found)
            else:
                drawn = forecast_starts(found.state, seen.history, samples, seed, parallel)
                starts = widened(drawn, by, found.state.now_s)
                data = data_of(seen, found, starts, drawn, samples, seed)
                lines = table_of(seen, found, starts)
        if as_json:
            sys.stdout.write(to_json(data))
            return
        for line in lines:
            typer.echo(line)


def _observation(state: Path | None, scenario: Path | None, history: Path | None) -> Observation:
    from msgspec.structs import replace

    from hpcosim.cli.printing import print_warning
    from hpcosim_slurm.tools import Tools
    from hpcosim_twin.observation import read_observation
    from hpcosim_twin.observer import history_of, observe, site_of

    ended = None if history is None else history_of(history)
    if state is None:
        return observe(Tools(), scenario, ended, print_warning)
    seen = read_observation(state)
    if scenario is not None:
        seen = replace(seen, **site_of(scenario)._asdict())
    return seen if ended is None else replace(seen, history=tuple(ended))
