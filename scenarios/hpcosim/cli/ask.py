"""The command `hpcosim ask`: a question about a cluster, to a twin or to its recorded queue."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcosim.cli.executors import local
from hpcosim.cli.options import Json
from hpcosim.cli.twin import (
    TOKEN_VARIABLE,
    TWIN_VARIABLE,
    SiteFile,
)
from hpcosim.cli.usage import errors_in_one_line, with_groups

if TYPE_CHECKING:
    from hpcosim_twin.answers.questions import AnyQuestion
    from hpcosim_twin.cluster.observation import Observation

SETTINGS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}
"""Options of sbatch, such as `-n 16 -t 1:00:00`, are words of a question."""
READING = "Without a twin"


@dataclass(frozen=True)
class Reading:
    """What a cluster is read from, and how answers are computed, without a twin."""

    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="FILE",
            rich_help_panel=READING,
            help="A queue, as --save writes it. Default: the Slurm cluster of this machine.",
        ),
    ] = None
    scenario: SiteFile = None
    history: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FILE",
            rich_help_panel=READING,
            help="Ended jobs: output of `sacct -P`. Default: the accounting, or the jobs that "
            "Slurm remembers.",
        ),
    ] = None
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=READING,
            help="File of `hpcosim calibrate` for this cluster: what run times depend on, and how "
            "wide the ranges of waiting jobs are before --earlier is known.",
        ),
    ] = None
    earlier: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=READING,
            help="Output of an earlier `ask queue --json`. Ranges are as wide as those of earlier "
            "answers should have been. Repeatable.",
        ),
    ] = None
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=READING,
            help="Also write the queue, the site and the history to a new file, for --state. It "
            "has the names of users.",
        ),
    ] = None
    futures: Annotated[
        int,
        typer.Option(
            min=1, max=10_000, rich_help_panel=READING, help="Number of simulations of a question."
        ),
    ] = 50
    seed: Annotated[int, typer.Option(min=0, rich_help_panel=READING, help="Random seed.")] = 0
    workers: Annotated[
        int,
        typer.Option(min=0, rich_help_panel=READING, help="Processes; 0: one for each core."),
    ] = 1

    @property
    def is_given(self) -> bool:
        """Whether an option says what is read."""
        named = (self.state, self.scenario, self.history, self.calibration, self.save)
        return any(each is not None for each in named) or bool(self.earlier)


DEFAULT = Reading()


@with_groups
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
    reading: Reading = DEFAULT,
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
        if twin is not None and reading.is_given:
            raise typer.BadParameter("options that say what is read do not apply with --twin")
        if twin is None and not reading.is_given:
            twin = os.environ.get(TWIN_VARIABLE)
        token = "" if twin is None else _token()

        def answer(asked: AnyQuestion) -> dict[str, Any]:
            from hpcosim_twin.service.asking import ask_twin

            if twin is not None:
                return ask_twin(twin, token, asked)
            return _answered(asked, reading)

        if mcp == bool(question):
            raise typer.BadParameter("expected either a QUESTION or --mcp")
        if mcp and (reading.save is not None or reading.earlier):
            raise typer.BadParameter("--save and --earlier are for one question, not for --mcp")
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


def words_of_forecast(arguments: Sequence[str]) -> list[str]:
    """Return the arguments for `ask` in place of those of the former command `forecast`."""
    renamed = {"--samples": "--futures", "--record": "--save", "-j": "--workers"}
    question, others = ["queue"], list[str]()
    left = iter([re.sub(r"^-j(\d+)$", r"--workers=\1", word) for word in arguments])
    for word in left:
        name, has_value, value = word.partition("=")
        if name not in ("--job", "--user"):
            others.append(renamed.get(name, name) + has_value + value)
            continue
        value = value if has_value else next(left, "")
        if question == ["queue"]:
            question = ["ways"]
        question.append(value if name == "--job" else f"user={json.dumps(value)}")
    return ["ask", *question, *others]


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


def _answered(asked: AnyQuestion, reading: Reading) -> dict[str, Any]:
    """Return the answer of the cluster of this machine, or of a recorded one."""
    from hpcosim.cli.printing import print_warning
    from hpcosim_experiments.executors import parallel_map
    from hpcosim_twin.answers.calibration import calibrated, learned_ranges, past_ranges
    from hpcosim_twin.answers.questions import Effort, Picture, QueueQuestion, answer
    from hpcosim_twin.cluster.observation import write_observation
    from hpcosim_twin.cluster.queue_state import adopted
    from hpcosim_twin.fits.cluster import prepared, read_calibration

    if reading.earlier and not isinstance(asked, QueueQuestion):
        raise typer.BadParameter("--earlier applies only to the question queue")
    seen = _observation(reading)
    if reading.save is not None:
        write_observation(seen, reading.save)
    ranges = past_ranges(reading.earlier or [], seen)
    scores: tuple[float, ...] = ()
    if reading.calibration is not None:
        known = read_calibration(reading.calibration)
        seen, scores = prepared(seen, known), known.scores
    picture = Picture(seen, adopted(seen, print_warning))
    with parallel_map(local(reading.workers)) as parallel:
        found = answer(asked, picture, Effort(reading.futures, reading.seed, parallel))
    if isinstance(asked, QueueQuestion):
        at_s = seen.state.at_s
        return calibrated(found, learned_ranges(ranges, scores).ranges(at_s))
    return found


def _observation(reading: Reading) -> Observation:
    """Return the recorded queue, or that of the cluster of this machine."""
    from msgspec.structs import replace

    from hpcosim.cli.printing import print_warning
    from hpcosim_slurm.tools import Tools
    from hpcosim_twin.cluster.observation import read_observation
    from hpcosim_twin.cluster.observer import history_of, observe, site_of

    ended = None if reading.history is None else history_of(reading.history)
    if reading.state is None:
        return observe(Tools(), reading.scenario, ended, print_warning)
    seen = read_observation(reading.state)
    if reading.scenario is not None:
        seen = replace(seen, **site_of(reading.scenario)._asdict())
    return seen if ended is None else replace(seen, history=tuple(ended))


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
