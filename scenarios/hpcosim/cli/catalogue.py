"""The commands that list and check scenarios, schedulers and job logs."""

from __future__ import annotations

import difflib
import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.options import Json, Lenient, ScenarioFile, Seed, Set, overrides_of
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from rich.table import Table

    from hpcosim_workloads.logs.catalogue import KnownTrace


NAME_WIDTH = 23


# The archive's conditions of use.
REQUEST = """\
If you publish results from a log, name the Parallel Workloads Archive ({archive}) as its source, \
acknowledge the log's provider, and cite D. G. Feitelson, D. Tsafrir, D. Krakov, "Experience with \
using the Parallel Workloads Archive", J. Parallel Distrib. Comput. 74(10), 2014. \
The SDSC logs are for non-profit use, with their header kept."""

app = typer.Typer(help="List the job logs of the catalogue, or download one.")


def scenarios(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Scenario to print as YAML. Default: list all."),
    ] = "",
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also list those of papers, trainings and conformance checks."),
    ] = False,
    as_json: Json = False,
) -> None:
    """List the shipped scenarios, or print one as YAML; with --all also those of papers."""
    with errors_in_one_line():
        from hpcosim_scenarios.errors import ScenariosError
        from hpcosim_scenarios.shipped import EVERYDAY, describe_scenario, shipped_scenarios

        shipped = shipped_scenarios()
        if name in shipped:
            _print_scenario(shipped[name])
            return
        if name:
            near = difflib.get_close_matches(name, shipped, n=1)
            advice = f"did you mean {near[0]}? " if near else ""
            raise ScenariosError(
                f"unknown scenario {name!r}; {advice}`hpcosim scenarios` lists all"
            )
        contents = {each: describe_scenario(path) for each, path in shipped.items()}
        if as_json:
            typer.echo(json.dumps(contents, indent=2))
            return
        rest = {each: text for each, text in contents.items() if each not in EVERYDAY}
        _print_table("scenario", {each: contents[each] for each in EVERYDAY})
        if everything:
            _print_table("of papers, trainings and checks", rest)
        else:
            typer.echo(
                f"`hpcosim scenarios --all` lists {len(rest)} more: of papers and trainings."
            )


