"""What a Deep-EAS agent observes (`Scene`), and its networks in NumPy with their files.

One network reads the picture of the paper. The other reads features of each pair of a machine and a
slot; they do not depend on the number, speeds and powers of machines, and quantities with a wide
range are logarithms.

An invalid file is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from hpcosim_client.job import Floats
from hpcosim_papers.deep_eas.agent.step_jobs import Counts, DeepEas
from hpcosim_schedulers.agents.networks import (
    Rows,
    Shapes,
    Weights,
    check_weights,
    dense,
    dense_shapes,
    linear,
    linear_shapes,
    read_network,
    relu,
    write_network,
)

WINDOWS = (4, 16, 64)
"""Steps in which recent submissions are counted."""

NEVER = -1  # the row of a job that does not fit, and of an empty slot

Picture = NDArray[np.bool_]
"""The binary picture of `sees: picture`; a row is a step (paper, section II-B, figure 2)."""

Features = NDArray[np.float32]

SOON = (1, 2, 4, 8, 16)  # numbers of rows with an occupancy feature, beside the horizon
OF_PAIR = 16 + len(SOON) + 1
OF_QUEUE = 3
IN_QUEUE = 4  # additional features of a pair with `sees: queue`
OF_WHOLE_QUEUE = 4 + len(WINDOWS)
LEAST_W = 1e-9  # lower bound of the power of a machine in features


class Scene(NamedTuple):
    """Observations at one or several moments; times are in steps from the moment on.

    Attributes:
        watts: float64[machines], power of a busy core, in W.
        used: int16[moments, machines, horizon], occupied cores in each row of the plans.
        cores: int16[moments, queue], cores of the job in each slot; 0: empty.
        waited: int16[moments, queue], waiting time of the job.
        steps: int16[moments, machines, queue], expected run time of the job.
        rows: int16[moments, machines, queue], row in which the job would start; `NEVER`: it does
            not fit within the horizon.
        behind: int16[moments], number of waiting jobs behind those in slots.
        since_arrival: int16[moments], time since the last submission.
        ahead: int32[moments, queue], work of the waiting jobs with a shorter expected run time than
            the job in a slot, or the same and an earlier submission: cores x steps on the fastest
            machine.
        work: int32[moments], work of all waiting jobs.
        recent: int16[moments, 3], jobs submitted in the last steps, for each of `WINDOWS`.
    """

    watts: Floats
    used: Counts
    cores: Counts
    waited: Counts
    steps: Counts
    rows: Counts
    behind: Counts
    since_arrival: Counts
    ahead: NDArray[np.int32]
    work: NDArray[np.int32]
    recent: Counts

    @property
    def moments(self) -> int:
        """The number of moments."""
        return len(self.used)

    def some(self, which: NDArray[np.integer]) -> Scene:
        """Return the observations at some of the moments."""
        return Scene(self.watts, *(part[which] for part in self[1:]))

    def possible(self) -> NDArray[np.bool_]:
        """Return the valid actions, bool[moments, actions]; the last, to hold, always is."""
        fits = (self.rows != NEVER).reshape(self.moments, -1)
        return np.concatenate([fits, np.ones((self.moments, 1), dtype=np.bool_)], axis=1)


def joined(scenes: Sequence[Scene]) -> Scene:
    """Concatenate the moments of observations of the same machines."""
    parts = (np.concatenate(part) for part in zip(*(scene[1:] for scene in scenes), strict=True))
    return Scene(scenes[0].watts, *parts)


def pictures(settings: DeepEas, scene: Scene) -> Picture:
    """Return the picture of each moment, bool[moments, horizon, width]."""
    column = np.arange(settings.cores)
    rows = np.arange(settings.horizon)[:, None, None, None]
    plans = column < scene.used.swapaxes(1, 2)[..., None]
    # moments, horizon, queue, machines, cores
    jobs = (rows < scene.steps.swapaxes(1, 2)[:, None, :, :, None]) & (
        column < scene.cores[:, None, :, None, None]
    )
    parts = [part.reshape(scene.moments, settings.horizon, -1) for part in (plans, jobs)]
    parts.append(_line(scene.behind, settings.backlog, settings.horizon))
    parts.append(_line(scene.since_arrival, settings.since_arrival, settings.horizon))
    return np.concatenate(parts, axis=2)


def _line(counts: Counts, most: int, horizon: int) -> Picture:
    line = np.arange(most) < counts[:, None]
    return line.reshape(len(counts), -1, horizon).swapaxes(1, 2)


FORMAT = "hpcosim deep-eas 1"

FILTERS = 8
SIDE = 3
STRIDE = 2
UNITS = 48

LogitsOf = Callable[[Scene], Rows]
"""A network: returns logits, float32[moments, actions]; minus infinity for masked actions."""


def network_shapes(settings: DeepEas) -> Shapes:
    """Return the shapes of the weights of the network for the observations of the settings."""
    if settings.sees == "picture":
        inputs = FILTERS * along(settings.horizon) * along(settings.width)
        filters: Shapes = {"filters.weight": (FILTERS, 1, SIDE, SIDE), "filters.bias": (FILTERS,)}
        return filters | linear_shapes("last", inputs, settings.actions)
    of_pair, of_queue = feature_counts(settings)
    return {
        **dense_shapes("pair", of_pair, UNITS, UNITS),
        **dense_shapes("all", UNITS + of_queue, UNITS),
        **dense_shapes("both", 2 * UNITS, UNITS),
        **linear_shapes("last", UNITS, 1),
        **linear_shapes("hold", UNITS, 1),
    }


def network_of(settings: DeepEas, weights: Weights) -> LogitsOf:
    """Return the network with given weights."""
    logits_of = _of_picture if settings.sees == "picture" else _of_pairs
    return lambda scene: mask_logits(settings, scene, logits_of(settings, weights, scene))


def mask_logits(settings: DeepEas, scene: Scene, logits: Rows) -> Rows:
    """Return logits with minus infinity for masked actions."""
    return np.where(scene.possible(), logits, -np.inf) if settings.masked else logits


def _of_picture(settings: DeepEas, weights: Weights, scene: Scene) -> Rows:
    """Return the logits of the paper's network (section III-C)."""
    picture = pictures(settings, scene).astype(np.float32)
    windows = sliding_window_view(picture, (SIDE, SIDE), axis=(1, 2))[:, ::STRIDE, ::STRIDE]
    patches = windows.reshape(scene.moments, -1, SIDE * SIDE)
    filters = weights["filters.weight"].reshape(FILTERS, -1)
    seen = relu(patches @ filters.T + weights["filters.bias"]).swapaxes(1, 2)
    return linear(weights, "last", seen.reshape(scene.moments, -1))


