"""A benchmark run: all instances of a suite with one scheduler, written as a submission."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hpcosim_conformance.clients.connection import Program, describe_status, started
from hpcosim_experiments.benchmark.journal import (
    Line,
    Recorded,
    Stopwatch,
    line_of,
    record,
    recorded,
)
from hpcosim_experiments.benchmark.submission import (
    Author,
    Transport,
    Verified,
    Verifier,
    read_submission,
    write_submission,
)
from hpcosim_experiments.benchmark.suite import Suite, SuiteFile, policy_of
from hpcosim_protocol import Decisions, Hello, Welcome, decode_client_message, decode_server_message
from hpcosim_scenarios.errors import RunError
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_schedulers.catalogue.schedulers import SCRIPTED, short_name
from hpcosim_schedulers.power.settings import PATHS
from hpcosim_server.errors import SessionRefused
from hpcosim_server.journal.journal_file import ExchangeRecord, JournalReader, OpenedRecord
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.held_replies import Envelope
from hpcosim_server.service.keys import LOCAL_ONLY, Access
from hpcosim_server.service.limits import Limits
from hpcosim_server.service.service import Service
from hpcosim_server.service.session import Opened
from hpcosim_server.service.socket_loop import ALL_OVER, serve

Report = Callable[[str], None]
"""Called with the name of each instance before it runs."""

INSTANCE = "{instance}"
"""Stands for the name of the instance in the name of a scheduler, such as that of a schedule."""


def run_policy(
    suite: Suite,
    scheduler: str,
    power: Mapping[str, Any],
    power_awareness: str,
    out: Path,
    author: Author,
    report: Report,
) -> Verified:
    """Run a suite with a scheduler in this process; write and verify the submission.

    Args:
        scheduler: name of a scheduler, PATH.py:FUNCTION, or an agent of the instances' scenarios;
            `INSTANCE` in it is replaced by the name of the instance.
        power: the power manager, as in a scenario.
        power_awareness: treatment of nodes that are not on, as in a scenario.
        out: the file to write.
        author: what to say about the scheduler.
        report: called with the name of each instance before it runs.

    Raises:
        BenchmarkError: an instance differs from that of the suite, or the scheduler decided what
            the suite does not allow.
        RunError: the scheduler failed.
        ScenarioError, PolicyError, OracleError: the policy is invalid.
        StoreError: the submission cannot be written.
    """
    verifier, runs = Verifier(suite), {}
    for instance in suite.file.instances:
        report(instance.name)
        loaded = verifier.load(instance)
        named = scheduler.replace(INSTANCE, instance.name)
        chosen = policy_of(suite, instance, loaded, named, power, power_awareness)
        runs[instance.name] = record(suite.file, instance.name, loaded, chosen)
    policy = {  # without the paths of files on this machine
        "scheduler": short_name(scheduler),
        "power": {key: Path(value).name if key in PATHS else value for key, value in power.items()},
        "power_awareness": power_awareness,
    }
    transport: Transport = "schedule" if scheduler.startswith(SCRIPTED) else "inproc"
    write_submission(out, suite, author, runs, transport=transport, policy=policy)
    return verifier(read_submission(out))


def run_served(
    suite: Suite,
    address: str,
    client: Sequence[str],
    access: Access,
    out: Path,
    author: Author,
    report: Report,
) -> Verified:
    """Run a suite with a scheduler in its own process; write and verify the submission.

    Args:
        address: address at which the instances are served.
        client: as `command` of `serve_instances`.
        out: the file to write.
        author: what to say about the scheduler.
        report: called with the name of each instance when a session of it is opened.

    Raises:
        RunError, BenchmarkError, BindError, CommandError: as `serve_instances`.
        StoreError: the submission cannot be written.
    """
    verifier = Verifier(suite)
    instances = {each.name: verifier.load(each) for each in suite.file.instances}
    runs = serve_instances(suite.file, instances, address, client, access, report)
    write_submission(out, suite, author, runs, transport="wire", policy={})
    return verifier(read_submission(out))


def serve_instances(
    suite: SuiteFile,
    instances: Mapping[str, LoadedScenario],
    address: str,
    command: Sequence[str] = (),
    access: Access = LOCAL_ONLY,
    report: Callable[[str], None] = lambda name: None,
) -> dict[str, Recorded]:
    """Serve the instances of a suite to a scheduler, one after the other; return the runs.

    Args:
        instances: its instances by name, in the order in which they are served.
        address: address to listen at.
        command: words of a command that starts the scheduler for one session, in which `{address}`
            is replaced by the address; empty: somebody else starts it, and it connects again after
            each session.
        report: called with the name of each instance when a session of it is opened.

    Raises:
        RunError: a session failed, or the server was stopped.
        BenchmarkError: the scheduler decided what the suite does not allow.
        BindError: the server cannot listen at the address.
        CommandError: the command cannot be started.
    """
    with tempfile.TemporaryDirectory(prefix="hpcosim-") as scratch, ExitStack() as stack:
        journals = Journals(Path(scratch), "never")
        programs = _Programs(stack, command, address) if command else None
        service = _InstanceService(instances, journals, programs, report)
        reason = serve(service, address, access=access)
        if service.trouble or reason != ALL_OVER:
            raise RunError(service.trouble or f"the benchmark was {reason}")
        requests = dict(_read(journals, journal) for journal in journals.ended_names())
        return {
            name: recorded(suite, name, loaded, requests[name], service.stopwatches[name])
            for name, loaded in instances.items()
        }


def _read(journals: Journals, name: str) -> tuple[str, list[Line]]:
    """Return the instance of a session, and its requests, from its journal."""
    file = journals.read(name, ended=True)
    instance, lines = "", []
    try:
        for placed in JournalReader(file):
            record = placed.record
            if isinstance(record, OpenedRecord):
                welcome = decode_server_message(record.welcome)
                assert isinstance(welcome, Welcome)
                instance = welcome.scenario
            elif isinstance(record, ExchangeRecord):
                request = decode_client_message(record.request)
                assert isinstance(request, Decisions)
                lines.append(line_of(request.decisions, request.wake_on, request.elapsed_s))
    finally:
        file.close()
    return instance, lines


class _InstanceService(Service):
    """A service whose sessions are the instances, one at a time."""

    def __init__(
        self,
        instances: Mapping[str, LoadedScenario],
        journals: Journals,
        programs: _Programs | None,
        report: Callable[[str], None],
    ) -> None:
        super().__init__(
            self._open_next,
            Limits(sessions=1),
            sessions=len(instances),
            journals=journals,
            scenarios=list(instances),
        )
        self.stopwatches = {name: Stopwatch() for name in instances}
        self.trouble = ""
        self._instances = list(instances.items())
        self._programs = programs
        self._report = report

    @property
    def done(self) -> bool:
        """See `Service`."""
        return bool(self.trouble) or super().done

    def answer(self, data: bytes, envelope: Envelope = ()) -> bytes:
        """See `Service`. The time since the last reply is that of a decision."""
        before = self.counts
        watch = self._watch(before.opened) if before.active else None
        if watch is not None:
            watch.stop()
        reply = super().answer(data, envelope)
        if self.counts.active:
            self._watch(self.counts.opened).start()
        return reply

    def tidy(self, *, last: bool = False) -> None:
        """See `Service`. A failed session ends the benchmark."""
        super().tidy(last=last)
        over = self.counts.over
        if self.trouble or last:
            return
        if self.failures:
            said = f"; {self._programs.last_lines()}" if self._programs else ""
            self.trouble = f"{self._instances[over - 1][0]}: {self.failures[0].why}{said}"
        elif self._programs is not None and not self.done:
            self.trouble = self._programs.tend(over, len(self._instances))

    def _watch(self, opened: int) -> Stopwatch:
        """Return the stopwatch of the session that is the `opened`-th."""
        return self.stopwatches[self._instances[opened - 1][0]]

    def _open_next(self, hello: Hello) -> Opened:
        """Return the simulation of the next instance."""
        name, loaded = self._instances[self.counts.opened]
        if hello.overrides or hello.seed not in (None, loaded.scenario.seed):
            what = "overrides and seed: the instances of a suite are fixed; expected none"
            raise SessionRefused("invalid_scenario", what)
        if hello.scenario not in ("", name):
            what = f"scenario: expected none, or that of the next instance, {name!r}"
            raise SessionRefused("unknown_scenario", what)
        opened = open_loaded(loaded, hello.client)
        opened.run.scenario = name
        self._report(name)
        return opened


class _Programs:
    """Starts the scheduler's command for each session."""

    def __init__(self, stack: ExitStack, words: Sequence[str], address: str) -> None:
        self._stack = stack
        self._words = words
        self._address = address
        self._program: Program | None = None
        self._started = 0

    def tend(self, over: int, sessions: int) -> str:
        """Start the program for the next session when it has ended."""
        if self._program is not None:
            status = self._program.status()
            if status is None:
                return ""
            if status or self._started > over:
                return (
                    f"the scheduler {describe_status(status)} in session {self._started} of "
                    f"{sessions}; {self.last_lines()}"
                )
        if self._started < sessions:
            self._stack.close()
            self._program = self._stack.enter_context(started(self._words, self._address))
            self._started += 1
        return ""

    def last_lines(self) -> str:
        """Return what the program wrote last, for an error."""
        said = self._program.last_lines() if self._program is not None else ""
        return f"it wrote: {said}" if said else "it wrote nothing"
