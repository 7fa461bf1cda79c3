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
