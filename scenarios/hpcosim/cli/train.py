"""The commands `hpcosim train ...`: one for each trainer."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hpcosim.cli import options, train_options
from hpcosim.cli.usage import help_of, with_groups
from hpcosim_papers.ineps.agent.settings import Objective, Sees

if TYPE_CHECKING:
    from hpcosim_gym.learners.batch_search import BatchGeneration
    from hpcosim_gym.learners.power_forecasts import Row
    from hpcosim_papers.power.learners.cross_entropy import Generation

AGENT = "Agent"

Curriculum = Annotated[
    str,
    typer.Option(
        metavar="NAMES",
        help="Comma-separated workloads, in training order. real: the scenario's; sampled, "
        "synthetic: drawn from it.",
    ),
]
Days = Annotated[
    int, typer.Option(min=1, max=36_525, help="Length of the synthetic workload, in days.")
]
Interval = Annotated[
    float, typer.Option(min=1.0, max=1e9, help="Simulated time between two decisions, in s.")
]
Passes = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=train_options.TRAINING,
        help="Passes through each workload of the curriculum.",
    ),
]
Calendar = Annotated[
    bool, typer.Option("--calendar", help="Observe the time of day and the day of the week.")
]


@with_groups
def power(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    algorithm: Annotated[Literal["a2c", "ppo"], typer.Option(help="Learning algorithm.")] = "a2c",
    curriculum: Curriculum = "sampled,real,synthetic",
    days: Days = 365,
    interval_s: Interval = 1800.0,
    calendar: Calendar = False,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    execution: train_options.TrainingsInProcess = train_options.IN_PROCESS,
    resume: train_options.Resume = False,
    iterations: Passes = 10,
    learning_rate: train_options.LearningRate = None,
    checkpoint_every: train_options.CheckpointEvery = 1,
) -> None:
    """Train the power manager `rl` for a scenario's nodes and scheduler."""
    execution.check()
    with train_options.training_into(out, execution.several(), force=force, resume=resume):
        from hpcosim_papers.power.learners.train import ALGORITHMS, train_power

        training = train_options.with_options(
            ALGORITHMS[algorithm],
            curriculum=_workloads(curriculum),
            synthetic_days=days,
            interval_s=interval_s,
            calendar=calendar,
            iterations=iterations,
            learning_rate=learning_rate,
            seed=execution.seed,
            checkpoint_every=checkpoint_every,
        )
        overrides = options.overrides_of(changes, None, lenient)
        train = partial(train_power, scenario, overrides=overrides)
        execution.train(
            train, training, out, resume=resume, on_iteration=train_options.print_iteration
        )


def _workloads(curriculum: str) -> list[str]:
    from hpcosim_scenarios.errors import ScenarioError

    if not (names := options.names_of(curriculum)):
        raise ScenarioError("--curriculum: expected at least one of sampled, real, synthetic")
    return names


Generations = Annotated[int, typer.Option(min=1, help="Generations of the search.")]
WaitWeight = Annotated[
    float, typer.Option(min=0.0, help="Cost of waiting, in J per second of a job's wait.")
]
Origin = Annotated[
    float,
    typer.Option(
        min=0.0, help="Time of the week at which the workload starts, in s after Monday 0:00."
    ),
]


@with_groups
def adaptive(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    wait_w: WaitWeight = 350.0,
    origin_s: Origin = 0.0,
    generations: Generations = 12,
    candidates: Annotated[int, typer.Option(min=5, help="Candidates per generation.")] = 12,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    execution: train_options.Trainings = train_options.ONE_OR_SEVERAL,
) -> None:
    """Search timeouts for the power manager `adaptive` by the cross-entropy method.

    The timeouts depend on the time of the week and on the load.
    """
    with train_options.training_into(out, execution.several(), force=force):
        from hpcosim_papers.power.learners.cross_entropy import AdaptiveSearch, train_adaptive

        search = AdaptiveSearch(
            wait_w=wait_w,
            origin_s=origin_s,
            generations=generations,
            candidates=candidates,
            seed=execution.seed or 0,
            executor=execution.of_rollouts(),
        )
        overrides = options.overrides_of(changes, None, lenient)
        train = partial(train_adaptive, scenario, overrides=overrides)
        execution.train(train, search, out, made="rule", on_generation=_print_generation)


