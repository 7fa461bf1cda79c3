"""Schedulers and power managers, by name and as functions.

    from hpcosim_client import run
    from hpcosim_schedulers import make_policy, managed, timeout

    metrics = run(managed(make_policy("easy", "aware"), timeout(900.0)))

A power manager works beside any job scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol.lazy_names import lazy_names

if TYPE_CHECKING:
    from hpcosim_schedulers.agents.batch.policy import scheduled_by as scheduled_by
    from hpcosim_schedulers.catalogue.description import describe as describe
    from hpcosim_schedulers.catalogue.power import with_power as with_power
    from hpcosim_schedulers.catalogue.schedulers import GROUPS as GROUPS
    from hpcosim_schedulers.catalogue.schedulers import canonical_name as canonical_name
    from hpcosim_schedulers.catalogue.schedulers import check_scheduler as check_scheduler
    from hpcosim_schedulers.catalogue.schedulers import expand as expand
    from hpcosim_schedulers.catalogue.schedulers import make_policy as make_policy
    from hpcosim_schedulers.catalogue.schedulers import scheduler_names as scheduler_names
    from hpcosim_schedulers.power.adaptive import adaptive as adaptive
    from hpcosim_schedulers.power.adaptive import load_rule as load_rule
    from hpcosim_schedulers.power.manager import IdleClock as IdleClock
    from hpcosim_schedulers.power.manager import Manager as Manager
    from hpcosim_schedulers.power.manager import managed as managed
    from hpcosim_schedulers.power.oracle import by_plan as by_plan
    from hpcosim_schedulers.power.oracle import oracle as oracle
    from hpcosim_schedulers.power.oracle import read_plan as read_plan
    from hpcosim_schedulers.power.settings import Awareness as Awareness
    from hpcosim_schedulers.power.settings import OffAtNight as OffAtNight
    from hpcosim_schedulers.power.settings import Power as Power
    from hpcosim_schedulers.power.settings import PowerSettingsError as PowerSettingsError
    from hpcosim_schedulers.power.settings import Slurm as Slurm
    from hpcosim_schedulers.power.settings import parse_power as parse_power
    from hpcosim_schedulers.power.slurm import slurm as slurm
    from hpcosim_schedulers.power.timeout import keep_idle as keep_idle
    from hpcosim_schedulers.power.timeout import off_at_night as off_at_night
    from hpcosim_schedulers.power.timeout import timeout as timeout

__all__, __getattr__, __dir__ = lazy_names(
    __name__,
    {
        "agents.batch.policy": "scheduled_by",
        "catalogue.description": "describe",
        "catalogue.power": "with_power",
        "catalogue.schedulers": (
            "GROUPS canonical_name check_scheduler expand make_policy scheduler_names"
        ),
        "power.adaptive": "adaptive load_rule",
        "power.manager": "IdleClock Manager managed",
        "power.oracle": "by_plan oracle read_plan",
        "power.settings": "Awareness OffAtNight Power PowerSettingsError parse_power Slurm",
        "power.slurm": "slurm",
        "power.timeout": "keep_idle off_at_night timeout",
    },
)
