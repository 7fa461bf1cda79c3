"""Checks of a server's time: what wakes a client, and how a simulation ends."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest, expect_seq
from hpcosim_conformance.servers.session import MOST_REQUESTS, Map, OpenSession, of_kind

LONG_S = 1e6


def alarms(server: ServerUnderTest) -> None:
    """Alarms go off at their time and are gone; one of the same number is replaced."""
    session = server.open()
    session.until_a_job_can_start()
    now_s = session.now_s
    times = {1: now_s + 4.0, 2: now_s + 2.0, 3: now_s + 4.0}
    sets = [_alarm(1, now_s + 1.0)] + [_alarm(number, at_s) for number, at_s in times.items()]
    session.decide(*sets, _alarm(4, now_s + 3.0), _cancel(4), wake_on=[])
    _expect_alarms(session, [(2, times[2])])
    session.decide(wake_on=[])
    _expect_alarms(session, [(1, times[1]), (3, times[3])])
    codes = [event.get("code") for event in session.decide(_cancel(1), wake_on=[])]
    expect("unknown_alarm" in codes, "R-alarm", "an alarm that went off can be cancelled")


def _alarm(number: int, at_s: float) -> Map:
    return {"type": "set_alarm", "alarm_id": number, "at_s": at_s}


def _cancel(number: int) -> Map:
    return {"type": "cancel_alarm", "alarm_id": number}


def _expect_alarms(session: OpenSession, due: Sequence[tuple[int, float]]) -> None:
    """Check the time and the alarms of the last answer."""
    heard = [
        (event["alarm_id"], event["time_s"])
        for event in of_kind(session.log, "alarm")
        if event["time_s"] == session.now_s
    ]
    woke = session.now_s == due[0][1]
    expect(woke and heard == list(due), "R-alarm", f"at {session.now_s} s alarms were {heard}")


def wake_on(server: ServerUnderTest) -> None:
    """With an empty `wake_on` only alarms wake, and no event of the time between is lost."""
    asleep, awake = server.open(seed=2), server.open(seed=2)
    asleep.decide()
    awake.decide()
    at_s = awake.now_s + LONG_S
    asleep.decide(_alarm(9, at_s), wake_on=[])
    what = f"it woke at {asleep.now_s} s, not {at_s} s"
    expect(asleep.now_s == at_s, "R-always-wakes", what)
    awake.decide(_alarm(9, at_s))
    awake.until(lambda: awake.now_s >= at_s or None, f"{LONG_S:g} s have passed", idle=True)
    what = "events of the time in which nothing was to wake it are missing"
    expect(asleep.log == awake.log, "R-not-lost", what)


def elapsed(server: ServerUnderTest) -> None:
    """`elapsed_s` passes before the decisions are carried out."""
    session = server.open()
    session.until_a_job_can_start()
    due_s = session.now_s + 1.5
    events = session.decide(_cancel(55), elapsed_s=1.5)
    passed = session.now_s == due_s and {event["time_s"] for event in events[-1:]} == {due_s}
    expect(passed, "R-elapsed", f"after 1.5 s it is {session.now_s} s, not {due_s} s")


def end(server: ServerUnderTest) -> None:
    """When every job is over the simulation ends, and the last answer can still be had."""
    session = server.open()
    session.until(lambda: _is_over(session) or None, "every job is over")
    request = session.request()
    events = session.take(server.ask(request))
    expect(not events, "R-end", f"when every job was over it sent {events[:2]}")
    last = server.body
    server.ask(request | {"elapsed_s": 3.0})  # its `seq` alone counts
    expect(server.body == last, "R-last-answer", "the last answer is not sent again")
    server.refuses(session.request(), "unknown_session", "R-end")


def _is_over(session: OpenSession) -> bool:
    """Return whether, by the events so far, every job is over."""
    all_submitted = bool(of_kind(session.log, "no_more_jobs"))
    return all_submitted and not session.waiting and not session.running


def stuck(server: ServerUnderTest) -> None:
    """A client that lets nothing happen any more gets a fatal error, and its session is over."""
    session = server.open()
    for _ in range(MOST_REQUESTS):
        answer = server.ask(session.request())
        if answer["type"] == "error":
            break
        if not session.take(answer):
            raise NotTriedError("the scenario ends without a single job to wait")
    else:
        raise NotTriedError(f"submissions take more than {MOST_REQUESTS} requests")
    code = answer["code"]
    expect(code == "simulation_stuck", "R-stuck", f"it answered with the error {code}")
    expect(bool(answer.get("fatal")), "R-fatal", "the error is not fatal")
    expect_seq(answer, session.seq + 1)
    session.seq += 1
    server.refuses(session.request(), "unknown_session", "R-fatal")
