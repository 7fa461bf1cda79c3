"""Checks of a server: power states of nodes."""

from __future__ import annotations

from hpcosim_conformance.errors import NotTriedError, expect
from hpcosim_conformance.servers.server import ServerUnderTest
from hpcosim_conformance.servers.session import Map, OpenSession, of_kind, rejection_codes


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
