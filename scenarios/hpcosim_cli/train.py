"""The command `hpcosim train`: train what learns, on a scenario."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hpcosim_cli.errors import errors_in_one_line
from hpcosim_cli.options import Lenient, ScenarioFile, Set, overrides_of

if TYPE_CHECKING:
    from hpcosim_training.deep_eas.session import Iteration
    from hpcosim_training.pairing.progress import Simulation
    from hpcosim_training.power.cross_entropy import Generation
    from hpcosim_training.power.curriculum import Epoch

app = typer.Typer(help="Train what learns, on a scenario.", no_args_is_help=True)

Out = Annotated[Path, typer.Option(help="Folder for what is learned, and how it was.")]
TrainingSeed = Annotated[int, typer.Option(min=0, help="Of the training, not the scenario's.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes to run it in.")]


class Algorithm(StrEnum):
    """How it learns."""

    a2c = "a2c"
    ppo = "ppo"


@app.command()
def power(
    scenario: ScenarioFile,
    out: Out,
    curriculum: Annotated[
        str, typer.Option(help="What it learns from, in order: sampled, real, synthetic.")
    ] = "sampled,real,synthetic",
    epochs: Annotated[int, typer.Option(min=1, help="How often it learns from each.")] = 10,
    algorithm: Annotated[Algorithm, typer.Option(help="How it learns.")] = Algorithm.a2c,
    seed: TrainingSeed = 0,
    days: Annotated[
        int, typer.Option(min=1, max=36_525, help="How many days the synthetic one fills.")
    ] = 365,
    interval_s: Annotated[
        float, typer.Option(min=1.0, max=1e9, help="Seconds between two decisions.")
    ] = 1800.0,
    calendar: Annotated[
        bool, typer.Option("--calendar", help="Let it know the time of day and of week.")
    ] = False,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Train a power manager for a scenario's nodes and scheduler, and say how it gets on."""
    with errors_in_one_line():
        from hpcosim_client.extras import rl_extra

        with rl_extra("training"):
            from hpcosim_training.power.train import Training, train_power

        training = Training(
            curriculum=_names(curriculum),
            epochs=epochs,
            algorithm=algorithm.value,
            seed=seed,
            interval_s=interval_s,
            calendar=calendar,
            synthetic_days=days,
        )
        overrides = overrides_of(changes, None, lenient)
        with _writing_to(out):
            network = train_power(scenario, out, training, overrides, told=_tell)
        typer.echo(f"network: {network}")


