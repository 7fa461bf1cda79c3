"""Checks of what a server makes of decisions."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_conformance.errors import expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, of_kind, rejection_codes

UNKNOWN_JOB = 2**62


def first_events(server: ServerUnderTest) -> None:
    """The first events are `simulation_began` and the first submissions."""
    session = server.open()
    began_s = session.now_s
    kinds = [event["type"] for event in session.decide()]
    what = f"its first events are {kinds[:3]}"
    expect(kinds[:1] == ["simulation_began"], "R-first-events", what)
    stands = session.log[0]["time_s"] == began_s
    expect(stands, "R-first-events", "time did not stand at the first submission")


def rejected_decisions(server: ServerUnderTest) -> None:
    """Each decision that can't be carried out is rejected at once; the others are carried out."""
    session = server.open()
    job = session.until_a_job_can_start()["job_id"]
    now_s, nodes = session.now_s, len(session.capacity)
    due: Sequence[tuple[Map, str]] = (
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
    events = session.decide(*(decision for decision, _ in due), wake_on=[])
    expect(session.now_s == now_s, "R-always-wakes", "time passed beside rejected decisions")
    rejections = {event["index"]: event for event in of_kind(events, "decision_rejected")}
    for index, (decision, code) in enumerate(due):
        event = rejections.get(index, {})
        what = f"{decision}: {event.get('code') or 'not rejected'}"
        expect(event.get("code", "") == code, "R-rejected" if code else "R-others-stand", what)
        if event:
            _check_names(event, decision, session.seq)
    left = session.decide({"type": "cancel_alarm", "alarm_id": 5}, wake_on=["no_more_jobs"])
    what = "the alarm set beside rejected decisions is not set"
    expect(not rejection_codes(left), "R-others-stand", what)


def _check_names(event: Map, decision: Map, seq: int) -> None:
    named = (event["seq"], event["decision"], event.get("job_id"))
    due = (seq, decision["type"], decision.get("job_id"))
    expect(named == due, "R-rejected", f"a rejection names {named}, not {due}")


def decisions_in_turn(server: ServerUnderTest) -> None:
    """Later decisions see the effects of earlier ones, and each has its echo in that order."""
    session = server.open()
    allocation = session.until_a_job_can_start()
    kill = {"type": "kill_job", "job_id": allocation["job_id"]}
    events = session.decide(allocation, allocation, kill, kill)
    told = [
        event["code"] if event["type"] == "decision_rejected" else event["type"]
        for event in events
        if event.get("job_id") == kill["job_id"] and event["type"] != "job_allocated"
    ]
    due = ["job_started", "job_not_waiting", "job_completed", "job_not_running"]
    expect(told == due, "R-in-turn", f"starting and killing a job twice brought {told}")


def reject_job(server: ServerUnderTest) -> None:
    """A job that the client rejects is over at once."""
    session = server.open()
    number = session.until_a_job_can_start()["job_id"]
    now_s = session.now_s
    events = session.decide({"type": "reject_job", "job_id": number})
    over = {"type": "job_completed", "time_s": now_s, "job_id": number, "state": "rejected"}
    expect(over in events, "R-in-turn", f"rejecting job {number} brought {events[:2]}")


def submit_job(server: ServerUnderTest) -> None:
    """A job may be added where the options say so, and nowhere else."""
    session = server.open()
    session.until_a_job_can_start()
    job = {"type": "submit_job", "job_id": UNKNOWN_JOB, "cores": 1, "run_s": 5.0}
    events = session.decide(job, job)
    codes = rejection_codes(events)
    if not session.options.get("dynamic_jobs"):
        what = f"without the option, submit_job brought {codes}"
        expect(codes == ["not_allowed"] * 2, "R-submit-job", what)
        return
    kinds = [event["type"] for event in events if event.get("job_id") == UNKNOWN_JOB]
    expect(kinds[:1] == ["job_submitted"], "R-in-turn", f"it brought {kinds}")
    expect(codes == ["job_exists"], "R-rejected", f"submitting it twice brought {codes}")
