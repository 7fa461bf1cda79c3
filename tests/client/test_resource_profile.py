"""Profiles over several resources against amounts that are summed up anew at every instant."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_client.job import Ints, Job
from hpcosim_client.profiles import node_profile
from support.examples import examples
from support.site_worlds import jobs, platforms, submissions


def slow_amounts(view: View, held: list[tuple[float, float, Job]], at_s: float) -> Ints:
    """Return the free amounts at a time: those of an idle cluster minus what each job holds."""
    amounts = view.nodes.slots.capacity.copy()
    for start_s, end_s, job in held:
        if start_s <= at_s < end_s and job.allocation is not None:
            amounts[job.allocation.nodes] -= job.allocation.cores_per_node
            if job.allocation.held is not None:
                amounts[job.allocation.held.slots] -= job.allocation.held.amounts
    return amounts


@pytest.mark.slow
@examples(60)
@given(st.data())
def test_earliest_start_is_the_first_at_which_all_amounts_stay_free(data: st.DataObject) -> None:
    """No earlier instant has room for the whole requested time, and the reservation fits."""
    platform = data.draw(platforms())
    specs = [data.draw(jobs(platform, number)) for number in range(1, 6)]
    view = View(platform)
    view.apply(0.0, submissions(specs))
    waiting = [job for job in view.queue.values() if not view.start(job)]
    held = [(0.0, job.requested_s, job) for job in view.running.values()]
    profile, every = node_profile(view), np.arange(len(view.nodes.free))
    for job in waiting:
        found = profile.earliest(job)
        times_s = {end_s for _, end_s, _ in held} | {0.0, 5.0, 12.0, 20.0, 35.0, 42.0, 50.0}
        possible = []
        for start_s in sorted(times_s):
            end_s = start_s + job.requested_s
            steps = [start_s, *(at_s for at_s in times_s if start_s < at_s < end_s)]
            least = np.min([slow_amounts(view, held, at_s) for at_s in steps], axis=0)
            if view.nodes.place_of(job, every, least, start_s, end_s) is not None:
                possible.append(start_s)
        assert (found is not None) == bool(possible)
        if found is not None:
            assert found.start_s == possible[0]
            assert profile.fits(job, found)
            profile.reserve(job, found)
            job.allocation = found.allocation
            held.append((found.start_s, found.start_s + job.requested_s, job))
