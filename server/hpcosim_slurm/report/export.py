"""The report of a journal: its figures as JSON and text, and two runs as results folders."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np

from hpcosim_protocol import AllocateJob, JobState, SetNodePower
from hpcosim_protocol.hosts import compress
from hpcosim_sim.engine.jobs import SimulatedJob
from hpcosim_sim.physics.power import RECORDED_STATES
from hpcosim_sim.record.folder import write_together
from hpcosim_sim.record.metrics import errors_by_lead
from hpcosim_sim.record.recording import STATES
from hpcosim_sim.record.results import Run, to_json, write_results
from hpcosim_slurm.bridge.session import BridgeState, SchedulerSession
from hpcosim_slurm.errors import JournalError
from hpcosim_slurm.journal import AnyRecord, Asked, Began, Closed, Opened, Seen
from hpcosim_slurm.report.decided_runs import (
    DecidedRuns,
    Fate,
    ObservedCluster,
    Outcome,
    acted,
    real_run,
    said_in,
    shown_spec,
)
from hpcosim_slurm.report.figures import (
    JobRow,
    OneRun,
    PowerChange,
    ScriptedRun,
    SessionRows,
    SideFigures,
    Spread,
    part,
    power_of,
    run_of,
    shown_part,
    shown_spread,
    shown_time,
    side_of,
    text_of,
    wait_s,
)
from hpcosim_slurm.worlds.cluster_copy import ShadowWorld
from hpcosim_slurm.worlds.site import Site, with_off_state

WORDS: Mapping[Fate, str] = {
    "carried_out": "carried out",
    "invalid": "rejected by the bridge",
    "refused": "refused by Slurm",
    "not_carried_out": "not carried out",
    "overtaken": "overtaken",
    "open": "open at the end",
}
FAILED: tuple[Fate, ...] = ("invalid", "refused", "not_carried_out")
MAX_FAILURES = 10
"""Number of different reasons that the text and the page have; `decisions.csv` has all."""

COLUMNS = (
    *("decided_s", "scheduler", "request", "index", "decision", "job_id", "nodes"),
    *("outcome", "done_s", "delay_s", "nodes_in_slurm", "words"),
)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a session.

    Attributes:
        cluster: name of the cluster.
        scheduler: name of the scheduler.
        start_s, end_s: begin and end of the session, Unix time, s.
        jobs: number of jobs on which the scheduler could decide.
        not_copied: number of those that could not be copied.
        tolerance_s: largest difference of two starts that match, s.
        start_match: part of the jobs that either side has started whose starts match, 0 to 1;
            null: there are none.
        node_match: part of the jobs that both have started that have the same nodes; null: none.
        start_error_s: start in the shadow minus the real one, s.
        absolute_start_error_s: its absolute value, s.
        shadow, slurm: the figures of each side.
        power: how the energy is calculated.
        predicted_shadow: errors of the starts that the scheduler expected (`--explain`), against
            those in the shadow: metrics of `hpcosim_sim.record.metrics`. Empty: it expected
            none.
        predicted_slurm: the same against the real starts.
    """

    cluster: str
    scheduler: str
    start_s: float
    end_s: float
    jobs: int
    running_at_start: int
    not_copied: int
    requests: int
    decisions: int
    started_by_both: int
    tolerance_s: float
    start_match: float | None
    node_match: float | None
    start_error_s: Spread
    absolute_start_error_s: Spread
    shadow: SideFigures
    slurm: SideFigures
    power: str
    predicted_shadow: dict[str, int | float]
    predicted_slurm: dict[str, int | float]


def compare(
    session: SessionRows, shadow: ScriptedRun, real: ScriptedRun, tolerance_s: float
) -> Comparison:
    """Return the figures of a session."""
    rows = [row for row in session.rows if not row.was_running]
    both = [row for row in rows if row.shadow.has_started and row.real.has_started]
    either = [row for row in rows if row.shadow.has_started or row.real.has_started]
    errors_s = [row.shadow.start_s - row.real.start_s for row in both]
    near = sum(abs(error_s) <= tolerance_s for error_s in errors_s)
    same = sum(set(row.shadow.nodes) == set(row.real.nodes) for row in both)
    return Comparison(
        cluster=session.cluster,
        scheduler=session.scheduler,
        start_s=session.start_s,
        end_s=session.end_s,
        jobs=len(rows),
        running_at_start=len(session.rows) - len(rows),
        not_copied=session.not_copied,
        requests=session.requests,
        decisions=session.decisions,
        started_by_both=len(both),
        tolerance_s=tolerance_s,
        start_match=part(near, len(either)),
        node_match=part(same, len(both)),
        start_error_s=Spread.of(errors_s),
        absolute_start_error_s=Spread.of([abs(error_s) for error_s in errors_s]),
        shadow=side_of(
            sum(row.shadow.has_started for row in rows),
            [wait_s(row.spec, row.shadow) for row in both],
            shadow,
        ),
        slurm=side_of(
            sum(row.real.has_started for row in rows),
            [wait_s(row.spec, row.real) for row in both],
            real,
        ),
        power=power_of(session),
        predicted_shadow=_predicted(session, lambda row: row.shadow.start_s),
        predicted_slurm=_predicted(session, lambda row: row.real.start_s),
    )


