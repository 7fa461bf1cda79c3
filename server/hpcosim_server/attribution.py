"""Which job used how much energy, replayed from the recording."""

from __future__ import annotations

from array import array

from hpcosim_protocol import Platform
from hpcosim_server.cluster import Cluster, Part, places
from hpcosim_server.recording import Recording
from hpcosim_server.replay import replay


class _Bill:
    """The static energy of one processor, for each of the jobs on it.

    Attributes:
        jobs: how many have tasks on it.
        each_j: what a job would have been charged that was there since the processor was last
            idle, J; a job pays what this has grown by while the job was there.
        settled_s: up to when.
    """

    __slots__ = ("each_j", "jobs", "settled_s")

    def __init__(self) -> None:
        self.jobs = 0
        self.each_j = 0.0
        self.settled_s = 0.0

    def settle(self, now_s: float, static_w: float) -> float:
        """Charge up to now and return `each_j`."""
        if self.jobs:
            self.each_j += static_w * (now_s - self.settled_s) / self.jobs
        else:
            self.each_j = 0.0  # anew, so that it stays small and exact
        self.settled_s = now_s
        return self.each_j


class _Bills:
    """Those of all processors that have ever had a job."""

    def __init__(self) -> None:
        self._by_processor: dict[tuple[int, int], _Bill] = {}
        self._starts: dict[int, tuple[float, list[float]]] = {}

    def begin(self, row: int, parts: list[Part], now_s: float) -> None:
        """Let a job be charged from now on."""
        starts_j = []
        for slot, processor, node, _ in places(parts):
            bill = self._by_processor.setdefault((node, slot), _Bill())
            starts_j.append(bill.settle(now_s, processor.static_w))
            bill.jobs += 1
        self._starts[row] = (now_s, starts_j)

    def end(self, row: int, parts: list[Part], now_s: float) -> float:
        """Charge a job no more, and return what it used, J."""
        since_s, starts_j = self._starts.pop(row)
        energy_j = 0.0
        for place, start_j in zip(places(parts), starts_j, strict=True):
            slot, processor, node, tasks = place
            bill = self._by_processor[node, slot]
            energy_j += bill.settle(now_s, processor.static_w) - start_j
            energy_j += processor.dynamic_w * tasks * (now_s - since_s)
            bill.jobs -= 1
        return energy_j


def job_energies_j(platform: Platform, recording: Recording, end_s: float) -> array[float]:
    """Return the energy each job used up to `end_s`, J, by its row; 0 if it never started.

    A job is charged the dynamic power of its tasks and, of each processor on which it has tasks,
    the static power in equal parts with the other jobs there (the shares of equation 1 of Lopez,
    Stafford, Bosque 2025, as they change over time). Nobody is charged for idle processors; with
    what they draw, the jobs' energies sum to the energy of the platform.
    """
    energies_j = array("d", bytes(8 * len(recording)))
    bills, running = _Bills(), dict[int, list[Part]]()
    for now_s, changes, _ in replay(Cluster(platform, 0.0), recording):
        for row, starts, parts in changes:
            if starts:
                running[row] = parts
                bills.begin(row, parts, now_s)
            else:
                energies_j[row] = bills.end(row, running.pop(row), now_s)
    for row, parts in running.items():
        energies_j[row] = bills.end(row, parts, end_s)
    return energies_j
