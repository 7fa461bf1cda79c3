"""The scenarios and power managers of the study, the published results, and the paper's claims."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_experiments.report.markup import table
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.runs.plan import PlannedRun
from hpcosim_experiments.statistics.rows import Row, Rows, groups, where
from hpcosim_papers.studies.study import change, scenario_path
from hpcosim_schedulers.power.settings import Awareness, KeepIdle, Power, Rl, Timeout
from hpcosim_view.figure import COLOURS

AWARENESSES: tuple[Awareness, ...] = ("unaware", "aware", "planned")
"""Power awareness of the job schedulers. The paper does not specify it."""

AGENTS_AWARENESS: Awareness = "aware"
"""Power awareness of the job scheduler in training and test of the paper's agents."""

PAPERS_TIMEOUT_MIN = 15
"""Timeout with the least wasted energy in the paper (figure 12), min."""

WASTED = Measure("wasted_energy_j", "wasted energy", "GJ", 1e9, 2)
WAIT = Measure("mean_wait_s", "mean wait", "s")
FILLING = Measure("job_filling_rate", "job-filling rate", "%", 0.01, 1)
"""Equation 15."""

SHUTDOWNS = Measure("node_shutdowns", "node shutdowns")
ENERGY = Measure("energy_j", "energy in all", "GJ", 1e9, 2)
MAX_WAIT = Measure("max_wait_s", "longest wait", "h", 3600.0, 1)

METRICS = (
    "mean_wait_s",
    "max_wait_s",
    "wasted_energy_j",
    "energy_j",
    "node_shutdowns",
    "job_filling_rate",
    "mean_response_s",
    "mean_slowdown",
)
"""The metrics of the paper."""

COLUMNS = ("scenario", "cluster", "kind", "manager", "awareness", "seed", *METRICS)
"""Columns of `results.csv`."""


ALWAYS_ON = "always-on"
TIMEOUT = "timeout"
PRICED = "priced"
KEEP_IDLE = "keep-idle"
SLURM = "slurm"
ORACLE = "oracle"
A2C = "a2c"
ADAPTIVE = "adaptive"
TEST = "test"
"""Label of the runs on the test part of the log."""

ANY = "any"
"""Label of runs that do not depend on the job scheduler's power awareness."""

AWARENESS_COLOURS: Mapping[str, str] = {
    "unaware": COLOURS[0],
    "aware": COLOURS[1],
    "planned": COLOURS[2],
    ANY: "#000000",
}
"""Colours of figures, by power awareness."""

KIND_MARKERS: Mapping[str, str] = {
    TIMEOUT: "o",
    KEEP_IDLE: "s",
    SLURM: "^",
    A2C: "D",
    ADAPTIVE: "P",
    PRICED: "v",
    ORACLE: "*",
    ALWAYS_ON: "X",
}
"""Markers of figures, by kind of manager."""


NEEDS: Mapping[str, tuple[str, str]] = {
    "oracle": ("scipy", "oracle"),
}
"""Packages that managers need, with the extra that has them, by first word of the label."""


GAP = "-"


def scenario_file() -> Path:
    """Return the scenario of the last 20 % of the log."""
    return scenario_path("power", "test")


class Paper(NamedTuple):
    """Values in the paper's text, in % or percentage points.

    Attributes:
        wasted_to_timeout: wasted energy of the Best Agent, change from the 15-min timeout.
        wasted_to_no_cl: wasted energy of the Best Agent, change from no curriculum.
        wait_to_timeout: mean wait of the Best Agent, change from the 15-min timeout.
        wait_to_no_cl: mean wait of the easy-to-hard curricula, change from no curriculum.
        filling_all_on: job-filling rate with all nodes on.
        filling_gain: job-filling rate of the Best Agent minus `filling_all_on`.
        filling_to_timeout: job-filling rate of the Best Agent minus that of the 15-min timeout.
    """

    wasted_to_timeout: float = -4.66
    wasted_to_no_cl: float = -3.73
    wait_to_timeout: float = -13.02
    wait_to_no_cl: tuple[float, float] = (-44.75, -43.84)
    filling_all_on: float = 48.17
    filling_gain: float = 32.70
    filling_to_timeout: float = 2.0


