"""Checks of a server: decisions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server_under_test import (
    Map,
    OpenSession,
    ServerUnderTest,
    of_kind,
    rejection_codes,
)
from hpcosim_conformance.servers.site import request_of, site_session, start_on
from hpcosim_protocol import WORKLOAD_MANAGER_EVENTS

UNKNOWN_JOB = 2**62


LATER_S = 50.0


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


def not_eligible(server: ServerUnderTest) -> None:
    """A job with a begin time can be allocated from this time on, which the server reports."""
    session = site_session(server)
    number, begin_s = _job_with_begin(session)
    _expect_not_eligible(session, number)
    _wait(session, begin_s)
    _expect_eligible_at(session, number, begin_s)


def dependencies(server: ServerUnderTest) -> None:
    """The end of a job makes others eligible, and cancels those that can never be."""
    session = site_session(server)
    ends = {kind: _dependents(session, kind) for kind in ("afterok", "afterany")}
    common = set(ends["afterok"]) & set(ends["afterany"]) & set(session.waiting)
    if not common:
        raise NotTriedError("no waiting job has dependents with afterok and with afterany")
    number = min(common)
    events = session.decide(_start(session, number), {"type": "kill_job", "job_id": number})
    cancelled, eligible = ends["afterok"][number], ends["afterany"][number]
    states = [
        each["state"] for each in of_kind(events, "job_completed") if each["job_id"] == cancelled
    ]
    what = f"job {cancelled} needs the success of job {number}, which was killed; it got {states}"
    expect(states == ["cancelled"], "R-never-eligible", what)
    told = [each["job_id"] for each in of_kind(events, "job_eligible")]
    what = f"job {eligible} waits for the end of job {number}; job_eligible came for {told}"
    expect(eligible in told, "R-job-eligible", what)


def suspension(server: ServerUnderTest) -> None:
    """A job is suspended and resumed, and only in the right state."""
    session = site_session(server)
    number = _first(session, lambda job: not request_of(job))
    suspend, resume = ({"type": f"{verb}_job", "job_id": number} for verb in ("suspend", "resume"))
    events = session.decide(suspend, _start(session, number), suspend, suspend, resume, resume)
    got = [
        each["code"] if each["type"] == "decision_rejected" else each["type"]
        for each in events
        if each.get("job_id") == number
    ]
    expected = ["job_not_running", "job_started", "job_suspended", "job_not_running"]
    expected += ["job_resumed", "job_not_suspended"]
    what = f"suspending and resuming a job twice led to {got}; expected {expected}"
    expect(got == expected, "R-suspended", what)


def requeue(server: ServerUnderTest) -> None:
    """A job that permits it is requeued, and is eligible again at the stated time."""
    session = site_session(server)
    refuses = _first(session, lambda job: not request_of(job).get("requeue"))
    number = _first(session, lambda job: request_of(job).get("requeue") is True)
    again = {"type": "requeue_job", "job_id": refuses}
    codes = rejection_codes(session.decide(_start(session, refuses), again))
    what = f"requeuing job {refuses}, which does not permit it, led to the codes {codes}"
    expect(codes == ["not_requeueable"], "R-requeued", what)
    begin_s = session.now_s + LATER_S
    again = {"type": "requeue_job", "job_id": number, "begin_s": begin_s}
    events = session.decide(_start(session, number), again)
    causes = [each["cause"] for each in of_kind(events, "job_requeued")]
    what = f"requeuing job {number} led to job_requeued with the causes {causes}"
    expect(causes == ["decision"], "R-requeued", what)
    _expect_not_eligible(session, number)
    _wait(session, begin_s)
    _expect_eligible_at(session, number, begin_s)


def rejection_at_end(server: ServerUnderTest) -> None:
    """A job that is rejected with `at_end` goes on waiting, and a start revokes the rejection."""
    session = site_session(server)
    number = _first(session, lambda job: not request_of(job))
    reject = {"type": "reject_job", "job_id": number, "state": "cancelled", "at_end": True}
    events = session.decide(reject, _start(session, number))
    got = [each["type"] for each in events if each.get("job_id") == number]
    what = f"rejecting a waiting job at the end and starting it led to {got}"
    expect(got[:1] == ["job_started"], "R-at-end", what)


def node_failure(server: ServerUnderTest) -> None:
    """Jobs on a node that fails are requeued or end, and nothing starts there until its repair."""
    session = site_session(server)
    running: dict[int, dict[int, int]] = {}

    def failure() -> Map | None:
        events = of_kind(session.log, "node_failed")
        if not events:
            running.clear()
            running.update(session.running)
        return next(iter(events), None)

    failed = session.advance_until(failure, "a node fails")
    for number, place in running.items():
        if failed["node"] in place:
            _check_end_of_run(session, number, failed)
    job = next(iter(session.waiting.values()), None)
    if job is not None and job["cores"] <= session.capacity[failed["node"]]:
        codes = rejection_codes(session.decide(start_on(job, failed["node"])))
        what = f"allocating the failed node {failed['node']} led to the codes {codes}"
        expect(codes == ["node_unavailable"], "R-node-unavailable", what)


def _check_end_of_run(session: OpenSession, number: int, failed: Map) -> None:
    """Check what the server reported of a job on a node that failed."""
    place = session.log.index(failed)
    if any(each["job_id"] == number for each in of_kind(session.log[:place], "job_completed")):
        return
    events = [each for each in session.log[place:] if each.get("job_id") == number]
    got = [(each["type"], each["time_s"]) for each in events[:1]]
    requeues = request_of(session.started[number]).get("requeue")
    kind = "job_requeued" if requeues else "job_completed"
    what = f"job {number} on the failed node {failed['node']} got {got}; expected {kind}"
    expect(got == [(kind, failed["time_s"])], "R-node-failed", what)


def basic_profile(server: ServerUnderTest) -> None:
    """A client without workload_manager gets a job when it is eligible, and only basic events."""
    number, begin_s = _job_with_begin(site_session(server))
    session = server.open()
    _wait(session, begin_s)
    times_s = [
        each["time_s"] for each in of_kind(session.log, "job_submitted") if each["job_id"] == number
    ]
    what = f"job {number} was submitted at {times_s} s; it is eligible from {begin_s} s on"
    expect(times_s == [begin_s], "R-basic-profile", what)
    others = sorted({each["type"] for each in session.log} & WORKLOAD_MANAGER_EVENTS)
    what = f"a session without workload_manager got the events {others}"
    expect(not others, "R-basic-profile", what)


def _job_with_begin(session: OpenSession) -> tuple[int, float]:
    """Return a job that waits only for its begin time, and this time, s."""
    for number, job in session.later.items():
        request = request_of(job)
        begin_s = request.get("begin_s") or 0.0
        other = request.get("dependencies") or request.get("hold") or request.get("array_limit")
        if begin_s > session.now_s and not other:
            return number, begin_s
    raise NotTriedError("no job waits for its begin time at the first instant")


def _dependents(session: OpenSession, kind: str) -> dict[int, int]:
    """Return a job that waits with this dependency for one other job, by the other job."""
    found = {}
    for number, job in session.later.items():
        conditions = request_of(job).get("dependencies") or []
        if len(conditions) == 1 and conditions[0]["kind"] == kind:
            others = conditions[0].get("job_ids", ())
            if len(others) == 1 and not conditions[0].get("delay_s"):
                found[others[0]] = number
    return found


def _first(session: OpenSession, fits: Callable[[Map], bool]) -> int:
    """Return the first waiting job that meets a condition."""
    for number, job in session.waiting.items():
        if fits(job) and not job.get("partitions"):
            return number
    raise NotTriedError("no waiting job of the scenario suits the check at the first instant")


def _start(session: OpenSession, number: int) -> Map:
    """Return the decision that starts a job on the node with the most cores."""
    node = max(range(len(session.capacity)), key=session.capacity.__getitem__)
    return start_on(session.waiting[number], node)


def _wait(session: OpenSession, until_s: float) -> None:
    session.advance_until(lambda: session.now_s >= until_s or None, f"it is {until_s} s", idle=True)


def _expect_not_eligible(session: OpenSession, number: int) -> None:
    codes = rejection_codes(session.decide(start_on({"job_id": number}, 0)))
    what = f"allocating job {number} before it is eligible led to the codes {codes}"
    expect(codes == ["job_not_eligible"], "R-eligible", what)


def _expect_eligible_at(session: OpenSession, number: int, at_s: float) -> None:
    times_s = [
        each["time_s"] for each in of_kind(session.log, "job_eligible") if each["job_id"] == number
    ]
    what = f"job_eligible of job {number} came at {times_s} s; expected {at_s} s"
    expect(times_s[-1:] == [at_s], "R-job-eligible", what)