def _print_table(title: str, contents: Mapping[str, str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(title, no_wrap=True)
    table.add_column("contents")
    for row in contents.items():
        table.add_row(*row)
    Console().print(table)


def _print_scenario(path: Path) -> None:
    """Print a scenario, and on standard error how to copy the files that it reads."""
    from hpcosim_scenarios.model.file import load_scenario, named_files

    typer.echo(path.read_text(encoding="utf-8"), nl=False)
    files = named_files(load_scenario(path), path.parent).values()
    if files:
        paths = shlex.join(dict.fromkeys(map(str, files)))
        typer.echo(f"note: the scenario reads more files; copy them, too: cp {paths} .", err=True)


def schedulers(
    everything: Annotated[
        bool, typer.Option("--all", help="Also list those of papers, trained ones and groups.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the members of groups and all names.")
    ] = False,
) -> None:
    """List the schedulers and the power managers; with --all also those of papers."""
    if as_json:
        sys.stdout.write(json.dumps(_all(), indent=2) + "\n")
        return
    from hpcosim_schedulers.catalogue import summaries

    _print("SCHEDULERS (--scheduler; case does not matter)", summaries.EVERYDAY)
    _print(
        "POWER MANAGERS (scheduler.power)",
        {name: _with_settings(name, text) for name, text in summaries.POWER_MANAGERS.items()},
    )
    if not everything:
        more = len(summaries.papers()) + len(summaries.trained())
        typer.echo(f"`hpcosim schedulers --all` lists {more} more: of papers, trained, and groups.")
        return
    _print("SCHEDULERS OF PAPERS", summaries.papers())
    _print("JOB RULES", summaries.JOB_RULES)
    _print("NODE RULES", summaries.NODE_RULES)
    _print("TRAINED SCHEDULERS", summaries.trained())
    _print("GROUPS (hpcosim compare --schedulers)", summaries.GROUPS)


def _all() -> dict[str, object]:
    from hpcosim_schedulers.catalogue import schedulers, summaries

    return {
        "schedulers": summaries.all_schedulers(),
        "job_rules": dict(summaries.JOB_RULES),
        "node_rules": dict(summaries.NODE_RULES),
        "groups": {
            name: {"summary": text, "members": list(schedulers.GROUPS[name])}
            for name, text in summaries.GROUPS.items()
        },
        "power_managers": {
            name: {"summary": text, "settings": summaries.power_settings(name)}
            for name, text in summaries.POWER_MANAGERS.items()
        },
        "names": schedulers.scheduler_names(),
    }


def _with_settings(name: str, text: str) -> str:
    from hpcosim_schedulers.catalogue.summaries import power_settings

    said = [
        setting if default == "required" else f"{setting}={json.dumps(default)}"
        for setting, default in power_settings(name).items()
    ]
    return f"{text}\nsettings: {', '.join(said)}" if said else text


def _print(title: str, lines: Mapping[str, str]) -> None:
    """Print a table of names and texts, wrapped on a terminal and one line each elsewhere."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    typer.echo(f"{title}\n")
    for name, text in lines.items():
        indent = f"  {name:{NAME_WIDTH}}  "
        for line in text.splitlines():
            rest = " " * len(indent)
            typer.echo(textwrap.fill(line, width, initial_indent=indent, subsequent_indent=rest))
            indent = rest
    typer.echo()


def validate(
    scenario: ScenarioFile,
    seed: Seed = None,
    changes: Set = None,
    lenient: Lenient = False,
    as_json: Json = False,
) -> None:
    """Check a scenario, its workload and its scheduler, and print a summary.

    The summary has the nodes, the cores, the jobs, their submission span and their offered load,
    the jobs that the reader dropped or changed, by rule, and the price and the carbon intensity of
    electricity.
    """
    with errors_in_one_line():
        from hpcosim.cli.summary import print_summary
        from hpcosim_scenarios.running.run import check

        print_summary(check(scenario, overrides_of(changes, seed, lenient)), as_json=as_json)


@app.callback(invoke_without_command=True)
def show(context: typer.Context) -> None:
    """List the job logs of the catalogue and where this machine has a copy."""
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from hpcosim_workloads.logs.catalogue import (
        ARCHIVE,
        TRACES_VARIABLE,
        cache_folder,
        user_folder,
    )

    # A fixed width in a pipe, so that names are not truncated.
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(_table())
    typer.echo(f"${TRACES_VARIABLE}: {user_folder() or 'not set'}")
    typer.echo(f"cache: {cache_folder()}")
    console.print(REQUEST.format(archive=ARCHIVE), style="dim", markup=False, highlight=False)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="Name of the log, as `hpcosim traces` lists it.")],
    base_url: Annotated[
        str | None, typer.Option(help="Address of a mirror with the folders of the archive.")
    ] = None,
) -> None:
    """Download a job log into the user's cache and verify its checksum."""
    from hpcosim_workloads.logs.catalogue import ARCHIVE, known_trace, locate

    with errors_in_one_line():
        trace = known_trace(name)
        here = locate(trace)
        if here is not None:
            typer.echo(f"{name} is on this machine: {here} (remove it to download it again)")
            return
        path = _download_with_bar(trace, base_url or ARCHIVE)
        request = REQUEST.format(archive=ARCHIVE)
        typer.echo(f"{name} is on this machine: {path}\nProvider: {trace.provider}. {request}")


def _table() -> Table:
    from rich.table import Table

    from hpcosim_workloads.logs.catalogue import KNOWN

    table = Table(title="Job logs")
    table.add_column("name", no_wrap=True)
    for heading in ("jobs", "processors", "days"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("provider")
    table.add_column("on this machine", no_wrap=True)
    for trace in KNOWN.values():
        table.add_row(
            trace.name,
            f"{trace.jobs:,}",
            f"{trace.processors:,}",
            f"{trace.span_days:.1f}",
            trace.provider,
            _place(trace),
        )
    return table


def _place(trace: KnownTrace) -> str:
    """Return the folder with a copy of a log, in short; "no": there is none."""
    from hpcosim_workloads.logs.catalogue import TRACES_VARIABLE, locate, user_folder

    path = locate(trace)
    if path is None:
        return "no"
    return f"${TRACES_VARIABLE}" if path.parent == user_folder() else "cache"


def _download_with_bar(trace: KnownTrace, base_url: str) -> Path:
    """Download a log into the cache, with a progress bar if standard error is a terminal."""
    from rich import progress
    from rich.console import Console

    from hpcosim_workloads.logs.catalogue import cache_folder
    from hpcosim_workloads.logs.download import download

    console = Console(stderr=True)
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,  # so that only the error message remains
        disable=not console.is_terminal,
    )
    with bar:
        task = bar.add_task(trace.name, total=None)
        return download(
            trace,
            cache_folder(),
            base_url=base_url,
            report=lambda received, total: bar.update(task, completed=received, total=total),
        )
