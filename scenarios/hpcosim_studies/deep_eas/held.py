"""Figure 5: the jobs that the agent holds back, and those it starts where they cost more.

The definitions are those of the paper (section III-F). A decision is not energy-delay conserving if
it gives a job to a machine while its normalised energy-delay product, as planned at that moment,
would be less on another that it fits on. A step is not work-conserving if it ends while a job of a
slot fits on a machine within the horizon; that job is held back.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_client.agents.deep_eas.network import load_deep_eas, logits_of
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.agents.deep_eas.scene import NEVER, Scene, joined
from hpcosim_client.job import Floats
from hpcosim_client.view import Policy
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_studies.figures import panels, titled
from hpcosim_studies.measures import document, table

Steps = NDArray[np.int16]


class Watched(NamedTuple):
    """The decisions of an agent in a run.

    Attributes:
        scene: its observations, one for each decision.
        action: its choices, int64[decisions].
        now_s: simulated time, float64[decisions].
        waiting: the number of steps at which a job waited without a reservation.
    """

    scene: Scene
    action: NDArray[np.int64]
    now_s: Floats
    waiting: int


class Held(NamedTuple):
    """Jobs by their expected run time on the fastest machine, in steps.

    Attributes:
        jobs: all jobs.
        dearer: those given to a machine where they cost more.
        held: those held back, each as often as it was.
        once: the same, each once.
        steps: of the steps at which jobs waited, the share at which one that fitted was held.
    """

    jobs: Steps
    dearer: Steps
    held: Steps
    once: Steps
    steps: float


def watch(path: Path, model: Path) -> Watched:
    """Run a scenario by an agent's greedy choices, and record its decisions."""
    library = Library([path])
    scenes: list[Scene] = []
    noted: list[tuple[int, float]] = []
    waited: set[float] = set()
    policy = _noting(model, scenes, noted, waited)
    run_in_process(open_scenario(library.first, library.first_jobs, "deep-eas"), policy)
    action, now_s = zip(*noted, strict=True)
    return Watched(joined(scenes), np.array(action), np.array(now_s), len(waited))


def _noting(
    model: Path, scenes: list[Scene], noted: list[tuple[int, float]], waited: set[float]
) -> Policy:
    network, about = load_deep_eas(model)
    rounds: Rounds | None = None

    def decide(view: View) -> None:
        nonlocal rounds
        if rounds is None:
            rounds = Rounds(about.settings, view)
        rounds.begin(view)
        if len(view.queue) > len(rounds.plan.bound):
            waited.add(view.now_s)
        while (scene := rounds.look(view)) is not None:
            action = int(logits_of(network, scene)[0].argmax())
            scenes.append(scene)
            noted.append((action, view.now_s))
            rounds.take(view, scene, action)

    return decide


def held(watched: Watched) -> Held:
    """Return the jobs that were held back."""
    scene, action = watched.scene, watched.action
    least = np.where(scene.cores > 0, scene.steps.min(axis=1), 0)
    queue = scene.cores.shape[1]
    machine, slot = np.divmod(action, queue)
    binds = np.flatnonzero(machine < scene.rows.shape[1])
    bound = least[binds, slot[binds]]
    values = _values(scene)[binds, :, slot[binds]]
    dearer = values[np.arange(len(binds)), machine[binds]] > values.min(axis=1)
    ends = np.flatnonzero(machine == scene.rows.shape[1])
    fits = (scene.rows[ends] != NEVER).any(axis=1)
    submit_s = (watched.now_s[:, None] - scene.waited)[ends][fits]
    once = np.unique(submit_s, return_index=True)[1]
    of_held = least[ends][fits]
    return Held(bound, bound[dearer], of_held, of_held[once], len(ends) / watched.waiting)


def _values(scene: Scene) -> Floats:
    """Return the energy-delay product of each pair as planned, up to a factor of the job."""
    products = (
        scene.watts[:, None] * scene.steps * (scene.waited[:, None] + scene.rows + scene.steps)
    )
    return np.where(scene.rows == NEVER, np.inf, products)


def summary(found: Held) -> str:
    """Return how much was held back, as Markdown."""
    rows = (
        ("jobs not bound where they cost least then", len(found.dearer) / len(found.jobs), 13.11),
        ("steps at which a job was held that fitted", found.steps, 91.81),
    )
    long = 10
    shares = [
        f"{100 * np.mean(steps >= long):.0f} %"
        for steps in (found.jobs, found.dearer, found.once, found.held)
    ]
    return document(
        ["# Figure 5: what is held back"],
        [
            "Deep-EAS by its best choices on the 150 sequences of lambda_0.9. The paper's shares "
            "are said to be of figure 3, without its arrival rate."
        ],
        table(
            ["", "ours", "published"],
            [[name, f"{100 * share:.1f} %", f"{said:.2f} %"] for name, share, said in rows],
        ),
        [
            f"Long jobs (of {long} steps and more on the faster machine) are {shares[0]} of all "
            f"jobs, {shares[1]} of those not bound where they cost least, {shares[2]} of those "
            f"ever held, and {shares[3]} of those held at a step."
        ],
    )


def draw(path: Path, found: Held) -> None:
    """Draw the distributions of run times."""
    lines = (
        ("all jobs", found.jobs, COLOURS[7]),
        ("bound where they cost more (hold_e)", found.dearer, COLOURS[1]),
        ("held back, each once", found.once, COLOURS[4]),
        ("held back, step by step (hold_w)", found.held, COLOURS[0]),
    )
    with panels(path, 1, 1, (6.0, 3.8)) as (axes,):
        titled(axes, "Deep-EAS, lambda 0.9: share of jobs no longer than that")
        for label, steps, colour in lines:
            values = np.sort(steps)
            shares = np.arange(1, len(values) + 1) / max(len(values), 1)
            axes.step(values, shares, where="post", color=colour, label=label)
        axes.set_xlabel("expected run time on the faster machine (steps)")
        axes.legend(frameon=False, fontsize=8)
