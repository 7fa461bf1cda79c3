"""Commands of the twin: questions about the jobs of a cluster."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli.executors import local
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_slurm.hooks import Bell
    from hpcosim_twin.cluster.sources import Source

PANEL = "Following"
TWIN_VARIABLE = "HPCOSIM_TWIN"
TOKEN_VARIABLE = "HPCOSIM_TWIN_TOKEN"  # noqa: S105 - the name of a variable
SiteFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        help="Nodes, partitions and scheduler settings of the site, as `hpcosim import slurm` "
        "writes them. Default: from the cluster's slurm.conf and accounting.",
    ),
]
TimeZone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the accounting, such as Europe/Berlin.")
]


def default_folder() -> Path:
    """Return the folder of a twin of this user."""
    from platformdirs import user_state_path

    return user_state_path("hpcosim") / "twin"


def twin(
    scenario: SiteFile = None,
    http: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where to serve. Use 127.0.0.1 as host; at other addresses tokens and answers "
            "cross the network unencrypted, unless a proxy with TLS is before it.",
        ),
    ] = "127.0.0.1:28090",
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the picture of the cluster, the record and the tokens. Default: in "
            "~/.local/state/hpcosim.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="What `hpcosim calibrate` has found in the accounting: on what run times depend, "
            "and how wide ranges are. Default: none.",
        ),
    ] = None,
    visible: Annotated[
        Literal["own", "account", "all"],
        typer.Option(help="Whose jobs the users of tokens see: operators see all."),
    ] = "own",
    sacct: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=PANEL,
            help="Play recorded accounting, the output of `sacct -P`, instead of following the "
            "cluster of this machine. It needs --scenario.",
        ),
    ] = None,
    time_zone: Annotated[
        str, typer.Option(metavar="ZONE", rich_help_panel=PANEL, help="Time zone of --sacct.")
    ] = "UTC",
    start: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            rich_help_panel=PANEL,
            help="First instant of --sacct, such as 2026-11-22T08:00:00. Default: its first "
            "submission.",
        ),
    ] = "",
    speed: Annotated[
        float,
        typer.Option(
            min=1e-3, rich_help_panel=PANEL, help="Seconds of --sacct per second; inf: at once."
        ),
    ] = 1.0,
    bell: Annotated[
        Path | None,
        typer.Option(
            metavar="FIFO",
            rich_help_panel=PANEL,
            help="FIFO to which programs of Slurm write when something changes, so that the twin "
            "looks at once. Default: none.",
        ),
    ] = None,
    poll_s: Annotated[
        float,
        typer.Option(min=0.1, rich_help_panel=PANEL, help="Time between two readings, in s."),
    ] = 10.0,
    check_s: Annotated[
        float,
        typer.Option(min=0.1, rich_help_panel=PANEL, help="Time between full readings, in s."),
    ] = 120.0,
    forecast_s: Annotated[
        float,
        typer.Option(
            min=1.0, help="Time between forecasts of all waiting jobs for the record, in s."
        ),
    ] = 600.0,
    futures: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of simulations of each question.")
    ] = 50,
    workers: Annotated[
        int, typer.Option("--workers", "-j", min=1, help="Processes that answer questions.")
    ] = 1,
) -> None:
    """Follow a Slurm cluster and answer questions about it, until stopped.

    The twin keeps a picture of the queue, serves a page, answers questions over HTTP
    (`hpcosim ask --twin URL`), and compares what it says with what happens. It runs only commands
    of Slurm that read.
    """
    with errors_in_one_line(sigterm_interrupts=False), ExitStack() as stack:
        from hpcosim_scenarios.running.status import log_as_json
        from hpcosim_server.service.stop_signals import Stop
        from hpcosim_slurm.hooks import Bell
        from hpcosim_twin.cluster.follow import FollowSettings
        from hpcosim_twin.service.desk import DeskSettings
        from hpcosim_twin.service.running import TwinSettings, run_twin
        from hpcosim_view.live.address import http_address

        opened = None if bell is None else stack.enter_context(Bell(bell))
        settings = TwinSettings(
            address=http_address(http),
            folder=folder or default_folder(),
            visible=visible,
            calibration=calibration,
            forecast_s=forecast_s,
            follow=FollowSettings(poll_s=poll_s, check_s=check_s),
            desk=DeskSettings(workers=workers, futures=futures),
        )
        source = _source(scenario, opened, sacct, (time_zone, start, speed))
        log_as_json()
        stop = Stop()
        run_twin(source, settings, lambda: bool(stop), _tell)


def _source(
    scenario: Path | None, bell: Bell | None, sacct: Path | None, playing: tuple[str, str, float]
) -> Source:
    from hpcosim.cli.printing import print_warning
    from hpcosim_slurm.files.report import ImportReport
    from hpcosim_slurm.texts import origin_of, zone_of
    from hpcosim_slurm.tools import Tools
    from hpcosim_twin.cluster.observer import site_of
    from hpcosim_twin.cluster.recorded import read_accounting
    from hpcosim_twin.cluster.sources import LiveSource, RecordedSource

    if sacct is None:
        return LiveSource(Tools(), scenario, bell)
    if scenario is None:
        raise typer.BadParameter("--sacct needs --scenario, which `hpcosim import slurm` writes")
    zone, start, speed = playing
    report = ImportReport()
    accounting = read_accounting(sacct, site_of(scenario), report, zone)
    for kind in ("dropped", "guessed"):
        if text := report.summary(kind):
            print_warning(f"{sacct}: {kind}: {text}")
    start_s = origin_of(start, zone_of(zone), accounting.jobs[0].submit_s)
    return RecordedSource(accounting, start_s, speed)


def _tell(url: str, tokens: Path) -> None:
    from hpcosim_server import log

    log.info("twin", url=url, tokens=str(tokens))


def calibrate(
    conf: Annotated[Path, typer.Option(metavar="FILE", help="slurm.conf of the cluster.")],
    sacct: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Output of `sacct -P` of months, plain or gzipped."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="The file to write.")],
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page in HTML.")
    ] = None,
    sacctmgr: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Accounts and limits: output of `sacctmgr dump`."),
    ] = None,
    until: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Use the accounting up to this time, such as 2026-11-22."
        ),
    ] = "",
    time_zone: TimeZone = "UTC",
    questions: Annotated[
        int,
        typer.Option(min=10, max=10_000, help="Jobs of the part kept apart that are asked about."),
    ] = 100,
    futures: Annotated[
        int, typer.Option(min=5, max=10_000, help="Number of simulations of each question.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    workers: Annotated[
        int, typer.Option("--workers", "-j", min=0, help="Processes; 0: one for each core.")
    ] = 1,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist.")] = False,
) -> None:
    """Calibrate forecasts of a Slurm cluster with its accounting.

    What slurm.conf does not say is fitted: what run times depend on, rhythms of submissions,
    failures, users who give up, delays and intervals of the scheduler. The last four weeks, or the
    last fifth of a short accounting, are kept apart: jobs of this part are asked about at their
    submission, and the answers are compared with what happened.
    """
    with errors_in_one_line():
        from hpcosim.cli.printing import print_warning
        from hpcosim_experiments.executors import parallel_map
        from hpcosim_twin.fits.cluster import CalibrationSettings
        from hpcosim_twin.fits.files import CalibrationFiles, calibrate_files, summary

        files = CalibrationFiles(
            conf=conf,
            sacct=sacct,
            out=out,
            sacctmgr=sacctmgr,
            until=until,
            page=report,
            force=force,
        )
        with parallel_map(local(workers)) as parallel:
            settings = CalibrationSettings(questions, futures, seed, time_zone, parallel)
            found = calibrate_files(files, settings, typer.echo)
        for each in found.warnings:
            print_warning(each)
        for line in summary(found):
            typer.echo(line)
