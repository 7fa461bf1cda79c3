"""Checks of a server: decisions."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, of_kind, rejection_codes

UNKNOWN_JOB = 2**62


def first_events(server: ServerUnderTest) -> None:
    """The first events are `simulation_began` and the first submissions."""
    session = server.open()
    began_s = session.now_s
    kinds = [event["type"] for event in session.decide()]
    what = f"the first events are {kinds[:3]}; expected simulation_began first"
    expect(kinds[:1] == ["simulation_began"], "R-first-events", what)
    stands = session.log[0]["time_s"] == began_s
    what = "the time of simulation_began differs from now_s of the welcome"
    expect(stands, "R-first-events", what)


def rejected_decisions(server: ServerUnderTest) -> None:
    """The server rejects impossible decisions immediately and executes the others."""
    session = server.open()
    job = session.advance_until_a_job_can_start()["job_id"]
    now_s, nodes = session.now_s, len(session.capacity)
    expected: Sequence[tuple[Map, str]] = (
        ({"type": "allocate_job", "job_id": UNKNOWN_JOB, "nodes": [0]}, "unknown_job"),
        ({"type": "allocate_job", "job_id": job, "nodes": [nodes]}, "unknown_node"),
        ({"type": "allocate_job", "job_id": job, "nodes": []}, "bad_allocation"),
        ({"type": "allocate_job", "job_id": job, "nodes": [0, 0]}, "bad_allocation"),
        ({"type": "set_alarm", "at_s": now_s + 1e6, "alarm_id": 5}, ""),
        ({"type": "kill_job", "job_id": job}, "job_not_running"),
        ({"type": "reject_job", "job_id": UNKNOWN_JOB}, "unknown_job"),
        ({"type": "set_alarm", "at_s": now_s, "alarm_id": 6}, "bad_time"),
        ({"type": "cancel_alarm", "alarm_id": 77}, "unknown_alarm"),
        ({"type": "set_node_power", "node": nodes, "state": "sleeping"}, "unknown_node"),
    )
    events = session.decide(*(decision for decision, _ in expected), wake_on=[])
    what = "time advanced although decisions were rejected"
    expect(session.now_s == now_s, "R-always-wakes", what)
    rejections = {event["index"]: event for event in of_kind(events, "decision_rejected")}
    for index, (decision, code) in enumerate(expected):
        event = rejections.get(index, {})
        what = f"{decision} led to {event.get('code')}; expected {code or None}"
        expect(event.get("code", "") == code, "R-rejected" if code else "R-others-stand", what)
        if event:
            _check_names(event, decision, session.seq)
    left = session.decide({"type": "cancel_alarm", "alarm_id": 5}, wake_on=["no_more_jobs"])
    what = "an alarm of a request with rejected decisions is not set"
    expect(not rejection_codes(left), "R-others-stand", what)


def _check_names(event: Map, decision: Map, seq: int) -> None:
    named = (event["seq"], event["decision"], event.get("job_id"))
    expected = (seq, decision["type"], decision.get("job_id"))
    what = f"a rejection has seq, decision and job {named}; expected {expected}"
    expect(named == expected, "R-rejected", what)


def decisions_in_turn(server: ServerUnderTest) -> None:
    """Decisions see the effects of earlier ones, and their events are in the same order."""
    session = server.open()
    allocation = session.advance_until_a_job_can_start()
    kill = {"type": "kill_job", "job_id": allocation["job_id"]}
    events = session.decide(allocation, allocation, kill, kill)
    of_job = [event for event in events if event.get("job_id") == kill["job_id"]]
    answers = [event for event in of_job if event["type"] != "job_allocated"]
    got = [
        event["code"] if event["type"] == "decision_rejected" else event["type"]
        for event in answers
    ]
    expected = ["job_started", "job_not_waiting", "job_completed", "job_not_running"]
    what = f"starting and killing a job twice led to {got}; expected {expected}"
    expect(got == expected, "R-in-turn", what)


def reject_job(server: ServerUnderTest) -> None:
    """A job that the client rejects is over immediately."""
    session = server.open()
    number = session.advance_until_a_job_can_start()["job_id"]
    now_s = session.now_s
    events = session.decide({"type": "reject_job", "job_id": number})
    over = {"type": "job_completed", "time_s": now_s, "job_id": number, "state": "rejected"}
    what = f"reject_job of job {number} led to {events[:2]}; expected {over}"
    expect(over in events, "R-in-turn", what)


def submit_job(server: ServerUnderTest) -> None:
    """`submit_job` adds a job if the option `dynamic_jobs` is true, and is rejected otherwise."""
    session = server.open()
    session.advance_until_a_job_can_start()
    job = {"type": "submit_job", "job_id": UNKNOWN_JOB, "cores": 1, "run_s": 5.0}
    events = session.decide(job, job)
    codes = rejection_codes(events)
    if not session.options.get("dynamic_jobs"):
        what = f"without dynamic_jobs, submit_job twice led to the codes {codes}"
        expect(codes == ["not_allowed"] * 2, "R-submit-job", what)
        return
    kinds = [event["type"] for event in events if event.get("job_id") == UNKNOWN_JOB]
    what = f"submit_job led to {kinds}; expected job_submitted first"
    expect(kinds[:1] == ["job_submitted"], "R-in-turn", what)
    what = f"submitting a job twice led to the codes {codes}; expected job_exists"
    expect(codes == ["job_exists"], "R-rejected", what)


def explain(server: ServerUnderTest) -> None:
    """`explain` changes nothing; malformed explanations are rejected."""
    session = server.open()
    job = session.advance_until_a_job_can_start()["job_id"]
    if "explain" not in session.options:
        raise NotTriedError("the server has no option explain")
    now_s = session.now_s
    expected = _explanations(job, now_s)
    if not session.options["explain"]:
        expected = [(decision, "R-explain", "not_allowed") for decision, *_ in expected]
    events = session.decide(*(decision for decision, *_ in expected), wake_on=[])
    codes = {event["index"]: event["code"] for event in of_kind(events, "decision_rejected")}
    for index, (decision, rule, code) in enumerate(expected):
        what = f"{decision} led to {codes.get(index)}; expected {code or None}"
        expect(codes.get(index, "") == code, rule, what)
    what = f"explanations led to {len(events)} events; expected {len(codes)} rejections"
    expect(len(events) == len(codes) and session.now_s == now_s, "R-explain", what)
    _check_unchanged(server, job)


def _explanations(job: int, now_s: float) -> list[tuple[Map, str, str]]:
    """Return explanations, the rule for each, and the code of its rejection; empty: none."""
    said = {"type": "explain", "job_id": job, "reason": "Resources"}
    return [
        (said, "R-explain", ""),
        (said | {"expected_start_s": now_s}, "R-expected-start", ""),
        (said | {"expected_start_s": None, "reason": "r" + "_9" * 31 + "x"}, "R-reason", ""),
        (said | {"job_id": UNKNOWN_JOB}, "R-explain", "unknown_job"),
        (said | {"reason": "a" * 65}, "R-reason", "bad_reason"),
        (said | {"reason": ""}, "R-reason", "bad_reason"),
        (said | {"reason": "9lives"}, "R-reason", "bad_reason"),
        (said | {"reason": "Re\u017fources"}, "R-reason", "bad_reason"),
        (said | {"reason": "Resources\n"}, "R-reason", "bad_reason"),
        (said | {"expected_start_s": now_s - 1.0}, "R-expected-start", "bad_time"),
        (said | {"expected_start_s": float("inf")}, "R-expected-start", "bad_time"),
        (said | {"expected_start_s": float("nan")}, "R-expected-start", "bad_time"),
    ]


def _check_unchanged(server: ServerUnderTest, job: int) -> None:
    """Check that a session with explanations gets the events of a session without them."""
    said = {"type": "explain", "job_id": job, "reason": "Priority", "expected_start_s": 1e15}
    logs = []
    for more in ([], [said] if server.open().options["explain"] else []):
        session = server.open()
        allocation = session.advance_until_a_job_can_start()
        events = session.decide(*more, allocation)
        logs.append((session.now_s, events))
    what = f"the events after an explanation are {logs[1]}; without it {logs[0]}"
    expect(logs[0] == logs[1], "R-explain", what)
