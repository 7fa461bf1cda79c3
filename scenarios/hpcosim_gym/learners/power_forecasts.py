"""The training of the power manager `learned`, on random clusters and windows of workloads."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
import torch
from msgspec import Meta
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from hpcosim_client import PolicyError
from hpcosim_client.view import View
from hpcosim_experiments.executors import IN_THIS_PROCESS, ExecutorSettings, parallel_map
from hpcosim_gym.learning.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from hpcosim_gym.learning.curve import LearningCurve
from hpcosim_gym.learning.settings import (
    NotNegative,
    Positive,
    PositiveNumber,
    checksum,
    description,
)
from hpcosim_gym.learning.trainers import Progress, Report, TrainingStopped
from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.scenario import Scalar, Scenario
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy, managed
from hpcosim_schedulers.agents.spare_nodes import (
    COLUMNS,
    LEAST_SAVED,
    MOST_LOG,
    Facts,
    NeedNetwork,
    NodeUsage,
    features,
    forecast_of,
    neutral,
    save_network,
)
from hpcosim_schedulers.power.account import ON, Watts
from hpcosim_schedulers.power.manager import IdleClock
from hpcosim_schedulers.power.timeout import timeout
from hpcosim_schedulers.predictive.futures import Futures, FutureSampler, FutureSource
from hpcosim_schedulers.predictive.manager import (
    FIRST_STEP,
    GROWTH,
    HOLDS,
    NodeEnergy,
    need_of,
    plan_of,
    spare_order,
)
from hpcosim_workloads.shaping import scale_load, window_by_number
from hpcosim_workloads.table import JobTable

SWITCH_ON_S = (15.0, 2700.0)
"""Bounds of the time to switch a node on, log-uniform, s."""
SWITCH_OFF = (0.2, 1.0)
"""Bounds of the time to switch it off, relative to that."""
SWITCH_ON_W = (0.5, 1.5)
"""Bounds of the power while it is switched on, relative to that of the scenario."""
PRICE = (0.5, 20.0)
"""Bounds of the price of waiting, log-uniform, relative to the idle power of a node."""
LOAD = (0.4, 1.2)
"""Bounds of the factor on the arrival rate, log-uniform."""
TIMEOUT = (0.05, 20.0)
"""Bounds of the timeout, log-uniform, relative to the time to switch a node on."""
LEAST_JOBS = 40
LONG = 0.15
"""Share of long windows."""
LONG_FACTOR = 6
SPAN, LONG_SPAN = 600.0, 2400.0


# What the network is told of spare nodes, and what then came.

MOMENTS = 80
"""Number of moments of a window that are recorded, about: one half at events, one half between."""
MOST_MOMENTS = 50 * MOMENTS
"""Largest number of moments, for windows whose jobs wait long after the last submission."""
NODES = 24
"""Largest number of spare nodes that are recorded of a moment, chosen at random."""

Rows = NDArray[np.float32]


class Instance(NamedTuple):
    """A cluster with jobs.

    Attributes:
        scenario: has the cluster.
        wait_price_w: price of waiting, J/s.
        timeout_s: idle time after which nodes are switched off, s.
    """

    scenario: Scenario
    jobs: JobTable
    wait_price_w: float
    timeout_s: float


def workload_of(
    path: Path, overrides: Mapping[str, Scalar] | None = None
) -> tuple[Scenario, JobTable]:
    """Return a scenario and its jobs.

    Raises:
        ScenarioError: the scenario is invalid, or a node has several cores or no power states.
        WorkloadError: the workload is invalid.
    """
    library = Library([path], overrides)
    groups = library.first.platform.nodes
    if any(group.power_states is None or group.cores != 1 for group in groups):
        what = "expected nodes of one core with power_states, which the training changes at random"
        raise ScenarioError(what, path, field="$.platform.nodes")
    return library.first, library.first_jobs


def drawn(
    workloads: Sequence[tuple[Scenario, JobTable]], most_jobs: int, rng: np.random.Generator
) -> Instance:
    """Return a random instance.

    A window has at most `most_jobs` jobs, or `LONG_FACTOR` times as many if it is a long one; and
    fewer, if they take more than `SPAN` (`LONG_SPAN`) times as long as switching a node off and on.

    Args:
        workloads: scenarios with jobs, each equally likely.
        most_jobs: number of jobs of a window that is not long, >= 40.
        rng: random number generator.
    """
    scenario, jobs = workloads[int(rng.integers(len(workloads)))]
    on_s, off = _log_uniform(rng, SWITCH_ON_S), rng.uniform(*SWITCH_OFF)
    on_w, price = rng.uniform(*SWITCH_ON_W), _log_uniform(rng, PRICE)
    load, long = _log_uniform(rng, LOAD), bool(rng.random() < LONG)
    first = int(rng.integers(max(len(jobs) - LEAST_JOBS, 1)))
    span_s = (LONG_SPAN if long else SPAN) * on_s * (1.0 + off) * load
    last = int(jobs.submit_s.searchsorted(jobs.submit_s[first] + span_s))
    count = int(np.clip(last - first, LEAST_JOBS, most_jobs * (LONG_FACTOR if long else 1)))
    first = max(min(first, len(jobs) - count), 0)
    window = scale_load(window_by_number(jobs, first, first + count), load)
    platform = _with_times(scenario.platform, on_s, off * on_s, on_w)
    idle_w = float(Watts(platform).by_state[:, ON].mean())
    timeout_s = on_s * _log_uniform(rng, TIMEOUT)
    changed = msgspec.structs.replace(scenario, platform=platform)
    return Instance(changed, window, price * idle_w, timeout_s)


def _log_uniform(rng: np.random.Generator, bounds: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(bounds))))


def _with_times(platform: Platform, on_s: float, off_s: float, on_w: float) -> Platform:
    """Return a platform with other times to switch nodes, and another power while they boot."""
    groups = []
    for group in platform.nodes:
        assert group.power_states is not None
        states = msgspec.structs.replace(
            group.power_states,
            switch_on_s=on_s,
            switch_off_s=off_s,
            switch_on_w=on_w * group.power_states.switch_on_w,
        )
        groups.append(msgspec.structs.replace(group, power_states=states))
    return msgspec.structs.replace(platform, nodes=groups)


class Examples(NamedTuple):
    """Observations of spare nodes, what the samples said, and what came.

    Attributes:
        seen: float32[n, COLUMNS], see `features`.
        used, saved: float32[n, HOLDS], see `NodeForecast`.
        true_used, true_saved: float32[n, HOLDS], the same of the jobs that came.
    """

    seen: Rows
    used: Rows
    saved: Rows
    true_used: Rows
    true_saved: Rows


def recorded(instance: Instance, samples: int, seed: int) -> Examples:
    """Run a timeout on an instance; return examples from random moments.

    Args:
        instance: cluster, jobs, price and timeout.
        samples: number of samples of the future for each moment.
        seed: seed of the moments and of the nodes.
    """
    recorder = _Recorder(instance, samples, np.random.default_rng(seed))
    opened = open_scenario(instance.scenario, instance.jobs, "recorded")
    run_in_process(opened, managed(make_policy("easy", "planned"), recorder.manage))
    return joined(recorder.rows)


def joined(parts: Sequence[Examples]) -> Examples:
    """Return the examples of all parts; none without a part."""
    none = np.empty((0, HOLDS), np.float32)
    empty = Examples(np.empty((0, COLUMNS), np.float32), none, none, none, none)
    return Examples(*(np.concatenate(each) for each in zip(empty, *parts, strict=True)))


class _Recorder:
    """A manager that records the plans of `predictive` at some moments, and obeys a timeout."""

    def __init__(self, instance: Instance, samples: int, rng: np.random.Generator) -> None:
        self._instance, self._samples, self._rng = instance, samples, rng
        self._timeout = timeout(instance.timeout_s)
        jobs = instance.jobs
        span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
        self._pause_s = max(2.0 * span_s / MOMENTS, 1.0)
        self._share = MOMENTS / (4.0 * len(jobs))
        self._moment_s = self._event_s = -math.inf
        self._moments = 0
        self._idle = IdleClock()
        self._source: FutureSampler | None = None
        self.rows: list[Examples] = []

    def manage(self, view: View) -> float | None:
        """Return the time of the next call."""
        if self._source is None:
            self._source = FutureSampler(self._samples, view)
            self._energy = NodeEnergy(view, self._instance.wait_price_w)
            self._usage = NodeUsage(view, self._energy.break_even_s)
        self._source.update(view)
        self._usage.update(view)
        self._idle.update(view)
        if view.arrived or view.left:
            self._event_s = view.now_s
        if view.now_s >= self._moment_s or self._rng.random() < self._share:
            self._record(view, self._source)
            self._moments += 1
            pause_s = float(self._rng.exponential(self._pause_s))
            self._moment_s = view.now_s + pause_s if self._moments < MOST_MOMENTS else math.inf
        due_s = self._timeout(view)
        if due_s is not None:
            return min(self._moment_s, due_s)
        return self._moment_s if self._moments < MOST_MOMENTS else None

    def _record(self, view: View, source: FutureSource) -> None:
        order = spare_order(view, self._idle.since_s)
        if not len(order.nodes):
            return
        energy, price_w = self._energy, self._instance.wait_price_w
        even_s, passed_s = energy.break_even_s, view.now_s - self._event_s
        next_s = min(FIRST_STEP * even_s + (GROWTH - 1.0) * passed_s, even_s)
        plan = plan_of(view, source, order, energy, price_w, next_s)
        future = true_future(view, self._instance.jobs, float(energy.holds_s[-1]))
        came = forecast_of(plan._replace(need=need_of(future, len(order.nodes))))
        said = forecast_of(plan)
        seen = features(view, plan, said, self._usage)
        some = self._rng.permutation(len(order.nodes))[:NODES]
        by_node = (seen.T, said.used, said.saved, came.used > 0.5, came.saved)
        self.rows.append(Examples(*(each[:, some].T.astype(np.float32) for each in by_node)))


def true_future(view: View, jobs: JobTable, horizon_s: float, node_cores: int = 1) -> Futures:
    """Return what comes, as a single sample."""
    now_s = view.now_s
    low, high = jobs.submit_s.searchsorted((now_s, now_s + horizon_s), side="right").tolist()
    running = list(view.running.values())
    runs_s = jobs.run_s[[job.order for job in running]]
    ends_s = np.array([job.start_s for job in running]) + runs_s - now_s
    return Futures(
        1,
        np.zeros(high - low, dtype=np.int64),
        jobs.submit_s[low:high] - now_s,
        np.ceil(jobs.cores[low:high] / node_cores),
        jobs.run_s[low:high],
        np.maximum(ends_s, 0.0).reshape(1, -1),
        np.ceil(np.array([job.cores for job in running]) / node_cores),
    )


# Supervised learning of the network: what samples said of spare nodes, and what came.

BATCH = 2048
WEIGHT_DECAY = 1e-4
SAVED_WEIGHT = 3.0
"""Weight of the loss of waits saved, beside that of the probability of a need."""


class Epoch(NamedTuple):
    """A pass over the examples.

    Attributes:
        number: from 1; 0: the untrained network, which corrects nothing.
        training: mean loss over the pass; NaN: not measured.
        validation: loss on the examples of validation.
        network: the network after it.
    """

    number: int
    training: float
    validation: float
    network: NeedNetwork


class _Tensors(NamedTuple):
    seen: Tensor
    log_odds: Tensor
    log_saved: Tensor
    true_used: Tensor
    true_saved: Tensor


def epochs(
    training: Examples,
    validation: Examples,
    *,
    count: int,
    hidden: int,
    learning_rate: float,
    seed: int,
) -> Iterator[Epoch]:
    """Yield the epochs of a training, and before them the untrained network.

    The loss is the cross-entropy of the need in each time to hold a node, and the Poisson deviance
    of the waits saved, whose minimum is the conditional mean.

    Args:
        training: the examples to learn from.
        validation: other examples.
        count: number of epochs, >= 1.
        hidden: width of the hidden layer, >= 1.
        learning_rate: largest learning rate of AdamW (one cycle).
        seed: seed of the initial weights and of the order of examples.
    """
    rng = np.random.default_rng(seed)
    weights = [
        torch.tensor(each, dtype=torch.float32, requires_grad=True) for each in neutral(hidden, rng)
    ]
    batch = min(BATCH, len(training.seen))
    steps = len(training.seen) // batch
    optimizer = torch.optim.AdamW(weights, learning_rate, weight_decay=WEIGHT_DECAY)
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=count * steps + 1
    )
    learn, check = _tensors(training), _tensors(validation)
    yield Epoch(0, float("nan"), _value(weights, check), _network(weights))
    for number in range(1, count + 1):
        order = torch.from_numpy(rng.permutation(len(training.seen)))
        total = 0.0
        for part in order[: steps * batch].reshape(steps, batch):
            value = _loss(weights, _Tensors(*(each[part] for each in learn)))
            optimizer.zero_grad()
            value.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rates.step()
            total += float(value.detach()) / steps
        yield Epoch(number, total, _value(weights, check), _network(weights))


def _tensors(examples: Examples) -> _Tensors:
    seen, used, saved, true_used, true_saved = (torch.from_numpy(each) for each in examples)
    log_saved = torch.log(saved + LEAST_SAVED)
    return _Tensors(seen, torch.logit(used), log_saved, true_used, true_saved)


def _loss(weights: list[Tensor], examples: _Tensors) -> Tensor:
    inner, outer = weights
    hidden = torch.tanh(examples.seen @ inner[:-1] + inner[-1])
    out = hidden @ outer[:-1] + outer[-1]
    log_odds = examples.log_odds + out[:, :HOLDS]
    log_saved = examples.log_saved + out[:, HOLDS:].clamp(-MOST_LOG, MOST_LOG)
    used = functional.binary_cross_entropy_with_logits(log_odds, examples.true_used)
    deviance = log_saved.exp() - (examples.true_saved + LEAST_SAVED) * log_saved
    return used + SAVED_WEIGHT * deviance.mean()


def _value(weights: list[Tensor], examples: _Tensors) -> float:
    with torch.no_grad():
        return float(_loss(weights, examples))


def _network(weights: list[Tensor]) -> NeedNetwork:
    inner, outer = (each.detach().numpy().astype(np.float64) for each in weights)
    assert len(inner) == COLUMNS + 1
    return NeedNetwork(inner, outer)


NETWORK = "network.safetensors"
VALIDATED = 5
"""One instance in each five is for validation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpareNodesTraining:
    """Settings of the training.

    Attributes:
        instances: number of random clusters with jobs, >= 2; every fifth is for validation.
        jobs: largest number of jobs of a window that is not long, >= 40.
        samples: number of samples of the future for each decision.
        hidden: width of the hidden layer.
        epochs: number of passes over the examples.
        learning_rate: largest learning rate.
        seed: seed of the instances, the weights and the order of examples.
        executor: where the instances are simulated; default: in this process.
    """

    instances: Annotated[int, Meta(ge=2)] = 260
    jobs: Annotated[int, Meta(ge=LEAST_JOBS)] = 300
    samples: Positive = 48
    hidden: Annotated[int, Meta(ge=1, le=4096)] = 24
    epochs: NotNegative = 10
    learning_rate: PositiveNumber = 3e-3
    seed: int = 0
    executor: ExecutorSettings = IN_THIS_PROCESS


