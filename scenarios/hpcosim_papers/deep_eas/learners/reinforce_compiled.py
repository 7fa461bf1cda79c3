"""The gradient of REINFORCE for the paper's picture and network, in compiled code.

The picture has few different pieces. A column of filter places over the slots depends on the
heights of three columns. A row of filter places over a machine depends on the occupied cores in
three rows. What a piece adds to the logits is computed once in an update. A decision sums its
pieces, and adds the gradient of its logits to each. The gradient of the weights follows from the
gradients of the pieces at the end. A decision thus takes microseconds.

PyTorch is the reference: the same actions for the same random numbers, and the same gradient up to
rounding (`tests/papers/test_deep_eas_reinforce.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_client.job import Floats, Ints
from hpcosim_compiled.compiler import compiled, compiled_apart, entry_with
from hpcosim_papers.deep_eas.agent import network, step_jobs, step_runs
from hpcosim_papers.deep_eas.agent.network import FILTERS, NEVER, SIDE, STRIDE, Scene, along
from hpcosim_papers.deep_eas.agent.step_jobs import Counts, DeepEas, Machines, StepJobs
from hpcosim_papers.deep_eas.agent.step_runs import cost_rates, normalised_edps
from hpcosim_papers.deep_eas.environments import step_runs_compiled
from hpcosim_papers.deep_eas.environments.step_runs_compiled import (
    Arrays,
    CompiledStepRuns,
    take_action,
)

USES = (network, step_jobs, step_runs, step_runs_compiled)
"""Modules whose functions and constants are compiled."""

Singles = NDArray[np.float32]
Weights = Mapping[str, Singles]

LANES = 32  # logits are padded to a multiple of it, so that vector instructions leave no rest
PATCHES = 2 ** (SIDE * SIDE)  # different contents of a filter's place
FREE = -1  # key of an unused entry of `Pieces`
HASH = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio (Knuth, volume 3, section 6.4)


class Layers(NamedTuple):
    """The network, arranged for pieces. Padding of lanes is 0.

    Attributes:
        seen: float32[patches, filters], output of the filters for each content of their place.
        dense: float32[places, filters, lanes], weights of the dense layer.
        empty: float32[lanes], logits of an empty picture.
        columns: number of places of a filter in a row of the picture.
        blocks: int64[blocks + 1], first column of places that begins in each block of the picture,
            and their end. A block is a machine, or a slot and a machine; the columns of places
            beside those are a block each.
        cores, backlog, since_arrival, masked: see `DeepEas`.
    """

    seen: Singles
    dense: Singles
    empty: Singles
    columns: int
    blocks: Ints
    cores: int
    backlog: int
    since_arrival: int
    masked: bool


class Pieces(NamedTuple):
    """The pieces that occurred: a hash table with linear probing.

    Attributes:
        keys: int64[entries], position and content of a piece, or `FREE`; 2^n entries.
        number: int64[1], number of pieces.
        logits: float32[entries, lanes], what a piece adds to the logits.
        gradients: float32[entries, lanes], sum over decisions of the gradient of the logits.
        shapes: int32[entries, 3], first place, rows and columns of places.
        patches: int16[entries, places], content of each place.
        heights: int64[columns of the picture], space: filled rows of each column beside machines.
    """

    keys: Ints
    number: Ints
    logits: Singles
    gradients: Singles
    shapes: NDArray[np.int32]
    patches: NDArray[np.int16]
    heights: Ints


class Decisions(NamedTuple):
    """The decisions in the runs of a sequence, one run after the other.

    Attributes:
        number: int64[1], number of decisions.
        pieces: int32[space], entries of `Pieces`, for all decisions.
        ends: int64[most + 1], 0, then the end of the entries of each decision in `pieces`.
        run, step, action: int64[most].
        probabilities: float32[most, lanes], probability of each action.
        entropies: float32[most], nats.
    """

    number: Ints
    pieces: NDArray[np.int32]
    ends: Ints
    run: Ints
    step: Ints
    action: Ints
    probabilities: Singles
    entropies: Singles


class Sums(NamedTuple):
    """Sums of gradients over decisions.

    Attributes:
        dense: float32[places, filters, lanes], gradient of `Layers.dense` by the pieces.
        seen: float32[patches, filters, lanes], its sum over lanes is the gradient of `Layers.seen`.
        logits: float64[lanes], gradient of the logits.
    """

    dense: Singles
    seen: Singles
    logits: Floats


class Gradient(NamedTuple):
    """The gradient of REINFORCE, and measures. All are sums.

    Attributes:
        weights: gradient of `loss` by the weights.
        loss: minus the sum over decisions of log-probability times advantage.
        entropy: sum over decisions, nats.
        returned: sum over runs of the return.
        edp: sum over jobs of the normalised energy-delay product.
    """

    weights: dict[str, Singles]
    loss: float
    entropy: float
    returned: float
    edp: float
    decisions: int
    runs: int
    jobs: int


def gradient(
    machines: Machines,
    jobs: StepJobs,
    weights: Weights,
    trajectories: int,
    seeds: Sequence[Sequence[int]],
    entries: int = 2**16,
) -> Gradient:
    """Sample runs of sequences, and return the gradient of REINFORCE (paper, equation 5).

    The advantage of a decision is its return minus the mean, over all runs of the sequence, of the
    return from the same step on. A decision uses one uniform random number.

    Args:
        jobs: the sequences.
        trajectories: number of runs of each sequence.
        seeds: seed of a random number generator for each sequence.
        entries: initial space, 2^n; doubled when it is full.
    """
    layers = layers_of(machines.settings, weights)
    lanes = len(layers.empty)
    dense, seen = np.zeros_like(layers.dense), np.zeros((PATCHES, FILTERS, lanes), np.float32)
    sums = Sums(dense, seen, np.zeros(lanes))
    pieces, decisions = space(machines.settings, entries)
    measures = []
    for number, seed in enumerate(seeds):
        while True:
            runs = CompiledStepRuns(machines, jobs.take(np.full(trajectories, number)))
            uniform = np.random.default_rng(seed).random(len(decisions.run))
            if sample(runs.arrays, layers, pieces, decisions, uniform):
                break
            propagate(layers, pieces, sums)
            entries *= 2
            pieces, decisions = space(machines.settings, entries)
        measures.append(_add_sequence(runs, pieces, decisions, sums))
    propagate(layers, pieces, sums)
    found = _of_weights(machines.settings, layers, weights, sums)
    return Gradient(found, *(sum(parts) for parts in zip(*measures, strict=True)))


def layers_of(settings: DeepEas, weights: Weights) -> Layers:
    """Return the network, arranged for pieces."""
    places = along(settings.horizon) * along(settings.width)
    lanes = -(-settings.actions // LANES) * LANES
    filters = weights["filters.weight"].reshape(FILTERS, -1)
    seen = np.maximum(contents() @ filters.T + weights["filters.bias"], np.float32(0.0))
    dense = np.zeros((places, FILTERS, lanes), np.float32)
    by_filter = weights["last.weight"].reshape(settings.actions, FILTERS, places)
    dense[:, :, : settings.actions] = by_filter.transpose(2, 1, 0)
    empty = (seen[0][:, None] * dense.sum(axis=0, dtype=np.float64)).sum(axis=0)
    empty[: settings.actions] += weights["last.bias"]
    columns, cores = along(settings.width), settings.cores
    beside = settings.machines * (1 + settings.queue) * cores  # first column beside machines, slots
    firsts = [-(-first // STRIDE) for first in range(0, beside, cores)]
    blocks = np.array([*firsts, *range(-(-beside // STRIDE), columns + 1)])
    counts = (cores, settings.backlog, settings.since_arrival)
    return Layers(seen, dense, empty.astype("f4"), columns, blocks, *counts, settings.masked)


def contents() -> Singles:
    """Return the cells of each content of a filter's place, float32[patches, cells]."""
    return (np.arange(PATCHES)[:, None] >> np.arange(SIDE * SIDE) & 1).astype(np.float32)


