"""Platforms, jobs and tasks that learned power managers are tested on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hpcosim_client import Policy, make_policy
from hpcosim_protocol import NodeGroup, Platform, PowerStates, Processor
from hpcosim_training.environments.power_task import PowerTask
from hpcosim_workloads.synthetic.poisson import poisson
from hpcosim_workloads.table import JobTable

STATES = PowerStates(sleep_w=5, switch_on_s=10, switch_on_w=80, switch_off_s=4, switch_off_w=20)


def nodes_of(count: int, states: PowerStates | None = STATES) -> Platform:
    """Return nodes of one core each, 100 W idle or computing."""
    return Platform((NodeGroup(count, (Processor(1, 1.0, 100.0),), power_states=states),))


def new_scheduler() -> Policy:
    """Return the job scheduler of most tests."""
    return make_policy("easy")


def task_of(platform: Platform, **changes: Any) -> PowerTask:
    """Return a task with a decision every 20 s."""
    return replace(PowerTask(platform, new_scheduler, 20.0), **changes)


def drawn(rng: np.random.Generator, count: int) -> JobTable:
    """Return so many jobs of up to five cores."""
    return poisson(
        rng, jobs=count, mean_interarrival_s=8, cores=(1, 5), run_s=(1, 90), overestimate=3
    )
