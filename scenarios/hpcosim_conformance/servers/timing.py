"""Checks of a server: alarms, wake-up, elapsed time and the end of a simulation."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest, expect_seq
from hpcosim_conformance.servers.session import MAX_REQUESTS, Map, OpenSession, of_kind

LONG_S = 1e6


def alarms(server: ServerUnderTest) -> None:
    """An alarm goes off once, at its time, and replaces one of the same number."""
    session = server.open()
    session.advance_until_a_job_can_start()
    now_s = session.now_s
    times = {1: now_s + 4.0, 2: now_s + 2.0, 3: now_s + 4.0}
    sets = [_alarm(1, now_s + 1.0)] + [_alarm(number, at_s) for number, at_s in times.items()]
    session.decide(*sets, _alarm(4, now_s + 3.0), _cancel(4), wake_on=[])
    _expect_alarms(session, [(2, times[2])])
    session.decide(wake_on=[])
    _expect_alarms(session, [(1, times[1]), (3, times[3])])
    codes = [event.get("code") for event in session.decide(_cancel(1), wake_on=[])]
    expect("unknown_alarm" in codes, "R-alarm", "an alarm is still set after it went off")


def _alarm(number: int, at_s: float) -> Map:
    return {"type": "set_alarm", "alarm_id": number, "at_s": at_s}


def _cancel(number: int) -> Map:
    return {"type": "cancel_alarm", "alarm_id": number}


def _expect_alarms(session: OpenSession, expected: Sequence[tuple[int, float]]) -> None:
    """Check the simulated time and the alarms of the last reply."""
    heard = [
        (event["alarm_id"], event["time_s"])
        for event in of_kind(session.log, "alarm")
        if event["time_s"] == session.now_s
    ]
    woke = session.now_s == expected[0][1]
    what = f"at {session.now_s} s the alarms were {heard}; expected {list(expected)}"
    expect(woke and heard == list(expected), "R-alarm", what)


def wake_on(server: ServerUnderTest) -> None:
    """With an empty `wake_on` only alarms wake the client, and no event is lost."""
    asleep, awake = server.open(seed=2), server.open(seed=2)
    asleep.decide()
    awake.decide()
    at_s = awake.now_s + LONG_S
    asleep.decide(_alarm(9, at_s), wake_on=[])
    what = f"the server woke the client at {asleep.now_s} s; expected {at_s} s"
    expect(asleep.now_s == at_s, "R-always-wakes", what)
    awake.decide(_alarm(9, at_s))
    awake.advance_until(lambda: awake.now_s >= at_s or None, f"{LONG_S:g} s have passed", idle=True)
    what = "events that did not wake the client are missing"
    expect(_lasting(asleep) == _lasting(awake), "R-not-lost", what)


def _lasting(session: OpenSession) -> list[Map]:
    """Return the events that no later event can replace."""
    return [event for event in session.log if event["type"] != "signal_changed"]


def elapsed(server: ServerUnderTest) -> None:
    """`elapsed_s` passes before the decisions are executed."""
    session = server.open()
    session.advance_until_a_job_can_start()
    expected_s = session.now_s + 1.5
    events = session.decide(_cancel(55), elapsed_s=1.5)
    passed = session.now_s == expected_s and {event["time_s"] for event in events[-1:]} == {
        expected_s
    }
    what = f"after elapsed_s of 1.5 the time is {session.now_s} s; expected {expected_s} s"
    expect(passed, "R-elapsed", what)


def end(server: ServerUnderTest) -> None:
    """When all jobs are over the simulation ends, and the last reply can be requested again."""
    session = server.open()
    session.advance_until(lambda: _is_over(session) or None, "all jobs are over")
    request = session.request()
    events = session.read_reply(server.exchange(request))
    expect(not events, "R-end", f"after all jobs were over the server sent {events[:2]}")
    last = server.body
    server.exchange(request | {"elapsed_s": 3.0})  # only the `seq` is compared
    what = "the last reply of a session that is over is not sent again"
    expect(server.body == last, "R-last-answer", what)
    server.expect_error(session.request(), "unknown_session", "R-end")


def _is_over(session: OpenSession) -> bool:
    """Return whether all jobs are over, according to the events so far."""
    all_submitted = bool(of_kind(session.log, "no_more_jobs"))
    return all_submitted and not session.waiting and not session.running


def stuck(server: ServerUnderTest) -> None:
    """A client that never starts a job gets a fatal error, and its session is over."""
    session = server.open()
    for _ in range(MAX_REQUESTS):
        reply = server.exchange(session.request())
        if reply["type"] == "error":
            break
        if not session.read_reply(reply):
            raise NotTriedError("no job of the scenario waits")
    else:
        raise NotTriedError(
            f"the submissions of the scenario take more than {MAX_REQUESTS} requests"
        )
    code = reply["code"]
    what = f"the server sent the error {code}; expected simulation_stuck"
    expect(code == "simulation_stuck", "R-stuck", what)
    expect(bool(reply.get("fatal")), "R-fatal", "the error is not fatal")
    expect_seq(reply, session.seq + 1)
    session.seq += 1
    server.expect_error(session.request(), "unknown_session", "R-fatal")
