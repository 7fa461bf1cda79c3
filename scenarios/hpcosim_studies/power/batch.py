"""Many runs, side by side, and the table of what came of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from hpcosim_scenarios.running.progress import shown
from hpcosim_studies.power.readings import TEST
from hpcosim_studies.power.runs import KEPT, Metrics, run_test
from hpcosim_studies.power.settings import AS_IT_IS, Setting

NO_MATTER = "any"
"""The awareness of runs in which that of the job scheduler makes no difference."""


class Spec(NamedTuple):
    """A run to be done.

    Attributes:
        kind: of manager: `timeout`, `a2c` and the like.
        label: the manager in words, the same for all seeds of an agent.
        power: the manager, as a scenario has it.
        awareness: the job scheduler's, of power states; or `NO_MATTER`.
        value: what managers of a kind are told apart by, such as minutes; None: there is one.
        seed: of the agent's training; None: nothing was drawn.
        setting: the cluster.
        path: the scenario.
        whole: all jobs of its log are run.
    """

    kind: str
    label: str
    power: Mapping[str, Any]
    awareness: str = NO_MATTER
    value: float | None = None
    seed: int | None = None
    setting: Setting = AS_IT_IS
    path: Path = TEST
    whole: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What the result follows from: runs of one key are done once."""
        power = msgspec.json.encode(self.power, order="sorted")
        return power, self.awareness, self.setting[1:], self.path, self.whole


class Row(NamedTuple):
    """A run that was done, with its metrics, those of `KEPT`."""

    spec: Spec
    metrics: Metrics

    @property
    def wasted_gj(self) -> float:
        """Energy not spent computing, GJ."""
        return self.metrics["wasted_energy_j"] / 1e9

    @property
    def wait_s(self) -> float:
        """Mean wait, s."""
        return self.metrics["mean_wait_s"]

    @property
    def filling(self) -> float:
        """Job-filling rate (the paper's equation 15), %."""
        return 100 * self.metrics["job_filling_rate"]

    @property
    def shutdowns(self) -> float:
        """How often a node began to be switched off."""
        return self.metrics["node_shutdowns"]


def run_all(specs: Sequence[Spec], workers: int, title: str = "power") -> list[Row]:
    """Return the results of all runs, in their order.

    Args:
        specs: the runs; of those that are the same but for their labels one is done.
        workers: processes to simulate in; 1: this one.
        title: of the progress shown.

    Raises:
        As `run_test`.
    """
    once = {spec.key: spec for spec in specs}
    found: dict[tuple[object, ...], Metrics] = {}
    with shown(title) as report:
        for key, metrics in zip(once, _mapped(run_one, list(once.values()), workers), strict=True):
            found[key] = metrics
            report(0.0, len(found), len(once))
    return [Row(spec, found[spec.key]) for spec in specs]


def run_one(spec: Spec) -> Metrics:
    """Do a run, and return its metrics of `KEPT`."""
    awareness = "unaware" if spec.awareness == NO_MATTER else spec.awareness
    overrides = {"workload.jobs": None} if spec.whole else {}
    metrics = run_test(spec.path, spec.power, awareness, overrides, spec.setting)
    return {name: float(metrics[name]) for name in KEPT}


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write `results.csv`, a line for each run."""
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(("scenario", "cluster", "kind", "manager", "awareness", "seed", *KEPT))
        for spec, metrics in rows:
            jobs = f"{spec.path.stem}, whole log" if spec.whole else spec.path.stem
            about = (jobs, spec.setting.name, spec.kind, spec.label, spec.awareness, spec.seed)
            lines.writerow((*about, *(f"{metrics[name]:.10g}" for name in KEPT)))


def _mapped(
    run: Callable[[Spec], Metrics], specs: Sequence[Spec], workers: int
) -> Iterator[Metrics]:
    if workers == 1:
        yield from map(run, specs)
        return
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
    try:
        yield from pool.map(run, specs)
    finally:
        pool.shutdown(cancel_futures=True)
