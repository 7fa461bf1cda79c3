"""What the paper says of its Best Agent, beside what comes of ours."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_studies.power.agents import Agent, of_variant
from hpcosim_studies.power.batch import Row
from hpcosim_studies.power.managers import ALWAYS_ON, TIMEOUT
from hpcosim_studies.power.readings import (
    BEST,
    NO_CL,
    PAPER,
    PAPERS_TIMEOUT_MIN,
)
from hpcosim_studies.power.tables import (
    FILLING,
    SHUTDOWNS,
    WAIT,
    WASTED,
    Measure,
    change,
    mean,
    percent,
    table,
)

GAP = "-"


def timeout_claims(rows: Sequence[Row], awarenesses: Sequence[str]) -> list[str]:
    """Return what the paper says of timeouts beside ours, a column for each awareness."""
    by_awareness = [_timeouts(rows, awareness) for awareness in awarenesses]
    papers = f"that of {PAPERS_TIMEOUT_MIN} min"
    filling = PAPER.filling_all_on + PAPER.filling_gain - PAPER.filling_to_timeout
    all_on = f"{mean(of_kind(rows, ALWAYS_ON), FILLING):.2f} %"
    least = [min(each, key=WASTED.of) for each in by_awareness]
    same = [_like_papers(each) for each in by_awareness]
    return table(
        ["", "paper", *awarenesses],
        [
            ["timeout that wastes least", papers, *(row.spec.label for row in least)],
            ["its wasted energy (GJ)", GAP, *(WASTED.text(row.wasted_gj) for row in least)],
            [f"wasted, {papers} (GJ)", GAP, *(WASTED.text(row.wasted_gj) for row in same)],
            [f"mean wait, {papers} (s)", GAP, *(WAIT.text(row.wait_s) for row in same)],
            [
                "job-filling rate, all on",
                f"{PAPER.filling_all_on:.2f} %",
                *([all_on] * len(awarenesses)),
            ],
            [
                f"job-filling rate, {papers}",
                f"about {filling:.0f} %",
                *(f"{row.filling:.1f} %" for row in same),
            ],
        ],
    )


def agent_claims(rows: Sequence[Row], agents: Sequence[Agent]) -> list[str]:
    """Return what the paper says of the Best Agent beside ours: means over seeds.

    Its agents and its timeout stand beside one job scheduler, and so do ours. Without an agent
    of the paper's best curriculum there is nothing to say.
    """
    best = of_agents(rows, of_variant(agents, BEST))
    if not best:
        return []
    without = of_agents(rows, of_variant(agents, NO_CL))
    among = _timeouts(rows, best[0].spec.awareness)
    same, least = [_like_papers(among)], [min(among, key=WASTED.of)]
    all_on = of_kind(rows, ALWAYS_ON)
    gain, above = mean(best, FILLING) - mean(all_on, FILLING), mean(best, FILLING)
    papers = f"timeout {PAPERS_TIMEOUT_MIN} min"
    return table(
        [f"{best[0].spec.label}, {len(best)} seeds", "paper", "ours"],
        [
            [f"wasted, against {papers}", percent(PAPER.wasted_to_timeout), _to(best, same)],
            ["wasted, against the best timeout", GAP, _to(best, least)],
            ["wasted, against no curriculum", percent(PAPER.wasted_to_no_cl), _to(best, without)],
            [f"mean wait, against {papers}", percent(PAPER.wait_to_timeout), _to(best, same, WAIT)],
            [
                "mean wait, against no curriculum",
                f"{percent(PAPER.wait_to_no_cl[1])} to {percent(PAPER.wait_to_no_cl[0])}",
                _to(best, without, WAIT),
            ],
            ["job-filling rate, above all on", f"{PAPER.filling_gain:+.2f} points", _points(gain)],
            [
                f"job-filling rate, above {papers}",
                f"about {PAPER.filling_to_timeout:+.0f} points",
                _points(above - mean(same, FILLING)),
            ],
            ["node shutdowns", "between 10 and 15 min", _placed(mean(best, SHUTDOWNS), among)],
        ],
    )


def of_kind(rows: Sequence[Row], kind: str) -> list[Row]:
    """Return the runs of a kind of manager."""
    return [row for row in rows if row.spec.kind == kind]


def of_agents(rows: Sequence[Row], agents: Sequence[Agent]) -> list[Row]:
    """Return the runs of some agents."""
    wanted = {(agent.label, agent.seed) for agent in agents}
    return [row for row in rows if (row.spec.label, row.spec.seed) in wanted]


def _timeouts(rows: Sequence[Row], awareness: str) -> list[Row]:
    return [row for row in of_kind(rows, TIMEOUT) if row.spec.awareness == awareness]


def _like_papers(timeouts: Sequence[Row]) -> Row:
    """Return the run with the paper's timeout, or with the next to it."""
    return min(timeouts, key=lambda row: abs((row.spec.value or 0.0) - PAPERS_TIMEOUT_MIN))


def _to(rows: Sequence[Row], base: Sequence[Row], measure: Measure = WASTED) -> str:
    return percent(change(mean(rows, measure), mean(base, measure))) if base else GAP


def _points(value: float) -> str:
    return f"{value:+.2f} points"


def _placed(shutdowns: float, timeouts: Sequence[Row]) -> str:
    """Say between which timeouts a number of shutdowns lies; the longer, the fewer."""
    more = [row for row in timeouts if row.shutdowns >= shutdowns]
    fewer = [row for row in timeouts if row.shutdowns < shutdowns]
    if not more or not fewer:
        return "more than any timeout" if fewer else "fewer than any timeout"
    low, high = min(more, key=SHUTDOWNS.of), max(fewer, key=SHUTDOWNS.of)
    return f"between {low.spec.value:g} and {high.spec.value:g} min"
