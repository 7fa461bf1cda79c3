"""Search for the weights of the power manager `empirical`, in simulations that it decides.

Each generation of the cross-entropy method (`hpcosim_gym.learning.cross_entropy`) runs on some of
many random windows of workloads, the same for all its candidates. The cost of a candidate is
relative to timeouts on each window, so that no workload dominates: the change of the added wait at
equal waste, and a part of the change of the cost at the price of waiting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from hpcosim_client.job import Floats
from hpcosim_compiled.simulation import CompiledSimulation, infeasible
from hpcosim_compiled.state import State
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_gym.learning.cross_entropy import Costs, Distribution, search
from hpcosim_gym.learning.settings import NotNegative, checksum, description
from hpcosim_gym.learning.trainers import Report
from hpcosim_papers.power.environments.rises_compiled import simulate
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar
from hpcosim_scenarios.running.library import Library
from hpcosim_schedulers.power.settings import Timeout
from hpcosim_schedulers.predictive.empirical import save_weights
from hpcosim_schedulers.predictive.rises import CHANCE, WEIGHTS
from hpcosim_sim.engine.engine import Rules
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import JobTable

FILE = "rises.safetensors"

START = (
    *(0.21, -0.47, -0.89, -0.77, -0.86, -0.83, -1.03, 2.71, 0.0),
    *(0.89, 0.4, 0.1, -0.98, -0.47, 0.38, -0.98, 0.33, -0.32, 0.16, 0.0, -1.31, -0.75),
    *(0.23, 0.24, 0.05, -1.3, -0.07, -0.07, -0.45, 0.26, -0.16, 0.16, 0.0, -1.62, 0.1),
)
"""Initial weights: a regression of rises and waits on the tables, with timeouts on 250 random
windows of the workloads of `trainings/rises.yaml`."""
START_SD = 0.25
TABLE_SD = 0.4

TIMEOUTS = (0.0, 1 / 6, 1 / 3, 2 / 3, 4 / 3, 8 / 3, 16 / 3)
"""The timeouts to which costs are relative, in boots; in boots of 45 min: 0 min to 4 h."""
PRICES_W = (150.0, 500.0, 1500.0)
UNCHANGED = 0.6
"""Share of windows with the scenario's own times and powers of switching."""
SWITCH_ON_S = (120.0, 3600.0)
SWITCH_OFF = (0.2, 1.0)
SWITCH_ON_W = (0.5, 1.5)
LOAD = (0.5, 1.2)
"""Bounds of the time to switch on (log-uniform), of the time to switch off relative to that, of the
power relative to the scenario's, and of the factor on the arrival rate (log-uniform)."""
LONGEST = 1500.0
"""Longest window, relative to the time to switch a node off and on."""
LEAST_JOBS = 60
WASTE_SHARE = 0.15
"""Share of the wasted energy in what costs are relative to, beside the price of the added wait."""
LEAST_COST, MOST_COST, MOST_CHANGE = -1.0, 3.0, 1.0
PRICED = 0.1
"""Weight of the cost at the price of waiting."""
NEVER_S = 1e12


@dataclass(frozen=True, slots=True, kw_only=True)
class RisesSearch:
    """Settings of the search.

    Attributes:
        windows: number of random windows.
        sample: number of them that a generation runs on, drawn for each.
        jobs: largest number of jobs of a window.
        generations: number of generations.
        candidates: weights in a generation; one of them is the mean of the distribution.
        elite: number of best candidates that update the distribution.
        seed: seed of the windows and of the candidates.
        executor: where the candidates are evaluated; default: in this process.
    """

    windows: Annotated[int, Meta(ge=1)] = 100
    sample: Annotated[int, Meta(ge=1)] = 20
    jobs: Annotated[int, Meta(ge=3 * LEAST_JOBS)] = 900
    generations: NotNegative = 24
    candidates: Annotated[int, Meta(ge=5)] = 16
    elite: Annotated[int, Meta(ge=1)] = 6
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class Window(NamedTuple):
    """Jobs on a cluster.

    Attributes:
        wait_price_w: price of waiting, J/s.
        always_s: waits with all nodes always on, s.
        wasted_j, added_s: wasted energy and added waits of the timeouts that none beats in both, by
            the first.
        best_j: least cost of a timeout: wasted energy + price x added waits, J.
        scale_j: what costs are relative to, J.
    """

    platform: Platform
    jobs: JobTable
    wait_price_w: float
    always_s: float
    wasted_j: Sequence[float]
    added_s: Sequence[float]
    best_j: float
    scale_j: float


