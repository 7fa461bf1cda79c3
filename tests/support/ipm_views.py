"""Views of nodes in all power states, for tests of the planner IPM."""

from __future__ import annotations

from hypothesis import strategies as st

from hpcosim_client import View
from hpcosim_protocol import Event, JobSubmitted, NodePowerChanged, PowerState, PowerStates
from support.ipm_oracle import IDLE_W, OFF_S, OFF_W, ON_S, ON_W, SLEEP_W, SlowNode
from support.power_manager_runs import nodes_of

NOW_S = 50.0
STATES = PowerStates(SLEEP_W, ON_S, ON_W, OFF_S, OFF_W)
WAYS: dict[str, tuple[PowerState, ...]] = {
    "on": (),
    "computing": (),
    "switching_off": ("switching_off",),
    "sleeping": ("switching_off", "sleeping"),
    "switching_on": ("switching_off", "sleeping", "switching_on"),
}


def view_of(nodes: list[SlowNode]) -> View:
    """Return the view at `NOW_S` of nodes in these states."""
    platform = nodes_of(len(nodes), STATES)
    assert platform.nodes[0].idle_w == IDLE_W
    view = View(platform)
    for node in nodes:
        events: list[Event] = []
        if node.state == "computing":
            lasts_s = node.end_s - node.since_s
            events.append(JobSubmitted(node.since_s, node.number + 1, 1, lasts_s))
        events += [NodePowerChanged(node.since_s, node.number, state) for state in WAYS[node.state]]
        view.apply(node.since_s, events)
        if node.state == "computing":
            assert view.start(view.queue[node.number + 1], [node.number])
        if node.state == "on":
            view.power_exchange.idle_since_s[node.number] = node.since_s
    view.apply(NOW_S, [])
    return view


@st.composite
def slow_nodes(draw: st.DrawFn, most: int = 7) -> list[SlowNode]:
    """Draw nodes; transitions may be late, and jobs may have overrun."""
    states = draw(st.lists(st.sampled_from(list(WAYS)), min_size=1, max_size=most))
    since = [draw(st.sampled_from([30.0, 40.0, 44.0, 47.0, 49.0])) for _ in states]
    lasts = [draw(st.sampled_from([5.0, 15.0, 25.0, 60.0])) for _ in states]
    return [
        SlowNode(number, state, since_s, since_s + lasts_s)
        for number, (state, since_s, lasts_s) in enumerate(zip(states, since, lasts, strict=True))
    ]