def _predicted(session: SessionRows, start_of: Callable[[JobRow], float]) -> dict[str, int | float]:
    """Return the errors of the expected starts against some starts; NaN: a job has none."""
    start_s = {row.spec.job_id: start_of(row) for row in session.rows}
    known = [
        said
        for said in session.said
        if not math.isnan(said.expected_s) and not math.isnan(start_s[said.job_id])
    ]
    errors_s = [start_s[said.job_id] - said.expected_s for said in known]
    return errors_by_lead(
        np.array(errors_s), np.array([said.expected_s - said.at_s for said in known])
    )


def text_of_comparison(comparison: Comparison) -> str:
    """Return the figures for people."""
    it = comparison
    hours = (it.end_s - it.start_s) / 3600.0
    title = (
        f"{it.scheduler or 'scheduler'} in the shadow of {it.cluster}, from "
        f"{shown_time(it.start_s)}, {hours:.2f} h"
    )
    lines = [
        ("jobs", f"{it.jobs} (and {it.running_at_start} that ran at the start)"),
        ("decisions", f"{it.decisions} in {it.requests} requests"),
        (
            "started",
            f"{it.shadow.started} in the shadow, {it.slurm.started} by Slurm, "
            f"{it.started_by_both} by both",
        ),
        (
            f"starts within {it.tolerance_s:g} s",
            f"{shown_part(it.start_match)} of the started jobs",
        ),
        ("same nodes", f"{shown_part(it.node_match)} of the jobs that both started"),
        ("start, shadow - Slurm", shown_spread(it.start_error_s)),
        ("absolute difference", shown_spread(it.absolute_start_error_s)),
        ("wait, shadow", shown_spread(it.shadow.wait_s)),
        ("wait, Slurm", shown_spread(it.slurm.wait_s)),
        (
            "utilization",
            f"{it.shadow.utilization:.1%} in the shadow, {it.slurm.utilization:.1%} by Slurm",
        ),
    ]
    for name, errors in (("shadow", it.predicted_shadow), ("Slurm", it.predicted_slurm)):
        if errors:
            mean_s = errors["mean_abs_start_error_s"]
            expected = f"{errors['start_forecasts']:.0f}, {mean_s:.1f} s from those of {name}"
            lines.append(("expected starts", f"{expected} in the mean"))
    for day, (shadow, slurm) in enumerate(
        zip(it.shadow.energy_kwh_per_day, it.slurm.energy_kwh_per_day, strict=True), start=1
    ):
        shown = f"{shadow:.3f} kWh in the shadow, {slurm:.3f} kWh by Slurm"
        lines.append((f"energy, day {day}", shown))
    lines.append(("energy", it.power))
    return text_of(title, lines)


def last_session(records: Iterable[AnyRecord]) -> SessionRows:
    """Return the rows of the last session of a journal in mode shadow."""
    course, witness = BridgeState(Site(), ShadowWorld), None
    session: SchedulerSession | None = None
    requests = 0
    end_s = 0.0
    for record in records:
        if isinstance(record, Began):
            course = BridgeState(record.site, ShadowWorld)
        if isinstance(record, Opened):
            witness, requests = ObservedCluster(course.state, record.at_s), 0
        course.happen(record)
        if isinstance(record, Seen) and witness is not None and course.session is not None:
            witness.see(record)
        if course.session is not None or isinstance(record, Closed):
            end_s = record.at_s
        session = course.session or session
        requests += isinstance(record, Asked)
    if session is None or witness is None:
        raise JournalError("the journal has no session: no scheduler has connected")
    world = session.world
    assert isinstance(world, ShadowWorld)
    world.pass_to(end_s)
    return _rows(course, session, world, witness, end_s, requests)


