"""Comparison of the specification on workload managers with the types and the server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

import pytest

from hpcosim_protocol import (
    WORKLOAD_MANAGER_EVENTS,
    AllocateJob,
    Checkpointing,
    DecisionRejected,
    Dependency,
    Event,
    JobCompleted,
    JobRequest,
    JobState,
    JobSubmitted,
    NodeGroup,
    Platform,
    PowerStates,
    Processor,
    RejectionCode,
    RequeueJob,
    ResumeJob,
    SetAlarm,
    SetCheckpoint,
    SetNodePower,
    SuspendJob,
)
from hpcosim_protocol.features import MAX_COUNTS, MAX_LENGTH, MAX_NESTING, check
from hpcosim_protocol.requests import DependencyKind
from hpcosim_server.service.session import BasicProfile
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_sim.engine.site_events import JobAction, NodeChange, SiteEvents
from hpcosim_workloads.table import job_table
from support.protocol import SPECIFICATION, name_of

NODE = NodeGroup(4, (Processor(cores=4),))
NO_REQUEST = -1


def section(title: str) -> str:
    """Return the text of a section of the specification."""
    found = re.search(
        rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", SPECIFICATION, re.MULTILINE | re.DOTALL
    )
    assert found is not None, f"no section {title}"
    return found[1]


def rows_of(text: str, first_column: str) -> list[list[str]]:
    """Return the rows of the table with this first column. An escaped `|` does not end a cell."""
    found = re.search(rf"^\| {first_column} \|.*\n\|[-|]+\n((?:\|.*\n)*)", text, re.MULTILINE)
    assert found is not None, f"no table {first_column}"
    lines = found[1].splitlines()
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def simulation_of(
    *jobs: tuple[float, float, JobRequest | None], events: SiteEvents | None = None
) -> Simulation:
    """Return a simulation of jobs with one core each, at its first events.

    Args:
        jobs: submission, run time (s) and request of each job; they are numbered from 1.
        events: what happens without the scheduler; None: nothing.
    """
    requests = tuple(request for *_, request in jobs if request is not None)
    table = job_table(
        job_id=range(1, len(jobs) + 1),
        submit_s=[submit_s for submit_s, *_ in jobs],
        run_s=[run_s for _, run_s, _ in jobs],
        requested_s=[run_s for _, run_s, _ in jobs],
        cores=[1] * len(jobs),
        request=[NO_REQUEST if each is None else requests.index(each) for *_, each in jobs],
        requests=requests,
    )
    simulation = Simulation(Platform((NODE,)), table, site_events=events or SiteEvents())
    simulation.advance()
    return simulation


def kinds(events: Sequence[Event]) -> list[str]:
    """Return the kind of each event."""
    return [name_of(type(event)) for event in events]


def codes_after(simulation: Simulation, *decisions: object) -> list[str]:
    """Return the codes of the decisions that are rejected."""
    events = simulation.advance(decisions).events  # type: ignore[arg-type]
    return [event.code for event in events if hasattr(event, "code")]


def test_spec_lists_the_kinds_of_dependencies() -> None:
    """The table of dependencies has exactly the kinds of the type."""
    rows = rows_of(section("11.10 Eligible jobs"), "Dependency")
    listed = {kind for row in rows for kind in re.findall(r"`(\w+)`", row[0])}
    assert listed == set(get_args(DependencyKind))


def test_spec_lists_valid_feature_expressions() -> None:
    """Every expression in the specification is valid, and the limits are those of the code."""
    text = section("11.11 Nodes on which a job may run")
    for row in rows_of(text, "Expression"):
        check(row[0].strip("`").replace(r"\|", "|"))
    words = " ".join(text.split())
    assert f"at most {MAX_NESTING} in each other" in words
    assert f"an alternative at most {MAX_COUNTS} counts" in words
    assert f"text, at most {MAX_LENGTH} characters" in SPECIFICATION


def test_spec_names_the_kinds_of_workload_managers() -> None:
    """The kinds that need the option are those of the code."""
    words = " ".join(section("11.8 Workload managers").split())
    found = re.search(r"`wake_on` MUST NOT name (.*?)\.", words)
    assert found is not None
    assert set(re.findall(r"`(\w+)`", found[1])) == WORKLOAD_MANAGER_EVENTS


def test_spec_has_the_states_of_the_basic_profile() -> None:
    """A basic client receives the states that the table says."""
    found = {}
    for state in get_args(JobState):
        profile = BasicProfile()
        profile.events(JobSubmitted(0.0, 1, 1, 1.0))
        (event,) = profile.events(JobCompleted(1.0, 1, state))
        assert isinstance(event, JobCompleted)
        if event.state != state:
            found[state] = event.state
    assert replaced("job_completed` with the state") == found


def test_spec_has_the_codes_of_the_basic_profile() -> None:
    """A basic client receives the codes that the table says."""
    found = {}
    for code in get_args(RejectionCode):
        rejected = DecisionRejected(1.0, 2, 0, "allocate_job", code, "", 1)
        (event,) = BasicProfile().events(rejected)
        assert isinstance(event, DecisionRejected)
        if event.code != code:
            found[code] = event.code
    assert replaced("decision_rejected` with") == found


def replaced(subject: str) -> dict[str, str]:
    """Return values and what replaces them, from the rows of the table about a subject."""
    rows = rows_of(section("11.13 Workload managers in the basic profile"), "Event")
    return {
        old: re.findall(r"`(\w+)`", row[1])[-1]
        for row in rows
        if row[0].startswith(f"`{subject}")
        for old in re.findall(r"`(\w+)`", row[0])[1:]
    }


def test_order_within_an_instant_is_as_specified() -> None:
    """Jobs complete, nodes fail, jobs are submitted, users act, jobs become eligible, alarms."""
    simulation = simulation_of(
        (0.0, 10.0, None),
        (0.0, 10.0, JobRequest(begin_s=10.0)),
        (0.0, 10.0, None),
        (10.0, 10.0, None),
        events=SiteEvents(
            node_changes=(NodeChange(10.0, (3,), "fail"),),
            job_actions=(JobAction(at_s=10.0, job_id=3, kind="hold"),),
        ),
    )
    events = simulation.advance([AllocateJob(1, [0]), SetAlarm(10.0)], wake_on=[]).events
    assert kinds(events) == [
        "job_started",
        "job_completed",
        "node_failed",
        "job_submitted",
        "no_more_jobs",
        "job_held",
        "job_eligible",
        "alarm",
    ]


def test_snapshot_is_as_specified() -> None:
    """A snapshot has suspended jobs, jobs that are not eligible and unavailable nodes, in order."""
    simulation = simulation_of(
        (0.0, 100.0, None),
        (0.0, 10.0, JobRequest(hold=True)),
        (0.0, 10.0, None),
        events=SiteEvents(
            node_changes=(NodeChange(5.0, (3,), "drain"), NodeChange(6.0, (2,), "fail")),
            job_actions=(JobAction(at_s=50.0, job_id=2, kind="release"),),
        ),
    )
    simulation.advance([AllocateJob(1, [0]), SuspendJob(1)], wake_on=["node_failed"])
    events = simulation.snapshot()
    assert kinds(events) == [
        "simulation_began",
        "node_failed",
        "node_drained",
        *["job_submitted"] * 3,
        "job_started",
        "job_suspended",
        "no_more_jobs",
    ]
    assert [event.eligible for event in events if isinstance(event, JobSubmitted)] == [
        True,
        False,
        True,
    ]


def test_a_failed_node_is_reported_before_its_jobs() -> None:
    """`node_failed` comes before the requeue and the end of the jobs on the node."""
    simulation = simulation_of(
        (0.0, 100.0, JobRequest(requeue=True)),
        (0.0, 100.0, None),
        events=SiteEvents(
            node_changes=(NodeChange(5.0, (0,), "fail"), NodeChange(9.0, (0,), "repair"))
        ),
    )
    events = simulation.advance([AllocateJob(1, [0]), AllocateJob(2, [0])]).events
    assert kinds(events)[2:] == ["node_failed", "job_requeued", "job_eligible", "job_completed"]
    assert codes_after(simulation, AllocateJob(1, [0])) == ["node_unavailable"]
    assert kinds(simulation.advance().events) == ["node_repaired"]


@pytest.mark.parametrize(
    ("decision", "code"),
    [
        (RequeueJob(2), "not_requeueable"),
        (RequeueJob(1, begin_s=1e16), "bad_time"),
        (RequeueJob(1, grace_s=1e16), "bad_time"),
        (ResumeJob(1), "job_not_suspended"),
        (SuspendJob(3), "job_not_running"),
        (SetCheckpoint(1, 5.0), "job_not_waiting"),
        (SetCheckpoint(3, 5.0), "not_allowed"),
        (SetCheckpoint(4, 0.0), "bad_time"),
        (AllocateJob(4, [0], [1], [{"gpu": [0]}]), "insufficient_gres"),
        (AllocateJob(5, [0]), "job_not_eligible"),
        (AllocateJob(6, [0]), "constraint_violated"),
        (SuspendJob(99), "unknown_job"),
    ],
    ids=repr,
)
def test_rejections_are_as_specified(decision: object, code: str) -> None:
    """Each code answers the decision for which the table lists it."""
    simulation = simulation_of(
        (0.0, 100.0, JobRequest(requeue=True)),
        (0.0, 100.0, None),
        (0.0, 100.0, None),
        (0.0, 100.0, JobRequest(checkpointing=Checkpointing(1.0))),
        (0.0, 100.0, JobRequest(dependencies=(Dependency("after", (4,)),))),
        (0.0, 100.0, JobRequest(excluded_nodes=(0,))),
    )
    simulation.advance([AllocateJob(1, [1]), AllocateJob(2, [1])], wake_on=["job_started"])
    assert codes_after(simulation, decision) == [code]


def test_a_failed_node_cannot_be_switched() -> None:
    """`set_node_power` of a failed node is rejected with `node_unavailable`, after all others."""
    states = PowerStates(
        sleep_w=1.0, switch_on_s=1.0, switch_on_w=1.0, switch_off_s=1.0, switch_off_w=1.0
    )
    group = NodeGroup(2, (Processor(cores=4),), power_states=states)
    jobs = job_table(job_id=[1], submit_s=[0.0], run_s=[9.0], requested_s=[9.0], cores=[1])
    failure = SiteEvents(node_changes=(NodeChange(0.0, (1,), "fail"),))
    simulation = Simulation(Platform((group,)), jobs, site_events=failure)
    simulation.advance()
    assert codes_after(simulation, SetNodePower(1, "sleeping"), SetNodePower(1, "on")) == [
        "node_unavailable",
        "wrong_power_state",
    ]
