"""The examples of policies."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View, make_policy, profile_of
from hpcosim_scenarios.running.compare import compare_schedulers
from hpcosim_workloads.synthetic.poisson import poisson
from support.paths import ROOT, SCENARIOS
from support.simulating import cluster_of, simulate, starts

EASY_SJBF = f"{ROOT / 'scheduler_client' / 'examples' / 'easy_sjbf.py'}:easy_sjbf"


def test_easy_sjbf_differs_from_fcfs_and_easy() -> None:
    """On the demo it waits less than both."""
    metrics = compare_schedulers(SCENARIOS / "demo.yaml", ["fcfs", "easy", EASY_SJBF])
    waits = {name: values["mean_wait_s"] for name, values in metrics.items()}
    assert waits[EASY_SJBF] < waits["easy"] < waits["fcfs"]


@given(seed=st.integers(0, 2**32))
def test_easy_sjbf_never_delays_the_head_s_reservation(seed: int) -> None:
    """A job starts no later than its shadow time when it became the head of the queue."""
    policy = make_policy(EASY_SJBF)
    shadows_s: dict[int, float] = {}

    def watched(view: View) -> None:
        policy(view)
        if view.queue:
            head = view.queue.first()
            shadow = profile_of(view).earliest(head)
            shadows_s.setdefault(head.job_id, math.inf if shadow is None else shadow.start_s)

    jobs = poisson(
        np.random.default_rng(seed),
        jobs=40,
        mean_interarrival_s=20.0,
        cores=(1, 16),
        run_s=(5, 200),
        overestimate=2.0,
    )
    started_s = starts(simulate(cluster_of(4, 4), jobs, watched))
    assert shadows_s
    for job_id, shadow_s in shadows_s.items():
        assert started_s[job_id] <= shadow_s
