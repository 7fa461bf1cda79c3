"""The command `hpcosim keygen`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hpcosim.cli.errors import errors_in_one_line


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
