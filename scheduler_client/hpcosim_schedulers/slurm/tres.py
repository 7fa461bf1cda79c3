"""Trackable resources (TRES) of jobs and partitions; see https://slurm.schedmd.com/tres.html."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from hpcosim_client.job import Job
from hpcosim_protocol import JobRequest, Partition, Platform
from hpcosim_protocol.platform import NodeRanges
from hpcosim_schedulers.slurm.accounts import Tres
from hpcosim_schedulers.slurm.settings import PartitionSettings

NO_REQUEST = JobRequest()
GLOBAL = "license/"
"""Prefix of the TRES that belong to no node."""


class Part(NamedTuple):
    """A part of a TRES of a job: an amount for each of its nodes, for each core, or `times`.

    Attributes:
        of: `node`, `core` or `job`; `memory`: an amount for each MB of memory of its nodes.
    """

    tres: str
    amount: float
    of: str
    times: int = 1


class TresOf:
    """Returns the TRES of jobs and of partitions.

    Args:
        partitions: settings of partitions by name.
        max_tres: whether billing is the greatest weighted TRES of a node plus the global ones
            (priority flag `max_tres`) instead of the sum.

    Attributes:
        default_partition: name of the partition of jobs that name none; empty: none.
    """

    def __init__(
        self,
        platform: Platform,
        partitions: Mapping[str, PartitionSettings],
        *,
        max_tres: bool = False,
    ) -> None:
        self._platform = platform
        self._settings = partitions
        self._max_tres = max_tres
        self._by_name: dict[str, Partition] = {each.name: each for each in platform.partitions}
        defaults = [each.name for each in platform.partitions if each.default]
        self.default_partition = defaults[0] if defaults else ""
        self._default_memory = {
            each.name: each.default_memory_per_core_mb for each in platform.partitions
        }
        group_of = [group for group in platform.nodes for _ in range(group.count)]
        self._memory_mb: list[float] = [group.memory_mb for group in group_of]

    def partitions_of(self, job: Job) -> tuple[str, ...]:
        """Return the names of the partitions of a job; one empty name if there are none."""
        return job.partitions or (self.default_partition,)

    def of_job(self, job: Job, partition: str = "") -> Tres:
        """Return the TRES that a job requests, or holds if it runs.

        The number of nodes of a waiting job is the least that it states, as in Slurm; memory of a
        job that states none is `default_memory_per_core_mb` of its partition.

        Args:
            partition: name of its partition; empty: its first.
        """
        request = job.request or NO_REQUEST
        nodes, cores = max(request.nodes_min, len(request.required_nodes), 1), job.cores
        if job.allocation is not None:
            nodes, cores = len(job.allocation.nodes), job.allocation.cores
        partition = partition or self.partitions_of(job)[0]
        tres = {"cpu": float(cores), "node": float(nodes)}
        memory = 0.0
        if request.all_memory:
            held = () if job.allocation is None else job.allocation.nodes
            for node in held:
                memory += self._memory_mb[node]
        factors = {"node": nodes, "core": cores, "job": 1, "memory": memory}
        for part in self.parts_of(job, partition):
            amount = part.amount * (factors[part.of] if part.of != "job" else part.times)
            if part.tres != "mem" or amount:
                tres[part.tres] = tres.get(part.tres, 0.0) + amount
        tres |= {f"license/{name}": float(count) for name, count in request.licenses.items()}
        tres["billing"] = self.billing(tres, partition)
        return tres

    def billing(self, tres: Tres, partition: str) -> float:
        """Return the billing TRES: the weighted sum, or the number of cores without weights.

        See slurm.conf(5), TRESBillingWeights, and PriorityFlags, MAX_TRES.
        """
        settings = self._settings.get(partition)
        if settings is None or not settings.billing_weights:
            return tres["cpu"]
        weighted = {
            name: weight * tres.get(name, 0.0) for name, weight in settings.billing_weights.items()
        }
        total = of_nodes = most = 0.0  # sums by loops, which `sum` of some Pythons rounds otherwise
        for name, each in weighted.items():
            total += each
            if not name.startswith(GLOBAL):
                of_nodes, most = of_nodes + each, max(most, each)
        return most + total - of_nodes if self._max_tres else total

    def of_partition(self, partition: str) -> Tres:
        """Return all TRES of the nodes of a partition; of all nodes for an empty name."""
        ranges: NodeRanges = ((0, self._platform.node_count - 1),)
        if partition in self._by_name:
            ranges = self._by_name[partition].nodes
        tres: Tres = {}
        first = 0
        for group in self._platform.nodes:
            count = _overlap(ranges, first, first + group.count - 1)
            first += group.count
            of_node = {"cpu": group.cores, "mem": group.memory_mb, "node": 1.0}
            for name, devices in group.gres.items():
                for own in dict.fromkeys((name, name.partition(":")[0])):
                    of_node[f"gres/{own}"] = of_node.get(f"gres/{own}", 0.0) + devices
            for name, amount in of_node.items():
                tres[name] = tres.get(name, 0.0) + count * amount
        tres["billing"] = self.billing(tres, partition)
        return tres

    def parts_of(self, job: Job, partition: str) -> Iterator[Part]:
        """Yield the parts of the TRES of a job beside cores, nodes, licences and billing."""
        request = job.request or NO_REQUEST
        per_core_mb = job.memory_mb or self._default_memory.get(partition, 0.0)
        if request.all_memory:
            yield Part("mem", 1.0, "memory")
        elif request.memory_per_node_mb:
            yield Part("mem", request.memory_per_node_mb, "node")
        elif per_core_mb:
            yield Part("mem", per_core_mb, "core")
        tasks = -(-job.cores // request.cores_per_task)
        for amounts, of, times in (
            (request.gres_per_node, "node", 1),
            (request.gres_per_task, "job", tasks),
            (request.gres_per_job, "job", 1),
        ):
            for name, amount in amounts.items():
                for own in dict.fromkeys((name, name.partition(":")[0])):
                    yield Part(f"gres/{own}", amount, of, times)


def _overlap(ranges: Iterable[tuple[int, int]], first: int, last: int) -> int:
    """Return how many numbers from `first` to `last` are in the ranges."""
    return sum(max(min(b, last) - max(a, first) + 1, 0) for a, b in ranges)
