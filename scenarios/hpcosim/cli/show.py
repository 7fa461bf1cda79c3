"""The commands `hpcosim show`: a run as a picture, as Slurm's tables, or in the terminal."""

from __future__ import annotations

import typer

from hpcosim.cli.draw import draw
from hpcosim.cli.examples import EXAMPLES
from hpcosim.cli.sinfo import sinfo
from hpcosim.cli.squeue import squeue
from hpcosim.cli.top import top
from hpcosim.cli.usage import CommandGroup, help_of

app = typer.Typer(
    cls=CommandGroup,
    help="Show a run: its schedule, its jobs and its nodes at a time.",
    no_args_is_help=True,
)
for _command in (draw, squeue, sinfo, top):
    _name = _command.__name__
    app.command(_name, help=help_of(_command), epilog=EXAMPLES.get(_name))(_command)
