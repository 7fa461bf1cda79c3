"""The command group `hpcosim benchmark`: suites, submissions and leaderboards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli import options
from hpcosim.cli.usage import EXAMPLES, errors_in_one_line, help_of

if TYPE_CHECKING:
    from hpcosim_experiments.benchmark.submission import Author, Information, Verified

app = typer.Typer(
    help="Run schedulers on fixed instances, verify submissions, and rank them.",
    no_args_is_help=True,
)

SuiteArgument = Annotated[
    str, typer.Argument(metavar="SUITE", help="Name of a shipped suite, or path of a suite.yaml.")
]
OwnSuite = Annotated[
    str,
    typer.Option(
        metavar="SUITE",
        help="Suite of the submissions. Default: the shipped suite that each names.",
    ),
]
Submissions = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Submissions (.zip), or folders with submissions."),
]


def list_suites() -> None:
    """List the shipped suites."""
    with errors_in_one_line():
        from hpcosim_experiments.benchmark.suite import find_suite, shipped_suites

        for name in shipped_suites():
            file = find_suite(name).file
            typer.echo(f"{name:<16}{len(file.instances):>4} instances  {file.title}")


def show(suite: SuiteArgument) -> None:
    """Show a suite: its score, its bound, and the hash, jobs and bound of each instance."""
    with errors_in_one_line():
        from hpcosim_experiments.benchmark.leaderboard import sentence
        from hpcosim_experiments.benchmark.suite import find_suite

        found = find_suite(suite)
        typer.echo(f"{found.file.name}: {sentence(found)}")
        typer.echo(f"decisions: {', '.join(found.file.decisions)}")
        for seal in found.seals.values():
            typer.echo(
                f"{seal.instance:<24}{seal.jobs:>6} jobs  bound {seal.bound:<12.6g} reference "
                f"{seal.reference:<12.6g} {seal.sha256}"
            )


def run(
    suite: SuiteArgument,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE", callback=options.output_file, help="The submission to write (.zip)."
        ),
    ],
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            callback=options.scheduler_name,
            help="Scheduler in this process: a name of `hpcosim schedulers`, PATH.py:FUNCTION, or "
            "an agent of the instances' scenarios. {instance} in it is replaced by the name of the "
            "instance, as in scripted:schedules/{instance}.csv.",
        ),
    ] = None,
    power: Annotated[
        str,
        typer.Option(
            metavar="MANAGER",
            help="Power manager, by name or as a YAML or JSON mapping. Paths in it are relative to "
            "the scenarios of the instances.",
        ),
    ] = "always-on",
    power_awareness: options.PowerAwareness = "unaware",
    client: Annotated[
        str,
        typer.Option(
            metavar="COMMAND",
            help="Command that starts a scheduler for one session, instead of --scheduler. "
            "{address} in it is replaced by the address of the server.",
        ),
    ] = "",
    bind: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            callback=options.if_given(options.listening_address),
            help="Wait at this address for a scheduler that connects once for each instance. "
            f"Default with --client: {options.SERVER}.",
        ),
    ] = None,
    keys: options.ServerKeys = None,
    insecure: options.Insecure = False,
    name: Annotated[
        str, typer.Option(help="Name in the leaderboard. Default: that of --scheduler.")
    ] = "",
    author: Annotated[str, typer.Option(help="Who wrote the scheduler.")] = "",
    source: Annotated[str, typer.Option(help="Where it is described, or its program.")] = "",
    information: Annotated[
        str,
        typer.Option(
            help="What it knows: requested (what the protocol tells), run-times (true run times "
            "too) or clairvoyant (jobs to come too)."
        ),
    ] = "requested",
) -> None:
    """Run all instances of a suite with a scheduler, and write a submission."""
    with errors_in_one_line():
        from hpcosim_conformance.clients.connection import split_command
        from hpcosim_experiments.benchmark.instance_runs import run_policy, run_served
        from hpcosim_experiments.benchmark.suite import BenchmarkError, find_suite
        from hpcosim_protocol.keys import read_server_keys
        from hpcosim_scenarios.running.policies import parse_power_list
        from hpcosim_server.service.keys import Access

        if (scheduler is None) == (not client and bind is None):
            raise BenchmarkError("expected either --scheduler, or --client, --bind or both")
        found = find_suite(suite)
        who = _author(name or scheduler or "", author, source, information)
        if scheduler is None:
            access = Access(read_server_keys(keys) if keys else None, insecure)
            words = split_command(client) if client else []
            address = bind or options.SERVER
            if not client:
                typer.echo(f"waiting for a scheduler at {address}", err=True)
            verified = run_served(found, address, words, access, out, who, _show_instance)
        else:
            managers = parse_power_list(power)
            if len(managers) != 1:
                raise BenchmarkError(f"--power: expected one power manager, got {len(managers)}")
            manager = {"name": managers[0]} if isinstance(managers[0], str) else managers[0]
            verified = run_policy(
                found, scheduler, manager, power_awareness, out, who, _show_instance
            )
        _print(verified)
        typer.echo(f"submission: {out}")


def verify(paths: Submissions, suite: OwnSuite = "") -> None:
    """Run the journals of submissions again, without a scheduler, and compute their scores."""
    with errors_in_one_line():
        from hpcosim_experiments.benchmark.leaderboard import submissions_in, verified_in

        for verified in verified_in(submissions_in(paths), suite):
            _print(verified)


def leaderboard(
    paths: Submissions,
    suite: OwnSuite = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            callback=options.output_file,
            help="Write the page to this file, in HTML if its name ends in .html, otherwise in "
            "Markdown. Default: print Markdown.",
        ),
    ] = None,
) -> None:
    """Verify submissions, and rank those of each suite."""
    with errors_in_one_line():
        from hpcosim_experiments.benchmark.leaderboard import (
            boards_of,
            markdown,
            page,
            submissions_in,
            verified_in,
        )
        from hpcosim_experiments.whole_files import write_whole

        boards = boards_of(verified_in(submissions_in(paths), suite))
        text = page(boards) if out is not None and out.suffix == ".html" else markdown(boards)
        if out is None:
            typer.echo(text, nl=False)
        else:
            write_whole(out, text.encode())


def seal(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The suite.yaml of a new suite.")],
) -> None:
    """Write the hashes, bounds and reference scores of a new suite beside its file."""
    with errors_in_one_line():
        from hpcosim_experiments.benchmark.bounds import seals_of
        from hpcosim_experiments.benchmark.suite import read_suite, write_seals

        suite = read_suite(path)
        seals = []
        for each in seals_of(suite):
            typer.echo(f"{each.instance}: bound {each.bound:g}, reference {each.reference:g}")
            seals.append(each)
        write_seals(suite.folder, seals)


def _author(name: str, author: str, source: str, information: str) -> Author:
    """Return what a submission says about its scheduler."""
    from typing import get_args

    from hpcosim_experiments.benchmark.submission import Author, Information
    from hpcosim_experiments.benchmark.suite import BenchmarkError

    if not name:
        raise BenchmarkError("the scheduler has no name; add --name")
    known: tuple[Information, ...] = get_args(Information)
    for each in known:
        if each == information:
            return Author(name, author, source, each)
    raise BenchmarkError(f"--information: expected one of {', '.join(known)}, got {information!r}")


def _show_instance(name: str) -> None:
    typer.echo(f"instance {name}", err=True)


def _print(verified: Verified) -> None:
    from hpcosim_experiments.benchmark.leaderboard import ranked

    (row,) = ranked(verified.suite, [verified])
    for seal in verified.suite.seals.values():
        score = verified.scores[seal.instance]
        typer.echo(
            f"  {seal.instance:<24}score {score:<12.6g} bound {seal.bound:<12.6g} reference "
            f"{seal.reference:.6g}"
        )
    typer.echo(
        f"{verified.suite.file.name}: {verified.about.name}: ratio to the bound {row.ratio:.3f}, "
        f"better than the reference on {row.wins} of {len(verified.suite.seals)}, decisions "
        f"{row.decision}"
    )


for command in (list_suites, show, run, verify, leaderboard, seal):
    called = command.__name__.removesuffix("_suites")
    app.command(called, help=help_of(command), epilog=EXAMPLES.get(f"benchmark {called}"))(command)
