"""GPU allocation of packing policies on the nodes and tasks of a production cluster.

Data and experiment: Weng et al. 2023 (Beware of Fragmentation, USENIX ATC), section 6. Tasks arrive
one by one in random order and never leave. The list of tasks is filled up with tasks drawn from it
at random until they ask for 1.3 times the GPU capacity. A task that does not fit is dropped. The
nodes have another random order in each run, as in the program of the paper, and policies take the
lowest-numbered of equal nodes. A CPU core of the platform here is a thousandth of a core there, so
that all numbers are whole.

`python -m papers.gpu_packing.shares FOLDER [SEEDS] [POLICY ...]` prints the shares of all GPUs that
are allocated, in per cent; FOLDER has the two files of the data.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from hpcosim_client import Policy, View
from hpcosim_client.job import Job
from hpcosim_protocol import AllocateJob, JobRequest, JobSubmitted, NodeGroup, Platform, Processor
from hpcosim_schedulers.heuristics.gpu_packing import JobMix, best_fit, fgd, gpu_packing, gpu_random

LOAD = 1.3
"""GPU thousandths that all tasks ask for / capacity."""

MARKS = (0.5, 0.9, 1.0)
"""Loads at which the allocation is stated, too."""

POLICIES: Mapping[str, Callable[[JobMix], Policy]] = {
    "gpu-random": lambda _: gpu_random(),
    "gpu-packing": lambda _: gpu_packing(),
    "best-fit": lambda _: best_fit(),
    "fgd": fgd,
    "fgd, exact": partial(fgd, exact=True),
}


def read_nodes(path: Path) -> list[NodeGroup]:
    """Read the nodes, each as a group."""
    return [
        NodeGroup(
            1,
            (Processor(int(row["cpu_milli"])),),
            memory_mb=float(row["memory_mib"]),
            features=(row["model"],),
            gres={f"gpu:{row['model']}": int(row["gpu"])},
        )
        for row in _rows(path)
    ]


def read_tasks(path: Path) -> list[tuple[JobSubmitted, int]]:
    """Read the tasks, each with the GPU thousandths that it asks for."""
    tasks = []
    for row in _rows(path):
        count, milli = int(row["num_gpu"]), int(row["gpu_milli"])
        asked = count * milli
        request = JobRequest(
            memory_per_node_mb=float(row["memory_mib"]),
            features="|".join(row["gpu_spec"].split("|")) if row["gpu_spec"] else "",
            gres_per_node={"gpu": asked / 1000.0} if asked else {},
        )
        cores = max(int(row["cpu_milli"]), 1)
        tasks.append((JobSubmitted(0.0, 0, cores, 1.0, "one_node", request=request), asked))
    return tasks


def allocated(
    nodes: Sequence[NodeGroup],
    tasks: Sequence[tuple[JobSubmitted, int]],
    make: Callable[[JobMix], Policy],
    seed: int,
) -> list[float]:
    """Return the allocated share of the GPUs at each of `MARKS` and at the end, per cent."""
    rng, capacity = np.random.default_rng(seed), capacity_of(nodes)
    order, marks = arrivals([asked for _, asked in tasks], capacity, rng), list(MARKS)
    shuffled = tuple(nodes[at] for at in rng.permutation(len(nodes)))
    view, mix = View(Platform(shuffled, consumable=("cores", "memory")), seed), JobMix()
    for number, (event, _) in enumerate(tasks):
        job = Job(number, 0.0, event.cores, 1.0, event.placement, request=event.request)
        job.demand = view.nodes.demands.of(job)
        mix.add(job)
    policy, arrived, taken, shares = make(mix), 0, 0, []
    for number, at in enumerate(order):
        event, asked = tasks[at]
        view.apply(
            0.0, [JobSubmitted(0.0, number, event.cores, 1.0, "one_node", request=event.request)]
        )
        policy(view)
        started = any(isinstance(each, AllocateJob) for each in view.decisions)
        view.queue.pop(number, None)
        arrived, taken = arrived + asked, taken + asked * started
        while marks and arrived >= marks[0] * capacity:
            shares.append(100.0 * taken / capacity)
            marks.pop(0)
    return [*shares, 100.0 * taken / capacity]


def capacity_of(nodes: Sequence[NodeGroup]) -> int:
    """Return the thousandths of all GPUs."""
    return 1000 * sum(group.count * sum(group.gres.values()) for group in nodes)


def arrivals(asked: Sequence[int], capacity: int, rng: np.random.Generator) -> list[int]:
    """Return the order of tasks, as indices."""
    chosen = list(range(len(asked)))
    total = sum(asked)
    while True:
        drawn = int(rng.integers(len(asked)))
        total += asked[drawn]
        if total > LOAD * capacity:
            break
        chosen.append(drawn)
    rng.shuffle(chosen)
    return chosen


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def main(folder: Path, seeds: int, names: Sequence[str]) -> None:
    """Print the allocation of each policy."""
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    tasks = read_tasks(folder / "openb_pod_list_default.csv.gz")
    print("policy, at 50 %, 90 %, 100 %, all tasks, standard deviation of the last")
    for name in names:
        runs = [allocated(nodes, tasks, POLICIES[name], seed) for seed in range(seeds)]
        means = [f"{mean(column):.2f}" for column in zip(*runs, strict=True)]
        spread = f"{stdev(run[-1] for run in runs):.2f}" if seeds > 1 else "-"
        print(", ".join([name, *means, spread]), flush=True)


if __name__ == "__main__":
    chosen = sys.argv[3:] or list(POLICIES)
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10, chosen)
