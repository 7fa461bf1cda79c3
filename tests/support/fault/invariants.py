"""What holds after every simulated run, whatever went wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from hpcosim_protocol import Error, Welcome, decode_server_message
from support.fault.host import IDLE_S, Executed
from support.fault.operator import Operator
from support.fault.scenes import undisturbed
from support.fault.world import World


def violations(world: World) -> list[str]:
    """Return what does not hold, one sentence each."""
    checks = (_operators, _sessions, _service, _disk, _strangers)
    return [what for check in checks for what in check(world)]


def _operators(world: World) -> Iterator[str]:
    """Every client has the metrics of an undisturbed run, and no session of another."""
    owners: dict[str, int] = {}
    for client in world.operators:
        yield from client.faults
        if not client.done:
            yield f"client {client.number} did not end"
        metrics, _ = undisturbed(client.scenario, client.policy)
        if client.metrics is not None and client.metrics != metrics:
            yield f"client {client.number} has other metrics than an undisturbed run"
        for name in client.sessions:
            if owners.setdefault(name, client.number) != client.number:
                yield f"client {client.number} got a session of client {owners[name]}"
        yield from _lost(world, client)


def _lost(world: World, client: Operator) -> Iterator[str]:
    """The server forgets a session only if it was killed, or its client was silent."""
    for name, why in client.lost:
        session = _executed(world, name)
        if "no message from the client" in why:
            silent_s = session.closed_s - session.heard_s
            if silent_s < IDLE_S:
                yield f"client {client.number} was silent for {silent_s:g} s only: {why}"
        elif session.start == world.host.starts:
            yield f"client {client.number} lost its session: {why}"


def _sessions(world: World) -> Iterator[str]:
    """Each request was carried out once, in order; each simulation is sound."""
    for one, other in combinations(world.host.executed, 2):
        if (one.start, one.nonce) == (other.start, other.nonce) and other.opened_s < one.closed_s:
            yield "a hello opened two sessions"  # the server forgets the nonce of a closed one
    for session in world.host.executed:
        number = int(session.name[:8], 16) if session.name else 0
        if session.seqs != list(range(1, len(session.seqs) + 1)):
            yield f"session {number} carried out the requests {session.seqs}"
        try:
            session.opened.simulation.validate()
        except Exception as error:
            yield f"session {number} is unsound: {error!r}"


def _service(world: World) -> Iterator[str]:
    """The service has forgotten everything and met no bug."""
    yield from world.errors
    service: Any = world.host.service
    left = {
        "open sessions": len(service._open),
        "nonces": len(service._open._by_nonce),
        "held replies": len(service.held),
        "unwritten results": len(service._outcomes),
        "unread messages": len(world.host.waiting),
    }
    yield from (f"{count} {what} are left" for what, count in left.items() if count)
    for failure in service.failures:
        if failure.cause not in ("client_silent", "client_left", "results_not_written"):
            yield f"failure {failure.cause}: {failure.why}"


def _disk(world: World) -> Iterator[str]:
    """A session that is over has its results once, and a complete one has the right ones."""
    disk = world.disk
    yield from (f"the results {name} were written twice" for name in disk.again)
    missing = 0
    for session in world.host.executed:
        run = session.opened.run
        folder = next((name for name in disk.folders if name.endswith(session.name[:8])), None)
        if folder is None:
            missing += bool(run.ended_because)
        elif run.complete and disk.folders[folder] != undisturbed(run.scenario, run.scheduler)[1]:
            yield f"the results {folder} differ from an undisturbed run's"
    if missing > disk.refused + len(world.plan.server_crashes):
        yield f"{missing} results are missing; {disk.refused} met a full disk"


def _strangers(world: World) -> Iterator[str]:
    """A stranger gets no session of a client."""
    own = {name for client in world.operators for name in client.sessions}
    for reply in world.stranger_replies:
        message = decode_server_message(reply)
        if isinstance(message, Welcome) and message.session in own:
            yield "a stranger got the session of a client"
        if isinstance(message, Error) and message.code == "internal_error":
            yield f"a stranger met a bug: {message.message}"


def _executed(world: World, name: str) -> Executed:
    return next(each for each in world.host.executed if each.name == name)
