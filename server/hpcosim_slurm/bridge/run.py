"""Runs a bridge: checks the cluster, polls its state, and serves schedulers at a socket."""

from __future__ import annotations

import queue
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from hpcosim_server import log
from hpcosim_server.service.keys import LOCAL_ONLY, Access, check_exposure, clients_of
from hpcosim_server.service.socket_loop import PublicDoor, bounds_of
from hpcosim_server.wire.listener import close_listener, endpoint_of, listen
from hpcosim_slurm.bridge.bridge import Bridge, OrderExecutor, SafetyLimits
from hpcosim_slurm.bridge.session import BridgeState, MakeWorld, SchedulerSession
from hpcosim_slurm.checks import CheckedCluster, Wanted, check_cluster, exclusive, lock_folder
from hpcosim_slurm.commands import Carrier
from hpcosim_slurm.config import ClusterConfig, Mode
from hpcosim_slurm.errors import JournalError, SlurmError
from hpcosim_slurm.hooks import Bell, HookReader
from hpcosim_slurm.journal import FORMAT, Began, Journal, read
from hpcosim_slurm.reading import read_state
from hpcosim_slurm.state import ClusterState
from hpcosim_slurm.tools import Tools
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.site import PowerModel, Site, chosen, shared_with

TICK_S = 0.05  # longest time without a look at the results of polling, s
FLUSH_S = 2.0  # timeout for sending the last replies, s

STOP_S = 0.5  # longest time until a thread that waits for hooks ends, s


def course_of(
    path: Path | None,
    began: Began,
    make_world: MakeWorld,
    warn: Callable[[str], None],
) -> tuple[BridgeState, Journal]:
    """Return the state of a bridge and its open journal.

    Args:
        path: the journal. If it exists, its records happen first. None: nothing is written.

    Raises:
        JournalError: the file is no journal, or that of a bridge with other settings.
        OSError: it cannot be read or written.
    """
    course = BridgeState(began.site, make_world)
    is_old = path is not None and path.exists() and path.stat().st_size > 0
    if path is not None and is_old:
        for record in read(path, warn):
            if isinstance(record, Began):
                _check_same(path, record, began)
            course.happen(record)
    journal = Journal(path)
    if not is_old:
        journal.append(began)
    return course, journal


def began_now(site: Site, mode: str, version: str, now_s: float) -> Began:
    """Return the first record of a new journal."""
    return Began(at_s=now_s, format=FORMAT, hpcosim=version, mode=mode, site=site)


def _check_same(path: Path, old: Began, new: Began) -> None:
    for what, before, now in (
        ("mode", old.mode, new.mode),
        ("cluster", old.site.name, new.site.name),
        ("partitions", list(old.site.partitions), list(new.site.partitions)),
        ("settings", old.site, new.site),
    ):
        if before != now:
            raise JournalError(
                f"{path}: the journal is of a bridge with another {what}, {before}; this one has "
                f"{now}; expected the same, or another --journal"
            )


Read = Callable[[], ClusterState]
"""Reads the state of the cluster. It raises a `SlurmError` if it cannot."""