def space(settings: DeepEas, entries: int) -> tuple[Pieces, Decisions]:
    """Return space for pieces and decisions."""
    lanes, decisions = -(-settings.actions // LANES) * LANES, entries // 4
    pieces = Pieces(
        np.full(entries, FREE),
        np.zeros(1, np.int64),
        np.empty((entries, lanes), np.float32),
        np.empty((entries, lanes), np.float32),
        np.empty((entries, 3), np.int32),
        np.empty((entries, along(settings.horizon) * (settings.cores // STRIDE + 1)), np.int16),
        np.zeros(settings.width, np.int64),
    )
    return pieces, Decisions(
        np.zeros(1, np.int64),
        np.empty(32 * entries, np.int32),
        np.zeros(decisions + 1, np.int64),
        np.empty(decisions, np.int64),
        np.empty(decisions, np.int64),
        np.empty(decisions, np.int64),
        np.empty((decisions, lanes), np.float32),
        np.empty(decisions, np.float32),
    )


def _add_sequence(
    runs: CompiledStepRuns, pieces: Pieces, decisions: Decisions, sums: Sums
) -> tuple[float, float, float, float, int, int, int]:
    """Add the gradient of the runs of a sequence; return the measures of `Gradient`."""
    count = int(decisions.number[0])
    run, step = decisions.run[:count], decisions.step[:count]
    returns = -_costs_to_go(runs)
    advantages = (returns - returns.mean(axis=0))[run, step].astype(np.float32)
    chosen = decisions.probabilities[np.arange(count), decisions.action[:count]]
    loss = -float((np.log(chosen) * advantages).sum(dtype=np.float64))
    add_gradients(pieces, decisions, advantages, sums.logits)
    edp, jobs = float(normalised_edps(runs).sum()), int(runs.jobs.valid.sum())
    entropy = float(decisions.entropies[:count].sum(dtype=np.float64))
    return loss, entropy, float(returns[:, 0].sum()), edp, count, len(returns), jobs


def _costs_to_go(runs: CompiledStepRuns) -> Floats:
    """Return the same as `step_runs.costs_to_go`."""
    last = int(step_runs.last_end(runs)) + 1
    every = np.arange(len(runs.now)).repeat(last + 1)
    steps = np.tile(np.arange(last + 1), len(runs.now))
    costs = runs.accrued_cost(cost_rates(runs), every, steps).reshape(len(runs.now), -1)
    return costs[:, -1:] - costs


def _of_weights(
    settings: DeepEas, layers: Layers, weights: Weights, sums: Sums
) -> dict[str, Singles]:
    """Return the gradient of the weights from that of the arranged network.

    Pieces add the difference to an empty picture, whose logits depend on all weights, too.
    """
    actions = settings.actions
    dense = sums.dense + layers.seen[0][:, None] * sums.logits
    seen = sums.seen.sum(axis=2, dtype=np.float64)
    seen[0] = (layers.dense.sum(axis=0, dtype=np.float64) * sums.logits).sum(axis=1) - seen.sum(0)
    before = np.where(layers.seen > 0.0, seen, 0.0)
    found = {
        "filters.weight": before.T @ contents(),
        "filters.bias": before.sum(axis=0),
        "last.weight": dense[:, :, :actions].transpose(2, 1, 0),
        "last.bias": sums.logits[:actions],
    }
    return {
        name: part.reshape(weights[name].shape).astype(np.float32) for name, part in found.items()
    }


@entry_with(*USES)
def sample(
    arrays: Arrays, layers: Layers, pieces: Pieces, decisions: Decisions, uniform: Floats
) -> bool:
    """Run all runs to their ends with sampled actions; return False if the space is full.

    Args:
        arrays: runs that begin.
        uniform: float64[most], random numbers, 0 to 1; decision i uses number i.
    """
    scene, count, end = arrays.scene, 0, 0
    most = scene.used.shape[1] * (scene.used.shape[2] + scene.cores.shape[1]) + layers.columns
    for run in range(len(arrays.now)):
        while not arrays.done[run]:
            is_full = 2 * (pieces.number[0] + most) > len(pieces.keys)
            if is_full or count == len(uniform) or end + most > len(decisions.pieces):
                return False
            first, end = end, _find_pieces(arrays, run, layers, pieces, decisions.pieces, end)
            logits = decisions.probabilities[count]
            for lane in range(len(logits)):
                logits[lane] = layers.empty[lane]
            for at in range(first, end):
                entry = decisions.pieces[at]
                for lane in range(len(logits)):
                    logits[lane] += pieces.logits[entry, lane]
            entropy = _normalise(arrays, run, logits, layers.masked)
            action = _draw(logits, uniform[count])
            decisions.run[count], decisions.step[count] = run, arrays.now[run]
            decisions.action[count], decisions.entropies[count] = action, entropy
            count += 1
            decisions.ends[count] = end
            take_action(arrays, run, action)
    decisions.number[0] = count
    return True


@compiled_apart
def _normalise(arrays: Arrays, run: int, logits: Singles, masked: bool) -> float:
    """Replace logits by probabilities, and padding by 0; return the entropy, nats."""
    rows = arrays.scene.rows[run]
    machines, queue = rows.shape
    actions = machines * queue + 1
    top = logits[actions - 1]
    for action in range(actions - 1):
        machine, slot = divmod(action, queue)
        if masked and rows[machine, slot] == NEVER:
            logits[action] = -np.inf
        top = max(top, logits[action])
    total, weighted = 0.0, 0.0
    for action in range(actions):
        below = logits[action] - top
        logits[action] = math.exp(below)
        total += logits[action]
        if logits[action] > 0.0:
            weighted += logits[action] * below
    for action in range(actions):
        logits[action] /= total
    for lane in range(actions, len(logits)):
        logits[lane] = 0.0
    return math.log(total) - weighted / total


@compiled_apart
def _draw(probabilities: Singles, uniform: float) -> int:
    """Return the first action whose cumulative probability exceeds a number; else the last."""
    below, chosen = 0.0, 0
    for action in range(len(probabilities)):
        if probabilities[action] > 0.0:
            chosen = action
            below += probabilities[action]
            if below > uniform:
                break
    return chosen


@compiled_apart
def _find_pieces(
    arrays: Arrays, run: int, layers: Layers, pieces: Pieces, found: NDArray[np.int32], end: int
) -> int:
    """Write the entries of all pieces of a picture that are not empty; return their end."""
    scene, cores, heights = arrays.scene, layers.cores, pieces.heights
    used, machines, horizon = scene.used[run], scene.used.shape[1], scene.used.shape[2]
    rows = (horizon - SIDE) // STRIDE + 1
    _set_heights(scene, run, layers, heights)
    last = machines * (1 + scene.cores.shape[1])  # the first block that is a column of places
    for block in range(len(layers.blocks) - 1):
        first, beyond = layers.blocks[block], layers.blocks[block + 1]
        own, after = block * cores, STRIDE * (beyond - 1) + SIDE  # columns that the places cover
        if first == beyond:
            continue
        if block < machines:
            for row in range(rows):
                key = 0
                for each in range(STRIDE * row, STRIDE * row + SIDE):
                    key = key * (cores + 1) + int(used[block, each])
                    for column in range(own + cores, after):
                        key = 2 * key + _is_filled(used, heights, cores, each, column)
                if key != 0:
                    key = 2 * ((key * machines + block) * rows + row)
                    entry = _entry(pieces.keys, key)
                    if pieces.keys[entry] == FREE:
                        shape = (row * layers.columns + first, 1, beyond - first)
                        _add_piece(used, layers, pieces, entry, key, shape)
                    found[end] = entry
                    end += 1
            continue
        key, column = 0, STRIDE * first
        if block < last:
            column = own + cores
            key = int(scene.cores[run, (block - machines) // machines])
            key = key * (horizon + 1) + int(heights[own])
        while column < after:
            key = key * (horizon + 1) + int(heights[column])
            column += 1
        if key != 0:
            key = 2 * (key * len(layers.blocks) + block) + 1
            entry = _entry(pieces.keys, key)
            if pieces.keys[entry] == FREE:
                _add_piece(used, layers, pieces, entry, key, (first, rows, beyond - first))
            found[end] = entry
            end += 1
    return end


@compiled
def _set_heights(scene: Scene, run: int, layers: Layers, heights: Ints) -> None:
    """Write the number of filled rows of each column of the picture beside the machines."""
    machines, horizon = scene.used.shape[1], scene.used.shape[2]
    column = machines * layers.cores
    for slot in range(scene.cores.shape[1]):
        for machine in range(machines):
            height = min(int(scene.steps[run, machine, slot]), horizon)
            for core in range(layers.cores):
                heights[column] = height if core < scene.cores[run, slot] else 0
                column += 1
    for most, count in (
        (layers.backlog, scene.behind[run]),
        (layers.since_arrival, scene.since_arrival[run]),
    ):
        for before in range(0, most, horizon):
            heights[column] = min(max(int(count) - before, 0), horizon)
            column += 1


@compiled
def _is_filled(used: Counts, heights: Ints, cores: int, row: int, column: int) -> bool:
    """Return whether a cell of the picture is filled.

    Args:
        used: int16[machines, horizon], occupied cores.
        heights: see `Pieces`.
    """
    if column >= len(used) * cores:
        return bool(row < heights[column])
    machine = 0
    while column >= cores:
        column -= cores
        machine += 1
    return bool(column < used[machine, row])


@compiled
def _entry(keys: Ints, key: int) -> int:
    """Return the entry of a piece, or the free one that it gets."""
    last = len(keys) - 1
    entry = np.int64((np.uint64(key) * HASH) >> np.uint64(32)) & last
    while keys[entry] != FREE and keys[entry] != key:
        entry = (entry + 1) & last
    return int(entry)


@compiled_apart
def _add_piece(
    used: Counts, layers: Layers, pieces: Pieces, entry: int, key: int, shape: tuple[int, int, int]
) -> None:
    """Add a piece of the current picture.

    Args:
        shape: first place, rows and columns of the piece.
    """
    pieces.keys[entry] = key
    pieces.number[0] += 1
    for lane in range(len(layers.empty)):
        pieces.logits[entry, lane] = pieces.gradients[entry, lane] = 0.0
    first, rows, columns = shape
    pieces.shapes[entry, 0], pieces.shapes[entry, 1], pieces.shapes[entry, 2] = first, rows, columns
    for at in range(rows * columns):
        place = first + at // columns * layers.columns + at % columns
        top, left = STRIDE * (place // layers.columns), STRIDE * (place % layers.columns)
        patch = 0
        for cell in range(SIDE * SIDE):
            row, column = top + cell // SIDE, left + cell % SIDE
            if _is_filled(used, pieces.heights, layers.cores, row, column):
                patch += 1 << cell
        pieces.patches[entry, at] = patch
        if patch == 0:
            continue
        for each in range(FILTERS):
            seen = layers.seen[patch, each] - layers.seen[0, each]
            for lane in range(len(layers.empty)):
                pieces.logits[entry, lane] += seen * layers.dense[place, each, lane]


@entry_with(*USES)
def add_gradients(
    pieces: Pieces, decisions: Decisions, advantages: Singles, logits: Floats
) -> None:
    """Add the gradients of the loss of decisions to the pieces; overwrites the probabilities.

    Args:
        logits: float64[lanes], the sum of the gradients of all logits, is added to.
    """
    for decision in range(len(advantages)):
        slope, advantage = decisions.probabilities[decision], advantages[decision]
        slope[decisions.action[decision]] -= np.float32(1.0)
        for lane in range(len(slope)):
            slope[lane] *= advantage
            logits[lane] += slope[lane]
        for at in range(decisions.ends[decision], decisions.ends[decision + 1]):
            entry = decisions.pieces[at]
            for lane in range(len(slope)):
                pieces.gradients[entry, lane] += slope[lane]


@entry_with(*USES)
def propagate(layers: Layers, pieces: Pieces, sums: Sums) -> None:
    """Add the gradients of all pieces to those of the network."""
    for entry in range(len(pieces.keys)):
        if pieces.keys[entry] == FREE:
            continue
        first, columns = pieces.shapes[entry, 0], pieces.shapes[entry, 2]
        for at in range(pieces.shapes[entry, 1] * columns):
            place = first + at // columns * layers.columns + at % columns
            patch = pieces.patches[entry, at]
            if patch == 0:
                continue
            for each in range(FILTERS):
                seen = layers.seen[patch, each] - layers.seen[0, each]
                for lane in range(len(layers.empty)):
                    slope = pieces.gradients[entry, lane]
                    sums.dense[place, each, lane] += seen * slope
                    sums.seen[patch, each, lane] += layers.dense[place, each, lane] * slope
