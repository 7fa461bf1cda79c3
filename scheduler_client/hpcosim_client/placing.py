"""Nodes and resources for a job that requires more than cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hpcosim_client.demand import (
    PARTS_PER_MB,
    UNLIMITED,
    Demand,
    Devices,
    NodeChoice,
    Slots,
    device_amounts,
)
from hpcosim_client.job import Allocation, Bools, HeldResources, Ints, Job
from hpcosim_protocol import ProtocolError
from hpcosim_protocol.resources import (
    WHOLE_DEVICE,
    choose_devices,
    memory_on,
    tasks_on,
    thousandths,
)


class Placing(NamedTuple):
    """A job that looks for a place in one of its sets of nodes.

    Attributes:
        choice: one of the demand's sets of nodes.
        amounts: int64[slots], free amounts; `offered` also takes several, int64[n, slots].
    """

    job: Job
    demand: Demand
    choice: NodeChoice
    amounts: Ints
    slots: Slots


def offered(placing: Placing) -> Ints:
    """Return how many cores a job could use on each node, as far as one node decides.

    Returns:
        int64[nodes] or int64[n, nodes]; 0: none. A multiple of the cores of a task. Cores of whole
        nodes count only if tasks can use them.
    """
    job, demand, choice, amounts, slots = placing
    request, free = demand.request, amounts[..., : slots.nodes]
    cores = np.where(choice.nodes, free, 0)
    if choice.whole:
        cores[free != slots.capacity[: slots.nodes]] = 0
    if demand.node_cores:
        cores = np.minimum(cores, demand.node_cores)
    if demand.holds_memory:
        cores = np.minimum(cores, _cores_by_memory(placing))
    for name, amount in request.gres_per_task.items():
        tasks = _parts(amounts[..., slots.devices(name)], thousandths(amount))
        cores = np.minimum(cores, tasks * request.cores_per_task)
    for name, amount in request.gres_per_node.items():
        cores[~_has(amounts[..., slots.devices(name)], thousandths(amount))] = 0
    cores -= cores % request.cores_per_task
    if job.placement == "one_node":
        cores[cores < job.cores] = 0
    return cores


def fits_on_one(placing: Placing, cores: Ints) -> Bools:
    """Return bool[nodes]: whether the node alone is an allocation for a job."""
    job, request = placing.job, placing.demand.request
    fits = cores >= job.cores
    if required := list(request.required_nodes):
        others = np.ones_like(fits)
        others[required] = False
        fits &= ~others
    if len(required) > 1 or request.nodes_min > 1:
        fits[:] = False
    for free, needed in devices_of_job(placing.demand, placing.amounts, placing.slots):
        fits &= free >= needed
    if len(request.gres_per_node) + len(request.gres_per_task) + len(request.gres_per_job) > 1:
        for node in fits.nonzero()[0]:  # several requests can be for the same devices
            tasks = np.array([job.cores])
            fits[node] = allocation_of(placing, np.array([node]), tasks) is not None
    return fits


def place(placing: Placing, order: Ints, cores: Ints) -> Allocation | None:
    """Return the resources of a job that fills nodes in a given order; None: there are too few.

    The order is kept as far as required nodes, counts of features and the limits of the number of
    nodes permit.

    Args:
        order: numbers of the nodes that the job may use, each once.
        cores: int64[nodes], the cores offered on each node.
    """
    job, demand, _, amounts, slots = placing
    if any(amounts[slot] < count for slot, count in demand.licenses):
        return None
    order = order[cores[order] > 0]
    devices = devices_of_job(demand, amounts, slots)
    for sort in (None, cores, *(free for free, _ in devices)):
        tried = order if sort is None else order[np.argsort(-sort[order], kind="stable")]
        first = _indispensable(demand, placing.choice, tried)
        if first is None:
            return None
        rest = tried[~np.isin(tried, first)]
        nodes = _fewest(placing, np.concatenate([first, rest]), len(first), cores, devices)
        if nodes is not None:
            tasks = _filled(job.cores, cores[nodes], demand.request.cores_per_task)
            return allocation_of(placing, nodes, tasks)
    return None


def allocation_of(
    placing: Placing, nodes: Ints, tasks: Ints, devices: Devices = ()
) -> Allocation | None:
    """Return the allocation of stated nodes and cores; None: the free amounts are too small.

    Args:
        nodes: int64[n], node numbers.
        tasks: int64[n], cores that the job requests on each node.
        devices: devices on each node; empty: those that the server would choose.
    """
    job, demand, choice, amounts, slots = placing
    held = slots.capacity[nodes] if choice.whole else tasks
    taken: dict[int, int] = dict(demand.licenses)
    if slots.memory is not None and demand.holds_memory:
        for node, cores in zip(nodes.tolist(), tasks.tolist(), strict=True):
            whole = int(slots.capacity[slots.memory + node])
            whole_mb = 0.0 if whole == UNLIMITED else whole / PARTS_PER_MB
            memory_mb = memory_on(demand.request, job.memory_mb, cores, whole_mb)
            taken[slots.memory + node] = int(memory_mb * PARTS_PER_MB)
    if demand.needs_devices:
        found = _add_devices(placing, nodes, tasks, devices, taken)
        if found is None:
            return None
        devices = found
    where = np.fromiter(taken, np.int64, len(taken))
    held_there = np.fromiter(taken.values(), np.int64, len(taken))
    if (amounts[nodes] < held).any() or (amounts[where] < held_there).any():
        return None
    gres = [{name: list(numbers) for name, numbers in node.items()} for node in devices]
    return Allocation(nodes, tasks, held, int(held.sum()), HeldResources(where, held_there, gres))


def _add_devices(
    placing: Placing, nodes: Ints, tasks: Ints, devices: Devices, taken: dict[int, int]
) -> Devices | None:
    """Add the devices of a job to `taken`, and return them; None: too few are free."""
    request, amounts, slots = placing.demand.request, placing.amounts, placing.slots
    counts = [tasks_on(request, cores) for cores in tasks.tolist()]
    if not devices:
        free = [
            {name: amounts[there].tolist() for name, there in slots.devices_of(node).items()}
            for node in nodes.tolist()
        ]
        try:
            devices = choose_devices(request, counts, free)
        except ProtocolError:
            return None
    parts = device_amounts(request, counts, devices)
    if parts is None:
        return None
    for at, name, number, part in parts:
        there = slots.devices_of(int(nodes[at])).get(name, ())
        if not 0 <= number < len(there):
            return None
        slot = int(there[number])
        taken[slot] = taken.get(slot, 0) + part
    return devices


def _cores_by_memory(placing: Placing) -> Ints:
    """Return how many cores the free memory of each node permits."""
    job, demand, _, amounts, slots = placing
    assert slots.memory is not None
    nodes = slice(slots.memory, slots.memory + slots.nodes)
    free, request, every = amounts[..., nodes], demand.request, slots.capacity[: slots.nodes]
    if request.all_memory:
        whole = slots.capacity[nodes]
        return np.where((free == whole) | (whole == UNLIMITED), every, 0)
    if request.memory_per_node_mb > 0:
        return np.where(free >= int(request.memory_per_node_mb * PARTS_PER_MB), every, 0)
    if job.memory_mb <= 0:
        return every
    # The tolerance is below a part; the memory of all cores is rounded down to parts.
    return np.floor(free / (job.memory_mb * PARTS_PER_MB) + 1e-12).astype(np.int64)


def _parts(free: Ints, amount: int) -> Ints:
    """Return how often each node has an amount of devices, int64[..., nodes]."""
    part = min(amount, WHOLE_DEVICE)
    found: Ints = (free // part).sum(axis=-1) // (amount // part)
    return found


def _has(free: Ints, amount: int) -> Bools:
    """Return whether each node has an amount of devices, bool[..., nodes]; see `_parts`."""
    part = min(amount, WHOLE_DEVICE)
    found: Bools = np.count_nonzero(free >= part, axis=-1) >= amount // part
    return found


def _indispensable(demand: Demand, choice: NodeChoice, order: Ints) -> Ints | None:
    """Return required nodes and those that meet counts of features; None: some are missing."""
    first = list(demand.request.required_nodes)
    if first and not np.isin(first, order).all():
        return None
    counted: set[int] = set()
    # The narrowest condition first: its nodes may meet wider ones, too.
    for nodes, count in sorted(choice.quotas, key=lambda quota: int(quota[0].sum())):
        fitting = [*first, *order[~np.isin(order, first)].tolist()]
        found = [node for node in fitting if nodes[node] and node not in counted][:count]
        if len(found) < count:
            return None
        counted.update(found)
        first += [node for node in found if node not in first]
    return np.array(first, dtype=np.int64)


def devices_of_job(demand: Demand, amounts: Ints, slots: Slots) -> list[tuple[Ints, int]]:
    """Return the parts of devices that each node could give to the whole job, and the need.

    One pair for each resource of `gres_per_job`: int64[nodes], and a number.
    """
    found = []
    for name, amount in demand.request.gres_per_job.items():
        part = min(thousandths(amount), WHOLE_DEVICE)
        free: Ints = (amounts[slots.devices(name)] // part).sum(axis=1)
        found.append((free, thousandths(amount) // part))
    return found


def _fewest(
    placing: Placing,
    nodes: Ints,
    least: int,
    cores: Ints,
    devices: Sequence[tuple[Ints, int]],
) -> Ints | None:
    """Return the first nodes that are sufficient; None: the limits of their number are exceeded."""
    job, request = placing.job, placing.demand.request
    least = max(least, request.nodes_min)
    for amounts, needed in ((cores, job.cores), *devices):
        least = max(least, int(amounts[nodes].cumsum().searchsorted(needed)) + 1)
    most = 1 if job.placement == "one_node" else job.cores // request.cores_per_task
    if request.nodes_max:
        most = min(most, request.nodes_max)
    return nodes[:least] if least <= min(most, len(nodes)) else None


def _filled(total: int, cores: Ints, task_cores: int) -> Ints:
    """Return the cores of a job on each node: a task on each, the others fill nodes in order."""
    spare = cores - task_cores
    before = spare.cumsum() - spare
    rest = total - task_cores * len(cores)
    filled: Ints = task_cores + np.clip(rest - before, 0, spare)
    return filled


def _free(nodes: Ints, amounts: Ints, slots: Slots) -> list[dict[str, list[int]]]:
    """Return the free thousandths of the devices of each node, by name with type."""
    return [
        {name: amounts[table].tolist() for name, table in slots.devices_of(node).items()}
        for node in nodes.tolist()
    ]
