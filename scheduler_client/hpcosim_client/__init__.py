"""The SDK for schedulers: a connection to a server, a view, policies and power managers.

A policy is a function that reads a `View` and decides through it. A script that schedules one
simulation of a server:

    from hpcosim_client import main

    def first_come_first_served(view):
        for job in view.queue.values():
            if not view.start(job):
                break

    if __name__ == "__main__":
        main(first_come_first_served)

`run` is the same as a function that returns the metrics. A power manager works beside any job
scheduler:

    from hpcosim_client import make_policy, managed, run, timeout

    metrics = run(managed(make_policy("easy", "aware"), timeout(900.0)))

Names are imported when they are first used, so `import hpcosim_client` imports no other package.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hpcosim_client.agents.batch.any_model import scheduled_by as scheduled_by
    from hpcosim_client.alarm import PolicyAlarm as PolicyAlarm
    from hpcosim_client.catalogue.description import describe as describe
    from hpcosim_client.catalogue.power import with_power as with_power
    from hpcosim_client.catalogue.schedulers import GROUPS as GROUPS
    from hpcosim_client.catalogue.schedulers import canonical_name as canonical_name
    from hpcosim_client.catalogue.schedulers import check_scheduler as check_scheduler
    from hpcosim_client.catalogue.schedulers import expand as expand
    from hpcosim_client.catalogue.schedulers import make_policy as make_policy
    from hpcosim_client.catalogue.schedulers import scheduler_names as scheduler_names
    from hpcosim_client.connection import Answer as Answer
    from hpcosim_client.connection import Connection as Connection
    from hpcosim_client.errors import AddressError as AddressError
    from hpcosim_client.errors import ClientError as ClientError
    from hpcosim_client.errors import PolicyError as PolicyError
    from hpcosim_client.errors import ResultsNotWrittenError as ResultsNotWrittenError
    from hpcosim_client.errors import ServerFaultError as ServerFaultError
    from hpcosim_client.errors import ServerGoneError as ServerGoneError
    from hpcosim_client.errors import ServerRefusedError as ServerRefusedError
    from hpcosim_client.exchange import Timeouts as Timeouts
    from hpcosim_client.heuristics.awareness import Awareness as Awareness
    from hpcosim_client.heuristics.profile import profile_of as profile_of
    from hpcosim_client.heuristics.reservation import Profile as Profile
    from hpcosim_client.heuristics.reservation import Reservation as Reservation
    from hpcosim_client.job import Allocation as Allocation
    from hpcosim_client.job import Job as Job
    from hpcosim_client.loop import play as play
    from hpcosim_client.loop import run as run
    from hpcosim_client.nodes import NodePool as NodePool
    from hpcosim_client.power.adaptive import adaptive as adaptive
    from hpcosim_client.power.adaptive import load_rule as load_rule
    from hpcosim_client.power.keep_idle import keep_idle as keep_idle
    from hpcosim_client.power.manager import IdleClock as IdleClock
    from hpcosim_client.power.manager import Manager as Manager
    from hpcosim_client.power.manager import managed as managed
    from hpcosim_client.power.off_at_night import off_at_night as off_at_night
    from hpcosim_client.power.oracle import by_plan as by_plan
    from hpcosim_client.power.oracle import oracle as oracle
    from hpcosim_client.power.oracle import read_plan as read_plan
    from hpcosim_client.power.settings import OffAtNight as OffAtNight
    from hpcosim_client.power.settings import Power as Power
    from hpcosim_client.power.settings import PowerSettingsError as PowerSettingsError
    from hpcosim_client.power.settings import parse_power as parse_power
    from hpcosim_client.power.slurm import slurm as slurm
    from hpcosim_client.power.slurm_settings import Slurm as Slurm
    from hpcosim_client.power.timeout import timeout as timeout
    from hpcosim_client.power_exchange import PowerExchange as PowerExchange
    from hpcosim_client.queue import JobQueue as JobQueue
    from hpcosim_client.script import main as main
    from hpcosim_client.view import Policy as Policy
    from hpcosim_client.view import View as View

_NAMES = {
    "agents.batch.any_model": "scheduled_by",
    "alarm": "PolicyAlarm",
    "catalogue.description": "describe",
    "catalogue.power": "with_power",
    "catalogue.schedulers": (
        "GROUPS canonical_name check_scheduler expand make_policy scheduler_names"
    ),
    "connection": "Answer Connection Timeouts",
    "errors": (
        "AddressError ClientError PolicyError ResultsNotWrittenError ServerFaultError "
        "ServerGoneError ServerRefusedError"
    ),
    "heuristics.awareness": "Awareness",
    "heuristics.profile": "profile_of",
    "heuristics.reservation": "Profile Reservation",
    "job": "Job Allocation",
    "loop": "play run",
    "nodes": "NodePool",
    "power.adaptive": "adaptive load_rule",
    "power.keep_idle": "keep_idle",
    "power.manager": "IdleClock Manager managed",
    "power.off_at_night": "off_at_night",
    "power.oracle": "by_plan oracle read_plan",
    "power.settings": "OffAtNight Power PowerSettingsError parse_power",
    "power.slurm": "slurm",
    "power.slurm_settings": "Slurm",
    "power.timeout": "timeout",
    "power_exchange": "PowerExchange",
    "queue": "JobQueue",
    "script": "main",
    "view": "Policy View",
}
"""The public names of each module."""

_MODULES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
