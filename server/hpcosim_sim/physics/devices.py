"""Devices of a job: the choice of the server, and the check of stated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpcosim_protocol import JobRequest, ResourceError
from hpcosim_protocol.resources import (
    DeviceDemand,
    choose_devices,
    gres_of_job,
    gres_on,
    provides,
)
from hpcosim_sim.errors import Rejection
from hpcosim_sim.physics.resources import DeviceShares

FreeDevices = Mapping[str, Sequence[int]]
"""Free thousandths of each device of a node, by name of the resource with its type."""


class _Entry(NamedTuple):
    """A stated part of a device: place of its node in the allocation, name and number."""

    place: int
    name: str
    number: int


def devices_of(
    request: JobRequest,
    tasks: Sequence[int],
    free: Sequence[FreeDevices],
    stated: Sequence[Mapping[str, Sequence[int]]] = (),
) -> list[DeviceShares]:
    """Return the devices that a job holds on each node of its allocation.

    Args:
        request: request of the job.
        tasks: number of tasks on each node.
        free: free devices of each node.
        stated: numbers of the devices on each node, as in `AllocateJob.gres`; empty: the server
            chooses.

    Returns:
        The devices on each node; an empty list if the job needs none.

    Raises:
        Rejection: devices are not free, or the stated devices are not those of the request.
    """
    if not (request.gres_per_node or request.gres_per_task or request.gres_per_job):
        if any(stated):
            raise Rejection("insufficient_gres", "allocate_job.gres: the job requests no devices")
        return []
    if stated and len(stated) != len(tasks):
        raise Rejection(
            "bad_allocation",
            f"allocate_job.gres has {len(stated)} entries; expected {len(tasks)}, one per node",
        )
    if stated:
        _check_count(request, tasks, stated)
    else:
        try:
            stated = choose_devices(request, tasks, free)
        except ResourceError as error:
            raise Rejection("insufficient_gres", f"allocate_job: {error}") from None
    return _Assignment(stated, free).of(request, tasks)


def _check_count(
    request: JobRequest, tasks: Sequence[int], stated: Sequence[Mapping[str, Sequence[int]]]
) -> None:
    """Check that there are not more stated devices than parts: a message may have millions.

    Raises:
        Rejection: there are more.
    """
    parts = sum(demand.parts for count in tasks for demand in gres_on(request, count))
    parts += sum(demand.parts for demand in gres_of_job(request))
    entries = sum(len(numbers) for node in stated for numbers in node.values())
    if entries > parts:
        raise Rejection(
            "insufficient_gres",
            f"allocate_job.gres names {entries} devices; the job does not request more than "
            f"{parts}",
        )


class _Assignment:
    """Assigns the stated parts of devices to the demands of a job.

    Args:
        stated: numbers of the devices on each node.
        free: free devices of each node.
    """

    def __init__(
        self, stated: Sequence[Mapping[str, Sequence[int]]], free: Sequence[FreeDevices]
    ) -> None:
        self._left: dict[_Entry, int] = {}
        self._entries: list[_Entry] = []
        self._held: list[DeviceShares] = [{} for _ in stated]
        for place, devices in enumerate(stated):
            for name, numbers in devices.items():
                for number in numbers:
                    entry = _Entry(place, name, number)
                    known = free[place].get(name, ())
                    if not 0 <= number < len(known):
                        raise Rejection(
                            "insufficient_gres",
                            f"allocate_job.gres[{place}]: the node has no device {number} of "
                            f"{name[:200]!r}",
                        )
                    self._left[entry] = known[number]
                    self._entries.append(entry)

    def of(self, request: JobRequest, tasks: Sequence[int]) -> list[DeviceShares]:
        """Return the devices with the thousandths that the job holds of each."""
        demands = [
            (place, demand)
            for place, count in enumerate(tasks)
            for demand in gres_on(request, count)
        ]
        # Exact types and large parts first: they have the fewest devices to choose from.
        demands.sort(key=lambda each: (":" not in each[1].name, -each[1].thousandths))
        for place, demand in demands:
            self._assign(demand, place)
        for demand in gres_of_job(request):
            self._assign(demand, None)
        if self._entries:
            entry = self._entries[0]
            raise Rejection(
                "insufficient_gres",
                f"allocate_job.gres[{entry.place}]: the job does not request device "
                f"{entry.number} of {entry.name!r}",
            )
        return self._held

    def _assign(self, demand: DeviceDemand, place: int | None) -> None:
        """Assign the parts of a demand on one node, or on any node, to the fullest devices."""
        for _ in range(demand.parts):
            here = [entry for entry in self._entries if place in (None, entry.place)]
            provided = [entry for entry in here if provides(entry.name, demand.name)]
            fitting = [entry for entry in provided if self._left[entry] >= demand.thousandths]
            if not fitting:
                raise Rejection(
                    "insufficient_gres",
                    f"allocate_job.gres: {demand.name} is needed"
                    f"{'' if place is None else f' on node {place} of the allocation'}; "
                    "the stated devices are too few or not free",
                )
            entry = min(fitting, key=self._left.__getitem__)
            self._entries.remove(entry)
            self._left[entry] -= demand.thousandths
            held = self._held[entry.place].setdefault(entry.name, [])
            held.append((entry.number, demand.thousandths))
