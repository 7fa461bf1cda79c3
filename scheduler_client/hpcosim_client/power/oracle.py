"""Switch nodes and start jobs by a plan that was made with all later submissions known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from hpcosim_client.alarm import PolicyAlarm
from hpcosim_client.errors import PolicyError
from hpcosim_client.job import Job
from hpcosim_client.power.manager import Manager, managed
from hpcosim_client.view import Policy, View

State = Literal["on", "off"]
Time = Annotated[float, Meta(ge=0, le=1e15)]


class Switch(Struct, frozen=True, forbid_unknown_fields=True):
    """One switching of a plan.

    Attributes:
        time_s: simulated second.
        nodes: how many begin to be switched then; the plan does not say which.
        state: to where, `on` or `off`.
    """

    time_s: Time
    nodes: Annotated[int, Meta(ge=1)]
    state: State


class Plan(Struct, frozen=True, forbid_unknown_fields=True):
    """A schedule of jobs, and how nodes are switched beside it.

    Attributes:
        scheduler: who made the schedule, with every node always on.
        wasted_j: energy that a run by it does not spend computing, J.
        start_s: when each job starts, by its number; those that have no time are rejected.
        switches: in order of time; at one instant nodes are switched off before others on.
    """

    scheduler: str
    wasted_j: float
    start_s: dict[int, Time]
    switches: tuple[Switch, ...]


def by_plan(plan: Plan) -> Policy:
    """Return the policy that starts jobs and switches nodes by a plan.

    Raises:
        PolicyError: when it decides, as `oracle`.
    """
    return managed(on_time(plan.start_s), oracle(plan.switches))


def oracle(switches: Iterable[Switch]) -> Manager:
    """Return the manager that carries out the switches of a plan.

    Of the nodes it may switch, those idle for `off` and those asleep and held for no job for `on`,
    it takes the lowest-numbered. A plan holds for one schedule of the jobs: beside it goes a
    scheduler that makes that schedule, and gives jobs nodes that are on as long as there are
    enough of them.

    Raises:
        PolicyError: while it is carried out, that at the end of an instant fewer nodes were there
            to be switched than the plan says: it was made for another schedule, and its energy
            would not be this run's.
    """
    # In descending order, to be popped from the end; `off` before `on`.
    to_come = sorted(switches, key=lambda row: (row.time_s, row.state == "on"), reverse=True)
    due: list[Switch] = []

    def manage(view: View) -> float | None:
        nonlocal due
        _make_sure_of_nothing_late(due, view.now_s)
        while to_come and to_come[-1].time_s <= view.now_s:
            due.append(replace(to_come.pop(), time_s=view.now_s))
        due = [rest for switch in due if (rest := _carry_out(view, switch)).nodes]
        return to_come[-1].time_s if to_come else None

    return manage


def on_time(start_s: Mapping[int, float]) -> Policy:
    """Return the job scheduler that starts each job at its time, on nodes that are on if it can.

    With it any schedule can be kept beside `oracle`. Schedulers that look ahead, such as the
    backfillings, may decide otherwise when nodes are off, even if all they need are on.

    Args:
        start_s: of each job by number; those that have none are rejected.
    """
    to_come: list[tuple[float, int, Job]] = []
    alarm = PolicyAlarm()

    def decide(view: View) -> None:
        for job in view.arrived:
            if job.job_id in start_s:
                heappush(to_come, (start_s[job.job_id], job.order, job))
            else:
                view.reject(job)
        while to_come and to_come[0][0] <= view.now_s:
            on_first = np.argsort(~view.nodes.on, kind="stable").tolist()
            if not view.start(to_come[0][2], on_first):
                break
            heappop(to_come)
        if to_come and to_come[0][0] > view.now_s:
            alarm.set(view, to_come[0][0])

    return decide


def read_plan(path: Path) -> Plan:
    """Return the plan in a file: JSON with the keys of `Plan`.

    Raises:
        PolicyError: the file can't be read, or is no plan; names the field.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except msgspec.DecodeError as error:
        raise PolicyError(f"{path} is no plan such as `hpcosim oracle` makes: {error}") from None
    except (OSError, ValueError) as error:  # a null byte in the path
        raise PolicyError(f"the plan {path} can't be read: {_reason(error)}") from None


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan as `read_plan` reads it, times to the last bit; its folder is made.

    Raises:
        PolicyError: the file can't be written.
    """
    text = msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text)
    except (OSError, ValueError) as error:
        raise PolicyError(f"the plan {path} can't be written: {_reason(error)}") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _make_sure_of_nothing_late(due: Iterable[Switch], now_s: float) -> None:
    """Raise PolicyError when what was due at an earlier instant was not all carried out.

    Within its instant it may still be: a node that is switched in no time at all, or a job that
    runs no time at all, is told of only when the scheduler is asked again.
    """
    for late in due:
        if late.time_s < now_s:
            raise PolicyError(
                f"the plan switches {late.nodes} more nodes {late.state} at {late.time_s} s than "
                "were there to be; it was made for another schedule"
            )


def _carry_out(view: View, switch: Switch) -> Switch:
    """Switch as many nodes as there are, and return what is left to be."""
    nodes = view.nodes
    if switch.state == "off":
        fitting = np.flatnonzero(nodes.idle()).tolist()
    else:
        fitting = nodes.unused("sleeping")
    chosen = fitting[: switch.nodes]
    for node in chosen:
        view.set_node_power(node, on=switch.state == "on")
    return replace(switch, nodes=switch.nodes - len(chosen))