class Row(NamedTuple):
    """A row of the learning curve: losses of an epoch; 0: the untrained network."""

    epoch: int
    training: float
    validation: float

    @property
    def progress(self) -> Progress:
        """The row as a training reports it."""
        text = f"loss: training {self.training:.5f}  validation {self.validation:.5f}"
        return Progress(self.epoch, text, self._asdict())


class RecordingProgress(Checkpoint, kw_only=True):
    """The progress of the recording; its state are the examples of each instance.

    Attributes:
        instances: number of recorded instances.
    """

    instances: int


def train_spare_nodes(
    path: Path,
    out: Path,
    training: SpareNodesTraining,
    *,
    also: Sequence[Path] = (),
    overrides: Mapping[str, Scalar] | None = None,
    resume: bool = False,
    report: Report = lambda _: None,
) -> Path:
    """Train the network on forecasts at random moments, and what came after them.

    EASY runs with timeouts on random clusters with random windows of the workloads. At random
    moments the forecasts for the spare nodes are recorded, with what then came; the network learns
    to correct them. The folder gets `network.safetensors`, the network of the epoch with the least
    loss on the instances of validation, `curve.csv`, `tensorboard/`, and a checkpoint of what was
    recorded. The same arguments give the same bytes for any number of workers.

    Args:
        path: the scenario file; its scheduler is ignored.
        out: the output folder.
        training: the settings.
        also: files of more scenarios.
        overrides: values that replace those of the scenarios, by dotted path.
        resume: go on from the checkpoint in the folder; only recording takes long.
        report: called after some instances, and after each epoch.

    Returns:
        Path of the network, for the power manager `learned`.

    Raises:
        ScenarioError, WorkloadError: a scenario is invalid.
        PolicyError: no node was ever without a job.
        CheckpointError: the checkpoint to resume from is missing or of a different training.
        OSError: the folder cannot be written.
    """
    workloads = [workload_of(each, overrides) for each in (path, *also)]
    out.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(training.seed)
    instances = [drawn(workloads, training.jobs, rng) for _ in range(training.instances)]
    inputs = [checksum(scenario.platform, [jobs]) for scenario, jobs in workloads]
    about = description(training, inputs=inputs)
    found = _recorded_before(out, about) if resume else []
    _record_rest(instances, training, found, out, about, report)
    checked = found[::VALIDATED]
    learned = [each for number, each in enumerate(found) if number % VALIDATED]
    if not all(sum(len(each.seen) for each in part) for part in (learned, checked)):
        raise PolicyError("no node was without a job; expected workloads with a lower load")
    best = _fitted(out, joined(learned), joined(checked), training, report)
    facts: Facts = {
        "seed": training.seed,
        "instances": training.instances,
        "samples": training.samples,
        "workloads": ", ".join(scenario.name for scenario, _ in workloads),
        "epoch": best.number,
        "validation": best.validation,
    }
    save_network(out / NETWORK, best.network, facts)
    return out / NETWORK