def _print_generation(generation: Generation) -> None:
    number, mean_j, best_j, median_j, seconds = generation
    typer.echo(
        f"{number:4}  cost: mean {mean_j:9.4g} J  best {best_j:9.4g} J  "
        f"median {median_j:9.4g} J  took {seconds:.1f} s"
    )


ObjectiveOption = Annotated[
    Objective,
    typer.Option(
        rich_help_panel=AGENT,
        help="Quantity to minimise: energy, or edp (energy-delay product).",
    ),
]
Observation = Annotated[
    Sees,
    typer.Option(
        "--sees",
        rich_help_panel=AGENT,
        help="Features of a job-node pair. papers: those of Lopez et al. 2025; papers_no_energy: "
        "the same without energy; foreseen: forecasts of the pair's time and energy.",
    ),
]
Placements = Annotated[
    Literal["one", "all"],
    typer.Option(rich_help_panel=AGENT, help="Jobs to place per event: at most one, or all."),
]
Wait = Annotated[
    bool,
    typer.Option(rich_help_panel=AGENT, help="Allow the agent to wait although a job fits."),
]
WaitTime = Annotated[
    float | None,
    typer.Option(
        min=1e-3,
        rich_help_panel=AGENT,
        help="Decide again after this simulated time of waiting, in s. Default: at events only.",
    ),
]
MostWait = Annotated[
    float,
    typer.Option(
        min=1e-3,
        rich_help_panel=AGENT,
        help="Longest simulated time of waiting although a job fits, in s.",
    ),
]
Episodes = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=train_options.TRAINING, help="Simulations per iteration."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1,
        rich_help_panel=train_options.TRAINING,
        help="Consecutive jobs per simulation, from a random position. Default: all jobs.",
    ),
]
Kinds = Annotated[
    bool,
    typer.Option(
        "--kinds",
        rich_help_panel=train_options.TRAINING,
        help="Restrict most simulations to jobs of randomly chosen profiles.",
    ),
]
Validation = Annotated[
    Path | None,
    typer.Option(
        metavar="SCENARIO",
        callback=options.if_given(options.scenario_file),
        rich_help_panel=train_options.TRAINING,
        help="Scenario whose jobs are the validation set. Default: SCENARIO.",
    ),
]
ValidationWindows = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=train_options.TRAINING,
        help="Validate on this many random parts of the workload. 0: on the whole workload.",
    ),
]


@with_groups
def pairing(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    execution: train_options.Trainings = train_options.ONE_OR_SEVERAL,
    resume: train_options.Resume = False,
    objective: ObjectiveOption = "energy",
    sees: Observation = "foreseen",
    placements: Placements = "all",
    wait: Wait = True,
    wait_s: WaitTime = None,
    most_wait_s: MostWait = 600.0,
    episodes: Episodes = None,
    jobs: Jobs = None,
    kinds: Kinds = False,
    validation: Validation = None,
    validation_windows: ValidationWindows = 0,
    iterations: train_options.Iterations = None,
    learning_rate: train_options.LearningRate = None,
    validate_every: train_options.ValidateEvery = 1,
    patience: train_options.Patience = 0,
    checkpoint_every: train_options.CheckpointEvery = 1,
) -> None:
    """Train the scheduler `pairing` for a scenario's nodes and jobs.

    The defaults of iterations, episodes and learning rate depend on --sees: 30, 16 and 0.0003 for
    foreseen; 100, 5 and 0.001 otherwise.
    """
    with train_options.training_into(out, execution.several(), force=force, resume=resume):
        from hpcosim_papers.ineps.agent.settings import Pairing
        from hpcosim_papers.ineps.environments.pairing_task import default_reward
        from hpcosim_papers.ineps.learners.settings import Windows, training_for
        from hpcosim_papers.ineps.learners.train import train_pairing

        training = train_options.with_options(
            training_for(sees),
            pairing=Pairing(
                sees=sees,
                objective=objective,
                placements_per_event=placements,
                wait=wait,
                wait_s=wait_s,
                most_wait_s=most_wait_s,
            ),
            reward=default_reward(sees),
            windows=Windows(jobs, kinds),
            episodes=episodes,
            validation_windows=validation_windows,
            iterations=iterations,
            learning_rate=learning_rate,
            validate_every=validate_every,
            patience=patience,
            seed=execution.seed,
            executor=execution.of_rollouts(),
            checkpoint_every=checkpoint_every,
        )
        overrides = options.overrides_of(changes, None, lenient)
        train = partial(train_pairing, scenario, validation=validation, overrides=overrides)
        execution.train(
            train, training, out, resume=resume, on_iteration=train_options.print_iteration
        )


