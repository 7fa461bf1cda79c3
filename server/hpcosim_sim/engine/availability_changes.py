"""What a failure, a drain and a repair do to a node and its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcosim_protocol import NodeDrained, NodeFailed, NodePowerChanged, NodeRepaired
from hpcosim_sim.engine.job_runs import fail
from hpcosim_sim.engine.site_events import NodeChangeKind

if TYPE_CHECKING:
    from hpcosim_sim.engine.engine import Engine


def change_node(engine: Engine, kind: NodeChangeKind, node: int) -> bool:
    """Let a node fail, drain or be repaired now.

    Returns:
        Whether the change had an effect.
    """
    if kind == "fail":
        return _fail(engine, node)
    if kind == "drain":
        return _drain(engine, node)
    return _repair(engine, node)


def _fail(engine: Engine, node: int) -> bool:
    """Let a node fail: its jobs are requeued or end, and it draws no power."""
    now_s, jobs = engine.now_s, engine.jobs
    if not engine.availability.fail(now_s, node):
        return False
    engine.outbox.add(NodeFailed(now_s, node))
    for job in jobs.in_order():
        if node in job.nodes:
            fail(engine, job)
    engine.switching.cancel(node)
    engine.power.fail(now_s, node)
    engine.recording.powered(now_s, node, "down")
    return True


def _drain(engine: Engine, node: int) -> bool:
    """Let a node accept no new jobs."""
    if not engine.availability.drain(engine.now_s, node):
        return False
    engine.recording.changed_drain(engine.now_s, node, drained=True)
    engine.outbox.add(NodeDrained(engine.now_s, node))
    return True


def _repair(engine: Engine, node: int) -> bool:
    """Make a node available again. A node that failed is on afterwards."""
    now_s, availability = engine.now_s, engine.availability
    had_failed, was_drained = node in availability.failed, node in availability.drained
    if not availability.repair(node):
        return False
    engine.outbox.add(NodeRepaired(now_s, node))
    if was_drained:
        engine.recording.changed_drain(now_s, node, drained=False)
    if had_failed:
        was_on = engine.power.state[node] == "on"
        engine.power.repair(now_s, node)
        engine.recording.powered(now_s, node, "on")
        if not was_on:
            engine.outbox.add(NodePowerChanged(now_s, node, "on"))
    return True
