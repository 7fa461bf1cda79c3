"""Sessions in the basic profile, on random clusters of workload managers."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    WORKLOAD_MANAGER_EVENTS,
    AllocateJob,
    Decision,
    Decisions,
    Dependency,
    Hello,
    Options,
    SetAlarm,
)
from hpcosim_protocol.requests import DependencyKind
from hpcosim_server.service.session import Opened, Session
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.engine.site_events import (
    JobAction,
    JobActionKind,
    NodeChange,
    NodeChangeKind,
    SiteEvents,
)
from hpcosim_sim.record.results import Run
from hpcosim_workloads.table import JobTable
from support.examples import examples
from support.simulating import cluster_of
from support.site_scenes import job, table

BASIC_STATES = {"completed", "timeout", "killed", "node_failed", "rejected"}
BASIC_CODES = {"job_not_waiting", "node_busy", "bad_allocation"}
MAX_REQUESTS = 2000
CORES, NODES = 2, 2

Map = dict[str, Any]


class Scene(NamedTuple):
    """A workload, what happens to it, and the seed of the client."""

    jobs: JobTable
    events: SiteEvents
    seed: int


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """Return jobs that wait for times, users and each other, on nodes that fail."""
    times_s = st.sampled_from([0.0, 1.0, 2.0, 5.0, 10.0])
    count = draw(st.integers(1, 5))
    jobs = []
    for number in range(1, count + 1):
        others = draw(st.sets(st.integers(1, count), max_size=2)) - {number}
        kind = draw(st.sampled_from(get_args(DependencyKind)[:4]))
        jobs.append(
            job(
                number,
                draw(times_s),
                draw(st.sampled_from([1.0, 3.0, 8.0])),
                draw(st.integers(1, CORES * NODES)),
                hold=draw(st.booleans()),
                begin_s=draw(st.none() | times_s),
                dependencies=(Dependency(kind, tuple(sorted(others))),) if others else (),
                requeue=draw(st.booleans()),
            )
        )
    jobs.sort(key=lambda each: each.submit_s)
    actions = [
        JobAction(at_s=draw(times_s), job_id=draw(st.integers(1, count)), kind=each)
        for each in draw(st.lists(st.sampled_from(get_args(JobActionKind)[:6]), max_size=6))
    ]
    actions += [
        JobAction(at_s=50.0 + late, job_id=number, kind=kind)
        for number in range(1, count + 1)
        for late, kind in enumerate[JobActionKind](("release", "resume"))
    ]
    changes = [
        NodeChange(draw(times_s), (draw(st.integers(0, NODES - 1)),), kind)
        for kind in draw(st.lists(st.sampled_from(get_args(NodeChangeKind)), max_size=3))
    ]
    changes.append(NodeChange(60.0, tuple(range(NODES)), "repair"))
    return Scene(table(*jobs), SiteEvents(tuple(changes), tuple(actions)), draw(st.integers(0, 99)))


class BasicClient:
    """A basic scheduler that starts jobs, first come, first served, and checks events.

    Attributes:
        queue: waiting jobs in order of submission.
        started: cores that a job holds on each node.
        ended: whether the simulation is over.
    """

    def __init__(self, scene: Scene) -> None:
        simulation = Simulation(
            cluster_of(NODES, CORES),
            scene.jobs,
            Rules(validate=True),
            site_events=scene.events,
            failure_rng=np.random.default_rng(0),
        )
        run = Run(hpcosim="", scenario="", scheduler="", seed=0)
        options = Options(max_decisions=1000)
        self._session = Session("s", Hello(versions=[1]), Opened(simulation, run, 0), options, 0.0)
        self._random = Random(scene.seed)
        self._seq = 0
        self._now_s = 0.0
        self._rejected = False
        self.queue: dict[int, Map] = {}
        self.started: dict[int, dict[int, int]] = {}
        self.ended = False

    def step(self) -> None:
        """Send decisions and apply the reply. Resume the session at times."""
        self._seq += 1
        wait: list[Decision] = [SetAlarm(self._now_s + 1.0)]
        decisions = wait if self._rejected else self._starts()
        self._rejected = False
        request = Decisions(session=self._session.name, seq=self._seq, decisions=decisions)
        reply: Map = msgspec.msgpack.decode(self._session.decide(request))
        assert reply["type"] in ("events", "simulation_ended"), reply
        self.ended = reply["type"] == "simulation_ended"
        self._now_s = reply["now_s"]
        for event in reply.get("events", ()):
            self._apply(event)
        if self._random.random() < 0.1 and not self.ended:
            self._resume()

    def _starts(self) -> list[Decision]:
        free = [CORES] * NODES
        for place in self.started.values():
            for node, cores in place.items():
                free[node] -= cores
        decisions: list[Decision] = []
        for number, waiting in self.queue.items():
            taken = _taken(free, waiting["cores"])
            if not taken:
                break
            decisions.append(AllocateJob(number, taken))
        return decisions

    def _apply(self, event: Map) -> None:
        """Apply an event, and check that the basic profile has it at this point."""
        kind, number = event["type"], event.get("job_id")
        assert kind not in WORKLOAD_MANAGER_EVENTS
        if kind == "job_submitted":
            assert number not in {**self.queue, **self.started}
            assert event.get("eligible", True)
            self.queue[event["job_id"]] = event
        elif kind == "job_started":
            self.queue.pop(event["job_id"])
            self.started[event["job_id"]] = dict(zip(event["nodes"], event["cores"], strict=True))
        elif kind == "job_completed":
            assert event["state"] in BASIC_STATES
            known = self.queue if number in self.queue else self.started
            known.pop(event["job_id"])
        elif kind == "decision_rejected":
            assert event["code"] in BASIC_CODES, event
            self._rejected = True

    def _resume(self) -> None:
        """Resume the session, and check that the snapshot has the jobs that the client knows."""
        welcome: Map = msgspec.msgpack.decode(self._session.resume())
        kinds = {event["type"] for event in welcome["snapshot"]}
        assert not kinds & WORKLOAD_MANAGER_EVENTS
        jobs = [each["job_id"] for each in welcome["snapshot"] if each["type"] == "job_submitted"]
        assert set(jobs) == {*self.queue, *self.started}
        assert [number for number in jobs if number in self.queue] == list(self.queue)


def _taken(free: list[int], cores: int) -> list[int]:
    """Take free cores in the order of the nodes, and return the nodes; empty: too few are free."""
    if sum(free) < cores:
        return []
    nodes = []
    for node, number in enumerate(free):
        if number and cores:
            free[node] -= min(number, cores)
            cores -= min(number, cores)
            nodes.append(node)
    return nodes


@pytest.mark.slow
@examples(60)
@given(scenes())
def test_a_basic_client_schedules_any_scene(scene: Scene) -> None:
    """The client gets only basic events, in a possible order, until all jobs are over."""
    client = BasicClient(scene)
    for _ in range(MAX_REQUESTS):
        client.step()
        if client.ended:
            break
    assert client.ended
    assert not client.queue
    assert not client.started
