"""The trainings of the study: six orders of three workloads and none, several seeds of each."""

from __future__ import annotations

from functools import partial
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


class Grid(NamedTuple):
    """How much is trained.

    Attributes:
        seeds: training seeds of each curriculum.
        epochs: passes over each workload of a curriculum; the paper has 10.
        days: of the synthetic workload; the paper has 365.
        learning_rate: of A2C; the paper has 1e-4.
    """

    seeds: tuple[int, ...] = (1, 2, 3)
    epochs: int = 1
    days: int = 35
    learning_rate: float = 1e-3


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

    @property
    def model(self) -> str:
        """The name of the file that the best of its seeds would be kept in; none is."""
        return f"{ALGORITHM}-{self.curriculum}.safetensors"


def train_grid(out: Path, workers: int | None = None, grid: Grid | None = None) -> Path:
    """Train and test all, and return the table; a training that is there is not repeated.

    Args:
        out: the folder; each training gets one in it.
        workers: processes.
        grid: how much; None: the defaults.
    """
    grid = grid or Grid()
    names = (UNTRAINED, *CURRICULA)
    tasks = [Trained(curriculum, seed) for seed in grid.seeds for curriculum in names]
    train_all(
        tasks,
        out,
        partial(train_one, grid=grid),
        columns=TRAINED_COLUMNS,
        table=TABLE,
        digits=None,
        workers=workers,
        title="power-curricula",
    )
    return out / TABLE


def train_one(task: Trained, folder: Path, grid: Grid) -> list[Row]:
    """Train one, and return its row; of `untrained` only the first weights are kept."""
    times = {NO_CL: 3, UNTRAINED: 0}.get(task.curriculum, 1)
    training = Training(
        curriculum=[] if task.curriculum == UNTRAINED else task.curriculum.split("-"),
        epochs=times * grid.epochs,
        algorithm=ALGORITHM,
        seed=task.seed,
        synthetic_days=grid.days,
        settings=A2CSettings(learning_rate=grid.learning_rate),
    )
    beside = TRAINED_BESIDE[ALGORITHM]
    late = scenario_path("power", "train_late")
    train_power(late, folder, training, {"scheduler.power_awareness": beside})
    power = {"name": "rl", "model": str((folder / ACTOR).resolve())}
    metrics = metrics_of(run_of(Place(scenario_file()), ALGORITHM, task.name, power, beside))
    about = {"algorithm": ALGORITHM, "curriculum": task.curriculum, "seed": task.seed}
    return [{**about, **{name: metrics[name] for name in KEPT}}]
