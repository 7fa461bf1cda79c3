"""The optimality gap of ESJF, two agents and their look-aheads on small sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_papers.deep_eas.agent.step_jobs import Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import mean_edp
from hpcosim_papers.deep_eas.bound import SequenceBound, optimum
from hpcosim_papers.deep_eas.environments import step_machines
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.learners.networks import Network, load_network
from hpcosim_papers.deep_eas.learners.train import (
    NO_FORESIGHT,
    Foresight,
    play_esjf,
    play_greedy,
    play_search,
)
from hpcosim_papers.deep_eas.study.cases import Case
from hpcosim_papers.studies.agents import in_parallel
from hpcosim_papers.studies.study import change
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.library import Library
from hpcosim_view.figure import COLOURS
from hpcosim_workloads.table import JobTable

PAIRS, QUEUE = "Deep-EAS, pairs (ours)", "Deep-EAS, queue (ours)"

STEPS = (4, 7, 10, 13)
"""Lengths of sequences: steps in which jobs arrive."""

SEQUENCES = 20
"""Sequences of each length."""

SEARCHES = (
    (PAIRS, "submitted jobs", NO_FORESIGHT),
    (QUEUE, "submitted jobs", NO_FORESIGHT),
    (QUEUE, "submitted jobs, true run times", Foresight(run_times=True)),
    (QUEUE, "submitted and future jobs", Foresight(arrivals=True)),
    (QUEUE, "submitted and future jobs, true run times", Foresight(run_times=True, arrivals=True)),
)
"""Look-aheads: the agent, and what it knows. A scheduler knows no more than submitted jobs."""


def find_optima(
    case: Case,
    model: Path,
    every: Path,
    lengths: Sequence[int] = STEPS,
    sequences: int = SEQUENCES,
) -> list[Row]:
    """Return the results of ESJF, agents and the solver, a row for each length of sequences.

    Args:
        model: file of the agent of the form `pairs`.
        every: file of the agent of the form `queue`.
        sequences: number of sequences of each length.
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
    scenario = Library([case.path]).first
    tables = draw_sequences(case, scenario, steps, sequences, scenario.seed)
    network, machines, jobs = _agent(model, case, scenario, tables)
    other, others_machines, others_jobs = _agent(every, case, scenario, tables)
    bounds = bounds_of(machines, jobs)
    count = int(jobs.valid.sum())
    return {
        "steps": steps,
        "jobs": count / sequences,
        "esjf": _run(machines, jobs, play_esjf),
        "agent": _run(machines, jobs, partial(play_greedy, network)),
        "every": _run(others_machines, others_jobs, partial(play_greedy, other)),
        "found": sum(bound.found for bound in bounds) / count,
        "least": sum(bound.least for bound in bounds) / count,
    }


def find_searches(
    case: Case, model: Path, every: Path, steps: int = STEPS[-1], sequences: int = SEQUENCES
) -> list[Row]:
    """Return the results of `SEARCHES` on the sequences of a length of `find_optima`.

    For the arguments see `find_optima`. Columns are `agent`, what it `knows` and its `edp`, the
    mean normalised energy-delay product.
    """
    scenario = Library([case.path]).first
    tables = draw_sequences(case, scenario, steps, sequences, scenario.seed)
    agents = {PAIRS: model, QUEUE: every}
    rows: list[Row] = []
    for agent, knows, foresight in SEARCHES:
        network, machines, jobs = _agent(agents[agent], case, scenario, tables)
        edp = _run(machines, jobs, partial(play_search, network, foresight=foresight))
        rows.append({"agent": agent, "knows": knows, "edp": edp})
    return rows


def draw_sequences(
    case: Case, scenario: Scenario, steps: int, sequences: int, seed: int
) -> list[JobTable]:
    """Draw sequences of a length from the scenario's model."""
    rng = np.random.default_rng([seed, steps])
    short = msgspec.structs.replace(step_machines.model_of(scenario, case.path), steps=steps)
    return [step_machines.sequence(short, rng) for _ in range(sequences)]


def _agent(
    path: Path, case: Case, scenario: Scenario, tables: Sequence[JobTable]
) -> tuple[Network, Machines, StepJobs]:
    """Return an agent, and the machines and jobs for its slots."""
    network, about = load_network(path)
    machines = step_machines.machines_of(scenario, about.settings, case.path)
    return network, machines, step_machines.step_jobs(machines.settings, machines.scale, tables)


def _run(machines: Machines, jobs: StepJobs, play: Callable[[StepBindingVectorEnv], None]) -> float:
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    play(env)
    return mean_edp(env.runs)


def bounds_of(machines: Machines, jobs: StepJobs) -> list[SequenceBound]:
    """Return the optimum of each sequence."""
    return [_bound(machines, jobs, one) for one in range(len(jobs.valid))]


def _bound(machines: Machines, jobs: StepJobs, one: int) -> SequenceBound:
    alone = jobs.take([one])
    valid = alone.valid[0]
    # An optimal schedule has no step in which all machines are idle and jobs wait, so it ends
    # within the sum of all run times after the last submission.
    longest = alone.actual[0].max(axis=0)[valid].sum()
    return optimum(machines, alone, int(alone.submit[0][valid].max() + longest))


def summary(rows: Rows, searched: Rows) -> str:
    """Return the comparison as Markdown; `searched` has the length of the last of `rows`."""
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
        [
            f"Look-ahead (`deep-eas-search`) at {rows[-1]['steps']} steps, with different "
            "knowledge. A scheduler knows no more than submitted jobs with their requested times. "
            "With known future jobs it simulates one future, and always four actions. The last "
            "column is the part of the distance of pairs to the optimum that is closed."
        ],
        table(
            ["agent", "knows", "with look-ahead", "closed"],
            [_search_cells(row, rows[-1]) for row in searched],
        ),
    )


def _search_cells(row: Row, bounds: Row) -> list[str]:
    edp, found, agent = row["edp"], bounds["found"], bounds["agent"]
    closed = 100 * (agent - edp) / (agent - found)
    return [
        row["agent"],
        row["knows"],
        f"{edp:.2f} ({change(edp, found):+.0f} %)",
        f"{closed:.0f} %",
    ]


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
