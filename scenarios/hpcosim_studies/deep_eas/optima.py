"""The optimality gap: ESJF and the agent on small sequences, beside the optimum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_scenarios.running.library import Library
from hpcosim_studies.deep_eas.cases import Case
from hpcosim_studies.deep_eas.optimum import Bound, optimum
from hpcosim_studies.figures import panels, titled
from hpcosim_studies.measures import change, document, table
from hpcosim_studies.pool import in_parallel
from hpcosim_training.deep_eas.ground import machines_of, model_of, sequence
from hpcosim_training.deep_eas.jobs import StepJobs, step_jobs
from hpcosim_training.deep_eas.outcome import mean_edp
from hpcosim_training.deep_eas.rollout import exploit, run_esjf
from hpcosim_training.deep_eas.sequences import Machines, Sequences

STEPS = (4, 7, 10, 13)
"""The lengths: steps in which jobs arrive."""

SEQUENCES = 20
"""Of each length."""


class Task(NamedTuple):
    """The sequences of a length.

    Attributes:
        case: a scenario, for its machines and the distribution of its jobs.
        model: the agent's file.
        steps: the steps in which jobs arrive.
        sequences: how many.
    """

    case: Case
    model: Path
    steps: int
    sequences: int


class Small(NamedTuple):
    """Results on sequences of a length: means over all their jobs.

    Attributes:
        steps: the steps in which jobs arrive.
        jobs: in a sequence, on average.
        esjf, agent: mean normalised energy-delay products.
        found: that of the best schedules the solver found; it knows all jobs in advance.
        least: a lower bound.
    """

    steps: int
    jobs: float
    esjf: float
    agent: float
    found: float
    least: float


def find_optima(
    case: Case,
    model: Path,
    workers: int | None = None,
    lengths: Sequence[int] = STEPS,
    sequences: int = SEQUENCES,
) -> list[Small]:
    """Return the results of ESJF, an agent and the solver on small sequences.

    Args:
        case: a scenario, for its machines and the distribution of its jobs.
        model: the agent's file.
        workers: processes.
        lengths: the steps in which jobs arrive.
        sequences: of each length.

    Raises:
        OracleError: SciPy is missing, or found no schedule in time.
    """
    tasks = [Task(case, model, steps, sequences) for steps in lengths]
    return in_parallel(find_one, tasks, workers, "deep-eas-optimum")


def find_one(task: Task) -> Small:
    """Return the results on the sequences of a length."""
    network, about = load_deep_eas(task.model)
    scenario = Library([task.case.path]).first
    machines = machines_of(scenario, about.settings, task.case.path)
    rng = np.random.default_rng([scenario.seed, task.steps])
    short = msgspec.structs.replace(model_of(scenario, task.case.path), steps=task.steps)
    tables = [sequence(short, rng) for _ in range(task.sequences)]
    jobs = step_jobs(machines.settings, machines.scale, tables)
    bounds = [_bound(machines, jobs, one) for one in range(task.sequences)]
    count = int(jobs.there.sum())
    return Small(
        task.steps,
        count / task.sequences,
        _run(machines, jobs, run_esjf),
        _run(machines, jobs, lambda runs: exploit(network, runs)),
        sum(bound.found for bound in bounds) / count,
        sum(bound.least for bound in bounds) / count,
    )


def _run(machines: Machines, jobs: StepJobs, play: Callable[[Sequences], None]) -> float:
    runs = Sequences(machines, jobs)
    play(runs)
    return mean_edp(runs)


def _bound(machines: Machines, jobs: StepJobs, one: int) -> Bound:
    alone = jobs.some([one])
    there = alone.there[0]
    # A machine on which nothing runs could start what it is to start later, so all is over in an
    # optimal schedule once all could have run one after the other.
    longest = alone.actual[0].max(axis=0)[there].sum()
    return optimum(machines, alone, int(alone.submit[0][there].max() + longest))


def summary(found: Sequence[Small]) -> str:
    """Return the comparison, as Markdown."""
    lines = []
    for one in found:
        proven = one.found <= one.least * (1.0 + 1e-4)
        best = f"{one.found:.2f}" if proven else f"{one.least:.2f} to {one.found:.2f}"
        gaps = [
            f"{value:.2f} ({change(value, one.found):+.0f} %)" for value in (one.esjf, one.agent)
        ]
        lines.append([f"{one.steps}", f"{one.jobs:.1f}", *gaps, best])
    return document(
        ["# How much is left"],
        [
            f"Mean normalised energy-delay product on {SEQUENCES} sequences of each length, drawn "
            "as those of lambda_0.9 are. The optimum knows true run times and all jobs to come, "
            "which nobody does; in brackets what is above it. Where the solver did not prove it, "
            "the range says where it is."
        ],
        table(["steps with jobs", "jobs", "ESJF", "Deep-EAS, pairs (ours)", "optimum"], lines),
    )


def draw(path: Path, found: Sequence[Small]) -> None:
    """Draw the comparison over the length of sequences."""
    with panels(path, 1, 1, (6.0, 3.6)) as (axes,):
        titled(axes, "mean normalised energy-delay product on small sequences")
        steps = [one.steps for one in found]
        for label, values, colour in (
            ("ESJF", [one.esjf for one in found], COLOURS[7]),
            ("Deep-EAS, pairs (ours)", [one.agent for one in found], COLOURS[0]),
            ("optimum, all known from the start", [one.found for one in found], COLOURS[2]),
        ):
            axes.plot(steps, values, "-o", color=colour, label=label)
        axes.set_xticks(steps)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("steps in which jobs come")
        axes.legend(frameon=False, fontsize=8)
