"""The power managers of the study, and the columns of their runs."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence

from hpcosim_experiments.report.markdown import table
from hpcosim_experiments.report.measures import Measure
from hpcosim_experiments.runs.plan import PlannedRun
from hpcosim_experiments.statistics.rows import Row, Rows, groups
from hpcosim_schedulers.power.settings import KeepIdle, Power, Rl, Timeout
from hpcosim_view.figures.style import COLOURS

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
