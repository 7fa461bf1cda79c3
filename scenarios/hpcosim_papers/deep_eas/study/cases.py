"""The scenarios of the study, their published values, and the trainings on each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from hpcosim_papers.studies.papers import scenario_path

SEEDS = (0, 1, 2)


class Case(NamedTuple):
    """A scenario of a sweep.

    Attributes:
        scenario: the name of its file.
        label: its title in tables.
        published: change of the paper's agent from ESJF, %; None: not published.
    """

    scenario: str
    label: str
    published: float | None = None

    @property
    def path(self) -> Path:
        """The scenario file."""
        return scenario_path("deep_eas", self.scenario)


class Sweep(NamedTuple):
    """Scenarios that differ in one parameter.

    Attributes:
        title: title of its table.
        differs: name of the parameter.
        cases: the scenarios.
    """

    title: str
    differs: str
    cases: tuple[Case, ...]


RATES = (0.1, 0.3, 0.5, 0.7, 0.9)
PERFECT = (-5.37, -13.84, -29.45, -37.64, -45.47)

SWEEPS: Mapping[str, Sweep] = {
    "deep-eas-fig3": Sweep(
        "Figure 3: arrival rates, uncertain run times (c 4), half of the jobs short",
        "arrival rate",
        tuple(Case(f"lambda_{rate}", f"{rate}", -42.88 if rate == 0.9 else None) for rate in RATES),
    ),
    "deep-eas-perfect": Sweep(
        "Section III-G: exact run-time estimates",
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
        "Not in the paper: more machines, arrival rate 0.9",
        "machines",
        (
            Case("lambda_0.9", "2", -42.88),
            Case("machines_3", "3"),
            Case("machines_4", "4"),
        ),
    ),
}
"""Studies that compare scenarios, by name."""

CURVES = "deep-eas-fig4"
HELD = "deep-eas-fig5"
OPTIMUM = "deep-eas-optimum"
LENGTHS = "deep-eas-lengths"
EVERY_LENGTH = "every_length.safetensors"
"""The file of the agent of the form `queue`, trained on many lengths and loads."""

BUSIEST = "lambda_0.9"
PAPERS_CURVE = "lambda_0.7"


class DeepEasTask(NamedTuple):
    """A training.

    Attributes:
        scenario: the name of the scenario file.
        form: a key of `FORMS` of the training package: `pairs`, `picture` or `paper`.
        seed: seed of the training.
    """

    scenario: str
    form: str
    seed: int

    @property
    def name(self) -> str:
        """Name of its folder and of its learning curve."""
        return f"{self.scenario}-{self.form}-{self.seed}"

    @property
    def model(self) -> str:
        """Name of the file of the best agent over the seeds."""
        return model_name(self.scenario, self.form)


def model_name(scenario: str, form: str) -> str:
    """Return the name of the file of the best agent of a form on a scenario."""
    return f"{scenario}.safetensors" if form == "pairs" else f"{scenario}-{form}.safetensors"


def trained_on(scenario: str) -> list[DeepEasTask]:
    """Return the trainings on a scenario: all forms and seeds on the busiest, otherwise ours."""
    if scenario == BUSIEST:
        forms = ("pairs", "picture", "paper")
        return [DeepEasTask(scenario, form, seed) for form in forms for seed in SEEDS]
    own = [DeepEasTask(scenario, "pairs", 0)]
    return [*own, DeepEasTask(scenario, "paper", 0)] if scenario == PAPERS_CURVE else own


def trainings(study: str) -> list[DeepEasTask]:
    """Return the trainings of a study."""
    if study in SWEEPS:
        scenarios = [case.scenario for case in SWEEPS[study].cases]
    else:
        scenarios = [PAPERS_CURVE, BUSIEST] if study == CURVES else [BUSIEST]
    return [one for scenario in scenarios for one in trained_on(scenario)]