def _rows(
    course: BridgeState,
    session: SchedulerSession,
    world: ShadowWorld,
    witness: ObservedCluster,
    end_s: float,
    requests: int,
) -> SessionRows:
    recording = world.engine.recording
    waiting = {job.row: job for job in world.engine.jobs.in_order()}
    rows = [
        JobRow(
            shown_spec(
                witness.jobs[job_id],
                recording.submit_s[row],
                recording.requested_s[row],
                recording.cores[row],
            ),
            job_id in witness.running or witness.jobs[job_id].is_outside,
            _with_real_end(_shadow_run(world, row, waiting.get(row)), real),
            real,
        )
        for row, job_id in enumerate(recording.job_id)
        if job_id not in world.not_copied
        for real in [real_run(witness, witness.jobs[job_id])]
    ]
    shadow_power = [
        PowerChange(at_s, node, "sleeping" if found == "down" else found)
        for at_s, node, state in zip(
            recording.power_s, recording.power_node, recording.power_state, strict=True
        )
        for found in [RECORDED_STATES[state]]
    ]
    return SessionRows(
        session.hello.client,
        course.site.name,
        with_off_state(world.engine.cluster.platform, course.site.power),
        witness.begin_s,
        end_s,
        rows,
        witness.power,
        shadow_power,
        session.decisions,
        requests,
        len(world.not_copied),
        said_in(world),
    )


def _shadow_run(world: ShadowWorld, row: int, job: SimulatedJob | None) -> OneRun:
    recording, known = world.engine.recording, world.engine.end_timers.known
    start_s, end_s = recording.start_s[row], recording.end_s[row]
    word = STATES[recording.state[row]]
    state: JobState | None = None if job is not None else word  # type: ignore[assignment]
    if math.isnan(start_s):
        return OneRun(end_s=end_s, state=state)
    run = known.get(recording.job_id[row])
    if run is not None and state in ("completed", "failed") and row not in recording.suspended_s:
        end_s = min(end_s, start_s + run.run_s)
    return OneRun(
        start_s, end_s, tuple(recording.nodes_of(row)), tuple(recording.tasks_of(row)), state
    )


def _with_real_end(shadow: OneRun, real: OneRun) -> OneRun:
    """Return a run with its exact end, also if it became known only after the time limit."""
    run_s = real.end_s - real.start_s
    if shadow.state != "timeout" or real.state == "cancelled" or math.isnan(run_s):
        return shadow
    end_s = min(shadow.end_s, shadow.start_s + run_s)
    return shadow._replace(end_s=end_s, state=real.state)


class NamedRun(msgspec.Struct, frozen=True):
    """A run for a results folder."""

    folder: str
    scheduler: str
    run: ScriptedRun
    notices: list[str]


class Reported(msgspec.Struct, frozen=True):
    """What a report has."""

    figures: Comparison | ActingFigures
    text: str
    runs: tuple[NamedRun, NamedRun]
    ended: str
    files: Mapping[str, str]


def report_of(records: Iterable[AnyRecord], tolerance_s: float) -> Reported:
    """Return the report of a journal.

    Args:
        tolerance_s: largest difference of two starts that match, s.

    Raises:
        JournalError: no scheduler has opened a session.
    """
    rest = iter(records)
    first = next(rest)
    assert isinstance(first, Began), "`read` checks it"
    whole = chain([first], rest)
    if first.mode == "shadow":
        return report_of_shadow(last_session(whole), tolerance_s)
    return report_of_acting(acted(whole), tolerance_s)


def report_of_shadow(session: SessionRows, tolerance_s: float) -> Reported:
    """Return the report of a session in mode shadow; see `report_of`."""
    shadow = run_of(session, lambda row: row.shadow, is_real=False)
    real = run_of(session, lambda row: row.real, is_real=True)
    figures = compare(session, shadow, real, tolerance_s)
    notices = [f"energy: {figures.power}"]
    runs = (
        NamedRun("shadow", f"{figures.scheduler or 'scheduler'} (shadow)", shadow, notices),
        NamedRun("slurm", "Slurm", real, notices),
    )
    ended = f"the journal ends; the session began at {shown_time(figures.start_s)}"
    files = {"comparison.json": to_json(figures)}
    return Reported(figures, text_of_comparison(figures), runs, ended, files)


def report_of_acting(found: DecidedRuns, tolerance_s: float) -> Reported:
    """Return the report of a bridge in mode hold or place; see `report_of`."""
    decided = run_of(found.rows, lambda row: row.shadow, is_real=False)
    real = run_of(found.rows, lambda row: row.real, is_real=True)
    figures = figures_of(found, real, tolerance_s)
    name, fall_back = figures.scheduler or "scheduler", fall_back_of(figures)
    energy = [f"energy: {figures.power}"]
    happened = [f"fall-back to shadow, {fall_back}"] if fall_back else []
    happened += failures_of(figures)
    runs = (
        NamedRun("decided", f"{name} (decided)", decided, energy),
        NamedRun("slurm", f"{name} on Slurm", real, [*happened, *energy]),
    )
    ended = "the bridge fell back to shadow" if fall_back else "the journal ends"
    ended += f"; the first session began at {shown_time(figures.start_s)}"
    files = {"acting.json": to_json(figures), "decisions.csv": table_of(found)}
    return Reported(figures, text_of_acting(figures), runs, ended, files)


