"""The command `hpcosim ask`: a question about a cluster, to a twin or to its recorded queue."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcosim.cli.executors import local
from hpcosim.cli.options import Json
from hpcosim.cli.twin import (
    TOKEN_VARIABLE,
    TWIN_VARIABLE,
    HistoryFile,
    SiteFile,
    StateFile,
    observation,
)
from hpcosim.cli.usage import errors_in_one_line

if TYPE_CHECKING:
    from hpcosim_twin.answers.questions import AnyQuestion

SETTINGS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Options of sbatch, such as `-n 16 -t 1:00:00`, are words of a question."""


def ask(
    question: Annotated[
        str,
        typer.Argument(metavar="QUESTION", help="queue, ways, advice, map, what-if, or record."),
    ] = "",
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[WORD]...",
            help="FIELD=VALUE, with the fields of the question, or what it is about, such as "
            "options of sbatch.",
        ),
    ] = None,
    job: Annotated[
        int | None, typer.Option(min=1, metavar="ID", help="The job that the question is about.")
    ] = None,
    twin: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="A running `hpcosim twin`, such as http://127.0.0.1:28090. Its token is the "
            f"value of {TOKEN_VARIABLE}, or the first in its file. "
            f"Default: {TWIN_VARIABLE}; without it, the cluster is read.",
        ),
    ] = None,
    state: StateFile = None,
    scenario: SiteFile = None,
    history: HistoryFile = None,
    futures: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of simulations, without --twin.")
    ] = 50,
    seed: Annotated[int, typer.Option(min=0, help="Random seed, without --twin.")] = 0,
    workers: Annotated[
        int,
        typer.Option(min=0, help="Processes, without --twin; 0: one for each core."),
    ] = 1,
    mcp: Annotated[
        bool,
        typer.Option(
            "--mcp",
            help="Serve the questions as tools of the Model Context Protocol on standard input and "
            "output, for assistants.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask when jobs of a Slurm cluster start, and how to ask for nodes.

    queue: when the waiting jobs start. ways: when a job with some options of sbatch would start
    and end, and which of several ways ends first. advice: what would let a job start sooner. map:
    waits by nodes and time limit. what-if: what a change of the cluster would do. record: how good
    the answers of a twin were.
    """
    with errors_in_one_line():
        is_read = any(each is not None for each in (state, scenario, history))
        if twin is not None and is_read:
            raise typer.BadParameter("--state, --scenario and --history do not apply with --twin")
        if twin is None and not is_read:
            twin = os.environ.get(TWIN_VARIABLE)
        token = "" if twin is None else _token()
        effort = (futures, seed, workers)

        def answer(asked: AnyQuestion) -> dict[str, Any]:
            from hpcosim_twin.service.asking import ask_twin

            if twin is not None:
                return ask_twin(twin, token, asked)
            return _answered(asked, state, scenario, history, effort)

        if mcp == bool(question):
            raise typer.BadParameter("expected either a QUESTION or --mcp")
        if mcp:
            _serve_mcp(answer)
            return
        from hpcosim_sim.record.results import to_json
        from hpcosim_twin.service.asking import question_in, text_of

        found = answer(question_in(question, words or [], job))
        if as_json:
            sys.stdout.write(to_json(found))
            return
        for line in text_of(question, found):
            typer.echo(line)


def _serve_mcp(answer: Callable[[AnyQuestion], dict[str, Any]]) -> None:
    """Serve until standard input ends."""
    import asyncio

    from hpcosim_twin.service.asking import NoTwinError

    try:
        from hpcosim_twin.service.mcp import serve_stdio
    except ImportError as error:
        raise NoTwinError(f"--mcp needs {error.name}: pip install 'hpcosim[live,mcp]'") from None

    async def ask(asked: AnyQuestion, _: Mapping[str, Any]) -> dict[str, Any]:
        return await asyncio.to_thread(answer, asked)

    asyncio.run(serve_stdio(ask))


def _answered(
    asked: AnyQuestion,
    state: Path | None,
    scenario: Path | None,
    history: Path | None,
    effort: tuple[int, int, int],
) -> dict[str, Any]:
    """Return the answer of the cluster of this machine, or of a recorded one."""
    from hpcosim.cli.printing import print_warning
    from hpcosim_experiments.executors import parallel_map
    from hpcosim_twin.answers.questions import Effort, Picture, answer
    from hpcosim_twin.cluster.queue_state import adopted

    futures, seed, workers = effort
    seen = observation(state, scenario, history)
    picture = Picture(seen, adopted(seen, print_warning))
    with parallel_map(local(workers)) as parallel:
        return answer(asked, picture, Effort(futures, seed, parallel))


def _token() -> str:
    """Return the token for a twin: that of the environment, or of a twin of this user."""
    from hpcosim.cli.twin import default_folder
    from hpcosim_twin.service.access import TOKENS, read_tokens
    from hpcosim_twin.service.asking import NoTwinError

    if token := os.environ.get(TOKEN_VARIABLE, ""):
        return token
    path = default_folder() / TOKENS
    if not path.exists():
        raise NoTwinError(f"{path}: no such file; set {TOKEN_VARIABLE} to a token of the twin")
    return next(iter(read_tokens(path)))
