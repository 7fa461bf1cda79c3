"""Other clusters than the one trained on, without training anew: figure 17 (section 5.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcosim_studies.power.agents import TRAINED_BESIDE, Agent, contenders
from hpcosim_studies.power.batch import Row, Spec, run_all, write_rows
from hpcosim_studies.power.claims import of_kind
from hpcosim_studies.power.managers import TIMEOUT, of_agents, timeouts
from hpcosim_studies.power.readings import AWARENESSES, TEST, TIMEOUTS_MIN, WORKERS
from hpcosim_studies.power.sensitivity_figure import Bars, draw_sensitivity
from hpcosim_studies.power.settings import SETTINGS, Setting
from hpcosim_studies.power.tables import (
    WAIT,
    WASTED,
    Measure,
    groups,
    mean,
    spread,
    table,
    text_of,
)

BEST_TIMEOUTS = ("best timeout", "second timeout")
MEASURES = (WASTED, WAIT)
BESIDE = TRAINED_BESIDE["a2c"]
"""The job scheduler's awareness in the figure: that of the paper's agents."""


def compare_settings(
    out: Path,
    agents: Sequence[Agent],
    left_out: Sequence[str] = (),
    *,
    path: Path = TEST,
    minutes: Sequence[float] = TIMEOUTS_MIN,
    workers: int = WORKERS,
) -> None:
    """Run all, and write `results.csv`, `summary.md` and `sensitivity.png`.

    Args:
        out: the folder, which exists.
        agents: trained networks to compare.
        left_out: what is not compared, and why; for the summary.
        path: the scenario.
        minutes: the timeouts of which the two best are shown.
        workers: processes.

    Raises:
        As `run_all`, and `draw_sensitivity`; OSError: the folder can't be written to.
    """
    rows = run_all(specs_of(agents, path, minutes), workers, "power-sensitivity")
    write_rows(out / "results.csv", rows)
    bars = [bars_of(rows, family, measure) for family in SETTINGS for measure in MEASURES]
    draw_sensitivity(out / "sensitivity.png", bars, BESIDE)
    (out / "summary.md").write_text(summary(rows, left_out), encoding="utf-8")


def specs_of(agents: Sequence[Agent], path: Path, minutes: Sequence[float]) -> list[Spec]:
    """Return the runs on every cluster."""
    specs = []
    for setting in (setting for family in SETTINGS.values() for setting in family):
        for awareness in AWARENESSES:
            specs += timeouts(minutes, awareness, setting, path)
        specs += of_agents(contenders(agents), setting, path)
    return specs


def shown(rows: Sequence[Row], setting: Setting, awareness: str) -> dict[str, list[Row]]:
    """Return the agents and the two best timeouts of a setting, by what they are called."""
    here = [row for row in rows if (row.spec.setting, row.spec.awareness) == (setting, awareness)]
    learned = groups(row for row in here if row.spec.seed is not None)
    found = {label: runs for (label, _), runs in learned.items()}
    two = sorted(of_kind(here, TIMEOUT), key=WASTED.of)[:2]
    return found | {name: [row] for name, row in zip(BEST_TIMEOUTS, two, strict=False)}


def bars_of(rows: Sequence[Row], family: str, measure: Measure) -> Bars:
    """Return a panel: a group of bars for each cluster of a family."""
    by_setting = {setting.name: shown(rows, setting, BESIDE) for setting in SETTINGS[family]}
    return Bars(
        measure.named,
        {
            name: {who: [measure.of(row) for row in runs] for who, runs in each.items()}
            for name, each in by_setting.items()
        },
        {
            name: {who: f"{each[who][0].spec.value:g}" for who in BEST_TIMEOUTS if who in each}
            for name, each in by_setting.items()
        },
    )


def summary(rows: Sequence[Row], left_out: Sequence[str]) -> str:
    """Return the tables, as Markdown: a line for each cluster and manager."""
    parts: list[list[str]] = [
        ["# Sensitivity (figure 17)"],
        list(left_out),
        [
            "Timeouts are the two that waste least on each cluster. The paper gives no numbers; in",
            "it the Best Agent waits least everywhere, and wastes about as much as the timeouts.",
        ],
    ]
    for family, settings in SETTINGS.items():
        lines = [
            line
            for setting in settings
            for awareness in AWARENESSES
            for line in _lines(rows, setting, awareness)
        ]
        head = ["cluster", "scheduler", "manager", *(measure.named for measure in MEASURES)]
        parts += [[f"## {family}"], table(head, lines)]
    return text_of(*parts)


def _lines(rows: Sequence[Row], setting: Setting, awareness: str) -> list[list[str]]:
    managers = sorted(shown(rows, setting, awareness).values(), key=lambda runs: mean(runs, WASTED))
    return [
        [
            setting.name,
            awareness,
            runs[0].spec.label,
            *(spread(runs, measure) for measure in MEASURES),
        ]
        for runs in managers
    ]
