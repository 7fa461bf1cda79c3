"""Timeouts, and what else switches nodes: figures 12 to 15 (section 5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpcosim_studies.power.agents import Agent, contenders
from hpcosim_studies.power.batch import Row, Spec, run_all, write_rows
from hpcosim_studies.power.claims import agent_claims, timeout_claims
from hpcosim_studies.power.managers import always_on, keep_idle, of_agents, slurm, timeouts
from hpcosim_studies.power.readings import (
    AWARENESSES,
    PAPER,
    PARTS,
    TEST,
    TIMEOUTS_MIN,
    WORKERS,
    Part,
)
from hpcosim_studies.power.tables import (
    ENERGY,
    MAX_WAIT,
    MEASURES,
    run_table,
    table,
    text_of,
)
from hpcosim_studies.power.timeouts_figure import draw_timeouts

WARM = (4, 16)
"""Idle nodes that are kept on, in this comparison; `power-pareto` has more."""


def compare_timeouts(
    out: Path,
    agents: Sequence[Agent],
    left_out: Sequence[str] = (),
    *,
    path: Path = TEST,
    minutes: Sequence[float] = TIMEOUTS_MIN,
    parts: Sequence[Part] = PARTS,
    workers: int = WORKERS,
) -> None:
    """Run all, and write `results.csv`, `summary.md` and `timeouts.png`.

    Args:
        out: the folder, which exists.
        agents: trained networks to compare, too.
        left_out: what is not compared, and why; for the summary.
        path: the scenario.
        minutes: the timeouts.
        parts: the parts of the log of which the job-filling rate is measured with all nodes on.
        workers: processes.

    Raises:
        As `run_all`, and `draw_timeouts`; OSError: the folder can't be written to.
    """
    specs = specs_of(agents, path, minutes)
    all_on = [always_on(part.path, part.whole) for part in parts]
    rows = run_all([*specs, *all_on], workers, "power-timeouts")
    write_rows(out / "results.csv", rows)
    compared, of_parts = rows[: len(specs)], rows[len(specs) :]
    draw_timeouts(out / "timeouts.png", compared)
    told = summary(compared, of_parts, parts, agents, left_out)
    (out / "summary.md").write_text(told, encoding="utf-8")


def specs_of(agents: Sequence[Agent], path: Path, minutes: Sequence[float]) -> list[Spec]:
    """Return the runs that are compared."""
    specs = [always_on(path)]
    for awareness in AWARENESSES:
        specs += timeouts(minutes, awareness, path=path)
        specs += keep_idle(WARM, awareness, path=path)
        specs += slurm(awareness, path=path)
    return [*specs, *of_agents(contenders(agents), path=path)]


def summary(
    rows: Sequence[Row],
    all_on: Sequence[Row],
    parts: Sequence[Part],
    agents: Sequence[Agent],
    left_out: Sequence[str],
) -> str:
    """Return the tables, as Markdown.

    Args:
        rows: the runs that are compared.
        all_on: a run with all nodes on for each of the parts.
        parts: they.
        agents: those that are compared.
        left_out: what is not, and why.
    """
    return text_of(
        ["# Timeouts, and what else switches nodes (figures 12 to 15)"],
        list(left_out),
        timeout_claims(rows, AWARENESSES),
        agent_claims(rows, agents),
        ["## Job-filling rate with all nodes on, by the part of the log"],
        filling_table(all_on, parts),
        ["## All runs", "", "Of an agent's seeds the mean, the least and the most."],
        run_table(rows, (*MEASURES, ENERGY, MAX_WAIT)),
    )


def filling_table(all_on: Sequence[Row], parts: Sequence[Part]) -> list[str]:
    """Return what the paper's 48.17 % may be of."""
    ours = zip(parts, all_on, strict=True)
    return table(
        ["part", "job-filling rate", "paper"],
        [[part.name, f"{row.filling:.2f} %", f"{PAPER.filling_all_on} %"] for part, row in ours],
    )
