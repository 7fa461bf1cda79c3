"""How much is left: ESJF and the agent on small sequences, beside the least that these allow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.progress import shown
from hpcosim_studies.canvas import panels, titled
from hpcosim_studies.deep_eas.optimum import Bound, optimum
from hpcosim_studies.deep_eas.studies import Case
from hpcosim_training.environments.step_binding import StepBindingVectorEnv
from hpcosim_training.environments.step_costs import mean_edp
from hpcosim_training.environments.step_jobs import StepJobs, step_jobs
from hpcosim_training.environments.step_machines import Machines, machines_of, model_of, sequence
from hpcosim_training.learners.deep_eas.play import play_esjf, play_greedy

STEPS = (4, 7, 10, 13)
SEQUENCES = 20  # of each length


class Small(NamedTuple):
    """What is made of sequences of a length: means over all their jobs.

    Attributes:
        steps: that jobs come in.
        jobs: in a sequence, on the mean.
        esjf, agent: what they come to.
        found: the best schedules that a solver found, who knows all.
        least: no schedules are better.
    """

    steps: int
    jobs: float
    esjf: float
    agent: float
    found: float
    least: float


def find_optima(case: Case, model: Path) -> list[Small]:
    """Return what ESJF, an agent and the solver make of small sequences.

    Args:
        case: for machines, and how jobs are drawn.
        model: the agent's file.

    Raises:
        OracleError: SciPy is missing, or found nothing in time.
    """
    network, about = load_deep_eas(model)
    scenario = Library([case.path]).first
    machines = machines_of(scenario, about.settings, case.path)
    drawn = model_of(scenario, case.path)
    found = []
    with shown("optima") as report:
        for number, steps in enumerate(STEPS):
            rng = np.random.default_rng([scenario.seed, steps])
            short = msgspec.structs.replace(drawn, steps=steps)
            tables = [sequence(short, rng) for _ in range(SEQUENCES)]
            jobs = step_jobs(machines.settings, machines.scale, tables)
            bounds = [_bound(machines, jobs, one) for one in range(SEQUENCES)]
            count = int(jobs.there.sum())
            found.append(
                Small(
                    steps,
                    count / SEQUENCES,
                    _run(machines, jobs, play_esjf),
                    _run(machines, jobs, lambda env: play_greedy(network, env)),
                    sum(bound.found for bound in bounds) / count,
                    sum(bound.least for bound in bounds) / count,
                )
            )
            report(0.0, number + 1, len(STEPS))
    return found


def _run(machines: Machines, jobs: StepJobs, play: Callable[[StepBindingVectorEnv], None]) -> float:
    env = StepBindingVectorEnv(machines=machines, jobs=jobs)
    play(env)
    return mean_edp(env.runs)


def _bound(machines: Machines, jobs: StepJobs, one: int) -> Bound:
    alone = jobs.take([one])
    there = alone.there[0]
    # A machine on which nothing runs could start what it is to start later, so all is over in an
    # optimal schedule once all could have run one after the other.
    longest = alone.actual[0].max(axis=0)[there].sum()
    return optimum(machines, alone, int(alone.submit[0][there].max() + longest))


def table(found: Sequence[Small]) -> str:
    """Return the comparison, Markdown."""
    lines = [
        "# How much is left",
        "",
        f"Mean normalised energy-delay product on {SEQUENCES} sequences of each length, drawn as "
        "those of lambda_0.9 are. The optimum knows true run times and all jobs to come, which "
        "nobody does; in brackets what is above it. Where the solver did not prove it, the range "
        "says where it is.",
        "",
        "| steps with jobs | jobs | ESJF | Deep-EAS, pairs (ours) | optimum |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        proven = one.found <= one.least * (1.0 + 1e-4)
        best = f"{one.found:.2f}" if proven else f"{one.least:.2f} to {one.found:.2f}"
        above = [f"{value:.2f} ({100 * (value / one.found - 1):+.0f} %)" for value in one[2:4]]
        lines.append(f"| {one.steps} | {one.jobs:.1f} | {above[0]} | {above[1]} | {best} |")
    return "\n".join(lines) + "\n"


def draw(found: Sequence[Small], path: Path) -> None:
    """Draw it.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
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
