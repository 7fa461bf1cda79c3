"""Sequences of other lengths and loads than those of an agent's training.

All policies run on the same new sequences, drawn with `SEED`, which no training, validation or
choice uses. Intervals are paired: they resample whole sequences. The sequences of `CHOICE_SEED`
choose settings of the training and the seed that is shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import torch

from hpcosim_client.job import Floats
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.statistics.bootstrap import Bootstrap, Estimate, estimate, paired_ratio
from hpcosim_experiments.statistics.rows import Row, Rows
from hpcosim_papers.deep_eas.agent.step_jobs import Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import normalised_edps
from hpcosim_papers.deep_eas.environments import step_machines
from hpcosim_papers.deep_eas.environments.step_binding import StepBindingVectorEnv
from hpcosim_papers.deep_eas.learners.networks import Network, initialise, load_network, network_of
from hpcosim_papers.deep_eas.learners.train import play_esjf, play_greedy, play_sampled, play_search
from hpcosim_papers.deep_eas.study import optima
from hpcosim_papers.deep_eas.study.cases import (
    EVERY_LENGTH,
    LENGTH_SEEDS,
    Case,
    every_length_of,
    model_name,
)
from hpcosim_papers.studies.agents import in_parallel
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_workloads.table import JobTable

SEED = 20_261_129
CHOICE_SEED = 20_261_101

ESJF = "ESJF"
QUEUE = "Deep-EAS, queue (ours)"
SEEDS = "Deep-EAS, queue, mean of seeds"
PAIRS = "Deep-EAS, pairs"
UNTRAINED = "untrained"


class SequenceSet(NamedTuple):
    """New sequences.

    Attributes:
        arrivals: arrival probability.
        heuristic: the best of all heuristics on other sequences of this length and load.
    """

    steps: int
    arrivals: float
    sequences: int
    heuristic: str


SETS = (
    SequenceSet(4, 0.9, 1500, "esjf"),
    SequenceSet(13, 0.9, 1500, "minmin"),
    SequenceSet(30, 0.9, 150, "shortest-low-power"),
    SequenceSet(60, 0.9, 100, "shortest-low-power"),
    SequenceSet(120, 0.9, 32, "shortest-low-power"),
    SequenceSet(240, 0.9, 24, "minmin"),
    SequenceSet(480, 0.9, 16, "minmin"),
    SequenceSet(13, 0.1, 1500, "esjf"),
    SequenceSet(60, 0.1, 600, "esjf"),
    SequenceSet(60, 0.5, 100, "shortest-low-power-one"),
)
"""Lengths and loads around those of the scenario, with the best of 92 heuristics on each."""

CHOICE = tuple(some._replace(sequences=max(some.sequences // 5, 16)) for some in SETS)
"""The sets that choose, with fewer sequences; theirs are drawn with `CHOICE_SEED`."""

GAPS = 20
"""Number of sequences of 13 steps whose optimum is computed."""

SEARCHED = SETS[1]
SEARCHES = 32
"""Number of sequences of the look-ahead, the last of `SEARCHED`; it takes a thousand times as long.

