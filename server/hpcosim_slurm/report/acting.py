"""The figures of a bridge that acted: when Slurm did what the scheduler decided."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from hpcosim_protocol import AllocateJob, SetNodePower
from hpcosim_protocol.hosts import compress
from hpcosim_slurm.report.acted import ActedRows
from hpcosim_slurm.report.figures import SideFigures, Spread, part, power_of, side_of, wait_s
from hpcosim_slurm.report.outcomes import Fate, Outcome
from hpcosim_slurm.report.scripted import ScriptedRun
from hpcosim_slurm.report.texts import shown_part, shown_spread, shown_time, text_of

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
"""Columns of `decisions.csv`."""


class DecisionFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the decisions of one kind.

    Attributes:
        decided: their number.
        carried_out, invalid, refused, not_carried_out, overtaken, open: numbers of what became of
            them, see `outcomes.Fate`.
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
        count: their number.
    """

    decision: str
    fate: Fate
    words: str
    count: int


class FallBack(msgspec.Struct, frozen=True):
    """The fall-back to shadow.

    Attributes:
        at_s: Unix time, s.
        why: its cause.
    """

    at_s: float
    why: str


class ActingFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a bridge that acted, up to its fall-back.

    Attributes:
        cluster: name of the cluster.
        mode: `hold` or `place`.
        scheduler: names of the schedulers.
        start_s, end_s: begin of the first session, and end, Unix time, s.
        sessions: number of sessions.
        jobs: number of jobs on which a scheduler could decide.
        running_at_start: number of jobs that ran already at the begin.
        requests, decisions: number of requests, and of decisions of all kinds.
        outcomes: what became of the decisions, by kind.
        tolerance_s: largest delay of a start that is in time, s.
        in_time: part of the decided starts that Slurm carried out in time, 0 to 1; null: none.
        node_match: part of the starts that Slurm carried out that had the nodes of the decision,
            0 to 1; null: none.
        not_decided: number of jobs that have started without a decision.
        slurm: figures of the real run.
        power: how the energy is calculated.
        failures: why decisions failed, the most frequent reason first.
        fell_back: the fall-back to shadow; null: there was none.
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


def figures_of(acted: ActedRows, real: ScriptedRun, tolerance_s: float) -> ActingFigures:
    """Return the figures of a bridge that acted.

    Args:
        acted: what it did.
        real: the real run.
        tolerance_s: largest delay of a start that is in time, s.
    """
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


def table_of(acted: ActedRows) -> str:
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
