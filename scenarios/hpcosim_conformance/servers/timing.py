"""Checks of a server: alarms, wake-up, elapsed time and the end of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server_under_test import (
    MAX_REQUESTS,
    Map,
    OpenSession,
    ServerUnderTest,
    expect_seq,
    of_kind,
    rejection_codes,
)
from hpcosim_protocol import MAX_FORECAST

LONG_S = 1e6


SOME_EVENTS = 5  # of one signal


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


def signals(server: ServerUnderTest) -> None:
    """Signals are reported at the start and at each change, with forecasts of later changes."""
    session = server.open()
    if not session.options.get("signals"):
        raise NotTriedError("the scenario has no signals")
    kinds = [event["type"] for event in session.decide()]
    what = f"the first events are {kinds[:3]}; expected signal_changed after simulation_began"
    expect(kinds[1:2] == ["signal_changed"], "R-signals", what)
    announced = [event for event in of_kind(session.log, "signal_changed") if event["forecast"]]
    for _ in range(SOME_EVENTS):
        for event in of_kind(session.log, "signal_changed"):
            _check_forecast(event)
        if session.metrics is None:
            session.step()
    for event in announced:
        _check_change(session, event)


def _check_forecast(event: Map) -> None:
    times_s = [event["time_s"], *(at_s for at_s, _ in event["forecast"])]
    ascending = all(before < after for before, after in pairwise(times_s))
    what = f"the forecast of {event['name']} at {times_s[0]} s has the times {times_s[1:4]}"
    expect(ascending, "R-forecast", what)
    what = f"the forecast of {event['name']} has {len(times_s) - 1} changes"
    expect(len(times_s) <= MAX_FORECAST + 1, "R-forecast", what)


def _check_change(session: OpenSession, event: Map) -> None:
    """Check that the server reports a forecast change at its time."""
    at_s, name = event["forecast"][0][0], event["name"]
    session.advance_until(
        lambda: session.now_s >= at_s or None, "a forecast change of a signal has passed"
    )
    of_signal = [each for each in of_kind(session.log, "signal_changed") if each["name"] == name]
    what = f"the server sent no change of {name} at {at_s} s, which it had forecast"
    expect(of_signal[-1]["time_s"] >= at_s, "R-signals", what)


def node_power(server: ServerUnderTest) -> None:
    """A node that is switched off and on has the specified states and transition times."""
    session = server.open()
    session.decide()
    switchable = _first_switchable(session)
    if switchable is None:
        codes = rejection_codes(session.decide(_switch(0, "sleeping")))
        what = f"set_node_power led to the codes {codes}"
        expect(codes == ["not_allowed"], "R-no-power-states", what)
        return
    node, states = switchable
    _bring_to(session, node, "sleeping")
    _bring_to(session, node, "on")
    changes = _changes_of(session, node)
    path = [event["state"] for event in changes]
    expected = ["switching_off", "sleeping", "switching_on", "on"]
    expect(
        path == expected,
        "R-power-states",
        f"node {node} had the states {path}; expected {expected}",
    )
    if not states.get("switch_off_sd_s"):
        began_s, ended_s = changes[0]["time_s"], changes[1]["time_s"]
        took_s, expected_s = ended_s - began_s, states["switch_off_s"]
        in_time = abs(took_s - expected_s) <= 1e-6 * max(1.0, expected_s, began_s)
        what = f"node {node} took {took_s} s to switch off; expected {expected_s} s"
        expect(in_time, "R-power-states", what)


def allocation_of_a_sleeping_node(server: ServerUnderTest) -> None:
    """A job that is allocated a sleeping node starts when the node is on."""
    session = server.open()
    session.decide()
    switchable = _first_switchable(session)
    if switchable is None:
        raise NotTriedError("no node of the scenario has power_states")
    node, _ = switchable
    _bring_to(session, node, "sleeping")
    max_cores = session.capacity[node]
    what = f"a waiting job fits on node {node}"
    number = session.advance_until(lambda: _waiting_job(session, max_cores), what, idle=True)
    events = session.decide({"type": "allocate_job", "job_id": number, "nodes": [node]})
    if not session.options.get("wake_on_allocation"):
        codes = rejection_codes(events)
        what = f"without wake_on_allocation, allocating a sleeping node led to the codes {codes}"
        expect(codes == ["wrong_power_state"], "R-wrong-power-state", what)
        return
    _wait_for_switch(session, node)
    _check_start(session, number, node)


def _check_start(session: OpenSession, number: int, node: int) -> None:
    """Check that a job started on its allocated node when the node was on."""
    ours = [event for event in session.log if event.get("job_id") == number][1:3]
    kinds = [event["type"] for event in ours]
    what = f"allocating the sleeping node {node} to job {number} led to {kinds}"
    expect(kinds == ["job_allocated", "job_started"], "R-allocated", what)
    same = all(ours[0][name] == ours[1][name] for name in ("nodes", "cores"))
    expect(same, "R-allocated", f"the job started on other nodes than allocated: {ours}")
    started_s, on_s = ours[1]["time_s"], _changes_of(session, node)[-1]["time_s"]
    what = f"the job started at {started_s} s; the node was on at {on_s} s"
    expect(started_s == on_s, "R-allocated", what)


def _first_switchable(session: OpenSession) -> tuple[int, Map] | None:
    """Return a node with power states, and these; None: there is none."""
    node = 0
    for group in session.welcome["platform"]["nodes"]:
        if group.get("power_states"):
            return node, group["power_states"]
        node += group["count"]
    return None


def _waiting_job(session: OpenSession, max_cores: int) -> int | None:
    """Return the number of a waiting job of at most `max_cores` cores; None: there is none."""
    return next(
        (job["job_id"] for job in session.waiting.values() if job["cores"] <= max_cores), None
    )


def _switch(node: int, state: str) -> Map:
    return {"type": "set_node_power", "node": node, "state": state}


def _changes_of(session: OpenSession, node: int) -> list[Map]:
    """Return the events `node_power_changed` of a node so far."""
    return [each for each in of_kind(session.log, "node_power_changed") if each["node"] == node]


def _bring_to(session: OpenSession, node: int, state: str) -> None:
    """Switch a node, check that the transition cannot be interrupted, and wait for its end."""
    codes = rejection_codes(session.decide(_switch(node, state), _switch(node, "on")))
    what = f"switching a node during a transition led to the codes {codes}"
    expect(codes == ["wrong_power_state"], "R-power-states", what)
    _wait_for_switch(session, node)


def _wait_for_switch(session: OpenSession, node: int) -> None:
    """Wait until a node in transition is `sleeping` or `on`."""
    what = f"the server sent no node_power_changed for node {node}"
    expect(bool(_changes_of(session, node)), "R-power-states", what)
    session.advance_until(
        lambda: _is_switched(session, node) or None, f"node {node} is on or sleeping", idle=True
    )


def _is_switched(session: OpenSession, node: int) -> bool:
    return _changes_of(session, node)[-1]["state"] in ("sleeping", "on")
