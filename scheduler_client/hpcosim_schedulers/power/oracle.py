"""The power manager that follows a plan computed with all submissions known.

A file that cannot be read or written is a `PolicyError`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.view import Policy, PolicyAlarm, View
from hpcosim_protocol.files import read_regular
from hpcosim_schedulers.power.manager import Manager, managed

State = Literal["on", "off"]
Time = Annotated[float, Meta(ge=0, le=1e15)]


class NodeSwitch(Struct, frozen=True, forbid_unknown_fields=True):
    """A switch of several nodes in a plan.

    Attributes:
        time_s: when switching begins, simulated seconds.
        nodes: number of nodes, >= 1; the plan does not name them.
        state: `on` or `off`.
    """

    time_s: Time
    nodes: Annotated[int, Meta(ge=1)]
    state: State


class SwitchingPlan(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule of jobs with the switches of nodes.

    Attributes:
        scheduler: job scheduler that made the schedule, with every node on.
        wasted_j: energy that a run of the plan does not spend computing, in J.
        start_s: start of each job by number, simulated seconds; jobs without a start are rejected.
        switches: in order of time; at one instant, off before on.
    """

    scheduler: str
    wasted_j: float
    start_s: dict[int, Time]
    switches: tuple[NodeSwitch, ...]


def by_plan(plan: SwitchingPlan) -> Policy:
    """Return the policy that starts jobs and switches nodes by a plan.

    The policy raises `PolicyError` as the manager of `oracle` does.
    """
    return managed(on_time(plan.start_s), oracle(plan.switches))


def oracle(switches: Iterable[NodeSwitch]) -> Manager:
    """Return the manager that carries out the switches of a plan.

    It switches the lowest-numbered nodes: idle nodes off, sleeping nodes without a job on. A plan
    holds for one schedule of the jobs, so the job scheduler must follow the same schedule and
    allocate nodes that are on first; see `on_time`.

    The manager raises `PolicyError` if fewer nodes than planned can be switched at an instant: the
    plan is then of another schedule.
    """
    # Descending, because switches are popped from the end; `off` before `on`.
    pending = sorted(switches, key=lambda row: (row.time_s, row.state == "on"), reverse=True)
    due: list[NodeSwitch] = []

    def manage(view: View) -> float | None:
        nonlocal due
        _check_nothing_overdue(due, view.now_s)
        while pending and pending[-1].time_s <= view.now_s:
            due.append(replace(pending.pop(), time_s=view.now_s))
        due = [rest for switch in due if (rest := _carry_out(view, switch)).nodes]
        return pending[-1].time_s if pending else None

    return manage


def on_time(start_s: Mapping[int, float]) -> Policy:
    """Return the job scheduler that starts each job at a given time, nodes that are on first.

    It repeats a schedule beside `oracle`. The scheduler that made the schedule can deviate from it
    when nodes are off, for example because its reservations change.
    """
    pending: list[tuple[float, int, Job]] = []
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        for job in view.arrived:
            if job.job_id in start_s:
                heappush(pending, (start_s[job.job_id], job.order, job))
            else:
                view.reject(job)
        while pending and pending[0][0] <= view.now_s:
            on_first = np.argsort(~view.nodes.on, kind="stable").tolist()
            if not view.start(pending[0][2], on_first):
                break
            heappop(pending)
        if pending and pending[0][0] > view.now_s:
            alarm.set(view, pending[0][0])

    return decide


def read_plan(path: Path) -> SwitchingPlan:
    """Read a plan from a JSON file with the keys of `SwitchingPlan`."""
    try:
        return msgspec.json.decode(read_regular(path), type=SwitchingPlan)
    except msgspec.DecodeError as error:
        raise PolicyError(f"{path}: expected a plan of `hpcosim oracle`: {error}") from None
    except (OSError, ValueError) as error:  # a null byte in the path
        raise PolicyError(f"{path}: the plan cannot be read: {_reason(error)}") from None


def write_plan(plan: SwitchingPlan, path: Path) -> None:
    """Write a plan for `read_plan`, without rounding. A missing folder is created."""
    text = msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    except (OSError, ValueError) as error:
        raise PolicyError(f"{path}: the plan cannot be written: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _check_nothing_overdue(due: Iterable[NodeSwitch], now_s: float) -> None:
    """Raise PolicyError for switches of an earlier instant that were not carried out.

    Within an instant they are still possible: a switch of 0 s, or a job of 0 s, frees nodes only by
    the next call.
    """
    for late in due:
        if late.time_s < now_s:
            raise PolicyError(
                f"the plan switches {late.nodes} more nodes {late.state} at {late.time_s} s than "
                "possible: it was made for another schedule"
            )


def _carry_out(view: View, switch: NodeSwitch) -> NodeSwitch:
    """Switch as many nodes as possible, and return the rest of the switch."""
    nodes = view.nodes
    if switch.state == "off":
        fitting = np.flatnonzero(nodes.idle()).tolist()
    else:
        fitting = nodes.unused("sleeping")
    chosen = fitting[: switch.nodes]
    for node in chosen:
        view.set_node_power(node, on=switch.state == "on")
    return replace(switch, nodes=switch.nodes - len(chosen))
