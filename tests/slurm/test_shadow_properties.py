"""Properties of the shadow world under random changes of a cluster and random decisions."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import AllocateJob, Event, JobCompleted, JobStarted, JobSubmitted
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.difference import applied, difference
from hpcosim_slurm.worlds.site import Site, chosen
from support.examples import examples
from support.fake_cluster import FakeCluster

pytestmark = pytest.mark.slow

SITE = Site()
STEPS = 40


class Play:
    """A random cluster, a random scheduler on its shadow, and everything that was told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = FakeCluster(nodes=4, cpus=2)
        for _ in range(self.random.randrange(6)):
            self.happen()
        self.world = ShadowWorld(chosen(self.cluster.state(), SITE), SITE)
        self.events: list[Event] = []
        self.at_s: list[float] = []

    def happen(self) -> None:
        """Let something random happen in reality."""
        cluster, draw = self.cluster, self.random
        jobs = [job for job in cluster.jobs.values() if job.state != "over"]
        job = draw.choice(jobs) if jobs else None
        node = draw.choice(cluster.names)
        action = draw.choice(
            ("submit", "submit", "submit", "wait", "wait", "job", "node", "forget")
        )
        if action == "submit":
            cluster.submit(draw.randint(1, 4), draw.uniform(1.0, 40.0), fails=draw.random() < 0.2)
        elif action == "wait":
            cluster.advance(cluster.now_s + draw.uniform(0.0, 20.0))
        elif action == "forget":
            cluster.forget()
        elif action == "node":
            draw.choice((cluster.fail, cluster.drain, cluster.repair))(node)
        elif job is not None and job.state == "pending":
            draw.choice((cluster.cancel, cluster.hold, cluster.release))(job.id)
        elif job is not None and job.state == "running":
            draw.choice((cluster.cancel, cluster.requeue))(job.id)

    def step(self) -> None:
        """Let things happen, look at them, and decide at random."""
        for _ in range(self.random.randrange(4)):
            self.happen()
        world, cluster = self.world, self.cluster
        seen = difference(world.state, chosen(cluster.state(), SITE), cluster.now_s)
        world.note(seen)
        for job_id in list(world.engine.jobs.waiting):
            nodes = self.random.sample(range(4), self.random.randint(1, 3))
            world.carry_out(AllocateJob(job_id, nodes), 1, 0)
        told = world.engine.outbox.take()
        self.events += told
        self.at_s += [cluster.now_s] * len(told)


def played(seed: int) -> Play:
    """Return a play after some steps."""
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
        play.world.engine.validate()  # nothing is held twice
    return play


@given(st.integers(0, 2**32))
@examples(10)
def test_events_are_in_order_and_never_early(seed: int) -> None:
    """Events are in order of time, and none is told before its time."""
    play = played(seed)
    times_s = [event.time_s for event in play.events]
    assert times_s == sorted(times_s)
    assert all(time_s <= at_s for time_s, at_s in zip(times_s, play.at_s, strict=True))


@given(st.integers(0, 2**32))
@examples(10)
def test_no_job_is_lost(seed: int) -> None:
    """Each job that Slurm has is in the copy, or is over there by an event."""
    play = played(seed)
    told = {event.job_id for event in play.events if isinstance(event, JobSubmitted)}
    over = [event.job_id for event in play.events if isinstance(event, JobCompleted)]
    present = {job.spec.job_id for job in play.world.engine.jobs.in_order()}
    assert len(over) == len(set(over))
    assert told == present | set(over)
    assert not present & set(over)
    waiting = {job.id for job in play.cluster.jobs.values() if job.state == "pending"}
    assert waiting <= told


@given(st.integers(0, 2**32))
@examples(10)
def test_a_copy_runs_for_its_real_run_time_or_until_that_is_known(seed: int) -> None:
    """A job that completes by itself has run for its real run time, or until it was known."""
    play = played(seed)
    started_s: dict[int, float] = {}
    for event in play.events:
        if isinstance(event, JobStarted):
            started_s[event.job_id] = event.time_s
        if isinstance(event, JobCompleted) and event.state in ("completed", "failed"):
            known = play.world.engine.end_timers.known[event.job_id]
            lasted_s = event.time_s - started_s[event.job_id]
            assert lasted_s >= known.run_s - 1e-6
            is_exact = math.isclose(lasted_s, known.run_s, abs_tol=1e-5)
            assert is_exact or event.time_s in play.at_s


@given(st.integers(0, 2**32))
@examples(5)
def test_the_same_changes_make_the_same_events(seed: int) -> None:
    """A second world that notes the same changes and decisions tells the same events."""
    assert played(seed).events == played(seed).events


@given(st.integers(0, 2**32))
@examples(5)
def test_differences_rebuild_states(seed: int) -> None:
    """A state and the difference to the next one are the next one."""
    play = played(seed)
    before, after = play.world.state, play.cluster.state()
    assert not difference(applied(before, difference(before, after, 0.0)), after, 0.0)