def train_rises(
    path: Path,
    out: Path,
    settings: RisesSearch,
    *,
    also: Sequence[Path] = (),
    overrides: Mapping[str, Scalar] | None = None,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Path:
    """Search for the weights of `empirical` on random windows of workloads.

    The folder gets `rises.safetensors`, the final mean, and the files of `cross_entropy.search`.
    The same arguments give the same bytes for any number of workers.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        settings: settings of the search.
        also: files of more scenarios.
        overrides: values that replace those of the scenarios, by dotted path.
        resume: go on from the checkpoint in the folder.
        report: called after each generation.

    Returns:
        Path of the weights, for the power manager `empirical`.

    Raises:
        ScenarioError, WorkloadError: a scenario is invalid.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    workloads = [_workload(each, overrides) for each in (path, *also)]
    rng = np.random.default_rng([settings.seed, 1])
    windows = [drawn(workloads, settings.jobs, rng) for _ in range(settings.windows)]
    rng = np.random.default_rng(settings.seed)
    inputs = [checksum(platform, [jobs]) for platform, jobs in workloads]
    with parallel_map(settings.executor) as parallel:

        def new_costs() -> Costs:
            chosen = rng.permutation(settings.windows)[: settings.sample].tolist()
            cost = partial(mean_cost, [windows[each] for each in chosen])
            return lambda candidates: np.array(parallel(cost, list(candidates)))

        mean = search(
            out,
            _start(),
            settings,
            rng,
            new_costs,
            training=description(settings, inputs=inputs),
            resume=resume,
            report=report,
        )
    save_weights(out / FILE, mean, f"seed {settings.seed}")
    return out / FILE


def _start() -> Distribution:
    sd = np.full(WEIGHTS, START_SD)
    sd[:CHANCE] = TABLE_SD
    return Distribution(np.array(START), sd)


def _workload(path: Path, overrides: Mapping[str, Scalar] | None) -> tuple[Platform, JobTable]:
    library = Library([path], overrides)
    platform, jobs = library.first.platform, library.first_jobs
    if len(platform.nodes) != 1 or platform.nodes[0].power_states is None:
        what = "expected nodes of one group with power_states, which the training changes at random"
        raise ScenarioError(what, path, field="$.platform.nodes")
    fits = np.ones(len(jobs), np.bool_)
    fits[list(infeasible(platform, jobs))] = False
    return platform, jobs.take(fits)


def drawn(
    workloads: Sequence[tuple[Platform, JobTable]], most_jobs: int, rng: np.random.Generator
) -> Window:
    """Return a random window on which a timeout is better than nodes that are always on."""
    while True:
        platform, jobs = workloads[int(rng.integers(len(workloads)))]
        if rng.random() >= UNCHANGED:
            platform = _changed(platform, rng)
        states = platform.nodes[0].power_states
        assert states is not None
        load = _log_uniform(rng, LOAD) if rng.random() < UNCHANGED else 1.0
        count = int(rng.integers(most_jobs // 3, most_jobs + 1))
        first = int(rng.integers(max(len(jobs) - count, 1)))
        window = scale_load(window_by_number(jobs, first, min(first + count, len(jobs))), load)
        span_s = LONGEST * (states.switch_on_s + states.switch_off_s)
        last = int(window.submit_s.searchsorted(window.submit_s[0] + span_s))
        if last < LEAST_JOBS:
            continue
        window, price_w = window_by_number(window, 0, last), float(rng.choice(PRICES_W))
        runs = [_with_timeout(platform, window, each * states.switch_on_s) for each in TIMEOUTS]
        always_s = _with_timeout(platform, window, NEVER_S).waited_s
        wasted_j: list[float] = []
        added_s: list[float] = []
        for run in sorted(runs):
            if not added_s or run.waited_s - always_s < added_s[-1]:
                wasted_j.append(run.wasted_j)
                added_s.append(run.waited_s - always_s)
        costs_j = np.array(wasted_j) + price_w * np.array(added_s)
        best = int(costs_j.argmin())
        scale_j = price_w * added_s[best] + WASTE_SHARE * wasted_j[best]
        if added_s[-1] > 0.0:
            least_j = float(costs_j[best])
            return Window(platform, window, price_w, always_s, wasted_j, added_s, least_j, scale_j)


class Run(NamedTuple):
    """Energy not spent computing, J, and the sum of all waits, s."""

    wasted_j: float
    waited_s: float


def mean_cost(windows: Sequence[Window], weights: Floats) -> float:
    """Return the mean cost of weights on windows; 0: as timeouts."""
    return float(np.mean([_cost(window, weights) for window in windows]))


def _cost(window: Window, weights: Floats) -> float:
    run = run_of(simulate(window.platform, window.jobs, weights, window.wait_price_w))
    added_s = run.waited_s - window.always_s
    change = added_s / float(np.interp(run.wasted_j, window.wasted_j, window.added_s)) - 1.0
    cost = (run.wasted_j + window.wait_price_w * added_s - window.best_j) / window.scale_j
    return min(change, MOST_CHANGE) + PRICED * float(np.clip(cost, LEAST_COST, MOST_COST))


def run_of(state: State) -> Run:
    """Return energy and waits of the state at the end of a simulation."""
    assert state.power is not None
    wasted_j = float(state.kinds.idle_j.sum() + state.power.kinds.energy_j.sum())
    return Run(wasted_j, float((state.jobs.start_s - state.jobs.submit_s).sum()))


def _with_timeout(platform: Platform, jobs: JobTable, timeout_s: float) -> Run:
    simulation = CompiledSimulation(
        platform, jobs, Rules(), "easy", power=Timeout(timeout_s), awareness="planned"
    )
    while simulation.advance():
        pass
    record = simulation.record()
    waited_s = np.subtract(record.recording.start_s, record.recording.submit_s).sum()
    return Run(sum(record.metered_j[0][1:]), float(waited_s))


def _changed(platform: Platform, rng: np.random.Generator) -> Platform:
    """Return a platform with other times and another power of switching."""
    group = platform.nodes[0]
    assert group.power_states is not None
    on_s = _log_uniform(rng, SWITCH_ON_S)
    states = msgspec.structs.replace(
        group.power_states,
        switch_on_s=on_s,
        switch_off_s=on_s * float(rng.uniform(*SWITCH_OFF)),
        switch_on_w=group.power_states.switch_on_w * float(rng.uniform(*SWITCH_ON_W)),
    )
    return msgspec.structs.replace(
        platform, nodes=(msgspec.structs.replace(group, power_states=states),)
    )


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    low, high = bounds
    return math.exp(rng.uniform(math.log(low), math.log(high)))