class Polling:
    """Reads the state of the cluster at intervals, and when a hook of Slurm rings.

    Args:
        wait: waits for a time, or until a hook of Slurm rings, and returns whether one has rung;
            None: there are no hooks.
    """

    def __init__(
        self, read: Read, interval_s: float, wait: Callable[[float], bool] | None = None
    ) -> None:
        self._read = read
        self._interval_s = interval_s
        self._found: queue.SimpleQueue[ClusterState | SlurmError] = queue.SimpleQueue()
        self._wait = wait
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="polling", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the reading that it is doing."""
        self._over.set()
        self._thread.join()

    def take(self) -> ClusterState | SlurmError | None:
        """Return the next result of a reading; None: there is no new one."""
        try:
            return self._found.get_nowait()
        except queue.Empty:
            return None

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                self._found.put(self._read())
            except SlurmError as error:
                self._found.put(error)
            except OSError as error:  # no process or file can be had now
                self._found.put(SlurmError(f"the cluster cannot be read: {error}"))
            if self._wait is None:
                self._over.wait(self._interval_s)
            else:
                self._wait_for_ring(self._wait)

    def _wait_for_ring(self, wait: Callable[[float], bool]) -> None:
        until_s = time.monotonic() + self._interval_s
        while not self._over.is_set() and (left_s := until_s - time.monotonic()) > 0.0:
            if wait(min(left_s, STOP_S)):
                return


@dataclass(frozen=True, kw_only=True)
class BridgeSettings:
    """Settings of a bridge.

    Attributes:
        bind: address to listen at.
        mode: what the bridge may do.
        partitions: names of the partitions that the scheduler sees; empty, for shadow only: all.
            In the modes `hold` and `place`, jobs start in them.
        waiting: for each partition the one in which its jobs wait; empty: none.
        power: power of the nodes; its `switches` is replaced by whether Slurm switches nodes.
        show: prints commands instead of running them; None: run them.
        releases: whether the end of the bridge releases all waiting jobs and closes the session;
            otherwise a bridge with the same journal can go on.
        bell: FIFO to which hooks of Slurm write; None: there is none.
    """

    bind: str
    mode: Mode = "shadow"
    partitions: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    poll_s: float = 1.0
    journal: Path | None = None
    power: PowerModel = field(default_factory=PowerModel)
    start_timeout_s: float = 30.0
    limits: SafetyLimits = field(default_factory=SafetyLimits)
    show: Callable[[str], object] | None = None
    releases: bool = False
    bell: Path | None = None
    access: Access = LOCAL_ONLY


def run_bridge(
    settings: BridgeSettings,
    version: str,
    stopped: Callable[[], str],
    warn: Callable[[str], None],
    tools: Tools | None = None,
) -> str:
    """Serve schedulers until there is a reason to stop, and return it.

    Args:
        tools: Slurm's commands; None: those of this machine.

    Raises:
        SlurmError: there is no Slurm, its version is not supported, the controller does not
            answer, a right is missing, a partition is missing or has another state than expected,
            another bridge acts on it, or the journal is of another bridge.
        BindError: the address is malformed, in use or not permitted.
        OSError: the journal cannot be read or written.
    """
    tools, acts = tools or Tools(), settings.mode != "shadow"
    wanted = Wanted(settings.mode, settings.partitions, settings.waiting)
    checked = check_cluster(tools, wanted)
    site = site_of(checked.config, settings)
    chosen(checked.state, site)
    _warn(checked, site, settings, warn)
    with ExitStack() as stack:
        if acts:
            stack.enter_context(exclusive(*locks_of(site, checked.config.port), lock_folder()))
        listener = stack.enter_context(listening(settings.bind, settings.access))
        began = began_now(site, settings.mode, version, time.time())
        make_world = LiveWorld if acts else ShadowWorld
        course, journal = course_of(settings.journal, began, make_world, warn)
        acting = _acting(tools, settings) if acts else None
        bridge = Bridge(course, journal, time.time, f"hpcosim slurm {version}", acting)
        bridge.note(checked.state)
        bell = None if settings.bell is None else stack.enter_context(Bell(settings.bell))
        reading = partial(read_state, tools)
        polling = Polling(reading, settings.poll_s)
        if bell is not None:
            heard = HookReader(reading, bell)
            polling = Polling(heard.read, settings.poll_s, heard.wait)
        log.info("slurm", cluster=site.name, version=checked.config.version, mode=settings.mode)
        polling.start()
        stack.callback(polling.stop)
        continues = settings.journal is not None and not settings.releases
        return serve(bridge, polling, listener, stopped, settings.access, continues=continues)


def _acting(tools: Tools, settings: BridgeSettings) -> OrderExecutor:
    limits = settings.limits
    if settings.show is not None:  # no decision is carried out, and that is as it should be
        limits = replace(limits, rejected=sys.maxsize)
    return OrderExecutor(Carrier(tools, settings.show), limits)


def locks_of(site: Site, port: str) -> tuple[str, list[str]]:
    """Return the cluster and the partitions that only one bridge may act on.

    Args:
        port: port of its controller, which differs for clusters of one name on one machine.
    """
    return f"{site.name}:{port}", [*site.partitions, *site.waiting]


def site_of(config: ClusterConfig, settings: BridgeSettings) -> Site:
    """Return what the bridge knows of a cluster beside its state."""
    switches = bool(config.suspend_program and config.resume_program)
    return Site(
        name=config.name,
        partitions=settings.partitions,
        holds_memory=config.is_memory_counted,
        power=msgspec.structs.replace(settings.power, switches=switches),
        mode=settings.mode,
        waiting=settings.waiting,
        start_timeout_s=settings.start_timeout_s,
    )


def _warn(
    checked: CheckedCluster, site: Site, settings: BridgeSettings, warn: Callable[[str], None]
) -> None:
    if others := shared_with(checked.state, site):
        warn(
            f"the partitions {', '.join(others)} have nodes of the partitions of the scheduler; "
            "their jobs take these nodes as in reality, and it does not decide on them"
        )
    if settings.bell is not None and not checked.config.has_hooks:
        warn(
            f"--bell {settings.bell}: slurm.conf has no program that could write to it; expected "
            "PrologSlurmctld or JobCompType=jobcomp/script"
        )


class States(Protocol):
    """Where states of the cluster come from; see `Polling`."""

    def take(self) -> ClusterState | SlurmError | None:
        """Return the next state, or why there is none; None: nothing new."""


class SchedulerDoor(PublicDoor):
    """Connections of schedulers. It tells which connections were closed."""

    forgets_closed = False

    def closed(self) -> list[bytes]:
        """Return the addresses of the connections that were closed since the last call."""
        found = list(self._peers.closed)
        self._peers.closed.clear()
        return found


@contextmanager
def listening(address: str, access: Access = LOCAL_ONLY) -> Iterator[socket.socket]:
    """Yield a socket that listens at an address, and close it at the end of the context.

    Raises:
        BindError: the address is malformed, in use or not permitted.
    """
    listener = listen(address)
    try:
        check_exposure(endpoint_of(listener), access)
        yield listener
    finally:
        close_listener(listener)


def serve(
    bridge: Bridge,
    states: States,
    listener: socket.socket,
    stopped: Callable[[], str],
    access: Access = LOCAL_ONLY,
    *,
    continues: bool,
) -> str:
    """Serve schedulers until there is a reason to stop.

    Args:
        continues: whether a bridge with the same journal can continue the session, so that the
            scheduler hears nothing of the end.
    """
    try:
        peers = clients_of(listener, bounds_of(SchedulerSession.limits), access)
        door = SchedulerDoor(peers)
        log.info("listening", address=endpoint_of(listener))
        while not (reason := stopped()):
            step(bridge, states, door)
        if continues:
            if jobs := bridge.left_waiting():
                hint = "--release-on-stop would release them"
                hint = f"until a bridge goes on with this journal; {hint}"
                log.warning("jobs_wait", jobs=jobs, hint=hint)
        else:
            for envelope, reply in bridge.stop():
                door.send(envelope, reply)
        peers.flush(FLUSH_S)
        peers.close()
    finally:
        bridge.close()
    log.info("stopped", reason=reason)
    return reason


def step(bridge: Bridge, states: States, door: SchedulerDoor) -> None:
    """Answer one request, note new states, and send the replies that are due."""
    request = door.receive(min(TICK_S, bridge.next_s()))
    for address in door.closed():
        bridge.left(address)
    _send_due(bridge, door)  # alarms before what was seen later
    while (found := states.take()) is not None:
        if isinstance(found, SlurmError):
            bridge.lost(found)
            continue
        try:
            bridge.note(found)
        except SlurmError as error:
            bridge.lost(error)
    if request is not None:
        answer = bridge.answer(request.body, request.size, request.envelope)
        if answer:
            door.send(request.envelope, answer)
    _send_due(bridge, door)


def _send_due(bridge: Bridge, door: SchedulerDoor) -> None:
    for envelope, reply in bridge.due():
        door.send(envelope, reply)
