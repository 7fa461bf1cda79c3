"""Commands of the twin: questions about the jobs of a cluster."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli.executors import local
from hpcosim.cli.options import Json
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_slurm.hooks import Bell
    from hpcosim_twin.cluster.observation import Observation
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
StateFile = Annotated[
    Path | None,
    typer.Option(
        "--state",
        metavar="FILE",
        help="A queue, as `hpcosim forecast --record` writes it. Default: the Slurm cluster of "
        "this machine.",
    ),
]
HistoryFile = Annotated[
    Path | None,
    typer.Option(
        "--history",
        metavar="FILE",
        help="Ended jobs: output of `sacct -P`. Default: the accounting, or the jobs that "
        "Slurm remembers.",
    ),
]

TimeZone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of the accounting, such as Europe/Berlin.")
]


def forecast(
    scenario: SiteFile = None,
    state: StateFile = None,
    history: HistoryFile = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Output of an earlier --json. Ranges are as wide as those of earlier forecasts "
            "should have been. Give the option several times for several files.",
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of `hpcosim calibrate` for this cluster: what run times depend on, and how "
            "wide ranges must be before --earlier is known.",
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
        from hpcosim_experiments.executors import parallel_map
        from hpcosim_sim.record.results import to_json
        from hpcosim_twin.answers.asked import answers_of, asked_job, check_possible
        from hpcosim_twin.answers.calibration import margins, past_ranges, widened
        from hpcosim_twin.answers.table import queue_as_json, queue_lines, ways_as_json, ways_lines
        from hpcosim_twin.cluster.observation import write_observation
        from hpcosim_twin.cluster.queue_state import adopted
        from hpcosim_twin.fits.cluster import prepared, read_calibration
        from hpcosim_twin.futures.forecast import forecast_starts

        if job and earlier:
            raise typer.BadParameter("--earlier applies only to waiting jobs, not to --job")
        if user and not job:
            raise typer.BadParameter("--user applies only to --job")
        seen = observation(state, scenario, history)
        if record is not None:
            write_observation(seen, record)
        scores: tuple[float, ...] = ()
        if calibration is not None:
            known = read_calibration(calibration)
            seen, scores = prepared(seen, known), known.scores
        asked = [asked_job(options, seen, user) for options in job or []]
        by = margins(past_ranges(earlier or [], seen), seen.state.at_s, scores)
        found = adopted(seen, print_warning)
        check_possible(asked, seen, found)
        with parallel_map(local(workers)) as parallel:
            if asked:
                answers = answers_of(asked, seen, found, samples, seed, parallel)
                data = ways_as_json(answers, seen, found, samples, seed)
            else:
                drawn = forecast_starts(found.state, seen.history, samples, seed, parallel)
                starts = widened(drawn, by, found.state.now_s)
                data = queue_as_json(seen, found, starts, drawn, samples, seed)
        if as_json:
            sys.stdout.write(to_json(data))
            return
        for line in ways_lines(data) if asked else queue_lines(data):
            typer.echo(line)


def observation(state: Path | None, scenario: Path | None, history: Path | None) -> Observation:
    """Return the recorded queue, or that of the cluster of this machine."""
    from msgspec.structs import replace

    from hpcosim.cli.printing import print_warning
    from hpcosim_slurm.tools import Tools
    from hpcosim_twin.cluster.observation import read_observation
    from hpcosim_twin.cluster.observer import history_of, observe, site_of

    ended = None if history is None else history_of(history)
    if state is None:
        return observe(Tools(), scenario, ended, print_warning)
    seen = read_observation(state)
    if scenario is not None:
        seen = replace(seen, **site_of(scenario)._asdict())
    return seen if ended is None else replace(seen, history=tuple(ended))


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
