"""Options of the command `hpcosim serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from hpcosim.cli.checks import listening_address, scenario_files

LIMITS = "Limits"
JOURNAL = "Journal"

SyncWhen = Literal["always", "interval", "never"]

Scenarios = Annotated[
    list[Path],
    typer.Argument(
        metavar="SCENARIO...",
        help="Scenario files (YAML) or names of shipped scenarios.",
        callback=scenario_files,
    ),
]
Bind = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        callback=listening_address,
        help="Address to listen at. One that other machines may reach needs --keys.",
    ),
]
ServerKeys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="DIR",
        help="Folder of the server's keys, as `hpcosim keygen` makes it: only clients whose keys "
        "are in it can connect. Default: no keys.",
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Listen without keys at an address that other machines may reach."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder for results, with a subfolder per session. Default: none."),
]
Once = Annotated[
    bool, typer.Option("--once", help="Exit after one session; write its results to --out itself.")
]
Sessions = Annotated[
    int | None, typer.Option(min=1, help="Exit after this many sessions. Default: never.")
]
StatusFd = Annotated[
    int | None,
    typer.Option(
        min=0, help="Write progress and failures as JSON lines to this open file descriptor."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1024,
        help="Processes for sessions, started when they are needed. 1: one process for all. "
        "Default: one for each session that can be open; 1 with --once.",
    ),
]
Drain = Annotated[
    float,
    typer.Option(
        min=0.1, help="Time after a stop in which requests end and results are written, in s."
    ),
]
Journal = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=JOURNAL,
        help="Folder of journals, from which --resume restores sessions. "
        "Default: .journal in --out, or none without --out or with --once.",
    ),
]
NoJournal = Annotated[
    bool, typer.Option("--no-journal", rich_help_panel=JOURNAL, help="Keep no journal.")
]
Resume = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        rich_help_panel=JOURNAL,
        help="Folder of journals whose open sessions are restored, and go on.",
    ),
]
Sync = Annotated[
    SyncWhen,
    typer.Option(
        rich_help_panel=JOURNAL,
        help="When a record is on the disk, in case the machine fails: before its reply is sent, "
        "about every second, or when the operating system writes it.",
    ),
]
IdleTimeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        rich_help_panel=LIMITS,
        help="Close a session after this silence, in s.",
    ),
]
ResultsRetry = Annotated[
    float,
    typer.Option(
        min=0.0,
        rich_help_panel=LIMITS,
        help="While the disk is full, repeat the attempt to write results for this time, in s.",
    ),
]
MaxMessageBytes = Annotated[
    int, typer.Option(min=1024, rich_help_panel=LIMITS, help="Size of a message, in bytes.")
]
MaxDecisions = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Decisions in a message.")
]
MaxSessions = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Sessions that are open together.")
]
MaxJobs = Annotated[int, typer.Option(min=1, rich_help_panel=LIMITS, help="Jobs of a scenario.")]
MaxTotalJobs = Annotated[
    int, typer.Option(min=1, rich_help_panel=LIMITS, help="Jobs of all open sessions together.")
]
FirstRequestTimeout = Annotated[
    float,
    typer.Option(
        min=0.1,
        rich_help_panel=LIMITS,
        help="Close a session without a first request after this time, in s; it counts as never "
        "opened.",
    ),
]
MaxElapsed = Annotated[
    float,
    typer.Option(min=0.0, rich_help_panel=LIMITS, help="elapsed_s of a request, in simulated s."),
]
MaxSimulated = Annotated[
    float | None,
    typer.Option(
        min=0.0, rich_help_panel=LIMITS, help="Simulated time of a session, in s. Default: none."
    ),
]
MaxEventsPerS = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        rich_help_panel=LIMITS,
        help="Events that a session gets per second; replies wait. Default: none.",
    ),
]
MaxMemory = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Memory of all processes with sessions together, in MiB, with which the server "
        "refuses new sessions. 0: none.",
    ),
]
MinFree = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Available memory of the machine or container, in MiB, that a new session needs.",
    ),
]
MaxKept = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=LIMITS,
        help="Size of the last replies that are kept of closed sessions, in MiB.",
    ),
]
MaxPartial = Annotated[
    int,
    typer.Option(min=0, rich_help_panel=LIMITS, help="Results folders of sessions that end early."),
]
AllowOverride = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-override",
        metavar="PATTERN",
        rich_help_panel=LIMITS,
        help="Paths of the scenario that clients may change, such as 'workload.load' or "
        "'scheduler.*'. Repeatable. Default: all but files of the server.",
    ),
]
NoOverrides = Annotated[
    bool,
    typer.Option(
        "--no-overrides", rich_help_panel=LIMITS, help="Clients may change nothing but the seed."
    ),
]
