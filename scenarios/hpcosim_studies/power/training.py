"""The trainings of the study: six orders of three workloads and none, several seeds of each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, NamedTuple

from hpcosim_studies.agents import train_all
from hpcosim_studies.papers import scenario_path
from hpcosim_studies.power.agents import TRAINED_BESIDE
from hpcosim_studies.power.curricula import TABLE, TRAINED_COLUMNS
from hpcosim_studies.power.managers import Place, run_of
from hpcosim_studies.power.paper import CURRICULA, KEPT, NO_CL, UNTRAINED, scenario_file
from hpcosim_studies.rows import Row
from hpcosim_studies.runs import metrics_of
from hpcosim_training.power.a2c import A2CSettings
from hpcosim_training.power.curriculum import ACTOR
from hpcosim_training.power.train import Training, train_power

ALGORITHM: Literal["a2c"] = "a2c"
SEEDS = (1, 2, 3)
PASSES = 1
"""Over each workload of a curriculum; the paper has 10."""

SYNTHETIC_DAYS = 35
"""The paper has 365."""

LEARNING_RATE = 1e-3
"""The paper has 1e-4."""


class Trained(NamedTuple):
    """One training, to be done or done.

    Attributes:
        curriculum: a key of `CURRICULA`, or `untrained`.
        seed: of the training.
    """

    curriculum: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{ALGORITHM}-{self.curriculum}-{self.seed}"


def train_grid(out: Path, workers: int | None = None) -> Path:
    """Train and test all, and return the table; a training that is there is not repeated.

    Args:
        out: the folder; each training gets one in it.
        workers: processes.
    """
    names = (UNTRAINED, *CURRICULA)
    tasks = [Trained(curriculum, seed) for seed in SEEDS for curriculum in names]
    train_all(
        tasks,
        out,
        train_one,
        TRAINED_COLUMNS,
        table=TABLE,
        digits=None,
        workers=workers,
        title="power-curricula",
    )
    return out / TABLE


def train_one(task: Trained, folder: Path) -> list[Row]:
    """Train one, and return its row; of `untrained` only the first weights are kept."""
    times = {NO_CL: 3, UNTRAINED: 0}.get(task.curriculum, 1)
    training = Training(
        curriculum=[] if task.curriculum == UNTRAINED else task.curriculum.split("-"),
        epochs=times * PASSES,
        algorithm=ALGORITHM,
        seed=task.seed,
        synthetic_days=SYNTHETIC_DAYS,
        settings=A2CSettings(learning_rate=LEARNING_RATE),
    )
    beside = TRAINED_BESIDE[ALGORITHM]
    late = scenario_path("power", "train_late")
    train_power(late, folder, training, {"scheduler.power_awareness": beside})
    power = {"name": "rl", "model": str((folder / ACTOR).resolve())}
    metrics = metrics_of(run_of(Place(scenario_file()), task.name, power, beside))
    about = {"algorithm": ALGORITHM, "curriculum": task.curriculum, "seed": task.seed}
    return [{**about, **{name: metrics[name] for name in KEPT}}]
