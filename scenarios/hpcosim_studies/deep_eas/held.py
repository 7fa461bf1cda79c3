"""Figure 5: which jobs the agent holds back, and which it sends where they cost more.

As in the paper (section III-F), a job is not energy-delay conserving if it is bound to a machine
though on another that it fits on its normalised energy-delay product would be less, as planned at
that moment; and a step is not work-conserving if it ends though a job of a slot fits on a machine
within the horizon. Such a job is held back.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client import View
from hpcosim_client.agents.deep_eas.model import load_deep_eas
from hpcosim_client.agents.deep_eas.network import logits_of
from hpcosim_client.agents.deep_eas.rounds import Rounds
from hpcosim_client.agents.deep_eas.scene import NEVER, Scene, joined
from hpcosim_client.job import Floats
from hpcosim_client.view import Policy
from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_studies.canvas import panels, titled

Steps = NDArray[np.int16]


class Watched(NamedTuple):
    """What an agent decided in a run.

    Attributes:
        scene: what it was told, a moment a decision.
        action: what it chose, int64[decisions].
        now_s: when, float64[decisions].
        waiting: at how many steps a job waited that was not bound.
    """

    scene: Scene
    action: NDArray[np.int64]
    now_s: Floats
    waiting: int


class Held(NamedTuple):
    """What was held back; run times are the expected ones on the fastest machine, in steps.

    Attributes:
        jobs: of all jobs.
        dearer: of those bound where they cost more.
        held: of those held back, each as often as it was.
        once: of the same, each once.
        steps: shares of the steps at which jobs waited, in which one that fitted was held.
    """

    jobs: Steps
    dearer: Steps
    held: Steps
    once: Steps
    steps: float


def watch(path: Path, model: Path) -> Watched:
    """Run a scenario by an agent's best choices, and note what it decides."""
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
    """Return what was held back."""
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


def table(found: Held) -> str:
    """Return how much was held back, Markdown."""
    rows = (
        ("jobs not bound where they cost least then", len(found.dearer) / len(found.jobs), 13.11),
        ("steps at which a job was held that fitted", found.steps, 91.81),
    )
    long = 10
    lines = [
        "# Figure 5: what is held back",
        "",
        "Deep-EAS by its best choices on the 150 sequences of lambda_0.9. The paper's shares are "
        "said to be of figure 3, without its arrival rate.",
        "",
        "| | ours | published |",
        "|---|---|---|",
        *(f"| {what} | {100 * share:.1f} % | {said:.2f} % |" for what, share, said in rows),
        "",
        f"Long jobs (of {long} steps and more on the faster machine) are "
        f"{100 * np.mean(found.jobs >= long):.0f} % of all jobs, "
        f"{100 * np.mean(found.dearer >= long):.0f} % of those not bound where they cost least, "
        f"{100 * np.mean(found.once >= long):.0f} % of those ever held, and "
        f"{100 * np.mean(found.held >= long):.0f} % of those held at a step.",
    ]
    return "\n".join(lines) + "\n"


def draw(found: Held, path: Path) -> None:
    """Draw the distributions.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
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
