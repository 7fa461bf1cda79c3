"""Readings of the rule of GPU packing, by a slow and obvious program without the simulator.

The runs are those of `papers.gpu_packing.shares`. The reading `published` is the scheduler
`gpu-packing`: both give the same numbers. The others show what each part of the rule does.

`python -m papers.gpu_packing.readings FOLDER [SEEDS]` prints the shares of all GPUs that are
allocated, in per cent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from hpcosim_protocol import NodeGroup
from hpcosim_protocol.resources import WHOLE_DEVICE
from papers.gpu_packing.shares import arrivals, capacity_of, read_nodes, read_tasks


@dataclass
class Node:
    """Free resources of a node: cores, megabytes, thousandths of each GPU."""

    every_core: int
    cores: int
    memory_mb: float
    gpus: list[int]


@dataclass(frozen=True)
class Task:
    """What a task asks for: cores, megabytes, GPUs, thousandths of each of them."""

    cores: int
    memory_mb: float
    gpus: int
    part: int

    def fits(self, node: Node) -> bool:
        """Return whether a node has room."""
        room = sum(free >= self.part for free in node.gpus) >= self.gpus
        return room and node.cores >= self.cores and node.memory_mb >= self.memory_mb


Score = Callable[[Task, Node], float]
"""The node with the highest score gets the task."""


def published(task: Task, node: Node) -> float:
    """Return the whole-number score of the program of the paper, 0 to 100."""
    if task.gpus == 0:
        return 0
    if min(node.gpus) == WHOLE_DEVICE:
        return 33 - len(node.gpus)
    chosen = sorted(free for free in node.gpus if free >= task.part)[: task.gpus]
    idle = chosen.count(WHOLE_DEVICE)
    return 50 - idle if idle else 100 - sum(chosen) // 100


def exact(task: Task, node: Node) -> float:
    """Return the score with the free part of the GPU in thousandths instead of tenths."""
    score = published(task, node)
    room = min((free for free in node.gpus if free >= task.part), default=0)
    return 100 - room / 100 if score > 50 else score


def fuller_node(task: Task, node: Node) -> float:
    """Return the score with the free part of all GPUs of the node."""
    score = published(task, node)
    return 100 - sum(node.gpus) / 1000 if score > 50 else score


def cores_count(task: Task, node: Node) -> float:
    """Return the score if nodes with cores in use are in use."""
    score = published(task, node)
    return 49 if 0 < score <= 33 and node.cores < node.every_core else score


def no_gpu_in_use(task: Task, node: Node) -> float:
    """Return the score if tasks without GPU prefer nodes with cores in use."""
    if task.gpus == 0:
        return 50 if node.cores < node.every_core else 33 - len(node.gpus)
    return published(task, node)


READINGS: Mapping[str, tuple[Score, str]] = {
    "published": (published, "first"),
    "free part of the GPU exact": (exact, "first"),
    "fuller node instead of fuller GPU": (fuller_node, "first"),
    "cores make a node in use": (cores_count, "first"),
    "tasks without GPU prefer nodes in use": (no_gpu_in_use, "first"),
    "equal nodes in the order of the file": (published, "file"),
    "equal nodes at random each time": (published, "random"),
}
"""Score, and which of equal nodes a task gets."""


def allocated(
    groups: Sequence[NodeGroup], tasks: Sequence[tuple[Task, int]], reading: str, seed: int
) -> float:
    """Return the allocated share of the GPUs after the last task, per cent."""
    score, ties = READINGS[reading]
    rng, capacity = np.random.default_rng(seed), capacity_of(groups)
    order = arrivals([asked for _, asked in tasks], capacity, rng)
    shuffled = rng.permutation(len(groups))
    numbers = range(len(groups)) if ties == "file" else shuffled.tolist()
    nodes = [_idle(groups[number]) for number in numbers]
    changed: list[int] = []  # the node of each task that was placed
    known: dict[Task, tuple[list[float], int]] = {}
    taken = 0
    for task, asked in (tasks[at] for at in order):
        scores, seen = known.get(task, ([0.0] * len(nodes), -1))
        for at in set(changed[seen:]) if seen >= 0 else range(len(nodes)):
            scores[at] = score(task, nodes[at]) if task.fits(nodes[at]) else -1
        known[task] = scores, len(changed)
        best = max(scores)
        if best < 0:
            continue
        place = scores.index(best)
        if ties == "random":
            place = int(rng.choice(np.flatnonzero(np.array(scores) == best)))
        _take(nodes[place], task)
        changed.append(place)
        taken += asked
    return 100.0 * taken / capacity


def _idle(group: NodeGroup) -> Node:
    cores = group.processors[0].cores
    return Node(cores, cores, group.memory_mb, [WHOLE_DEVICE] * sum(group.gres.values()))


def _take(node: Node, task: Task) -> None:
    """Give a task its resources, the fullest GPUs with room."""
    node.cores -= task.cores
    node.memory_mb -= task.memory_mb
    room = [at for at, free in enumerate(node.gpus) if free >= task.part]
    for at in sorted(room, key=node.gpus.__getitem__)[: task.gpus]:
        node.gpus[at] -= task.part


def main(folder: Path, seeds: int) -> None:
    """Print the allocation of each reading."""
    groups = read_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    tasks = []
    for event, asked in read_tasks(folder / "openb_pod_list_default.csv.gz"):
        assert event.request is not None
        assert not event.request.features, "the default list has no constraints"
        part = min(asked, WHOLE_DEVICE)
        gpus = asked // part if part else 0
        tasks.append((Task(event.cores, event.request.memory_per_node_mb, gpus, part), asked))
    for reading in READINGS:
        shares = [allocated(groups, tasks, reading, seed) for seed in range(seeds)]
        spread = f"{stdev(shares):.2f}" if seeds > 1 else "-"
        print(f"{reading}: {mean(shares):.2f}, standard deviation {spread}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
