"""Checks of the power states of a server's nodes."""

from __future__ import annotations

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind, rejection_codes


def node_power(server: ServerUnderTest) -> None:
    """A node is switched off and on through the states, and in the times, that are specified."""
    session = server.open()
    session.decide()
    switchable = _first_switchable(session)
    if switchable is None:
        codes = rejection_codes(session.decide(_switch(0, "sleeping")))
        expect(codes == ["not_allowed"], "R-no-power-states", f"it brought {codes}")
        return
    node, states = switchable
    _bring_to(session, node, "sleeping")
    _bring_to(session, node, "on")
    told = _changes_of(session, node)
    path = [event["state"] for event in told]
    due = ["switching_off", "sleeping", "switching_on", "on"]
    expect(path == due, "R-power-states", f"node {node} was {', '.join(path)}")
    if not states.get("switch_off_sd_s"):
        began_s, ended_s = told[0]["time_s"], told[1]["time_s"]
        took_s, due_s = ended_s - began_s, states["switch_off_s"]
        in_time = abs(took_s - due_s) <= 1e-6 * max(1.0, due_s, began_s)
        what = f"it took {took_s} s to switch off, not {due_s} s"
        expect(in_time, "R-power-states", what)


def allocation_of_a_sleeping_node(server: ServerUnderTest) -> None:
    """A job that is given a sleeping node starts once it is on, if that is allowed at all."""
    session = server.open()
    session.decide()
    switchable = _first_switchable(session)
    if switchable is None:
        raise NotTriedError("no node of the scenario has power_states")
    node, _ = switchable
    _bring_to(session, node, "sleeping")
    most = session.capacity[node]
    small = "a job waits that the node could run"
    number = session.until(lambda: _waiting_job(session, most), small, idle=True)
    events = session.decide({"type": "allocate_job", "job_id": number, "nodes": [node]})
    if not session.options.get("wake_on_allocation"):
        codes = rejection_codes(events)
        what = f"without wake_on_allocation it brought {codes}"
        expect(codes == ["wrong_power_state"], "R-wrong-power-state", what)
        return
    _wait_for_switch(session, node)
    _check_start(session, number, node)


def _check_start(session: OpenSession, number: int, node: int) -> None:
    """Check that a job started on the node it was allocated, as soon as that was on."""
    ours = [event for event in session.log if event.get("job_id") == number][1:3]
    kinds = [event["type"] for event in ours]
    what = f"job {number}, given node {node}, which slept, brought {kinds}"
    expect(kinds == ["job_allocated", "job_started"], "R-allocated", what)
    same = all(ours[0][name] == ours[1][name] for name in ("nodes", "cores"))
    expect(same, "R-allocated", f"it started elsewhere than it was allocated: {ours}")
    started_s, on_s = ours[1]["time_s"], _changes_of(session, node)[-1]["time_s"]
    what = f"it started at {started_s} s, and the node was on at {on_s} s"
    expect(started_s == on_s, "R-allocated", what)


def _first_switchable(session: OpenSession) -> tuple[int, Map] | None:
    """Return a node that can be switched off, and its group's `power_states`; None: none can."""
    node = 0
    for group in session.welcome["platform"]["nodes"]:
        if group.get("power_states"):
            return node, group["power_states"]
        node += group["count"]
    return None


def _waiting_job(session: OpenSession, most: int) -> int | None:
    """Return the number of a waiting job of at most so many cores; None: there is none."""
    return next((job["job_id"] for job in session.waiting.values() if job["cores"] <= most), None)


def _switch(node: int, state: str) -> Map:
    return {"type": "set_node_power", "node": node, "state": state}


def _changes_of(session: OpenSession, node: int) -> list[Map]:
    """Return the changes of a node's power state so far."""
    return [each for each in of_kind(session.log, "node_power_changed") if each["node"] == node]


def _bring_to(session: OpenSession, node: int, state: str) -> None:
    """Switch a node, check that it can't be switched meanwhile, and wait until it is there."""
    codes = rejection_codes(session.decide(_switch(node, state), _switch(node, "on")))
    what = f"switching a node twice at once brought {codes}"
    expect(codes == ["wrong_power_state"], "R-power-states", what)
    _wait_for_switch(session, node)


def _wait_for_switch(session: OpenSession, node: int) -> None:
    """Wait until a node that is being switched is `sleeping` or `on`."""
    what = f"it tells nothing of node {node} being switched"
    expect(bool(_changes_of(session, node)), "R-power-states", what)
    session.until(
        lambda: _is_switched(session, node) or None, f"node {node} is switched", idle=True
    )


def _is_switched(session: OpenSession, node: int) -> bool:
    return _changes_of(session, node)[-1]["state"] in ("sleeping", "on")
