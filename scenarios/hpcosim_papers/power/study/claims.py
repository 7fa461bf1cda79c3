"""The paper's claims beside our results."""

from __future__ import annotations

from collections.abc import Sequence

from hpcosim_experiments.report.markdown import table
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.statistics.rows import Row, Rows, where
from hpcosim_papers.power.study.managers import ALWAYS_ON, RULE, TIMEOUT
from hpcosim_papers.power.study.paper import (
    BEST,
    FILLING,
    NO_CL,
    PAPER,
    PAPERS_TIMEOUT_MIN,
    SHUTDOWNS,
    WAIT,
    WASTED,
    agent_name,
)
from hpcosim_papers.studies.measures import change

GAP = "-"


def percent(value: float) -> str:
    """Format a change for a table."""
    return f"{value:+.2f} %"


def timeout_claims(rows: Rows, awarenesses: Sequence[str]) -> list[str]:
    """Return the paper's claims on timeouts beside ours, with a column for each awareness."""
    by_awareness = [where(rows, kind=TIMEOUT, awareness=each) for each in awarenesses]
    papers = f"that of {PAPERS_TIMEOUT_MIN} min"
    filling = PAPER.filling_all_on + PAPER.filling_gain - PAPER.filling_to_timeout
    all_on = f"{FILLING.mean(where(rows, kind=ALWAYS_ON)):.2f} %"
    least = [min(each, key=WASTED.of) for each in by_awareness]
    same = [_at_papers_timeout(each) for each in by_awareness]
    return table(
        ["", "paper", *awarenesses],
        [
            ["timeout that wastes least", papers, *(row["manager"] for row in least)],
            ["its wasted energy (GJ)", GAP, *(WASTED.spread([row]) for row in least)],
            [f"wasted, {papers} (GJ)", GAP, *(WASTED.spread([row]) for row in same)],
            [f"mean wait, {papers} (s)", GAP, *(WAIT.spread([row]) for row in same)],
            [
                "job-filling rate, all on",
                f"{PAPER.filling_all_on:.2f} %",
                *([all_on] * len(awarenesses)),
            ],
            [
                f"job-filling rate, {papers}",
                f"about {filling:.0f} %",
                *(f"{FILLING.of(row):.1f} %" for row in same),
            ],
        ],
        RULE,
    )


def agent_claims(rows: Rows) -> list[str]:
    """Return the paper's claims on its Best Agent beside ours, as means over seeds.

    Agents and timeouts are compared with the same job scheduler, as in the paper. Without an agent
    of the paper's best curriculum the table is empty.
    """
    best = where(rows, manager=agent_name(BEST))
    if not best:
        return []
    without = where(rows, manager=agent_name(NO_CL))
    among = where(rows, kind=TIMEOUT, awareness=best[0]["awareness"])
    same, least = [_at_papers_timeout(among)], [min(among, key=WASTED.of)]
    gain = FILLING.mean(best) - FILLING.mean(where(rows, kind=ALWAYS_ON))
    above = FILLING.mean(best) - FILLING.mean(same)
    papers = f"timeout {PAPERS_TIMEOUT_MIN} min"
    return table(
        [f"{best[0]['manager']}, {len(best)} seeds", "paper", "ours"],
        [
            [f"wasted, relative to {papers}", percent(PAPER.wasted_to_timeout), _to(best, same)],
            ["wasted, relative to the best timeout", GAP, _to(best, least)],
            [
                "wasted, relative to no curriculum",
                percent(PAPER.wasted_to_no_cl),
                _to(best, without),
            ],
            [
                f"mean wait, relative to {papers}",
                percent(PAPER.wait_to_timeout),
                _to(best, same, WAIT),
            ],
            [
                "mean wait, relative to no curriculum",
                f"{percent(PAPER.wait_to_no_cl[1])} to {percent(PAPER.wait_to_no_cl[0])}",
                _to(best, without, WAIT),
            ],
            ["job-filling rate, above all on", f"{PAPER.filling_gain:+.2f} points", _points(gain)],
            [
                f"job-filling rate, above {papers}",
                f"about {PAPER.filling_to_timeout:+.0f} points",
                _points(above),
            ],
            ["node shutdowns", "between 10 and 15 min", _placed(SHUTDOWNS.mean(best), among)],
        ],
        RULE,
    )


def _at_papers_timeout(timeouts: Rows) -> Row:
    """Return the run with the paper's timeout, or with the nearest one."""
    return min(timeouts, key=lambda row: abs(row["value"] - PAPERS_TIMEOUT_MIN))


def _to(rows: Rows, base: Rows, measure: Measure = WASTED) -> str:
    return percent(change(measure.mean(rows), measure.mean(base))) if base else GAP


def _points(value: float) -> str:
    return f"{value:+.2f} points"


def _placed(shutdowns: float, timeouts: Rows) -> str:
    """Return between which timeouts a number of shutdowns lies; longer timeouts have fewer."""
    more = [row for row in timeouts if SHUTDOWNS.of(row) >= shutdowns]
    fewer = [row for row in timeouts if SHUTDOWNS.of(row) < shutdowns]
    if not more or not fewer:
        return "more than any timeout" if fewer else "fewer than any timeout"
    low, high = min(more, key=SHUTDOWNS.of), max(fewer, key=SHUTDOWNS.of)
    return f"between {low['value']:g} and {high['value']:g} min"
