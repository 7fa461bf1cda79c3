"""The reference of the `hpcosim` command, from the command itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from docs.generate.structs import File, file_of, section_text, sections_of

from hpcosim.cli.main import app
from hpcosim.cli.server_file import ServerSettings

FACTS = re.compile(r"\[(?:default|required|env var|x|\d)[^\]]*\]")
TYPES: Mapping[str, str] = {
    "<int range>": "INTEGER",
    "<int>": "INTEGER",
    "<float range>": "NUMBER",
    "<float>": "NUMBER",
    "<str>": "TEXT",
    "<path>": "PATH",
    "<Path>": "PATH",
    "<list[str]>": "TEXT",
    "<list[Path]>": "PATH",
    "<list[path]>": "PATH",
}
"""The type of a value, by the name that typer gives it."""


def reference() -> str:
    """Return a section for each command, with its arguments and options."""
    command = typer.main.get_command(app)
    return "\n".join(_section(command, context(command, "hpcosim"), "hpcosim", 2))


def server_file() -> File:
    """Return the file with the settings of a server."""
    return file_of(*sections_of(ServerSettings))


def server_settings() -> str:
    """Return the reference of all mappings of the settings of a server."""
    file = server_file()
    return "\n\n".join(section_text(file, section, level=3) for section in file.sections)


def parameters() -> dict[str, dict[str, str]]:
    """Return the help of each argument and option, by command, such as `hpcosim traces get`."""
    command = typer.main.get_command(app)
    return {
        name: {names: FACTS.sub("", text).strip() for names, text in _parameters(one, here)}
        for name, one in _commands(command, "hpcosim")
        for here in [context(one, name)]
    }


def _parameters(command: Any, here: Any) -> Iterator[tuple[str, str]]:
    """Yield the names and the help of each argument and option, `--help` excepted."""
    for parameter in command.get_params(here):
        record = parameter.get_help_record(here)
        if record is not None and record[0] != "--help":
            yield record


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    yield name, command
    here = context(command, name)
    for child in command.list_commands(here) if hasattr(command, "list_commands") else ():
        yield from _commands(command.get_command(here, child), f"{name} {child}")


def context(command: Any, name: str) -> Any:
    """Return the context in which a command describes itself."""
    return command.context_class(command, info_name=name)


def _section(command: Any, here: Any, name: str, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{name}` {{ #{name.replace(' ', '-')} }}\n"
    yield f"{_paragraphs(command.help or '')}\n"
    yield f"```text\n{name} {' '.join(command.collect_usage_pieces(here))}\n```\n"
    for names, text in _parameters(command, here):
        yield _entry(names, text)
    if command.epilog:
        yield f"{_paragraphs(command.epilog)}\n"
    if not hasattr(command, "list_commands"):
        return
    children = [command.get_command(here, child) for child in command.list_commands(here)]
    children = [child for child in children if not child.hidden]
    yield "| Command | Purpose |\n|---|---|"
    for child in children:
        anchor = f"{name} {child.name}".replace(" ", "-")
        summary = child.get_short_help_str(limit=500)
        yield f"| [`{name} {child.name}`](#{anchor}) | {summary} |"
    yield ""
    for child in children:
        child_name = f"{name} {child.name}"
        yield from _section(child, context(child, child_name), child_name, level + (level > 2))


def _entry(names: str, text: str) -> str:
    for name, words in TYPES.items():
        names = names.replace(name, words)
    facts = [fact for found in FACTS.findall(text) for fact in found.strip("[]").split("; ")]
    meaning = FACTS.sub("", text).strip()
    line = f"{' · '.join(map(_fact, facts))}\n    {{: .facts }}\n\n    " if facts else ""
    return f"`{names}`{{ .key }}\n:   {line}{meaning}\n"


def _fact(fact: str) -> str:
    name, _, value = fact.partition(": ")
    return f"{name} `{value}`" if value else fact.replace("x>=", "≥ ").replace("<=x<=", " to ")


def _paragraphs(text: str) -> str:
    r"""Return help text as Markdown; `\b` marks a paragraph whose lines are kept, such as code."""
    parts = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(
        f"```sh\n{part.lstrip(chr(8)).strip(chr(10))}\n```" if part.startswith("\b") else part
        for part in parts
    )
