"""Computing periods: when and where the tasks of jobs occupied cores, and why they stopped.

A run of a job lasts from a start of the job to the next end, requeue or failure of a node. A run
that is never suspended has one computing period; each suspension divides it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from hpcosim_protocol import JobState

Ints = NDArray[np.intc]

BeforeEnd = Literal[
    "",
    "suspended",
    "requeued",
    "requeued_node_failed",
    "suspended_requeued",
    "suspended_requeued_node_failed",
]
PeriodEnd = BeforeEnd | JobState

PERIOD_ENDS: tuple[PeriodEnd, ...] = (*get_args(BeforeEnd), *get_args(JobState))
"""Why a computing period ended.

Empty: it has not ended. `requeued`: a decision or a user requeued the job;
`requeued_node_failed`: one of its nodes failed, and the job waits again. `suspended_requeued` and
`suspended_requeued_node_failed`: the job was suspended, and later requeued for these reasons. From
`FIRST_FINAL` on: the job was over, in this final state.
"""

FIRST_FINAL = len(get_args(BeforeEnd))

PERIOD_CODES: Mapping[PeriodEnd, int] = {why: code for code, why in enumerate(PERIOD_ENDS)}
"""Index into `PERIOD_ENDS` of each of them."""

NAN = float("nan")


class Periods:
    """Columns of the computing periods of a run, in order of their starts.

    Attributes:
        run: number of the run of the job, from 1.
        start_s, end_s: simulation times, s; NaN before the end.
        why: index into `PERIOD_ENDS`.
        first_place: index of the first entry of the period in `nodes` and `tasks`.
        nodes, tasks: a node number and the number of tasks on the node; the entries of a run are
            consecutive, in the order of the allocation.
    """

    __slots__ = (
        "end_s",
        "first_place",
        "nodes",
        "places",
        "row",
        "run",
        "start_s",
        "tasks",
        "why",
    )

    def __init__(self) -> None:
        self.row = array("q")
        self.run = array("i")
        self.start_s = array("d")
        self.end_s = array("d")
        self.why = array("b")
        self.first_place = array("q")
        self.places = array("i")
        self.nodes = array("i")
        self.tasks = array("i")

    def __len__(self) -> int:
        return len(self.row)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Periods):
            return NotImplemented
        columns = ((getattr(self, name), getattr(other, name)) for name in self.__slots__)
        return all(ours.tobytes() == theirs.tobytes() for ours, theirs in columns)  # NaN included

    __hash__ = None  # type: ignore[assignment]  # the columns are mutable

    def begin(self, row: int, run: int, now_s: float, nodes: list[int], tasks: list[int]) -> int:
        """Begin the first period of a run and return its number.

        Args:
            run: number of the run of the job, from 1.
            nodes: allocated nodes, in the order of the allocation.
            tasks: number of tasks on each of `nodes`.
        """
        period = len(self.row)
        self.row.append(row)
        self.run.append(run)
        self.start_s.append(now_s)
        self.end_s.append(NAN)
        self.why.append(0)
        self.first_place.append(len(self.nodes))
        self.places.append(len(nodes))
        self.nodes.fromlist(nodes)
        self.tasks.fromlist(tasks)
        return period

    def resume(self, period: int, now_s: float) -> int:
        """Begin the period after a suspension and return its number."""
        later = self.begin(self.row[period], self.run[period], now_s, [], [])
        self.first_place[later] = self.first_place[period]
        self.places[later] = self.places[period]
        return later

    def requeued(self, period: int, why: PeriodEnd) -> None:
        """Note that a job was requeued whose last period ended with its suspension."""
        self.why[period] = PERIOD_CODES[why]

    def nodes_of(self, period: int) -> list[int]:
        """Return the nodes of a period in the order of the allocation."""
        first = self.first_place[period]
        return self.nodes[first : first + self.places[period]].tolist()

    def tasks_of(self, period: int) -> list[int]:
        """Return the number of tasks on each of `nodes_of(period)`."""
        first = self.first_place[period]
        return self.tasks[first : first + self.places[period]].tolist()

    def allocations(self, periods: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ints, Ints]:
        """Return where the tasks of any periods are.

        Args:
            periods: int64[n], numbers of periods.

        Returns:
            int64[n], index of the first entry of each period in what follows; the node number and
            the number of tasks of each entry, period by period in the order of the allocation.
        """
        if not len(periods):
            return np.empty(0, np.int64), np.empty(0, np.intc), np.empty(0, np.intc)
        least, beyond = int(periods.min()), int(periods.max()) + 1
        places = np.array(self.places[least:beyond], np.int64)[periods - least]
        begins = np.array(self.first_place[least:beyond])[periods - least]
        first = np.cumsum(places) - places
        least, beyond = int(begins.min()), int((begins + places).max())
        entry = np.repeat(begins - least - first, places)
        entry += np.arange(len(entry))
        nodes, tasks = np.array(self.nodes[least:beyond]), np.array(self.tasks[least:beyond])
        return first, nodes[entry], tasks[entry]

    def placements(self, first: int = 0, last: int | None = None) -> tuple[Ints, Ints, Ints]:
        """Return where the tasks of consecutive periods are.

        Args:
            last: number after the last period; None: all that follow.

        Returns:
            The number of entries of each period; the node number and the number of tasks of each
            entry, period by period.
        """
        places = np.array(self.places[first:last])
        begins = np.array(self.first_place[first:last])
        ends = np.cumsum(places, dtype=np.int64)
        count = int(ends[-1]) if len(ends) else 0
        begin = int(begins[0]) if len(begins) else 0
        if (begins - begin == ends - places).all():  # the usual case: nobody was suspended
            entries = slice(begin, begin + count)
            return places, np.array(self.nodes[entries]), np.array(self.tasks[entries])
        entry = np.arange(count) + np.repeat(begins - (ends - places), places)
        return places, np.array(self.nodes)[entry], np.array(self.tasks)[entry]