The first ones chose its settings."""


def compare(case: Case, source: Path, sets: Sequence[SequenceSet] = SETS) -> list[Row]:
    """Return a row for each set: means, and quotients to each other policy with their intervals.

    The columns `mean seed N` have the means of the seeds, `mean heuristic` that of the best
    heuristic, and `quotient`, `low` and `high` of `SEEDS` the mean of the seeds divided by it.

    Args:
        source: folder of the agents; that of `PAIRS` is the one trained at the same arrival rate.
    """
    return in_parallel(partial(_compared, case, source), sets, 1, "deep-eas-lengths")


def _compared(case: Case, source: Path, some: SequenceSet) -> Row:
    scenario = Library([case.path]).first
    tables = _draw(case, scenario, some)
    jobs = sum(len(table) for table in tables)
    same_rate = source / model_name(f"lambda_{some.arrivals}", "pairs")
    agents = {QUEUE: source / EVERY_LENGTH, PAIRS: same_rate}
    totals = _totals(case, scenario, agents, tables) | {
        some.heuristic: _simulated(scenario, tables, some.heuristic)
    }
    row: dict[str, Any] = some._asdict()
    for name, values in totals.items():
        column = "heuristic" if name == some.heuristic else name
        row[f"mean {column}"] = float(values.sum() / jobs)
        if name != QUEUE:
            row |= _quotient_columns(column, totals[QUEUE], values)
    by_seed = [
        greedy_totals(case, scenario, source / every_length_of(seed), tables)
        for seed in LENGTH_SEEDS
    ]
    for seed, values in zip(LENGTH_SEEDS, by_seed, strict=True):
        row[f"mean seed {seed}"] = float(values.sum() / jobs)
    return row | _quotient_columns(SEEDS, np.mean(by_seed, axis=0), totals[some.heuristic])


def _quotient_columns(column: str, values: Floats, base: Floats) -> dict[str, float]:
    """Return a quotient and its interval."""
    found = _quotient(values, base)
    parts = (found.value, found.low, found.high)
    return {
        f"{part} {column}": x for part, x in zip(("quotient", "low", "high"), parts, strict=True)
    }


def score(case: Case, network: Path, sets: Sequence[SequenceSet] = CHOICE) -> dict[str, float]:
    """Return the mean normalised energy-delay product of an agent on each set that chooses.

    `geometric mean` is that of all sets: the lowest is chosen.
    """
    scenario = Library([case.path]).first
    found = {}
    for some in sets:
        tables = _draw(case, scenario, some, CHOICE_SEED)
        total = greedy_totals(case, scenario, network, tables).sum()
        found[f"{some.steps} at {some.arrivals}"] = float(total / sum(map(len, tables)))
    return found | {"geometric mean": float(np.exp(np.log(list(found.values())).mean()))}


def find_gaps(case: Case, source: Path, sequences: int = GAPS) -> Row:
    """Return the mean normalised energy-delay products of the seeds and the optimum at 13 steps.

    Columns are those of the seeds, `found` and `least`, see `optima.find_one`.
    """
    scenario = Library([case.path]).first
    tables = optima.draw_sequences(case, scenario, SEARCHED.steps, sequences, SEED)
    _, about = load_network(source / EVERY_LENGTH)
    machines = step_machines.machines_of(scenario, about.settings, case.path)
    jobs = step_machines.step_jobs(machines.settings, machines.scale, tables)
    bounds, count = optima.bounds_of(machines, jobs), int(jobs.valid.sum())
    row: dict[str, Any] = {
        "found": sum(bound.found for bound in bounds) / count,
        "least": sum(bound.least for bound in bounds) / count,
    }
    for seed in LENGTH_SEEDS:
        totals = greedy_totals(case, scenario, source / every_length_of(seed), tables)
        row[f"mean seed {seed}"] = float(totals.sum() / count)
    return row


def compare_search(
    case: Case, source: Path, some: SequenceSet = SEARCHED, searches: int = SEARCHES
) -> list[Row]:
    """Return the means of agents with and without look-ahead, a row for each.

    Args:
        searches: number of them that are used, the last ones.
    """
    scenario = Library([case.path]).first
    tables = _draw(case, scenario, some)[-searches:]
    rows: list[Row] = []
    agents = {QUEUE: EVERY_LENGTH, PAIRS: model_name(f"lambda_{some.arrivals}", "pairs")}
    for name, file in agents.items():
        network, about = load_network(source / file)
        machines = step_machines.machines_of(scenario, about.settings, case.path)
        jobs = step_machines.step_jobs(machines.settings, machines.scale, tables)
        greedy = _played(machines, jobs, partial(play_greedy, network))
        searched = _played(machines, jobs, partial(play_search, network))
        found, count = _quotient(searched, greedy), int(jobs.valid.sum())
        means = (float(values.sum() / count) for values in (greedy, searched))
        columns = ("greedy", "searched", "quotient", "low", "high")
        row = dict(zip(columns, (*means, found.value, found.low, found.high), strict=True))
        rows.append({"agent": name, **row})
    return rows


def _played(
    machines: Machines, jobs: StepJobs, play: Callable[[StepBindingVectorEnv], None]
) -> Floats:
    """Return the cost of each sequence in the step-based environment."""
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    play(env)
    totals: Floats = normalised_edps(env.runs).sum(axis=1)
    return totals


def _quotient(values: Floats, base: Floats) -> Estimate:
    pairs = np.stack([values, base], axis=1)
    return estimate([pairs], paired_ratio, Bootstrap(resamples=2000))


def _draw(case: Case, scenario: Scenario, some: SequenceSet, seed: int = SEED) -> list[JobTable]:
    model = msgspec.structs.replace(
        step_machines.model_of(scenario, case.path),
        steps=some.steps,
        arrival_probability=some.arrivals,
        apart_s=float(max(2000, some.steps)),
    )
    rng = np.random.default_rng([seed, some.steps, round(100 * some.arrivals)])
    return [step_machines.sequence(model, rng) for _ in range(some.sequences)]


def _totals(
    case: Case, scenario: Scenario, agents: Mapping[str, Path], tables: Sequence[JobTable]
) -> dict[str, Floats]:
    """Return the cost of each sequence by policy, in the step-based environment."""
    totals = {}
    for name, path in agents.items():
        network, about = load_network(path)
        machines = step_machines.machines_of(scenario, about.settings, case.path)
        jobs = step_machines.step_jobs(machines.settings, machines.scale, tables)
        totals[name] = _played(machines, jobs, partial(play_greedy, network))
        if name == QUEUE:
            untrained = partial(play_sampled, _untrained(network))
            totals[UNTRAINED] = _played(machines, jobs, untrained)
        else:
            totals[ESJF] = _played(machines, jobs, play_esjf)  # with the paper's slots
    return totals


def greedy_totals(case: Case, scenario: Scenario, path: Path, tables: Sequence[JobTable]) -> Floats:
    """Return the cost of each sequence under an agent with greedy actions."""
    network, about = load_network(path)
    machines = step_machines.machines_of(scenario, about.settings, case.path)
    jobs = step_machines.step_jobs(machines.settings, machines.scale, tables)
    return _played(machines, jobs, partial(play_greedy, network))


def _untrained(network: Network) -> Network:
    fresh = network_of(network.settings)
    initialise(fresh, torch.Generator().manual_seed(0))
    return fresh


def _simulated(scenario: Scenario, tables: Sequence[JobTable], heuristic: str) -> Floats:
    """Return the cost of each sequence under a heuristic, in the simulator."""
    means = [
        run_in_process(open_scenario(scenario, table, heuristic), make_policy(heuristic))
        for table in tables
    ]
    sizes = [len(table) for table in tables]
    return np.array([m["mean_normalised_edp"] for m in means], dtype=np.float64) * sizes


def summary(rows: Rows, searched: Rows, gaps: Row) -> str:
    """Return the comparison as Markdown; `gaps` is that of `find_gaps`."""
    others = (ESJF, "heuristic", PAIRS, UNTRAINED)
    lines = []
    for row in rows:
        cells = [f"{row['steps']}", f"{row['arrivals']}", f"{row['sequences']}"]
        cells.append(f"**{row[f'mean {QUEUE}']:.1f}**")
        for other in others:
            name = f" `{row['heuristic']}`" if other == "heuristic" else ""
            quotient, low, high = (row[f"{part} {other}"] for part in ("quotient", "low", "high"))
            cells.append(
                f"{row[f'mean {other}']:.1f}{name}: {quotient:.3f} ({low:.3f} to {high:.3f})"
            )
        lines.append(cells)
    head = ["steps", "arrival rate", "sequences", QUEUE, ESJF, "best heuristic", PAIRS, UNTRAINED]
    return document(
        ["# Lengths and loads"],
        [
            "Mean normalised energy-delay product of all jobs of new sequences. After the colon: "
            "that of our agent divided by that of the policy, with its paired 95 % bootstrap "
            f"interval over sequences. The sequences have the seed {SEED}, which no training, "
            "validation or choice uses. The best heuristic was chosen on other sequences. The "
            "untrained network samples its actions, the agents are greedy."
        ],
        table(head, lines),
        [
            "All seeds. The quotient is that of the mean of the seeds and the best heuristic. The "
            f"last row has other sequences, {GAPS} of {SEARCHED.steps} steps; its quotient is that "
            "of the optimum, which knows all jobs in advance."
        ],
        table(
            [
                "steps",
                "arrival rate",
                *(f"seed {seed}" for seed in LENGTH_SEEDS),
                "mean",
                "quotient",
            ],
            [*(_seed_cells(row) for row in rows), _gap_cells(gaps)],
        ),
        [
            f"Look-ahead (`deep-eas-search`), the last {SEARCHES} sequences of "
            f"{SEARCHED.steps} steps at {SEARCHED.arrivals}; the quotient is that of the values "
            "with and without it:"
        ],
        table(
            ["agent", "greedy", "with look-ahead", "quotient"], [_cells(row) for row in searched]
        ),
    )


def _seed_cells(row: Row) -> list[str]:
    means = _seed_means(row)
    quotient, low, high = (row[f"{part} {SEEDS}"] for part in ("quotient", "low", "high"))
    interval = f"{row['heuristic']}: {quotient:.3f} ({low:.3f} to {high:.3f})"
    return [f"{row['steps']}", f"{row['arrivals']}", *_shown(means), interval]


def _gap_cells(gaps: Row) -> list[str]:
    means = _seed_means(gaps)
    proven = gaps["found"] <= gaps["least"] * (1.0 + 1e-4)
    best = f"{gaps['found']:.2f}" if proven else f"{gaps['least']:.2f} to {gaps['found']:.2f}"
    quotient = f"optimum, {best}: {np.mean(means) / gaps['found']:.3f}"
    return [f"{SEARCHED.steps}", f"{SEARCHED.arrivals}", *_shown(means), quotient]


def _seed_means(row: Row) -> list[float]:
    return [row[f"mean seed {seed}"] for seed in LENGTH_SEEDS]


def _shown(means: Sequence[float]) -> list[str]:
    spread = f"{np.mean(means):.1f} (sd {np.std(means, ddof=1):.1f})"
    return [*(f"{value:.1f}" for value in means), spread]


def _cells(row: Row) -> list[str]:
    interval = f"{row['quotient']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
    return [row["agent"], f"{row['greedy']:.1f}", f"{row['searched']:.1f}", interval]
