"""Figure 5: jobs that the agent holds back, and jobs it binds at a higher cost.

Definitions follow section III-F of the paper. A decision is not energy-delay conserving if it binds
a job to a machine while another feasible machine has a lower planned normalised energy-delay
product. A step is not work-conserving if it ends while the job of a slot fits on a machine within
the horizon; that job is held back.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_client.job import Floats
from hpcosim_client.view import Policy
from hpcosim_experiments.report.markup import document, table
from hpcosim_experiments.report.panels import panels, titled
from hpcosim_papers.deep_eas.agent.network import NEVER, Scene, joined, load_deep_eas, network_of
from hpcosim_papers.deep_eas.agent.policy import DeepEasRounds
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_view.figure import COLOURS

Steps = NDArray[np.int16]


class DecisionRecord(NamedTuple):
    """The decisions of an agent in a run.

    Attributes:
        scene: its observations, one for each decision.
        action: its actions, int64[decisions].
        now_s: simulated time, float64[decisions].
        waiting: number of steps at which a job waited without a reservation.
    """

    scene: Scene
    action: NDArray[np.int64]
    now_s: Floats
    waiting: int


class HeldJobs(NamedTuple):
    """Expected run times of jobs on the fastest machine, in steps.

    Attributes:
        costlier: jobs bound to a machine with a higher cost than another.
        held: jobs held back, once for each step.
        once: jobs held back, once for each job.
        steps: fraction of the steps with waiting jobs at which a feasible job was held.
    """

    jobs: Steps
    costlier: Steps
    held: Steps
    once: Steps
    steps: float


def record_decisions(path: Path, model: Path) -> DecisionRecord:
    """Run a scenario with an agent's greedy actions, and record its decisions."""
    library = Library([path])
    scenes: list[Scene] = []
    decisions: list[tuple[int, float]] = []
    waited: set[float] = set()
    policy = _recording_policy(model, scenes, decisions, waited)
    run_in_process(open_scenario(library.first, library.first_jobs, "deep-eas"), policy)
    action, now_s = zip(*decisions, strict=True)
    return DecisionRecord(joined(scenes), np.array(action), np.array(now_s), len(waited))


def _recording_policy(
    model: Path, scenes: list[Scene], decisions: list[tuple[int, float]], waited: set[float]
) -> Policy:
    weights, about = load_deep_eas(model)
    network = network_of(about.settings, weights)
    rounds: DeepEasRounds | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = DeepEasRounds(about.settings, view)
        rounds.begin(view)
        if len(view.queue) > len(rounds.plan.bound):
            waited.add(view.now_s)
        while (scene := rounds.look(view)) is not None:
            action = int(network(scene)[0].argmax())
            scenes.append(scene)
            decisions.append((action, view.now_s))
            rounds.take(view, scene, action)

    return decide


def find_held_jobs(record: DecisionRecord) -> HeldJobs:
    """Return the jobs that were held back."""
    scene, action = record.scene, record.action
    least = np.where(scene.cores > 0, scene.steps.min(axis=1), 0)
    queue = scene.cores.shape[1]
    machine, slot = np.divmod(action, queue)
    binds = np.flatnonzero(machine < scene.rows.shape[1])
    bound = least[binds, slot[binds]]
    values = _values(scene)[binds, :, slot[binds]]
    costlier = values[np.arange(len(binds)), machine[binds]] > values.min(axis=1)
    ends = np.flatnonzero(machine == scene.rows.shape[1])
    fits = (scene.rows[ends] != NEVER).any(axis=1)
    submit_s = (record.now_s[:, None] - scene.waited)[ends][fits]
    once = np.unique(submit_s, return_index=True)[1]
    of_held = least[ends][fits]
    return HeldJobs(bound, bound[costlier], of_held, of_held[once], len(ends) / record.waiting)


def _values(scene: Scene) -> Floats:
    """Return the planned energy-delay product of each pair, up to a factor for each job."""
    products = (
        scene.watts[:, None] * scene.steps * (scene.waited[:, None] + scene.rows + scene.steps)
    )
    return np.where(scene.rows == NEVER, np.inf, products)


def summary(found: HeldJobs) -> str:
    """Return the fractions of held jobs as Markdown."""
    rows = (
        ("jobs bound at a higher cost than possible", len(found.costlier) / len(found.jobs), 13.11),
        ("steps at which a feasible job was held", found.steps, 91.81),
    )
    long = 10
    shares = [
        f"{100 * np.mean(steps >= long):.0f} %"
        for steps in (found.jobs, found.costlier, found.once, found.held)
    ]
    return document(
        ["# Figure 5: jobs held back"],
        [
            "Deep-EAS with greedy actions on the 150 sequences of lambda_0.9. The paper refers to "
            "figure 3 for its values, without an arrival rate."
        ],
        table(
            ["", "ours", "published"],
            [
                [name, f"{100 * share:.1f} %", f"{published:.2f} %"]
                for name, share, published in rows
            ],
        ),
        [
            f"Long jobs (at least {long} steps on the faster machine) are {shares[0]} of all jobs, "
            f"{shares[1]} of the jobs bound at a higher cost, {shares[2]} of the jobs held at "
            f"least once, and {shares[3]} of the jobs held at a step."
        ],
    )


def draw(path: Path, found: HeldJobs) -> None:
    """Draw the distributions of run times."""
    lines = (
        ("all jobs", found.jobs, COLOURS[7]),
        ("bound where they cost more (hold_e)", found.costlier, COLOURS[1]),
        ("held back, each once", found.once, COLOURS[4]),
        ("held back, step by step (hold_w)", found.held, COLOURS[0]),
    )
    with panels(path, 1, 1, (6.0, 3.8)) as (axes,):
        titled(axes, "Deep-EAS, lambda 0.9: cumulative distribution of run times")
        for label, steps, colour in lines:
            values = np.sort(steps)
            shares = np.arange(1, len(values) + 1) / max(len(values), 1)
            axes.step(values, shares, where="post", color=colour, label=label)
        axes.set_xlabel("expected run time on the faster machine (steps)")
        axes.legend(frameon=False, fontsize=8)
