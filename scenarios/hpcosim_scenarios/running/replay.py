"""Runs a session again from its journal, alone or with another scheduler from a time on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from hpcosim_protocol import (
    Decisions,
    Events,
    Hello,
    SimulationEnded,
    decode_client_message,
    decode_server_message,
)
from hpcosim_scenarios.errors import ScenariosError
from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library
from hpcosim_scenarios.running.policies import Chosen, chosen_by
from hpcosim_scenarios.running.results import Format, is_incomplete, writers_of
from hpcosim_scenarios.running.warnings import Warn, ignore_warning
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.journal_file import (
    ExchangeRecord,
    JournalReader,
    OpenedRecord,
    PlacedRecord,
)
from hpcosim_server.journal.storage import open_to_read
from hpcosim_server.service.recovery import Rerun, open_again, opened_record, run_again
from hpcosim_server.service.session import Opened
from hpcosim_sim.record.folder import prepare
from hpcosim_sim.record.results import metrics_of, write_results


class Replayed(NamedTuple):
    """A session that ran again.

    Attributes:
        requests: number of requests of the journal that were carried out, all with the recorded
            replies.
        replayed_s: simulated time up to which the journal decided, s.
        fault: why the journal ends early; empty: it does not.
        currency: currency of the costs in them.
    """

    requests: int
    replayed_s: float
    fault: str
    metrics: dict[str, int | float]
    currency: str

    @property
    def part(self) -> str:
        """The number of requests, as text."""
        return f"{self.requests} request{'' if self.requests == 1 else 's'}"


def replay(
    journal: Path,
    *,
    scenario: Path | None = None,
    until_s: float | None = None,
    policy: str | None = None,
    out: Path | None = None,
    force: bool = False,
    formats: Sequence[Format] = (),
    warn: Warn = ignore_warning,
) -> Replayed:
    """Run a session again from its journal, and compare each reply with the recorded one.

    A journal that is cut off or damaged is replayed up to there.

    Args:
        scenario: the scenario's file; None: that of the journal.
        until_s: simulated time at which the replay ends, s; None: the end of the journal.
        policy: a scheduler that takes over there, with a snapshot of the session; None: none does.
        out: the results folder; None: nothing is written.
        force: replace the results in a folder that is not empty.
        formats: additional formats of results.
        warn: called with each warning at the end of the run.

    Raises:
        JournalError: the file is no journal, the scenario has changed, or a reply differs.
        ScenarioError, WorkloadError: the scenario is invalid.
        PolicyError, RunError: the policy cannot take over, or failed.
        ResultsError: the results cannot be written.
    """
    if out is not None:
        prepare(out, force=force or is_incomplete(out))
    with _reading(journal) as reader:
        records = iter(reader)
        opening = opened_record(records, reader)
        if opening is None:
            raise JournalError("the journal is empty: no session was opened")
        path = _scenario_of(opening, scenario)
        library = Library([path], opening.overrides, opening.max_jobs)
        session = open_again(opening, lambda hello: library.open(_plain(hello)))
        _run_until(Rerun(session), records, until_s)
    opened, loaded = session.opened, library.first
    replayed = Replayed(session.seq, opened.simulation.now_s, reader.fault, {}, loaded.currency)
    if policy is None:
        _describe_end(opened, replayed, until_s)
        record, run = opened.simulation.record(), opened.run
        if out is not None:
            write_results(out, record, run, writers_of(formats))
        return replayed._replace(metrics=metrics_of(record, run))
    chosen = chosen_by(loaded, path, policy, opening.overrides)
    return replayed._replace(metrics=_take_over(opened, replayed, chosen, out, formats, warn))


@contextmanager
def _reading(journal: Path) -> Iterator[JournalReader]:
    """Open a journal. The errors of the block name it."""
    file = open_to_read(journal)
    try:
        yield JournalReader(file)
    except JournalError as error:
        raise JournalError(f"{journal}: {error}") from None
    finally:
        file.close()


def _scenario_of(opening: OpenedRecord, scenario: Path | None) -> Path:
    path = scenario or Path(opening.scenario_file)
    if scenario is None and not (opening.scenario_file and path.is_file()):
        raise JournalError(
            f"the scenario's file {opening.scenario_file!r} is missing; name it with --scenario"
        )
    return path


def _plain(hello: Hello) -> Hello:
    """Return a hello without what the library of a replay has already: overrides and seed."""
    return replace(hello, scenario="", seed=None, overrides={})


def _run_until(rerun: Rerun, records: Iterator[PlacedRecord], until_s: float | None) -> None:
    """Carry out the records of a journal, up to a simulated time."""
    crossing: list[Decisions] = []
    for _ in run_again(rerun, _before(records, until_s, crossing)):
        pass
    if until_s is not None and crossing:
        request = crossing[0]
        rerun.session.opened.simulation.advance_until(
            until_s, request.decisions, elapsed_s=request.elapsed_s, seq=request.seq
        )


def _before(
    records: Iterator[PlacedRecord], until_s: float | None, crossing: list[Decisions]
) -> Iterator[PlacedRecord]:
    """Yield the records up to a simulated time; `crossing` receives the request that passes it."""
    for placed in records:
        record = placed.record
        if until_s is not None and isinstance(record, ExchangeRecord):
            reply = decode_server_message(record.reply)
            if isinstance(reply, Events | SimulationEnded) and reply.now_s > until_s:
                request = decode_client_message(record.request)
                assert isinstance(request, Decisions)
                crossing.append(request)
                return
        yield placed


def _describe_end(opened: Opened, replayed: Replayed, until_s: float | None) -> None:
    """Say in `run.json` where the journal ended, unless it says why the session did."""
    if not opened.run.ended_because:
        end = "the journal ends" if until_s is None else "the replay was to end"
        where = f"request {replayed.requests}, simulated time {replayed.replayed_s} s"
        opened.run.ended_because = f"{end} here: {where}"


def _take_over(
    opened: Opened,
    replayed: Replayed,
    chosen: Chosen,
    out: Path | None,
    formats: Sequence[Format],
    warn: Warn,
) -> dict[str, int | float]:
    """Let a policy schedule the rest of a simulation, from a snapshot on."""
    simulation, run = opened.simulation, opened.run
    if run.complete:
        raise ScenariosError(
            f"every job is over at {simulation.now_s} s, and no scheduler can take over; choose an "
            "earlier time with --until"
        )
    if chosen.needs_plan:
        raise ScenariosError("the power manager oracle plans whole runs and cannot take over")
    run.warnings = [
        *run.warnings,
        f"up to the simulated time {replayed.replayed_s} s, {replayed.part} of "
        f"{run.scheduler} from a journal decided; then {chosen.title}",
    ]
    run.scheduler = f"{run.scheduler} then {chosen.title}"
    run.policy, run.ended_because = chosen.description(), ""
    simulation.outbox.profile = None
    snapshot = (simulation.now_s, simulation.snapshot())
    return run_in_process(
        opened,
        chosen.policy(),
        out,
        also=writers_of(formats),
        warn=warn,
        explain=chosen.explain,
        snapshot=snapshot,
    )