@app.command()
def adaptive(
    scenario: ScenarioFile,
    out: Out,
    wait_w: Annotated[
        float, typer.Option(min=0.0, help="What a second of a job's wait counts for, J/s.")
    ] = 350.0,
    origin_s: Annotated[
        float, typer.Option(min=0.0, help="The second of the week at which time is 0.")
    ] = 0.0,
    generations: Annotated[int, typer.Option(min=1, help="How often rules are drawn.")] = 12,
    candidates: Annotated[int, typer.Option(min=5, help="Rules in a generation.")] = 12,
    seed: TrainingSeed = 0,
    workers: Workers = 1,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Learn timeouts that follow the hour and the load, for the power manager `adaptive`."""
    with errors_in_one_line():
        from hpcosim_client.extras import rl_extra
        from hpcosim_training.power.cross_entropy import Search, train_adaptive

        search = Search(
            wait_w=wait_w,
            origin_s=origin_s,
            generations=generations,
            candidates=candidates,
            seed=seed,
            workers=workers,
        )
        overrides = overrides_of(changes, None, lenient)
        with _writing_to(out), rl_extra("training"):
            rule = train_adaptive(scenario, out, search, overrides, told=_tell_generation)
        typer.echo(f"rule: {rule}")


class Objective(StrEnum):
    """What is to be small."""

    energy = "energy"
    edp = "edp"


class Sees(StrEnum):
    """What a pairing agent is shown of a pair."""

    papers = "papers"
    papers_no_energy = "papers_no_energy"
    foreseen = "foreseen"


class Placements(StrEnum):
    """How many jobs it may place at an event."""

    one = "one"
    all = "all"


@app.command()
def pairing(
    scenario: ScenarioFile,
    out: Out,
    objective: Annotated[Objective, typer.Option(help="What is to be small.")] = Objective.energy,
    sees: Annotated[Sees, typer.Option(help="What it is shown of a pair.")] = Sees.foreseen,
    placements: Annotated[
        Placements, typer.Option(help="How many jobs it may place at an event.")
    ] = Placements.all,
    wait: Annotated[bool, typer.Option(help="Whether it may wait though something fits.")] = True,
    wait_s: Annotated[
        float | None, typer.Option(min=1e-3, help="Ask again after so long; default: at events.")
    ] = None,
    most_wait_s: Annotated[
        float, typer.Option(min=1e-3, help="The longest it may wait though something fits.")
    ] = 600.0,
    simulations: Annotated[
        int | None, typer.Option(min=0, help="How often it learns; default: as suits what it sees.")
    ] = None,
    trajectories: Annotated[
        int | None, typer.Option(min=1, help="Runs for each; default likewise.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Jobs of a run, drawn anew each time; default: all.")
    ] = None,
    kinds: Annotated[
        bool, typer.Option("--kinds", help="Draw runs of jobs of some profiles, too.")
    ] = False,
    validation: Annotated[
        Path | None, typer.Option(help="A scenario whose jobs it is tried on; default its own.")
    ] = None,
    validation_windows: Annotated[
        int, typer.Option(min=0, help="Try it on so many drawn parts instead of the whole.")
    ] = 0,
    validate_every: Annotated[
        int, typer.Option(min=0, help="Simulations between two tries; 0: keep the last.")
    ] = 1,
    patience: Annotated[
        int, typer.Option(min=0, help="Stop after so many tries no better; 0: never.")
    ] = 0,
    seed: TrainingSeed = 0,
    workers: Workers = 1,
    resume: Resume = False,
    changes: Set = None,
    lenient: Lenient = False,
) -> None:
    """Train a pairing agent for a scenario's nodes and jobs, and say how it gets on."""
    with errors_in_one_line():
        from hpcosim_client.extras import rl_extra

        with rl_extra("training"):
            from hpcosim_client.agents.pairing.settings import Pairing
            from hpcosim_training.pairing.environment import usual_reward
            from hpcosim_training.pairing.session import Training
            from hpcosim_training.pairing.settings import hyperparameters_for
            from hpcosim_training.pairing.train import train_pairing
            from hpcosim_training.pairing.windows import Windows

            training = Training(
                pairing=Pairing(
                    sees=sees.value,
                    objective=objective.value,
                    placements_per_event=placements.value,
                    wait=wait,
                    wait_s=wait_s,
                    most_wait_s=most_wait_s,
                ),
                hyperparameters=hyperparameters_for(sees.value, simulations, trajectories),
                windows=Windows(jobs, kinds),
                seed=seed,
                reward=usual_reward(sees.value),
                validate_every=validate_every,
                validation_windows=validation_windows,
                patience=patience,
                workers=workers,
            )
            overrides = overrides_of(changes, None, lenient)
            with _writing_to(out):
                network = train_pairing(
                    scenario,
                    out,
                    training,
                    validation=validation,
                    resume=resume,
                    overrides=overrides,
                    told=_tell_simulation,
                )
        typer.echo(f"network: {network}")


class Form(StrEnum):
    """What of Deep-EAS is trained."""

    pairs = "pairs"
    picture = "picture"
    paper = "paper"


@app.command("deep-eas")
def deep_eas(
    scenario: ScenarioFile,
    out: Out,
    form: Annotated[
        Form,
        typer.Option(
            help="pairs: ours; picture: the paper's picture and network, with PPO; paper: all as "
            "in the paper."
        ),
    ] = Form.pairs,
    iterations: Annotated[int | None, typer.Option(min=1, help="How often it learns.")] = None,
    pool: Annotated[
        int | None, typer.Option(min=0, help="Sequences to learn from; 0: always new ones.")
    ] = None,
    sequences: Annotated[int | None, typer.Option(min=1, help="Run each time.")] = None,
    trajectories: Annotated[int | None, typer.Option(min=2, help="Runs of each.")] = None,
    rate: Annotated[float | None, typer.Option(min=1e-9, help="Learning rate of Adam.")] = None,
    validate_every: Annotated[
        int | None, typer.Option(min=1, help="Iterations between two tries; the best one is kept.")
    ] = None,
    seed: TrainingSeed = 0,
    resume: Resume = False,
    changes: Set = None,
) -> None:
    """Train Deep-EAS on sequences like a scenario's; what is not given is the form's."""
    with errors_in_one_line():
        from hpcosim_client.extras import rl_extra

        with rl_extra("training"):
            from hpcosim_training.deep_eas.settings import FORMS
            from hpcosim_training.deep_eas.train import train_deep_eas

        given: dict[str, Any] = {
            "iterations": iterations,
            "pool": pool,
            "sequences": sequences,
            "trajectories": trajectories,
            "rate": rate,
            "validate_every": validate_every,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        training = dataclasses.replace(FORMS[form.value], seed=seed, **chosen)
        overrides = overrides_of(changes, None, lenient=False)
        with _writing_to(out):
            network = train_deep_eas(
                scenario, out, training, resume=resume, overrides=overrides, told=_tell_iteration
            )
        typer.echo(f"network: {network}")


def _tell_iteration(done: Iteration) -> None:
    typer.echo(
        f"{done.iteration:4}  normalised EDP {done.normalised_edp:8.2f}  "
        f"best choices / ESJF {done.validation:7.4f}  took {done.seconds:.1f} s"
    )


def _names(curriculum: str) -> list[str]:
    """Return the datasets named.

    Raises:
        ScenarioError: there is none.
    """
    from hpcosim_scenarios.errors import ScenarioError

    names = [name.strip() for name in curriculum.split(",") if name.strip()]
    if not names:
        raise ScenarioError("no datasets to learn from were named")
    return names


@contextmanager
def _writing_to(out: Path) -> Iterator[None]:
    """Turn the error of a folder that can't be written to into one of ours.

    Raises:
        ResultsError: it can't.
    """
    from hpcosim_server.errors import ResultsError

    try:
        yield
    except OSError as error:
        why = error.strerror or error
        raise ResultsError(f"what was learned can't be written to {out}: {why}") from error


def _tell_simulation(done: Simulation) -> None:
    typer.echo(
        f"{done.simulation:4}  mean {done.mean:8.4f}  least {done.least:8.4f}  "
        f"best choices {done.validation:8.4f}  entropy {done.entropy:6.3f}  "
        f"took {done.seconds:.1f} s"
    )


def _tell_generation(generation: Generation) -> None:
    number, mean_j, best_j, median_j, seconds = generation
    typer.echo(
        f"{number:4}  cost: mean {mean_j:9.4g} J  best {best_j:9.4g} J  "
        f"median {median_j:9.4g} J  took {seconds:.1f} s"
    )


def _tell(epoch: Epoch) -> None:
    totals = epoch.totals
    typer.echo(
        f"{epoch.number:4} {epoch.dataset:9}  reward {totals.reward:9.4g}  "
        f"wasted {totals.wasted_j:9.4g} J  mean wait {totals.mean_wait_s:9.4g} s  "
        f"took {epoch.seconds:.1f} s"
    )
