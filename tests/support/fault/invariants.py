"""What holds after every simulated run, whatever went wrong in it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from msgspec.structs import replace

from hpcosim_protocol import Error, SimulationEnded, Welcome, decode_server_message, encode
from hpcosim_server.journal.store import SYNC_INTERVAL_S
from hpcosim_sim.record.folder import LAST
from support.fault.host import IDLE_S
from support.fault.operator import Operator
from support.fault.recorder import Executed
from support.fault.scenes import STATEFUL, undisturbed
from support.fault.world import World

DOCUMENTED = ("client_silent", "client_left", "results_not_written", "stopped")
"""Causes of failures that the service may report."""
UNSAFE_S = 2.0 * SYNC_INTERVAL_S
"""Longest time of records that a power failure loses with `interval`, s: see `Journals.tick`."""


def violations(world: World) -> list[str]:
    """Return what does not hold, one sentence each."""
    checks = (_operators, _sessions, _replies, _service, _disk, _journals, _strangers)
    return [what for check in checks for what in check(world)]


def _operators(world: World) -> Iterator[str]:
    """Every client has the metrics of an undisturbed run, and no session of another."""
    owners: dict[str, int] = {}
    for client in world.operators:
        yield from client.faults
        if not client.done:
            yield f"client {client.number} did not end"
        metrics, _ = undisturbed(client.scenario, client.policy)
        is_same = client.metrics is None or client.metrics == metrics
        if not is_same and not _has_another_state(client, client.sessions[-1]):
            yield f"client {client.number} has other metrics than an undisturbed run"
        for name in client.sessions:
            if owners.setdefault(name, client.number) != client.number:
                yield f"client {client.number} got a session of client {owners[name]}"
        yield from _told(world, client)
        yield from _lost(world, client)
        yield from _ahead(world, client)


def _told(world: World, client: Operator) -> Iterator[str]:
    """A client learns from its last reply that its results are not written."""
    if client.metrics is None:
        return
    label = client.sessions[-1][:8]
    if client.misses_results and label not in map(label_of, world.disk.ever_refused):
        yield f"client {client.number} was told of missing results that were written"
    restarted = world.host.latest(client.sessions[-1]).start < world.host.starts
    missing = label in map(label_of, world.disk.refused)
    if missing and not client.misses_results and not restarted:
        yield f"client {client.number} was not told that its results are not written"


def _has_another_state(client: Operator, session: str) -> bool:
    """Return whether the policy of a client has lost its state in a session."""
    return client.policy in STATEFUL and session in client.snapshots


def _lost(world: World, client: Operator) -> Iterator[str]:
    """The server forgets a session only as documented."""
    for name, why in client.lost:
        session = world.host.latest(name)
        if "no memory is left" in why:
            if not any(each.starved for each in world.host.executed if each.name == name):
                yield f"client {client.number} had memory: {why}"
        elif "no message from the client" in why:
            was_over = session.closed_s == session.opened_s  # restored with the record of its end
            if _silent_s(session) < IDLE_S and not was_over:
                yield f"client {client.number} was silent for {_silent_s(session):g} s only: {why}"
        elif not (_was_unused(world, name) or _may_be_lost(world, name)):
            yield f"client {client.number} lost its session {int(name[:8], 16)}: {why}"


def _silent_s(session: Executed) -> float:
    """Return how long a client had been silent when its session was closed, s; 0: it was not."""
    heard_s = max(session.opened_s, session.heard_s)
    return 0.0 if session.closed_s == math.inf else session.closed_s - heard_s


def _was_unused(world: World, name: str) -> bool:
    """Return whether a session never had a request, and was closed for the silence of its client.

    It does not count, so its journal is removed, and the next start of the server does not know it.
    """
    executed = [each for each in world.host.executed if each.name == name]
    if any(each.seqs for each in executed) or executed[-1].start == world.host.starts:
        return False
    return _silent_s(executed[-1]) >= IDLE_S


def _ahead(world: World, client: Operator) -> Iterator[str]:
    """The server forgets requests only if its disk failed, or was not synchronised."""
    for name, why in client.ahead:
        if name in client.snapshots:
            continue  # a late request of the process before differs from that after a snapshot
        if not (_was_journal_cut(world, name) or _is_unsafe(world)):
            yield f"client {client.number}, session {int(name[:8], 16)}: {why}"


def _may_be_lost(world: World, name: str) -> bool:
    """Return whether a session may be gone, because the server was killed."""
    host, plan = world.host, world.plan
    first = next(each for each in host.executed if each.name == name)
    if host.starts == first.start:
        return False
    if not plan.journal or (plan.journal == "never" and plan.power_fails):
        return True
    if _was_journal_cut(world, name):
        return True
    if plan.slow or plan.server_stops:  # a server that is busy or stopped synchronises nothing
        return _is_unsafe(world)
    return _is_unsafe(world) and host.ended_s[first.start - 1] - first.opened_s <= UNSAFE_S


def _was_journal_cut(world: World, name: str) -> bool:
    """Return whether the journal of a session met a full disk."""
    failed = (journal for event, journal, _ in world.log if event == "journal_failed")
    return any(label_of(journal) == name[:8] for journal in failed)


def _is_unsafe(world: World) -> bool:
    """Return whether the last records may be lost."""
    return world.plan.power_fails and world.plan.journal in ("interval", "never")


def _sessions(world: World) -> Iterator[str]:
    """Each request was carried out once, in order; each simulation is sound."""
    # Others were over; strangers may have no nonce.
    opened = [each for each in world.host.executed if each.name and each.nonce]
    for one, other in combinations(opened, 2):
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


def _replies(world: World) -> Iterator[str]:
    """A request that was carried out always has the same reply, also after a restart."""
    for (name, seq), sent in world.host.replies.items():
        # The next attempt of a server that was started again can write the results.
        replies = {_without_results_error(reply) for reply in sent}
        if len(replies) > 1 and not (_is_unsafe(world) or _was_journal_cut(world, name)):
            yield f"request {seq} of session {int(name[:8], 16)} has {len(replies)} replies"


def _without_results_error(reply: bytes) -> bytes:
    if b"results_error" not in reply:
        return reply
    message = decode_server_message(reply)
    assert isinstance(message, SimulationEnded)
    return encode(replace(message, results_error=""))


def _service(world: World) -> Iterator[str]:
    """The service has forgotten everything, met no bug, and kept its limits."""
    starved = sum(each.starved for each in world.host.executed)
    yield from world.errors[starved:]
    yield from world.host.excess
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
        if failure.cause not in DOCUMENTED and not (starved and failure.cause == "internal_error"):
            yield f"failure {failure.cause}: {failure.why}"


def _disk(world: World) -> Iterator[str]:
    """A session that is over has its results once, and a complete one has the right ones."""
    disk = world.disk
    yield from (f"the complete results {name} were replaced" for name in disk.overwritten)
    last = {session.name: session for session in world.host.executed if session.name}
    for name, session in last.items():
        run = session.opened.run
        folder = next((each for each in disk.folders if label_of(each) == name[:8]), "")
        files = disk.folders.get(folder)
        # A session that was stopped has results, which those of its end replace.
        is_complete = files is not None and bool(json.loads(files[LAST])["complete"])
        if files is None or (run.complete and not is_complete):
            if run.ended_because and not _may_lack_results(world, session):
                yield f"the results of session {int(name[:8], 16)} are missing"
        elif any(_has_another_state(client, name) for client in world.operators):
            continue
        elif is_complete and files != undisturbed(run.scenario, run.scheduler)[1]:
            yield f"the results {folder} differ from an undisturbed run's"


def _may_lack_results(world: World, session: Executed) -> bool:
    """Return whether there are none: no request, a full disk, or the server was killed."""
    if not session.seqs:
        return True
    if any(label_of(each) == session.name[:8] for each in world.disk.refused):
        return True
    return session.start < world.host.starts and _may_be_lost(world, session.name)


def _journals(world: World) -> Iterator[str]:
    """No journal is damaged, and none is open but those that the log names."""
    named = {journal for _, journal, _ in world.log} | world.disk.refused
    for path in world.disk.files:
        if path.parent.name == "open" and path.stem not in named:
            yield f"the journal {path} is left"
    for event, journal, error in world.log:
        if event == "session_not_restored" and not world.plan.power_fails:
            yield f"the journal {journal} was not restored: {error}"


def label_of(folder: str) -> str:
    """Return the label of the session in the name of a results folder or a journal."""
    return folder.rpartition("-")[2]


def _strangers(world: World) -> Iterator[str]:
    """A stranger gets no session of a client."""
    own = {name for client in world.operators for name in client.sessions}
    for reply in world.stranger_replies:
        message = decode_server_message(reply)
        if isinstance(message, Welcome) and message.session in own:
            yield "a stranger got the session of a client"
        if isinstance(message, Error) and message.code == "internal_error":
            yield f"a stranger met a bug: {message.message}"
