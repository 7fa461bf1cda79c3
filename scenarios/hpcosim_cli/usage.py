"""Help texts of commands, and command groups that report wrong usage in one line."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperGroup

from hpcosim_cli.errors import BAD_INPUT

# Older versions of typer take this class from click, newer ones have their own copy.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

# Patterns of typer's messages, each with its replacement. The last two are of older versions.
_WORDINGS = (
    ("' / '", " / "),  # the names of one option
    ("^Invalid value for '([^:]+)': ", r"\1: "),
    ("Value error, ", ""),
    ("Input should be (greater|less)", r"expected a value \1"),
    ("Input should be a valid integer.*", "expected an integer without a unit"),
    ("Input should be a valid number.*", "expected a number without a unit"),
    (r"('.*') is not a valid integer.*", r"expected an integer without a unit, got \1"),
    (r"('.*') is not a valid float.*", r"expected a number without a unit, got \1"),
)


def help_of(command: Callable[..., Any]) -> str:
    """Return the docstring of a command with one line per paragraph, as typer keeps line breaks."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class CommandGroup(TyperGroup):
    """A command group that reports wrong usage as `error: ...` and exits with status 2."""

    def main(self, *args: Any, standalone_mode: bool = True, **options: Any) -> Any:
        """Run the command line.

        Args:
            *args: positional arguments of `TyperGroup.main`.
            standalone_mode: exit the process with a status; False: raise errors.
            **options: keyword arguments of `TyperGroup.main`.
        """
        options["standalone_mode"] = False
        if not standalone_mode:
            return super().main(*args, **options)
        try:
            status = super().main(*args, **options)
        except _UsageError as error:
            sys.stderr.write(_line(error))
            status = BAD_INPUT
        sys.exit(status)


def _line(error: Any) -> str:
    """Return the message of a usage error; it is empty if the help text was printed."""
    text = " ".join(error.format_message().split()).rstrip(".")
    if not text:
        return ""
    for pattern, replacement in _WORDINGS:
        text = re.sub(pattern, replacement, text)
    if text.startswith("No such option: --listen") and _has_option(error, "--bind"):
        text = "No such option: --listen; did you mean --bind?"
    if not text.endswith("?") and error.ctx is not None:
        text += f"; see `{error.ctx.command_path} --help`"
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    return f"error: {text}\n"


def _has_option(error: Any, name: str) -> bool:
    return error.ctx is not None and any(name in each.opts for each in error.ctx.command.params)
