"""What a workload comes to under a simple scheduler, for rewards of like size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hpcosim_client.agents.pairing.forecast import Kind, kind_of
from hpcosim_client.agents.pairing.settings import Pairing
from hpcosim_training.pairing.environment import PairingEnvironment, Task
from hpcosim_training.pairing.teacher import Teacher
from hpcosim_workloads.table import JobTable


def scaled(task: Task, jobs: JobTable, teacher: Teacher) -> PairingEnvironment:
    """Return the environment of a workload, with rewards beside what a teacher gets.

    They are over what the teacher comes to, and of an agent that foresees, beside what the
    teacher spends on a job of the same kind.

    Raises:
        PolicyError: the jobs can't be placed by a scheduler that puts each on one node.
    """
    settings = Pairing(
        objective=task.settings.objective,
        wait_s=None,
        time_s=task.settings.time_s,
        energy_j=task.settings.energy_j,
    )
    taught = PairingEnvironment(replace(task, settings=settings, reward="foreseen"), jobs)
    spent: dict[Kind, list[float]] = {}
    taught.reset()
    while not taught.done:
        choice = teacher.choose(taught.choices)
        pair, reward = taught.choices.pair(choice), taught.step(choice)
        if pair is not None:
            spent.setdefault(kind_of(pair[0]), []).append(-reward)
    usual = {kind: float(np.mean(costs)) for kind, costs in spent.items()}
    scale = max(taught.objective, 1e-9)
    return PairingEnvironment(task, jobs, scale, usual if task.reward == "foreseen" else None)
