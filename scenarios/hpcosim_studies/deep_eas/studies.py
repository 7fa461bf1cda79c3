"""What is run: scenarios side by side, what the paper says of them, and who learns on which."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcosim_studies import FOLDER as PAPERS

FOLDER = PAPERS / "deep_eas"
SEEDS = (0, 1, 2)


class Case(NamedTuple):
    """A scenario of a sweep.

    Attributes:
        scenario: the name of its file.
        label: what it is in a table.
        published: how much less than ESJF the paper's agent comes to, per cent; None: not said.
    """

    scenario: str
    label: str
    published: float | None = None

    @property
    def path(self) -> Path:
        """The scenario's file."""
        return FOLDER / f"{self.scenario}.yaml"


class Sweep(NamedTuple):
    """Scenarios that differ in one thing.

    Attributes:
        title: what the paper, or we, call it.
        differs: in what.
        cases: the scenarios.
    """

    title: str
    differs: str
    cases: tuple[Case, ...]


RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
PERFECT = (-5.37, -13.84, -29.45, -37.64, -45.47)

SWEEPS: Mapping[str, Sweep] = {
    "deep-eas-fig3": Sweep(
        "Figure 3: arrival rates, run times uncertain (c 4), half of the jobs short",
        "arrival rate",
        tuple(Case(f"lambda_{rate}", f"{rate}", -42.88 if rate == 0.9 else None) for rate in RATES),
    ),
    "deep-eas-perfect": Sweep(
        "Section III-G: the same with run times that are as expected",
        "arrival rate",
        tuple(
            Case(f"perfect_{rate}", f"{rate}", published)
            for rate, published in zip(RATES, PERFECT, strict=True)
        ),
    ),
    "deep-eas-beta": Sweep(
        "Section III-G: shares of short jobs, arrival rate 0.7",
        "share of short jobs",
        (
            Case("beta_0.2", "0.2", -11.94),
            Case("lambda_0.7", "0.5", -35.10),
            Case("beta_0.8", "0.8", -45.29),
        ),
    ),
    "deep-eas-machines": Sweep(
        "Beyond the paper: more machines, arrival rate 0.9",
        "machines",
        (
            Case("lambda_0.9", "2", -42.88),
            Case("machines_3", "3"),
            Case("machines_4", "4"),
        ),
    ),
}
"""What is told by a table and a picture of scenarios side by side."""

CURVES = "deep-eas-fig4"
HELD = "deep-eas-fig5"


class Trained(NamedTuple):
    """An agent that is trained.

    Attributes:
        scenario: the name of the file of the one it is trained on.
        form: a key of `hpcosim_training.learners.deep_eas.settings.FORMS`.
        seed: of its training.
    """

    scenario: str
    form: str
    seed: int

    @property
    def name(self) -> str:
        """What its folder and files are called."""
        return f"{self.scenario}-{self.form}-{self.seed}"


BUSIEST = "lambda_0.9"
PAPERS_CURVE = "lambda_0.7"


def trained_on(scenario: str) -> list[Trained]:
    """Return who learns on a scenario: all forms and seeds on the busiest, ours on each."""
    if scenario == BUSIEST:
        return [
            Trained(scenario, form, seed)
            for form in ("pairs", "picture", "paper")
            for seed in SEEDS
        ]
    own = [Trained(scenario, "pairs", 0)]
    return [*own, Trained(scenario, "paper", 0)] if scenario == PAPERS_CURVE else own


def trainings(study: str) -> list[Trained]:
    """Return who learns for a study."""
    if study in SWEEPS:
        scenarios = [case.scenario for case in SWEEPS[study].cases]
    elif study == CURVES:
        scenarios = [PAPERS_CURVE, BUSIEST]
    else:
        scenarios = [BUSIEST]
    return [one for scenario in scenarios for one in trained_on(scenario)]