def _of_pairs(settings: DeepEas, weights: Weights, scene: Scene) -> Rows:
    """Return the logits of a network with the same layers for every pair of machine and slot."""
    of_pairs, of_queue = pairs(settings, scene), queues(settings, scene)
    each = relu(dense(weights, "pair", of_pairs, relu))
    mean = (each * of_pairs[:, :, :1]).mean(axis=1)
    mean = relu(dense(weights, "all", np.concatenate([mean, of_queue], axis=1), relu))
    beside = np.broadcast_to(mean[:, None], each.shape)
    both = relu(dense(weights, "both", np.concatenate([each, beside], axis=2), relu))
    of_pair = linear(weights, "last", both)[:, :, 0]
    return np.concatenate([of_pair, linear(weights, "hold", mean)], axis=1)


def along(size: int) -> int:
    """Return the number of places of a filter along a side of the picture."""
    return (size - SIDE) // STRIDE + 1


class DeepEasMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """Metadata of a network's file."""

    settings: DeepEas
    training: Mapping[str, str | int | float | bool] = {}


def save_deep_eas(path: Path, weights: Weights, about: DeepEasMetadata) -> None:
    """Write a network, the same bytes for the same weights. It needs the extra `rl`."""
    write_network(path, weights, FORMAT, about)


