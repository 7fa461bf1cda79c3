"""The command `hpcosim train adaptive`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

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
    from hpcosim_papers.power.learners.cross_entropy import Generation

WaitWeight = Annotated[
    float, typer.Option(min=0.0, help="Cost of waiting, in J per second of a job's wait.")
]
Origin = Annotated[
    float,
    typer.Option(
        min=0.0, help="Time of the week at which the workload starts, in s after Monday 0:00."
    ),
]


def adaptive(
    scenario: ScenarioFile,
    out: Out,
    force: Force = False,
    wait_w: WaitWeight = 350.0,
    origin_s: Origin = 0.0,
    generations: Annotated[int, typer.Option(min=1, help="Generations of the search.")] = 12,
    candidates: Annotated[int, typer.Option(min=5, help="Candidates per generation.")] = 12,
    changes: Set = None,
    lenient: Lenient = False,
    seed: TrainingSeed = None,
    seeds: Seeds = None,
    executor: TrainingExecutor = "local",
    workers: Workers = None,
    address: AddressOption = None,
) -> None:
    """Search timeouts for the power manager `adaptive` by the cross-entropy method.

    The timeouts depend on the time of the week and on the load.
    """
    several = seeds_of(seed, seeds)
    with training_into(out, several, force=force):
        from hpcosim_papers.power.learners.cross_entropy import AdaptiveSearch, train_adaptive

        search = AdaptiveSearch(
            wait_w=wait_w,
            origin_s=origin_s,
            generations=generations,
            candidates=candidates,
            seed=seed or 0,
            executor=rollout_executor(executor, workers, address),
        )
        overrides = overrides_of(changes, None, lenient)
        train = partial(train_adaptive, scenario, overrides=overrides)
        if several is not None:
            train_each(train, search, several, out, executor_of(executor, workers, address))
            return
        rule = train(out, search, on_generation=_print_generation)
        typer.echo(f"rule: {rule}")


def _print_generation(generation: Generation) -> None:
    number, mean_j, best_j, median_j, seconds = generation
    typer.echo(
        f"{number:4}  cost: mean {mean_j:9.4g} J  best {best_j:9.4g} J  "
        f"median {median_j:9.4g} J  took {seconds:.1f} s"
    )
