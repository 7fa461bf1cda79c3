"""The command group `hpcosim train`: a module per trainer."""

from __future__ import annotations

import typer

from hpcosim.cli.train.adaptive import adaptive
from hpcosim.cli.train.batch import batch
from hpcosim.cli.train.deep_eas import deep_eas
from hpcosim.cli.train.pairing import pairing
from hpcosim.cli.train.power import power
from hpcosim.cli.train.spare_nodes import spare_nodes
from hpcosim.cli.usage import help_of

app = typer.Typer(
    help="Train a scheduler or power manager on a scenario. Needs the extra `rl`.",
    no_args_is_help=True,
)
for command in (power, adaptive, pairing, deep_eas, batch, spare_nodes):
    app.command(command.__name__.replace("_", "-"), help=help_of(command))(command)
