"""The optimality gap of ESJF and two agents on small sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_client.agents.deep_eas.network import load_deep_eas
from hpcosim_client.agents.deep_eas.step_costs import mean_edp
from hpcosim_client.agents.deep_eas.step_jobs import Machines, StepJobs
from hpcosim_experiments.report.markdown import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_studies.deep_eas.cases import Case
from hpcosim_studies.deep_eas.optimum import SequenceBound, optimum
from hpcosim_studies.measures import change
from hpcosim_studies.pool import in_parallel
from hpcosim_training.environments.step_binding import StepBindingVectorEnv
from hpcosim_training.environments.step_jobs import step_jobs
from hpcosim_training.environments.step_machines import machines_of, model_of, sequence
from hpcosim_training.learners.deep_eas.play import play_esjf, play_greedy
from hpcosim_view.figures.style import COLOURS
from hpcosim_workloads.table import JobTable

PAIRS, QUEUE = "Deep-EAS, pairs (ours)", "Deep-EAS, queue (ours)"

STEPS = (4, 7, 10, 13)
"""Lengths of sequences: steps in which jobs arrive."""

SEQUENCES = 20
"""Sequences of each length."""


def find_optima(
    case: Case,
    model: Path,
    every: Path,
    lengths: Sequence[int] = STEPS,
    sequences: int = SEQUENCES,
) -> list[Row]:
    """Return the results of ESJF, agents and the solver, a row for each length of sequences.

    Args:
        case: scenario that provides machines and workload model.
        model: file of the agent of the form `pairs`.
        every: file of the agent of the form `queue`.
        lengths: numbers of steps in which jobs arrive.
        sequences: number of sequences of each length.

    Raises:
        OracleError: SciPy is missing, or the solver found no schedule within its time limit.
    """
    # One process: the solver's time limit is wall-clock time, and parallel solvers are slower.
    find = partial(find_one, case, model, every, sequences)
    return in_parallel(find, lengths, 1, "deep-eas-optimum")


def find_one(case: Case, model: Path, every: Path, sequences: int, steps: int) -> Row:
    """Return the results on the sequences of a length, as means over all their jobs.

    Columns are `steps`, `jobs` (in a sequence), and the mean normalised energy-delay products of
    `esjf`, of the `agent`, of the agent for `every` length, of the best schedules `found` by the
    solver, which knows all jobs in advance, and their lower bound `least`.
    """
    network, about = load_deep_eas(model)
    scenario = Library([case.path]).first
    machines = machines_of(scenario, about.settings, case.path)
    rng = np.random.default_rng([scenario.seed, steps])
    short = msgspec.structs.replace(model_of(scenario, case.path), steps=steps)
    tables = [sequence(short, rng) for _ in range(sequences)]
    jobs = step_jobs(machines.settings, machines.scale, tables)
    bounds = [_bound(machines, jobs, one) for one in range(sequences)]
    count = int(jobs.valid.sum())
    return {
        "steps": steps,
        "jobs": count / sequences,
        "esjf": _run(machines, jobs, play_esjf),
        "agent": _run(machines, jobs, lambda env: play_greedy(network, env)),
        "every": _run_every(every, scenario, case, tables),
        "found": sum(bound.found for bound in bounds) / count,
        "least": sum(bound.least for bound in bounds) / count,
    }


def _run(machines: Machines, jobs: StepJobs, play: Callable[[StepBindingVectorEnv], None]) -> float:
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    play(env)
    return mean_edp(env.runs)


def _run_every(every: Path, scenario: Scenario, case: Case, tables: Sequence[JobTable]) -> float:
    """Return the result of an agent with slots of its own."""
    network, about = load_deep_eas(every)
    machines = machines_of(scenario, about.settings, case.path)
    jobs = step_jobs(machines.settings, machines.scale, tables)
    return _run(machines, jobs, lambda env: play_greedy(network, env))


def _bound(machines: Machines, jobs: StepJobs, one: int) -> SequenceBound:
    alone = jobs.take([one])
    valid = alone.valid[0]
    # An optimal schedule has no step in which all machines are idle and jobs wait, so it ends
    # within the sum of all run times after the last submission.
    longest = alone.actual[0].max(axis=0)[valid].sum()
    return optimum(machines, alone, int(alone.submit[0][valid].max() + longest))


def summary(rows: Rows) -> str:
    """Return the comparison as Markdown."""
    head, lines = ["steps with jobs", "jobs", "ESJF"], []
    for row in rows:
        proven = row["found"] <= row["least"] * (1.0 + 1e-4)
        best = f"{row['found']:.2f}" if proven else f"{row['least']:.2f} to {row['found']:.2f}"
        gaps = [
            f"{row[who]:.2f} ({change(row[who], row['found']):+.0f} %)"
            for who in ("esjf", "agent", "every")
        ]
        lines.append([f"{row['steps']}", f"{row['jobs']:.1f}", *gaps, best])
    return document(
        ["# Optimality gap"],
        [
            f"Mean normalised energy-delay product on {SEQUENCES} sequences of each length, from "
            "the workload model of lambda_0.9. The optimum knows true run times and future jobs; "
            "brackets give the gap to it. A range contains an optimum that the solver did not "
            "prove."
        ],
        table([*head, PAIRS, QUEUE, "optimum"], lines),
    )


def draw(path: Path, rows: Rows) -> None:
    """Draw the comparison over the length of sequences."""
    with panels(path, 1, 1, (6.0, 3.6)) as (axes,):
        titled(axes, "mean normalised energy-delay product on small sequences")
        steps = [row["steps"] for row in rows]
        for label, column, colour in (
            ("ESJF", "esjf", COLOURS[7]),
            (PAIRS, "agent", COLOURS[0]),
            (QUEUE, "every", COLOURS[1]),
            ("optimum, all known from the start", "found", COLOURS[2]),
        ):
            axes.plot(steps, [row[column] for row in rows], "-o", color=colour, label=label)
        axes.set_xticks(steps)
        axes.set_ylim(bottom=0.0)
        axes.set_xlabel("steps in which jobs come")
        axes.legend(frameon=False, fontsize=8)
