"""Every policy by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from hpcosim_client.catalogue.trained import check_trained, is_trained, make_trained
from hpcosim_client.errors import PolicyError
from hpcosim_client.heuristics import orders
from hpcosim_client.heuristics.conservative import conservative
from hpcosim_client.heuristics.easy import easy
from hpcosim_client.heuristics.easy_aware import easy_aware
from hpcosim_client.heuristics.esjf import esjf
from hpcosim_client.heuristics.job_node import JOB_KEYS, job_node
from hpcosim_client.heuristics.list_scheduling import (
    by_changing_key,
    by_fixed_key,
    first_come_first_served,
)
from hpcosim_client.heuristics.minmin import duplex, max_min, min_min
from hpcosim_client.heuristics.minmin_immediate import (
    chained_duplex,
    chained_max_min,
    chained_min_min,
    immediate_duplex,
    immediate_max_min,
    immediate_min_min,
)
from hpcosim_client.heuristics.node_keys import NODE_KEYS
from hpcosim_client.heuristics.power_aware import Awareness, preferring_on
from hpcosim_client.heuristics.scripted import read_schedule, scripted
from hpcosim_client.view import Policy

SCRIPTED = "scripted:"
"""Before the path of a schedule: `scripted:results/a-run/schedule.csv`."""

ONE = "-one"
"""Behind the name of a `<job>-<node>`: it starts one job at most at each event."""

POLICIES: Mapping[str, Callable[[], Policy]] = {
    "fcfs": lambda: first_come_first_served,
    **{name: partial(by_fixed_key, key) for name, key in orders.FIXED.items()},
    **{name: partial(by_changing_key, key) for name, key in orders.CHANGING.items()},
    "easy": lambda: easy,
    "conservative": conservative,
    "esjf": esjf,
    "esjf-now": partial(esjf, now_only=True),
    "minmin": lambda: min_min,
    "maxmin": lambda: max_min,
    "duplex": lambda: duplex,
    "minmin-immediate": immediate_min_min,
    "maxmin-immediate": immediate_max_min,
    "duplex-immediate": immediate_duplex,
    "minmin-chained": chained_min_min,
    "maxmin-chained": chained_max_min,
    "duplex-chained": chained_duplex,
    **{
        f"{job}-{node}": partial(job_node, job, node)
        for job in (*JOB_KEYS, "random")
        for node in NODE_KEYS
    },
    **{
        f"{job}-{node}{ONE}": partial(job_node, job, node, one_per_event=True)
        for job in (*JOB_KEYS, "random")
        for node in NODE_KEYS
    },
}
"""Makes a policy, new for every simulation, since it may remember."""

_JOBS = ("random", "first", "shortest", "smallest", "low_mem", "low_mem_ops")
_NODES = ("random", "high_gflops", "high_cores", "high_mem", "high_mem_bw", "low_power")
_AS_RUN = {"random": "none", "high_mem": "high_mem_used"}

_DESCRIBED = [f"{job}-{node}" for job in _JOBS for node in _NODES]
_RUN = [f"{_AS_RUN.get(job, job)}-{_AS_RUN.get(node, node)}" for job in _JOBS for node in _NODES]

GROUPS: Mapping[str, Sequence[str]] = {
    "all-heuristics": _DESCRIBED,
    "reference-heuristics": _RUN,
    "one-per-event": [name + ONE for name in _DESCRIBED],
    "reference-one-per-event": [name + ONE for name in _RUN],
    "minmin-family": [
        f"{rule}{mode}" for mode in ("", "-immediate") for rule in ("minmin", "maxmin", "duplex")
    ],
}
"""Policies that are compared together: the 36 heuristics as the papers describe them (Lopez,
Stafford, Bosque 2025, table 2), and as their program runs them; both again with one start at each
event, as their program's agent has; MinMin, MaxMin and Duplex in both modes."""


BACKFILLING: Mapping[str, Callable[[Awareness], Policy]] = {
    "easy": easy_aware,
    "conservative": conservative,
}
"""Makes those that estimate, and reserve, with an eye on power states."""

_SET_IN_PLACE = ("scripted", "pairing", "deep-eas", "minmin", "maxmin", "duplex", "esjf")
"""The beginnings of the names of those that choose a node for another reason than any of ours."""


def make_policy(name: str, awareness: Awareness = "unaware") -> Policy:
    """Return a new policy of that name.

    Args:
        name: it.
        awareness: what it makes of nodes that are not on, see `power_aware`.

    Raises:
        PolicyError: there is none, and the nearest names are given; or its schedule is bad; or
            it can't be that aware of power states.
    """
    policy = _make_policy(name)
    if awareness == "unaware":
        return policy
    if name in BACKFILLING:
        return BACKFILLING[name](awareness)
    if awareness == "planned":
        raise PolicyError(
            f"{name} makes no reservations to switch nodes on for: power_awareness planned is for "
            f"{' and '.join(BACKFILLING)}; aware or unaware would do"
        )
    if name.startswith(_SET_IN_PLACE):
        raise PolicyError(
            f"{name} chooses its nodes with no regard to their power states: power_awareness must "
            "be unaware"
        )
    return preferring_on(policy)


def check_scheduler(name: str) -> None:
    """Make sure that a name is a scheduler's. No file that it names is opened.

    Args:
        name: as `make_policy` takes it.

    Raises:
        PolicyError: there is no such scheduler, and the nearest names are given; it is a group; or
            it lacks the file that it needs.
    """
    if name in ("scripted", SCRIPTED):
        raise PolicyError(f"{name} needs a schedule's file: {SCRIPTED}results/a-run/schedule.csv")
    if is_trained(name):
        check_trained(name)
    elif name in GROUPS:
        raise PolicyError(f"{name} is a group of schedulers, which only `hpcosim compare` takes")
    elif name not in POLICIES and not name.startswith(SCRIPTED):
        known = (*POLICIES, *GROUPS)
        near = difflib.get_close_matches(name, known, n=3) or ["fcfs", "easy", "sjf"]
        raise PolicyError(f"there is no scheduler {name!r}; did you mean {', '.join(near)}?")


def _make_policy(name: str) -> Policy:
    check_scheduler(name)
    if name.startswith(SCRIPTED):
        path = Path(name.removeprefix(SCRIPTED))
        return scripted(read_schedule(path), str(path))
    if is_trained(name):
        return make_trained(name)
    return POLICIES[name]()


def expand(names: Sequence[str]) -> list[str]:
    """Return the names with those of groups in their place, each once."""
    return list(dict.fromkeys(one for name in names for one in GROUPS.get(name, (name,))))