PAPER = Paper()

PEER = (
    {"timeout_s": 300, "mean_wait_s": 1260, "wasted_energy_j": 6.29e9},
    {"timeout_s": 900, "mean_wait_s": 968, "wasted_energy_j": 6.87e9},
    {"timeout_s": 3600, "mean_wait_s": 443, "wasted_energy_j": 9.21e9},
)
"""Results of SPARS, another simulator, with its planned EASY on the same jobs and nodes."""

CURRICULA: Mapping[str, str] = {
    "sampled-real-synthetic": "easy to hard",
    "sampled-synthetic-real": "easy to hard",
    "real-sampled-synthetic": "hard, easy, hard",
    "synthetic-sampled-real": "hard, easy, hard",
    "real-synthetic-sampled": "hard to easy",
    "synthetic-real-sampled": "hard to easy",
    "real": "no curriculum",
}
"""The curricula in the order of tables and figures, with the paper's names for them (figure 7).

Without curriculum an agent learns from the real workload only, with three times the iterations.
"""

BEST = "sampled-real-synthetic"
NO_CL = "real"
UNTRAINED = "untrained"


def agent_name(curriculum: str) -> str:
    """Return the name of the agents of a curriculum in tables, the same for all seeds."""
    return f"A2C {CURRICULA[curriculum] if curriculum == NO_CL else curriculum}"


CLUSTERS: Mapping[str, Sequence[str]] = {
    "off/on": ("off/on 30/45 min", "off/on 20/30 min", "off/on 10/15 min"),
    "sleep/active": ("sleep/active 9/190 W", "sleep/active 90/190 W", "sleep/active 9/100 W"),
    "nodes": ("128 nodes", "160 nodes", "256 nodes"),
}
"""The clusters of figure 17 (section 5.5) by family; the first of each family is the study's."""


def missing(label: str) -> str:
    """Return a sentence about the package that a manager needs and that is missing, or nothing."""
    package, extra = NEEDS.get(re.split(r"\W", label)[0], ("", ""))
    if not package or importlib.util.find_spec(package):
        return ""
    return f"`{label}` is left out: it needs {package} (`pip install 'hpcosim[{extra}]'`)."


def columns_of(run: PlannedRun) -> Row:
    """Return the columns of a run of a manager, in addition to its metrics.

    `value` is the parameter of the manager within its kind, such as minutes, and `seed` that of
    the training of an agent.
    """
    power = run.task.chosen.power
    manager, _, seed = str(run.labels["manager"]).partition(", seed ")
    kind, value = _kind_of(power)
    return {
        "scenario": run.labels.get("part", TEST),
        "cluster": run.labels.get("cluster", ""),
        "kind": kind,
        "manager": manager,
        "awareness": ANY if kind in (ALWAYS_ON, ORACLE) else run.task.chosen.awareness,
        "seed": int(seed) if seed else None,
        "value": value,
    }


def _kind_of(power: Power) -> tuple[str, float | None]:
    match power:
        case Timeout(timeout_s, None):
            return TIMEOUT, timeout_s / 60
        case Timeout(_, price_w):
            return PRICED, price_w
        case KeepIdle(warm):
            return KEEP_IDLE, warm
        case Rl():
            return A2C, None
    return str(power.__struct_config__.tag), None


def run_table(rows: Rows, measures: Sequence[Measure]) -> list[str]:
    """Return a line for each manager and awareness, with the spread over seeds."""
    lines = [
        [manager, awareness, *(measure.spread(runs) for measure in measures)]
        for (manager, awareness), runs in groups(rows, "manager", "awareness").items()
    ]
    return table(["manager", "scheduler", *(measure.named for measure in measures)], lines, RULE)


RULE = " --- "
"""Separator cell of the study's Markdown tables."""


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