def _recorded_before(out: Path, about: str) -> list[Examples]:
    """Return the examples in a checkpoint."""
    progress, arrays = read_checkpoint(out, RecordingProgress, about)
    return [
        Examples(*(arrays[f"{number}.{name}"] for name in Examples._fields))
        for number in range(progress.instances)
    ]


def _record_rest(
    instances: Sequence[Instance],
    training: SpareNodesTraining,
    found: list[Examples],
    out: Path,
    about: str,
    report: Report,
) -> None:
    """Record the instances that are missing, and append their examples; write checkpoints."""
    record = partial(_recorded, training.samples)
    with parallel_map(training.executor) as parallel:
        for first in range(len(found), len(instances), VALIDATED):
            part = instances[first : first + VALIDATED]
            found += parallel(record, list(enumerate(part, first)))
            state = {
                f"{number}.{name}": values
                for number, each in enumerate(found)
                for name, values in each._asdict().items()
            }
            write_checkpoint(out, state, RecordingProgress(training=about, instances=len(found)))
            report(Progress(len(found), "instances recorded"))


def _recorded(samples: int, numbered: tuple[int, Instance]) -> Examples:
    number, instance = numbered
    return recorded(instance, samples, number)


def _fitted(
    out: Path, learned: Examples, checked: Examples, training: SpareNodesTraining, report: Report
) -> Epoch:
    """Return the epoch with the least loss of validation; write the curve."""
    best: Epoch | None = None
    with LearningCurve(out, Row._fields) as curve, contextlib.suppress(TrainingStopped):
        for each in epochs(
            learned,
            checked,
            count=training.epochs,
            hidden=training.hidden,
            learning_rate=training.learning_rate,
            seed=training.seed,
        ):
            row = Row(each.number, each.training, each.validation)
            curve.add(row._asdict())
            if best is None or each.validation < best.validation:
                best = each
            report(row.progress)
    assert best is not None
    return best
