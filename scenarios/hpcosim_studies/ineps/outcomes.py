"""What a trained agent comes to: its best choices once, and a hundred runs with choices drawn."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hpcosim_client.agents.pairing.model import load_pairing
from hpcosim_client.agents.pairing.networks import Actor
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_scenarios.running.library import Library, rules_of
from hpcosim_studies import FOLDER
from hpcosim_training.environments.arguments import totals
from hpcosim_training.environments.job_node_pairing import JobNodePairingEnv
from hpcosim_training.environments.pairing_task import PairingTask
from hpcosim_training.learners.pairing.play import play_greedy, play_sampled

RUNS = 100
AT_A_TIME = 20  # runs side by side
DRAWS = 1_000_004  # a stream of chance


class Spread(NamedTuple):
    """What came of many runs; J or J s."""

    mean: float
    deviation: float
    least: float
    most: float


class Outcome(NamedTuple):
    """An agent on a scenario, a line of `agents.csv`.

    Attributes:
        variant, objective, seed: of the agent; the variant of one that never learned begins with
            `untrained`.
        experiment: the scenario it was tried on.
        training_s: how long it learned, on a clock on the wall.
        energy_j, edp_js: of its best choices.
        energy, edp: of `RUNS` runs with each choice drawn.
    """

    variant: str
    objective: str
    seed: int
    experiment: str
    training_s: float
    energy_j: float
    edp_js: float
    energy: Spread
    edp: Spread


HEAD = (
    *Outcome._fields[:-2],
    *(f"drawn_{name}_{field}" for name in ("energy_j", "edp_js") for field in Spread._fields),
)


def try_out(
    model: Path, experiment: str, about: tuple[str, str, int], training_s: float
) -> Outcome:
    """Return what an agent comes to on an experiment's scenario.

    Args:
        model: its file.
        experiment: the scenario's name.
        about: its variant, objective and seed; the seed draws its choices, too.
        training_s: how long it learned.
    """
    actor, said = load_pairing(model)
    new = _maker(experiment, said.pairing)
    best = new()
    play_greedy(actor, [best])
    totals_of_best = totals(best.simulation)
    drawn = list(_drawn(actor, new, about[2]))
    return Outcome(
        *about,
        experiment,
        training_s,
        totals_of_best["energy_j"],
        totals_of_best["edp_js"],
        *(_spread([run[key] for run in drawn]) for key in ("energy_j", "edp_js")),
    )


def _maker(experiment: str, pairing: Pairing) -> Callable[[], JobNodePairingEnv]:
    library = Library([FOLDER / "ineps" / f"{experiment}.yaml"])
    scenario, jobs = library.first, library.first_jobs
    task = PairingTask(scenario.platform, pairing, "spent", rules_of(scenario), scenario.seed)
    return lambda: JobNodePairingEnv(task=task, jobs=jobs)


def _drawn(
    actor: Actor, new: Callable[[], JobNodePairingEnv], seed: int
) -> Iterable[dict[str, float]]:
    for first in range(0, RUNS, AT_A_TIME):
        runs = [new() for _ in range(AT_A_TIME)]
        rngs = [np.random.default_rng([seed, DRAWS, first + i]) for i in range(AT_A_TIME)]
        play_sampled(actor, runs, rngs)
        yield from (totals(run.simulation) for run in runs)


def _spread(values: Sequence[float]) -> Spread:
    found = np.array(values)
    return Spread(*(float(x) for x in (found.mean(), found.std(ddof=1), found.min(), found.max())))


def write_outcomes(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Write `agents.csv`."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEAD)
        for one in outcomes:
            numbers = (one.training_s, one.energy_j, one.edp_js, *one.energy, *one.edp)
            lines.writerow((*one[:4], *(f"{number:.10g}" for number in numbers)))


def read_outcomes(path: Path) -> list[Outcome]:
    """Return what `write_outcomes` wrote.

    Raises:
        OSError: it can't be read.
    """
    with path.open(encoding="utf-8", newline="") as file:
        return [_outcome(line) for line in list(csv.reader(file))[1:]]


def _outcome(line: Sequence[str]) -> Outcome:
    variant, objective, seed, experiment, *rest = line
    training_s, energy_j, edp_js, *spreads = map(float, rest)
    energy, edp = Spread(*spreads[:4]), Spread(*spreads[4:])
    return Outcome(
        variant, objective, int(seed), experiment, training_s, energy_j, edp_js, energy, edp
    )
