"""The command `hpcosim slurm`: a live Slurm cluster for schedulers of the protocol."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli.options import SERVER, Bind, Force, Insecure, Json, ServerKeys
from hpcosim.cli.usage import EXAMPLES, errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_slurm.bridge.run import BridgeSettings
    from hpcosim_slurm.starts.observation import Observation


ACTING = "Modes hold and place"
POWER = "Energy, a model"

app = typer.Typer(help="Let a scheduler watch or drive the Slurm cluster of this machine.")

ModeOption = Annotated[
    Literal["shadow", "hold", "place"],
    typer.Option(
        help="shadow: the scheduler drives a copy of the cluster; Slurm is untouched. hold: it "
        "decides when jobs start, Slurm where. place: it decides both."
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="NAME",
        help="Partition that the scheduler sees, and in which jobs start. Repeatable. Default, for "
        "shadow only: all.",
    ),
]
Poll = Annotated[
    float, typer.Option(min=0.1, max=3600.0, help="Time between two looks at the cluster, in s.")
]
Journal = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="Journal for `hpcosim slurm report`. If it exists, the bridge goes on where it ended.",
    ),
]
Waiting = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=ACTING,
        help="Partition in which the jobs of a --partition wait, State=DOWN: one for each, in the "
        "same order. Default, for hold only: jobs wait held.",
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        rich_help_panel=ACTING,
        help="Print the commands of all decisions; run none of them.",
    ),
]
StartTimeout = Annotated[
    float,
    typer.Option(
        min=1.0,
        rich_help_panel=ACTING,
        help="Time after which a job that Slurm has not started counts as refused, in s.",
    ),
]
MaxSilent = Annotated[
    float,
    typer.Option(
        min=1.0,
        rich_help_panel=ACTING,
        help="Time without a word of the scheduler, or without a controller, after which the "
        "bridge releases all jobs and only watches, in s.",
    ),
]
MaxRejected = Annotated[
    int,
    typer.Option(
        min=1,
        rich_help_panel=ACTING,
        help="Number of rejected decisions in a row after which it does the same.",
    ),
]
ReleaseOnStop = Annotated[
    bool,
    typer.Option(
        "--release-on-stop",
        rich_help_panel=ACTING,
        help="At the end of the bridge, release all waiting jobs to Slurm. Default: they wait for "
        "a bridge that goes on with the journal.",
    ),
]
BellOption = Annotated[
    Path | None,
    typer.Option(
        "--bell",
        metavar="FIFO",
        help="FIFO to which programs of Slurm write when something changes, so that the bridge "
        "looks at once, in any mode. Default: none.",
    ),
]
IdleWatts = Annotated[
    float, typer.Option(min=0.0, rich_help_panel=POWER, help="Power of a node without jobs, in W.")
]
BusyWatts = Annotated[
    float,
    typer.Option(
        min=0.0, rich_help_panel=POWER, help="Power of a node whose CPUs all have jobs, in W."
    ),
]
OffWatts = Annotated[
    float,
    typer.Option(min=0.0, rich_help_panel=POWER, help="Power of a node that is off, in W."),
]


@app.callback(invoke_without_command=True, epilog=EXAMPLES["slurm"])
def slurm(
    context: typer.Context,
    bind: Bind = SERVER,
    mode: ModeOption = "shadow",
    partition: Partitions = None,
    poll_s: Poll = 1.0,
    journal: Journal = Path("slurm.jsonl"),
    bell: BellOption = None,
    waiting_partition: Waiting = None,
    dry_run: DryRun = False,
    start_timeout_s: StartTimeout = 30.0,
    max_silent_s: MaxSilent = 60.0,
    max_rejected: MaxRejected = 20,
    release_on_stop: ReleaseOnStop = False,
    node_idle_w: IdleWatts = 100.0,
    node_busy_w: BusyWatts = 200.0,
    node_off_w: OffWatts = 10.0,
    keys: ServerKeys = None,
    insecure: Insecure = False,
) -> None:
    """Serve the Slurm cluster of this machine to a scheduler, until stopped.

    The scheduler connects as to a simulation and is not changed. It sees the nodes and jobs of the
    cluster. In mode shadow, what it decides happens in a copy of the cluster, beside the real one:
    `hpcosim slurm report` compares both. In the modes hold and place Slurm does it.
    """
    if context.invoked_subcommand is not None:
        return
    with errors_in_one_line(sigterm_interrupts=False):
        _check_options(context, mode)
        from hpcosim_protocol.keys import read_server_keys
        from hpcosim_server.service.keys import Access
        from hpcosim_slurm.bridge.bridge import SafetyLimits
        from hpcosim_slurm.bridge.run import BridgeSettings
        from hpcosim_slurm.worlds.site import PowerModel

        settings = BridgeSettings(
            bind=bind,
            mode=mode,
            partitions=tuple(partition or ()),
            waiting=tuple(waiting_partition or ()),
            poll_s=poll_s,
            journal=journal,
            bell=bell,
            start_timeout_s=start_timeout_s,
            limits=SafetyLimits(
                silent_s=max_silent_s, unreachable_s=max_silent_s, rejected=max_rejected
            ),
            show=typer.echo if dry_run else None,
            releases=release_on_stop,
            power=PowerModel(idle_w=node_idle_w, busy_w=node_busy_w, off_w=node_off_w),
            access=Access(None if keys is None else read_server_keys(keys), insecure),
        )
        _serve(settings)


def _check_options(context: typer.Context, mode: str) -> None:
    """Check that options of the modes that act are not given in mode shadow."""
    from hpcosim_scenarios.errors import ScenariosError

    for name in ("dry_run", "start_timeout_s", "max_silent_s", "max_rejected", "release_on_stop"):
        source = context.get_parameter_source(name)
        if mode == "shadow" and source is not None and source.name == "COMMANDLINE":
            option = "--" + name.replace("_", "-")
            raise ScenariosError(
                f"{option}: mode shadow runs no command that changes anything; expected --mode "
                f"hold or --mode place, or leave {option} out"
            )


def _serve(settings: BridgeSettings) -> None:
    from hpcosim import __version__
    from hpcosim.cli.printing import print_warning
    from hpcosim_scenarios.running.status import log_as_json
    from hpcosim_server.service.stop_signals import Stop
    from hpcosim_slurm.bridge.run import run_bridge

    log_as_json()
    stop = Stop()
    run_bridge(settings, __version__, lambda: stop.reason if stop else "", print_warning)


@app.command()
def report(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="Journal of `hpcosim slurm`.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="Folder for both runs as results, and report.html, which shows them side by side. "
            "Default: none.",
        ),
    ] = None,
    tolerance_s: Annotated[
        float,
        typer.Option(min=0.0, help="Largest difference of two starts that match, in s."),
    ] = 60.0,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Report what a scheduler decided beside what Slurm did.

    Of a journal in mode shadow: what the scheduler of the last session would have done. Of the
    modes hold and place: when Slurm did what the scheduler decided, and what it did not.
    """
    with errors_in_one_line():
        from hpcosim import __version__
        from hpcosim.cli.printing import print_warning
        from hpcosim_sim.record.folder import prepare
        from hpcosim_sim.record.results import to_json
        from hpcosim_slurm.journal import read
        from hpcosim_slurm.report.export import report_of, write_folders

        found = report_of(read(journal, print_warning), tolerance_s)
        if out is not None:
            prepare(out, force=force)
            from hpcosim_view.report import write_report

            folders = write_folders(found, out, __version__)
            page = write_report(folders, out / "report.html", force=force, warn=print_warning)
            sys.stderr.write(f"{page}\n")
        sys.stdout.write(to_json(found.figures) if as_json else found.text)


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
        from hpcosim_slurm.starts.asked import answers_of, asked_job
        from hpcosim_slurm.starts.calibration import margins, past_ranges, widened
        from hpcosim_slurm.starts.forecast import forecast_starts
        from hpcosim_slurm.starts.observation import write_observation
        from hpcosim_slurm.starts.queue_state import adopted
        from hpcosim_slurm.starts.table import answer_table, answers_as_json, table_of
        from hpcosim_slurm.starts.table import as_json as data_of

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