Form = Annotated[
    Literal["pairs", "queue", "picture", "paper"],
    typer.Option(
        help="pairs: observe features of job-machine pairs, with PPO; queue: the same and the "
        "whole queue, on sequences of many lengths and loads; picture: the paper's observation, "
        "with PPO; paper: the paper's observation and algorithm, REINFORCE."
    ),
]
Pool = Annotated[
    int | None,
    typer.Option(
        min=0,
        rich_help_panel=train_options.TRAINING,
        help="Number of different job sequences. 0: new sequences in each iteration.",
    ),
]
Sequences = Annotated[
    int | None,
    typer.Option(
        min=1, rich_help_panel=train_options.TRAINING, help="Job sequences per iteration."
    ),
]
Trajectories = Annotated[
    int | None,
    typer.Option(
        min=2, rich_help_panel=train_options.TRAINING, help="Simulations of each job sequence."
    ),
]


@with_groups
def deep_eas(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    form: Form = "pairs",
    changes: options.Set = None,
    execution: train_options.Trainings = train_options.ONE_OR_SEVERAL,
    resume: train_options.Resume = False,
    pool: Pool = None,
    sequences: Sequences = None,
    trajectories: Trajectories = None,
    iterations: train_options.Iterations = None,
    learning_rate: train_options.LearningRate = None,
    validate_every: train_options.ValidateEvery = None,
    patience: train_options.Patience = 0,
    checkpoint_every: train_options.CheckpointEvery = 1,
) -> None:
    """Train the scheduler `deep-eas` on job sequences drawn like the scenario's.

    The form sets the defaults of the training options. Default: 50 iterations (pairs), 60 (queue),
    40 (picture), 1000 (paper).
    """
    with train_options.training_into(out, execution.several(), force=force, resume=resume):
        from hpcosim_papers.deep_eas.learners.settings import FORMS
        from hpcosim_papers.deep_eas.learners.train import train_deep_eas

        training = train_options.with_options(
            FORMS[form],
            pool=pool,
            sequences=sequences,
            trajectories=trajectories,
            iterations=iterations,
            learning_rate=learning_rate,
            validate_every=validate_every,
            patience=patience,
            seed=execution.seed,
            executor=execution.of_rollouts(),
            checkpoint_every=checkpoint_every,
        )
        overrides = options.overrides_of(changes, None, lenient=False)
        train = partial(train_deep_eas, scenario, overrides=overrides)
        execution.train(
            train, training, out, resume=resume, on_iteration=train_options.print_iteration
        )


CostOption = Annotated[
    Literal["wait", "bounded_slowdown", "energy"],
    typer.Option(help="Quantity to minimise: mean wait, mean bounded slowdown, or energy."),
]
VisibleJobs = Annotated[
    int,
    typer.Option(min=1, max=1000, help="Waiting jobs among which the agent chooses."),
]
BatchEpisodes = Annotated[
    int, typer.Option(min=1, help="Simulations of each candidate in a generation.")
]
BatchJobs = Annotated[
    int,
    typer.Option(min=1, help="Consecutive jobs per simulation, from a random position."),
]

BatchAlso = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SCENARIO",
        help="Another scenario; the windows come from all scenarios in turn. Repeatable.",
        callback=options.if_given(options.scenario_file),
    ),
]
LongestWait = Annotated[
    float,
    typer.Option(
        min=0.0,
        help="Weight of the logarithm of the longest wait in the score, beside that of the cost.",
    ),
]


