"""The experiments of papers, run again: a module a paper, its scenarios in `scenarios/papers`."""

from __future__ import annotations

from pathlib import Path

from hpcosim_client.extras import rl_extra
from hpcosim_scenarios.errors import ScenariosError

FOLDER = Path(__file__).parents[1] / "papers"

POWER = (
    "power-timeouts",
    "power-curricula",
    "power-radar",
    "power-sensitivity",
    "power-pareto",
)
"""The parts of the study of power managers, each run by itself."""

PAIRING = ("pairing-exp1", "pairing-exp2", "pairing-exp3", "pairing-exp4")
"""The experiments of the pairing agent, each run by itself."""

DEEP_EAS = (
    "deep-eas-fig3",
    "deep-eas-fig4",
    "deep-eas-fig5",
    "deep-eas-beta",
    "deep-eas-perfect",
    "deep-eas-machines",
    "deep-eas-optimum",
)
"""The figures and comparisons of Deep-EAS, each run by itself."""

TRAINED = (*PAIRING, *DEEP_EAS, "power-curricula")
"""The studies in which networks are trained."""

STUDIES = ("ineps", *PAIRING, "node-centric", *POWER, *DEEP_EAS)


def reproduce_study(study: str, out: Path, *, train: bool = False) -> None:
    """Run all experiments of a paper, or of a part of it, and write its tables and figures.

    Args:
        study: one of `STUDIES`.
        out: where to.
        train: train the networks of one of `TRAINED` anew, which takes from half an
            hour to many.

    Raises:
        ScenarioError, WorkloadError: a scenario or a job log is not on this machine.
        ScenariosError: nothing is trained in the study that is to be trained.
    """
    if train and study not in TRAINED:
        raise ScenariosError(f"nothing is trained in {study}; it is in {', '.join(TRAINED)}")
    if study == "ineps":
        from hpcosim_studies.ineps.heuristics import reproduce as reproduce_ineps

        reproduce_ineps(out)
    elif study in PAIRING:
        with rl_extra("what agents learned"):
            from hpcosim_studies.ineps.agents import reproduce as reproduce_agents

        reproduce_agents(study, out, train=train)
    elif study in DEEP_EAS:
        with rl_extra("what agents learned"):
            from hpcosim_studies.deep_eas.reproduce import reproduce as reproduce_deep_eas

        reproduce_deep_eas(study, out, train=train)
    elif study in POWER:
        from hpcosim_studies.power import reproduce as reproduce_power

        reproduce_power(study, out, train=train)
    else:
        from hpcosim_studies.node_centric import reproduce as reproduce_node_centric

        reproduce_node_centric(out)
