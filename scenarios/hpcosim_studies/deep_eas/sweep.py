"""Scenarios side by side: heuristics, agents and what the paper says, in a table and a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hpcosim_scenarios.figures.schedule import COLOURS
from hpcosim_studies.canvas import panels, titled
from hpcosim_studies.deep_eas.agents import Outcome, edp
from hpcosim_studies.deep_eas.studies import BUSIEST, Case, Sweep

ESJF = "esjf"
BEST = "shortest-low_power"
"""The best on the busiest scenario of all heuristics there are here; it binds nothing ahead."""

HEURISTICS = (ESJF, "esjf-now", BEST, "minmin", "minmin-immediate", "fcfs")
FORMS = {
    "pairs": "Deep-EAS, pairs (ours)",
    "picture": "Deep-EAS, the paper's picture, PPO",
    "paper": "Deep-EAS as in the paper",
}


class Compared(NamedTuple):
    """A scenario of a sweep, and what all come to on it.

    Attributes:
        case: it.
        heuristics: mean normalised energy-delay product by scheduler.
        agents: what was trained on it.
        elsewhere: what our agent of the busiest scenario comes to here.
    """

    case: Case
    heuristics: dict[str, float]
    agents: list[Outcome]
    elsewhere: float

    def of(self, form: str) -> list[Outcome]:
        """Return the agents of a form, a seed each."""
        return [one for one in self.agents if one.form == form]

    def less(self, value: float) -> float:
        """Return by how much a value is less than ESJF's, per cent, as a negative number."""
        return 100.0 * (value / self.heuristics[ESJF] - 1.0)


def compare(sweep: Sweep, outcomes: Sequence[Outcome], busiest: Path) -> list[Compared]:
    """Run the heuristics on a sweep's scenarios, and set agents beside them.

    Args:
        sweep: the scenarios.
        outcomes: of agents, of any scenarios.
        busiest: the file of our agent of the busiest scenario.
    """
    return [
        Compared(
            case,
            {name: edp(case.path, name) for name in HEURISTICS},
            [one for one in outcomes if one.scenario == case.scenario],
            edp(case.path, f"deep-eas:{busiest}"),
        )
        for case in sweep.cases
    ]


def table(sweep: Sweep, found: Sequence[Compared]) -> str:
    """Return the comparison, Markdown."""
    lines = [
        f"# {sweep.title}",
        "",
        "Mean normalised energy-delay product of all jobs of 150 sequences that no agent has seen; "
        "in brackets against ESJF. Agents: mean of the best choices, least to most over so many "
        "seeds; one of each form's networks before training, with choices drawn.",
        "",
        f"| {sweep.differs} | " + " | ".join(one.case.label for one in found) + " |",
        "|---" * (len(found) + 1) + "|",
    ]
    lines += [
        f"| {name} | " + " | ".join(_heuristic(one, name) for one in found) + " |"
        for name in HEURISTICS
    ]
    for form, title in FORMS.items():
        if any(one.of(form) for one in found):
            lines.append(f"| {title} | " + " | ".join(_agents(one, form) for one in found) + " |")
            before = " | ".join(_before(one, form) for one in found)
            lines.append(f"| before training | {before} |")
    elsewhere = [f"{one.elsewhere:.2f} ({one.less(one.elsewhere):+.1f} %)" for one in found]
    lines.append(f"| ours, trained on {BUSIEST} alone | " + " | ".join(elsewhere) + " |")
    said = ["" if one.case.published is None else f"({one.case.published:+.2f} %)" for one in found]
    lines.append("| Deep-EAS, published | " + " | ".join(said) + " |")
    return "\n".join(lines) + "\n"


def _heuristic(one: Compared, name: str) -> str:
    value = one.heuristics[name]
    return f"{value:.2f}" + ("" if name == ESJF else f" ({one.less(value):+.1f} %)")


def _agents(one: Compared, form: str) -> str:
    values = [agent.best for agent in one.of(form)]
    if not values:
        return ""
    mean = statistics.fmean(values)
    told = f"**{mean:.2f}** ({one.less(mean):+.1f} %)"
    if len(values) == 1:
        return told
    return f"{told}, {min(values):.2f} to {max(values):.2f}, {len(values)} seeds"


def _before(one: Compared, form: str) -> str:
    values = [agent.untrained_drawn for agent in one.of(form)]
    return f"{statistics.fmean(values):.2f}" if values else ""


def draw(sweep: Sweep, found: Sequence[Compared], path: Path) -> None:
    """Draw what all come to, and by how much that is less than ESJF's.

    Raises:
        FigureError: matplotlib is missing, or the file can't be written.
    """
    with panels(path, 1, 2, (10.0, 3.8)) as (values, percents):
        titled(values, "mean normalised energy-delay product")
        titled(percents, "against ESJF (%)")
        for label, style, colour, came in _lines(found):
            values.plot(came, style, color=colour, markersize=4, label=label)
            less = [one.less(value) for one, value in zip(found, came, strict=True)]
            percents.plot(less, style, color=colour, markersize=4)
        values.set_ylim(bottom=0.0)
        values.legend(frameon=False, fontsize=7)
        for axes in (values, percents):
            axes.set_xticks(range(len(found)), [one.case.label for one in found])
            axes.set_xlabel(sweep.differs)


def _lines(found: Sequence[Compared]) -> Iterator[tuple[str | None, str, str, list[float]]]:
    """Yield label, style, colour and values of each line; NaN where there is none."""
    grey, blue = COLOURS[7], COLOURS[0]
    yield "ESJF", "-o", grey, [one.heuristics[ESJF] for one in found]
    yield BEST, "--", grey, [one.heuristics[BEST] for one in found]
    ours = [statistics.fmean(agent.best for agent in one.of("pairs")) for one in found]
    yield FORMS["pairs"], "-o", blue, ours
    yield f"the same, trained on {BUSIEST} alone", ":", blue, [one.elsewhere for one in found]
    for form, colour in (("picture", COLOURS[1]), ("paper", COLOURS[2])):
        for seed in range(max(len(one.of(form)) for one in found)):
            label = f"{FORMS[form]}, a seed each" if seed == 0 else None
            some = [one.of(form)[seed : seed + 1] for one in found]
            yield label, "o", colour, [agents[0].best if agents else math.nan for agents in some]
    percents = [math.nan if one.case.published is None else one.case.published for one in found]
    said = [
        one.heuristics[ESJF] * (1.0 + percent / 100.0)
        for one, percent in zip(found, percents, strict=True)
    ]
    yield "published, by its percentage", "x", "black", said
