"""The command `hpcosim train batch`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli.checks import scenario_files
from hpcosim.cli.executors import AddressOption, executor_of
from hpcosim.cli.options import Force, Lenient, ScenarioFile, Set, overrides_of
from hpcosim.cli.train.options import (
    Out,
    TrainingExecutor,
    TrainingSeed,
    Workers,
    rollout_executor,
    training_into,
)
from hpcosim.cli.train.seeds import Seeds, seeds_of, train_each

if TYPE_CHECKING:
    from hpcosim_gym.learners.batch.search import BatchGeneration

CostOption = Annotated[
    Literal["wait", "bounded_slowdown", "energy"],
    typer.Option(help="Quantity to minimise: mean wait, mean bounded slowdown, or energy."),
]
VisibleJobs = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Waiting jobs among which the agent chooses."),
]
Episodes = Annotated[
    int, typer.Option(min=1, help="Simulations of each candidate in a generation.")
]
Jobs = Annotated[
    int,
    typer.Option(min=1, help="Consecutive jobs per simulation, from a random position."),
]

Also = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SCENARIO",
        help="Another scenario; the windows come from all scenarios in turn. Repeatable.",
        callback=lambda paths: scenario_files(paths or []),
    ),
]
LongestWait = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="Weight of the logarithm of the longest wait in the score, beside that of the cost.",
    ),
]


def batch(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    objective: CostOption = "bounded_slowdown",
    window_jobs: VisibleJobs = 64,
    episodes: Episodes = 16,
    jobs: Jobs = 800,
    generations: Annotated[int, typer.Option(min=1, help="Generations of the search.")] = 10,
    candidates: Annotated[int, typer.Option(min=7, help="Candidates per generation.")] = 16,
    also: Also = None,
    longest_wait_weight: LongestWait = 0.3,
    changes: Set = None,
    lenient: Lenient = False,
    seed: TrainingSeed = None,
    seeds: Seeds = None,
    executor: TrainingExecutor = "local",
    workers: Workers = None,
    address: AddressOption = None,
) -> None:
    """Search a rule for the scheduler `batch` by the cross-entropy method.

    The rule chooses the next job, with EASY backfilling behind it. It takes any cluster: search on
    windows of some logs, and use it on others. The search starts at the rule of easy-saf.
    """
    several = seeds_of(seed, seeds)
    with training_into(out, several, force=force):
        from hpcosim_gym.learners.batch.search import BatchSearch, train_batch

        search = BatchSearch(
            objective=objective,
            window_jobs=window_jobs,
            episodes=episodes,
            episode_jobs=jobs,
            generations=generations,
            candidates=candidates,
            elite=max(candidates // 4, 2),
            longest_wait_weight=longest_wait_weight,
            seed=seed or 0,
            executor=rollout_executor(executor, workers, address),
        )
        overrides = overrides_of(changes, None, lenient)
        train = partial(train_batch, scenario, also=also or (), overrides=overrides)
        if several is not None:
            train_each(train, search, several, out, executor_of(executor, workers, address))
            return
        rule = train(out, search, on_generation=_print_generation)
        typer.echo(f"agent: {rule}")


def _print_generation(generation: BatchGeneration) -> None:
    number, mean, best, median, seconds = generation
    typer.echo(
        f"{number:4}  score / easy-saf: mean {mean:.4f}  best {best:.4f}  median {median:.4f}  "
        f"took {seconds:.1f} s"
    )