def load_deep_eas(path: Path) -> tuple[Weights, DeepEasMetadata]:
    """Return the weights of a network and its metadata."""
    about, weights = read_network(path, FORMAT, DeepEasMetadata, "Deep-EAS agent")
    return check_weights(path, weights, network_shapes(about.settings)), about


def feature_counts(settings: DeepEas) -> tuple[int, int]:
    """Return the numbers of features of a pair and of the queue."""
    whole = settings.sees == "queue"
    return (OF_PAIR + IN_QUEUE, OF_WHOLE_QUEUE) if whole else (OF_PAIR, OF_QUEUE)


def pairs(settings: DeepEas, scene: Scene) -> Features:
    """Return the features, float32[moments, machines x queue, features]; 0 for empty slots.

    The weight of a job is its energy divided by the square of its least expected run time. The
    weight times the time from submission to end is the normalised energy-delay product (paper,
    section II-A).
    """
    there = (scene.cores > 0)[:, None, :]
    cores = np.maximum(scene.cores, 1)[:, None, :].astype(np.float32)
    steps = np.maximum(scene.steps, 1).astype(np.float32)
    least = steps.min(axis=1, keepdims=True)
    waited = scene.waited[:, None, :].astype(np.float32)
    rows = np.maximum(scene.rows, 0).astype(np.float32)
    watts = np.maximum(scene.watts, LEAST_W)
    dearer = (watts / watts.min())[:, None].astype(np.float32)
    weight = cores * dearer * steps / least**2
    parts = [
        1.0,
        scene.rows != NEVER,
        rows / settings.horizon,
        np.log1p(rows) / 3,
        steps / settings.horizon,
        np.log(steps) / 3,
        least / settings.horizon,
        np.log(least) / 3,
        np.log(steps / least),
        cores / settings.cores,
        np.log1p(waited) / 5,
        np.log(weight) / 3,
        np.log(weight * (waited + rows + steps)) / 5,
        np.log(weight * (rows + steps)) / 5,
        np.log(cores * dearer * steps) / 5,
        np.log(dearer) / 3,
        *_occupancy(settings, scene),
    ]
    if settings.sees == "queue":
        parts += _in_queue(settings, scene, least, waited)
    features = np.empty((*steps.shape, len(parts)), dtype=np.float32)
    for column, part in enumerate(parts):
        features[..., column] = part
    features *= there[..., None]
    return features.reshape(scene.moments, -1, len(parts))


def queues(settings: DeepEas, scene: Scene) -> Features:
    """Return the features of the queue, float32[moments, features]."""
    since_arrival = np.minimum(scene.since_arrival / settings.since_arrival, 1.0)
    filled = (scene.cores > 0).mean(axis=1)
    if settings.sees == "pairs":
        parts = [scene.behind / (2 * settings.queue), since_arrival, filled]
        return np.stack(parts, axis=1).astype(np.float32)
    parts = [
        np.log1p(scene.behind) / 5,
        since_arrival,
        filled,
        np.log1p(scene.work / settings.cores) / 5,
        *(scene.recent / np.array(WINDOWS)).T,
    ]
    return np.stack(parts, axis=1).astype(np.float32)


def _in_queue(
    settings: DeepEas, scene: Scene, least: Features, waited: Features
) -> list[NDArray[np.floating]]:
    """Return features of the jobs beside the whole queue, each [moments, 1, slots or 1]."""
    ahead, work = scene.ahead[:, None], scene.work[:, None, None]
    return [
        np.log1p(ahead / settings.cores) / 5,
        np.log1p(work / settings.cores) / 5,
        ahead / np.maximum(work, 1),
        np.log1p(waited / least) / 3,
    ]


def _occupancy(settings: DeepEas, scene: Scene) -> list[NDArray[np.floating]]:
    """Return the occupancy of each number of rows, each [moments, machines, 1]."""
    taken = np.cumsum(scene.used, axis=2, dtype=np.float32) / settings.cores
    ends = [min(rows, settings.horizon) for rows in (*SOON, settings.horizon)]
    return [taken[:, :, end - 1, None] / end for end in ends]