@with_groups
def batch(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    objective: CostOption = "bounded_slowdown",
    window_jobs: VisibleJobs = 64,
    episodes: BatchEpisodes = 16,
    jobs: BatchJobs = 800,
    generations: Generations = 10,
    candidates: Annotated[int, typer.Option(min=7, help="Candidates per generation.")] = 16,
    also: BatchAlso = None,
    longest_wait_weight: LongestWait = 0.3,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    execution: train_options.Trainings = train_options.ONE_OR_SEVERAL,
) -> None:
    """Search a rule for the scheduler `batch` by the cross-entropy method.

    The rule chooses the next job, with EASY backfilling behind it. It takes any cluster: search on
    windows of some logs, and use it on others. The search starts at the rule of easy-saf.
    """
    with train_options.training_into(out, execution.several(), force=force):
        from hpcosim_gym.learners.batch_search import BatchSearch, train_batch

        search = BatchSearch(
            objective=objective,
            window_jobs=window_jobs,
            episodes=episodes,
            episode_jobs=jobs,
            generations=generations,
            candidates=candidates,
            elite=max(candidates // 4, 2),
            longest_wait_weight=longest_wait_weight,
            seed=execution.seed or 0,
            executor=execution.of_rollouts(),
        )
        overrides = options.overrides_of(changes, None, lenient)
        train = partial(train_batch, scenario, also=also or (), overrides=overrides)
        execution.train(train, search, out, made="agent", on_generation=_print_scores)


def _print_scores(generation: BatchGeneration) -> None:
    number, mean, best, median, seconds = generation
    typer.echo(
        f"{number:4}  score / easy-saf: mean {mean:.4f}  best {best:.4f}  median {median:.4f}  "
        f"took {seconds:.1f} s"
    )


WorkloadsAlso = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="SCENARIO",
        help="Another scenario, whose workload is as likely as the first. Repeatable.",
        callback=options.if_given(options.scenario_file),
    ),
]


@with_groups
def spare_nodes(
    scenario: options.ScenarioFile,
    out: train_options.Out,
    force: options.Force = False,
    instances: Annotated[
        int, typer.Option(min=2, help="Random clusters with windows of the workloads.")
    ] = 260,
    jobs: Annotated[int, typer.Option(min=40, help="Most jobs of a short window.")] = 300,
    samples: Annotated[int, typer.Option(min=1, help="Samples of the future per moment.")] = 48,
    hidden: Annotated[int, typer.Option(min=1, max=4096, help="Width of the hidden layer.")] = 24,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the recorded moments.")] = 10,
    also: WorkloadsAlso = None,
    changes: options.Set = None,
    lenient: options.Lenient = False,
    execution: train_options.Rollouts = train_options.ALONE,
) -> None:
    """Train the network of the power manager `learned`.

    EASY runs with timeouts on random clusters with windows of the workloads. From the forecasts at
    random moments, and what came after them, the network learns to correct the forecasts.
    """
    with train_options.training_into(out, force=force):
        from hpcosim_gym.learners.power_forecasts import SpareNodesTraining, train_spare_nodes

        training = SpareNodesTraining(
            instances=instances,
            jobs=jobs,
            samples=samples,
            hidden=hidden,
            epochs=epochs,
            seed=execution.seed or 0,
            executor=execution.of_rollouts(),
        )
        train = partial(train_spare_nodes, on_recorded=_print_recorded, on_epoch=_print_epoch)
        overrides = options.overrides_of(changes, None, lenient)
        network = train(scenario, out, training, also=also or (), overrides=overrides)
        typer.echo(f"network: {network}")


def _print_recorded(instances: int) -> None:
    typer.echo(f"{instances:4}  instances simulated")


def _print_epoch(row: Row) -> None:
    typer.echo(f"{row.epoch:4}  loss: training {row.training:.5f}  validation {row.validation:.5f}")


app = typer.Typer(
    help="Train a scheduler or power manager on a scenario. Needs the extra `rl`.",
    no_args_is_help=True,
)
for command in (power, adaptive, pairing, deep_eas, batch, spare_nodes):
    app.command(command.__name__.replace("_", "-"), help=help_of(command))(command)
