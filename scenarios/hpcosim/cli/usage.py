"""Help texts of commands, and command groups that report wrong usage in one line."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperGroup

from hpcosim.cli.errors import BAD_INPUT

# Older versions of typer take this class from click, newer ones have their own copy.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

SEPARATORS = {"PATH=VALUE": "=", "NAMES": ",", "MANAGERS": ",", "FILES": ","}
"""What separates the parts of an option's value, by its metavar."""

NUMBERS = {int: r"[-+]?[0-9]{1,18}", float: r"[-+]?[0-9]{1,18}([.][0-9]*)?(e[-+]?[0-9]{1,2})?"}

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
        convert_plainly(self)
        options["standalone_mode"] = False
        if not standalone_mode:
            return super().main(*args, **options)
        try:
            status = super().main(*args, **options)
        except _UsageError as error:
            words = args[0] if args else options.get("args")
            sys.stderr.write(_line(error, sys.argv[1:] if words is None else words))
            status = BAD_INPUT
        sys.exit(status)


def convert_plainly(command: Any, parent: typer.Context | None = None) -> None:
    """Convert the values of plain types without pydantic, which newer versions of typer import.

    It takes as long to import as NumPy. Typer converts all other values, and reports bad ones.

    Args:
        command: a command or a command group of typer.
        parent: the context of the group of the command.
    """
    context = typer.Context(command, parent=parent, **command.context_settings)
    for each in getattr(command, "commands", {}).values():
        convert_plainly(each, context)
    for parameter in (*command.params, command.get_help_option(context)):
        if hasattr(parameter, "_runtime_param"):
            parameter._runtime_param = _Plain()


class _Plain:
    """Takes the place of typer's `RuntimeParam` of a parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value of a parameter."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        described = param.type_descriptor
        try:
            if not several:
                return _converted(value, described.annotation, described.parameter_info)
            if isinstance(value, list | tuple):
                (kind,) = get_args(described.annotation)
                return [_converted(each, kind, described.parameter_info) for each in value]
        except ValueError:
            pass
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def _converted(value: Any, kind: Any, described: Any) -> Any:
    """Return a value as a text, a path, a number or a choice.

    Raises:
        ValueError: typer must convert it.
    """
    if kind is str and isinstance(value, str):
        return value
    if kind is Path and (not os.path.lexists(value) or os.access(value, os.R_OK)):
        return Path(value)
    if kind in NUMBERS and re.fullmatch(NUMBERS[kind], str(value)):
        number = kind(value)
        least, most = described.min, described.max
        if (least is None or least <= number) and (most is None or number <= most):
            return number
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    raise ValueError


def _line(error: Any, words: Sequence[str]) -> str:
    """Return the message of a usage error; it is empty if the help text was printed.

    Args:
        error: the error.
        words: the command line.
    """
    text = " ".join(error.format_message().split()).rstrip(".")
    if not text:
        return ""
    for pattern, replacement in _WORDINGS:
        text = re.sub(pattern, replacement, text)
    if text.startswith("No such option: --listen") and _has_option(error, "--bind"):
        text = "No such option: --listen; did you mean --bind?"
    if "unexpected extra argument" in text and (joined := _joined(error, words)):
        text += f"; did you mean {joined}?"
    if not text.endswith("?") and error.ctx is not None:
        text += f"; see `{error.ctx.command_path} --help`"
    if text[1:2].islower():
        text = text[0].lower() + text[1:]
    return f"error: {text}\n"


def _joined(error: Any, words: Sequence[str]) -> str:
    """Return an option with its value as one word, where a blank divides it; empty: none is."""
    if error.ctx is None:
        return ""
    for option in error.ctx.command.params:
        separator = SEPARATORS.get(option.metavar or "")
        for at, name in enumerate(words):
            if separator is None or name not in option.opts:
                continue
            value = list(itertools.takewhile(lambda word: word[:1] != "-", words[at + 1 :]))
            if separator == "=":
                value = value[:2] if value[:1] and "=" not in value[0] else []
            if len(value) > 1:
                return f"{name} {separator.join(value)}"
    return ""


def _has_option(error: Any, name: str) -> bool:
    return error.ctx is not None and any(name in each.opts for each in error.ctx.command.params)
