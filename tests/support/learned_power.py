"""Platforms, jobs and tasks for tests of learned power managers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hpcosim_client import Policy
from hpcosim_papers.power.environments.power_task import PowerTask
from hpcosim_protocol import Platform
from hpcosim_schedulers import make_policy
from hpcosim_workloads.synthetic.lublin import poisson
from hpcosim_workloads.table import JobTable


def new_scheduler() -> Policy:
    """Return a new EASY scheduler."""
    return make_policy("easy")


def task_of(platform: Platform, **changes: Any) -> PowerTask:
    """Return a task with a decision every 20 s."""
    return replace(PowerTask(platform, new_scheduler, 20.0), **changes)


def drawn(rng: np.random.Generator, count: int) -> JobTable:
    """Return random jobs with up to five cores."""
    return poisson(
        rng, jobs=count, mean_interarrival_s=8, cores=(1, 5), run_s=(1, 90), overestimate=3
    )
