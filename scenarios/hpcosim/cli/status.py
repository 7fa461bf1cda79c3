"""The command `hpcosim status`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hpcosim.cli.options import SERVER, Connect, Json, Keys, ServerKey, if_given, server_address
from hpcosim.cli.usage import RUN_FAILED, errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_client import Connection
    from hpcosim_protocol import ServerStatus


Address = Annotated[
    str | None,
    typer.Argument(
        metavar="ADDRESS",
        help="Address of the server, instead of --connect.",
        callback=if_given(server_address),
    ),
]
Timeout = Annotated[float, typer.Option(min=0.1, help="Timeout for the reply, in s.")]

TIMEOUT_S = 3.0


DAY_S = 86_400
UNIX_TIMES_S = 1e9
"""Times from which on a time is a Unix time: that of a live cluster, s."""


@contextmanager
def asking(
    address: str, timeout_s: float, keys: Path | None, server_key: Path | None
) -> Iterator[Connection]:
    """Yield a connection for one request."""
    from hpcosim_client import Connection, Timeouts
    from hpcosim_protocol.keys import client_keys

    timeouts = Timeouts(min(1.0, timeout_s / 2), reply_s=timeout_s, hello_s=timeout_s)
    with Connection(address, timeouts, keys=client_keys(keys, server_key)) as connection:
        yield connection


def status(
    address: Address = None,
    connect: Connect = SERVER,
    timeout_s: Timeout = TIMEOUT_S,
    keys: Keys = None,
    server_key: ServerKey = None,
    as_json: Json = False,
) -> None:
    """Show what a server does now.

    The exit status is 0 if the server is healthy. It is 1 if the server does not answer, ends, or
    cannot write journals or results.
    """
    server = address or connect
    with errors_in_one_line(), asking(server, timeout_s, keys, server_key) as connection:
        found = connection.status()
    problems = found.problems()
    if as_json:
        _print_json(found, problems)
    else:
        _print_tables(found, problems)
    if problems:
        raise typer.Exit(RUN_FAILED)


def _print_json(found: ServerStatus, problems: list[str]) -> None:
    import msgspec

    fields = {"healthy": not problems, "problems": problems, **msgspec.to_builtins(found)}
    del fields["type"]
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(fields)).decode() + "\n")


def _print_tables(found: ServerStatus, problems: list[str]) -> None:
    from rich.table import Table

    from hpcosim.cli.printing import print_table
    from hpcosim_view.run.extracts import printable

    table = Table(show_header=False)
    for name, value in _rows(found, problems):
        table.add_row(name, printable(value))
    print_table(table)
    if not found.sessions:
        return
    columns = ("session", "scenario", "scheduler", "simulated time", "jobs over", "silent for")
    table = Table(*columns)
    for each in found.sessions:
        jobs = f"{each.jobs_over:,} of {each.jobs:,}"
        texts = (each.label, each.scenario, each.scheduler, _time(each.now_s), jobs)
        table.add_row(*map(printable, texts), f"{each.silent_s:.1f} s")
    print_table(table)


def _time(now_s: float) -> str:
    """Return the time of a session: since its begin, or the date of a live cluster."""
    if now_s < UNIX_TIMES_S:
        return _duration(now_s)
    return datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _rows(found: ServerStatus, problems: list[str]) -> list[tuple[str, str]]:
    failures = [f"{cause}: {count:,}" for cause, count in sorted(found.failures.items())]
    lost = f"{found.messages_lost:,} messages to peers that did not read"
    return [
        ("health", ", ".join(problems) or "ok"),
        ("server", found.server),
        ("up for", _duration(found.uptime_s)),
        ("scenarios", ", ".join(found.scenarios)),
        ("workers", _workers(found)),
        ("sessions", f"{found.sessions_active:,} open of at most {found.max_sessions:,}"),
        ("so far", f"{found.sessions_over:,} over, {found.sessions_refused:,} refused"),
        ("failures", ", ".join(failures) or "none"),
        ("lost", lost if found.messages_lost else "none"),
        ("journals", _written(found.journal, found.journals_failed)),
        ("results", _written(found.results)),
    ]


def _workers(found: ServerStatus) -> str:
    shown = f"{found.workers:,} with {found.memory_mb:,.0f} MB"
    if found.restarts == 1:
        return f"{shown}, 1 restart after a failure"
    return f"{shown}, {found.restarts:,} restarts after failures" if found.restarts else shown


def _written(state: str, failed: int = 0) -> str:
    shown = {"none": "not kept", "ok": "ok", "failing": "cannot be written"}[state]
    return f"{shown}, {failed:,} lost" if failed else shown


def _duration(time_s: float) -> str:
    days, rest_s = divmod(int(time_s), DAY_S)
    clock = f"{rest_s // 3600:02}:{rest_s // 60 % 60:02}:{rest_s % 60:02}"
    return f"{days}-{clock}" if days else clock


def ping(
    address: Address = None,
    connect: Connect = SERVER,
    timeout_s: Timeout = TIMEOUT_S,
    keys: Keys = None,
    server_key: ServerKey = None,
) -> None:
    """Check that a server answers: exit status 0 if it does, 1 if not."""
    server = address or connect
    with errors_in_one_line(), asking(server, timeout_s, keys, server_key) as connection:
        connection.ping()


def keygen(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the keys of all.")],
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of the client, and of its folder in DIR.")
    ] = "client",
) -> None:
    """Make the keys of a server and of a client, and admit the client to the server.

    DIR/server is for `hpcosim serve --keys`, DIR/NAME for `hpcosim schedule --keys`: copy that
    folder to the machine of the client. Existing keys are kept. A server that runs admits a new
    client at once; remove DIR/server/clients/NAME.key to admit it no more.
    """
    with errors_in_one_line():
        from hpcosim_protocol.keys import make_keys

        for path in make_keys(folder, name):
            typer.echo(str(path))