def write_folders(reported: Reported, folder: Path, version: str) -> list[Path]:
    """Write both runs as results folders, which `hpcosim report` shows, and return them.

    The other files of the report are written, too.

    Raises:
        ResultsError: they cannot be written.
    """
    written = []
    for each in reported.runs:
        about = Run(
            scenario=reported.figures.cluster,
            scheduler=each.scheduler,
            seed=0,
            complete=True,
            ended_because=reported.ended,
            warnings=each.notices,
            hpcosim=version,
            realtime=1.0,
        )
        write_results(folder / each.folder, each.run.record, about)
        written.append(folder / each.folder)
    write_together(folder, {name: [text] for name, text in reported.files.items()})
    return written


class DecisionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the decisions of one kind.

    Attributes:
        carried_out, invalid, refused, not_carried_out, overtaken, open: numbers of what became of
            them, see `Fate`.
        delay_s: time from the decision until the bridge saw that it was carried out, s.
    """

    decided: int
    carried_out: int
    invalid: int
    refused: int
    not_carried_out: int
    overtaken: int
    open: int
    delay_s: Spread


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions that failed for one reason.

    Attributes:
        decision: their kind, such as `allocate_job`.
        fate: `invalid`, `refused` or `not_carried_out`.
        words: the reason, in words of the bridge or of Slurm.
    """

    decision: str
    fate: Fate
    words: str
    count: int


class FallBack(msgspec.Struct, frozen=True):
    """The fall-back to shadow.

    Attributes:
        at_s: Unix time, s.
    """

    at_s: float
    why: str


class ActingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a bridge that acted, up to its fall-back.

    Attributes:
        start_s, end_s: begin of the first session, and end, Unix time, s.
        jobs: number of jobs on which a scheduler could decide.
        outcomes: what became of the decisions, by kind.
        tolerance_s: largest delay of a start that is in time, s.
        in_time: part of the decided starts that Slurm carried out in time, 0 to 1; null: none.
        node_match: part of the starts that Slurm carried out that had the nodes of the decision,
            0 to 1; null: none.
        power: how the energy is calculated.
        failures: why decisions failed, the most frequent reason first.
    """

    cluster: str
    mode: str
    scheduler: str
    start_s: float
    end_s: float
    sessions: int
    jobs: int
    running_at_start: int
    requests: int
    decisions: int
    outcomes: dict[str, DecisionFigures]
    tolerance_s: float
    in_time: float | None
    node_match: float | None
    not_decided: int
    slurm: SideFigures
    power: str
    failures: list[Failure]
    fell_back: FallBack | None


def figures_of(acted: DecidedRuns, real: ScriptedRun, tolerance_s: float) -> ActingFigures:
    """Return the figures of a bridge that acted."""
    session, outcomes = acted.rows, acted.outcomes
    rows = [row for row in session.rows if not row.was_running]
    waits_s = [wait_s(row.spec, row.real) for row in rows if row.real.has_started]
    starts = [outcome for outcome in outcomes if isinstance(outcome.decision, AllocateJob)]
    done = [outcome for outcome in starts if outcome.fate == "carried_out"]
    decided = {outcome.decision.job_id for outcome in done}  # type: ignore[union-attr]
    names = list(acted.nodes)
    in_time = sum(outcome.done_s - outcome.decided_s <= tolerance_s for outcome in done)
    same = sum(_decided_nodes(outcome, names) == set(outcome.nodes) for outcome in done)
    kinds = dict.fromkeys(outcome.name for outcome in outcomes)
    return ActingFigures(
        cluster=session.cluster,
        mode=acted.mode,
        scheduler=session.scheduler,
        start_s=session.start_s,
        end_s=session.end_s,
        sessions=acted.sessions,
        jobs=len(rows),
        running_at_start=len(session.rows) - len(rows),
        requests=session.requests,
        decisions=session.decisions,
        outcomes={
            kind: _by_fate([outcome for outcome in outcomes if outcome.name == kind])
            for kind in kinds
        },
        tolerance_s=tolerance_s,
        in_time=part(in_time, len(starts)),
        node_match=part(same, len(done)),
        not_decided=sum(row.real.has_started and row.spec.job_id not in decided for row in rows),
        slurm=side_of(len(waits_s), waits_s, real),
        power=power_of(session),
        failures=_failures(outcomes),
        fell_back=None
        if acted.fell_back is None
        else FallBack(acted.fell_back.at_s, acted.fell_back.why),
    )


def _by_fate(outcomes: Sequence[Outcome]) -> DecisionFigures:
    fates = Counter(outcome.fate for outcome in outcomes)
    done = [outcome for outcome in outcomes if outcome.fate == "carried_out"]
    return DecisionFigures(
        decided=len(outcomes),
        delay_s=Spread.of([outcome.done_s - outcome.decided_s for outcome in done]),
        **{fate: fates[fate] for fate in WORDS},
    )


def _failures(outcomes: Iterable[Outcome]) -> list[Failure]:
    found = Counter((each.name, each.fate, each.words) for each in outcomes if each.fate in FAILED)
    return [
        Failure(decision=name, fate=fate, words=words, count=count)
        for (name, fate, words), count in found.most_common()
    ]


def _decided_nodes(outcome: Outcome, names: Sequence[str]) -> set[str]:
    """Return the names of the nodes of a decision; a wrong number has none."""
    wanted = outcome.decision
    nodes = wanted.nodes if isinstance(wanted, AllocateJob) else []
    if isinstance(wanted, SetNodePower):
        nodes = [wanted.node]
    return {names[node] for node in nodes if node < len(names)}


def text_of_acting(figures: ActingFigures) -> str:
    """Return the figures for people."""
    it = figures
    hours = (it.end_s - it.start_s) / 3600.0
    title = (
        f"{it.scheduler or 'scheduler'} in mode {it.mode} on {it.cluster}, from "
        f"{shown_time(it.start_s)}, {hours:.2f} h"
    )
    lines = [
        ("jobs", f"{it.jobs} (and {it.running_at_start} that ran at the start)"),
        ("sessions", str(it.sessions)),
        ("decisions", f"{it.decisions} in {it.requests} requests"),
    ]
    for name, kind in it.outcomes.items():
        counts = [f"{getattr(kind, fate)} {words}" for fate, words in WORDS.items()]
        shown = ", ".join(count for count in counts if not count.startswith("0 "))
        lines.append((name, f"{kind.decided}: {shown}"))
        lines.append(("  delay", shown_spread(kind.delay_s)))
    lines += [
        (f"starts within {it.tolerance_s:g} s", f"{shown_part(it.in_time)} of the decided starts"),
        ("same nodes", f"{shown_part(it.node_match)} of the starts that Slurm carried out"),
        ("started otherwise", f"{it.not_decided} jobs, without a decision of the scheduler"),
        ("wait", shown_spread(it.slurm.wait_s)),
        ("utilization", f"{it.slurm.utilization:.1%}"),
        *(("failed", text) for text in failures_of(it)),
        ("fall-back", fall_back_of(it) or "none"),
    ]
    for day, kwh in enumerate(it.slurm.energy_kwh_per_day, start=1):
        lines.append((f"energy, day {day}", f"{kwh:.3f} kWh"))
    lines.append(("energy", it.power))
    return text_of(title, lines)


def failures_of(figures: ActingFigures) -> list[str]:
    """Return why decisions failed, each reason as a sentence, and how many more there are."""
    shown = [
        f"{each.count} {each.decision} {WORDS[each.fate]}: {each.words}"
        for each in figures.failures[:MAX_FAILURES]
    ]
    rest = sum(each.count for each in figures.failures[MAX_FAILURES:])
    return [*shown, f"{rest} decisions for other reasons"] if rest else shown


def fall_back_of(figures: ActingFigures) -> str:
    """Return the fall-back as a sentence; empty: there was none."""
    found = figures.fell_back
    return "" if found is None else f"{shown_time(found.at_s)}: {found.why}"


def table_of(acted: DecidedRuns) -> str:
    """Return what became of each decision, as CSV."""
    names = list(acted.nodes)
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for it in acted.outcomes:
        row = {
            "decided_s": f"{it.decided_s:.3f}",
            "scheduler": it.scheduler,
            "request": it.seq,
            "index": it.index,
            "decision": it.name,
            "job_id": getattr(it.decision, "job_id", ""),
            "nodes": compress(sorted(_decided_nodes(it, names))),
            "outcome": it.fate,
            "nodes_in_slurm": compress(it.nodes),
            "words": it.words,
        }
        if not math.isnan(it.done_s):
            row["done_s"] = f"{it.done_s:.3f}"
            row["delay_s"] = f"{it.done_s - it.decided_s:.3f}"
        writer.writerow(row)
    return out.getvalue()
