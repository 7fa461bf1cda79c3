"""The studies by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from hpcosim_client.extras import rl_extra
from hpcosim_experiments.executors import Local
from hpcosim_experiments.output import MARKER
from hpcosim_papers.studies.study import Request, StudyError
from hpcosim_sim.record.folder import prepare
from hpcosim_view.figures.style import drawing

__all__ = ["STUDIES", "Entry", "Request", "reproduce_study"]


class Entry(NamedTuple):
    """A study of the catalogue.

    Attributes:
        module: module with `reproduce(request)`, imported when the study runs.
        about: description in one line.
        trains: whether the study trains networks.
    """

    module: str
    about: str
    trains: bool = False


_PAIRING = "hpcosim_papers.ineps.study.pairing"
_POWER = "hpcosim_papers.power.study.reproduce"
_DEEP_EAS = "hpcosim_papers.deep_eas.study.reproduce"

STUDIES: Mapping[str, Entry] = {
    "ineps": Entry(
        "hpcosim_papers.ineps.study.heuristics", "heuristics of the InEPS paper and thesis"
    ),
    "pairing-exp1": Entry(_PAIRING, "pairing agent on InEPS Experiment 1", trains=True),
    "pairing-exp2": Entry(_PAIRING, "pairing agent on InEPS Experiment 2", trains=True),
    "pairing-exp3": Entry(_PAIRING, "pairing agent on InEPS Experiment 3", trains=True),
    "pairing-exp4": Entry(_PAIRING, "pairing agent on InEPS Experiment 4", trains=True),
    "pairing-unseen": Entry(
        "hpcosim_papers.ineps.study.unseen",
        "pairing agent, rule and search on workloads never trained on",
        trains=True,
    ),
    "node-centric": Entry(
        "hpcosim_papers.node_centric.study.reproduce",
        "HighGFlops and LowPower against MinMin; needs kit-fh2-25326",
    ),
    "power-timeouts": Entry(_POWER, "power managers, figures 12 to 15; needs nasa-ipsc"),
    "power-curricula": Entry(_POWER, "training curricula, figure 11", trains=True),
    "power-radar": Entry(
        _POWER, "power managers and scheduling metrics, figure 16; needs nasa-ipsc"
    ),
    "power-sensitivity": Entry(
        _POWER, "power managers on other clusters, figure 17; needs nasa-ipsc"
    ),
    "power-pareto": Entry(
        _POWER, "power managers: waiting time against wasted energy; needs nasa-ipsc"
    ),
    "deep-eas-fig3": Entry(_DEEP_EAS, "Deep-EAS by arrival rate, figure 3", trains=True),
    "deep-eas-fig4": Entry(_DEEP_EAS, "Deep-EAS learning curves, figure 4", trains=True),
    "deep-eas-fig5": Entry(_DEEP_EAS, "Deep-EAS delayed jobs, figure 5", trains=True),
    "deep-eas-beta": Entry(_DEEP_EAS, "Deep-EAS by share of short jobs", trains=True),
    "deep-eas-perfect": Entry(_DEEP_EAS, "Deep-EAS with exact run times", trains=True),
    "deep-eas-machines": Entry(_DEEP_EAS, "Deep-EAS on three and four machines", trains=True),
    "deep-eas-lengths": Entry(_DEEP_EAS, "Deep-EAS on sequences of 4 to 480 steps and other loads"),
    "deep-eas-optimum": Entry(
        _DEEP_EAS, "Deep-EAS and a lower bound, on small sequences", trains=True
    ),
}
"""The studies by name."""


def reproduce_study(request: Request) -> None:
    """Run the experiments of a study, and write their tables and figures.

    Results of runs that are stored in the output folder are used again. Training takes from half
    an hour to many hours; networks that are complete in the folder are kept.

    Raises:
        StudyError: the study is unknown, it trains no network or not with this executor, or
            its scenarios or results are missing.
        ResultsFolderError: the output folder has other files, or it cannot be written to.
        ExperimentError: the output folder has the results of another study.
        StoreError: the disk is full.
        ScenarioError, WorkloadError, PolicyError: a scenario, its job log, a model or a package is
            missing or invalid.
        OracleError: SciPy is missing.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
    """
    name, out = request.name, request.out
    if name not in STUDIES:
        raise StudyError(f"unknown study {name!r}; expected one of {', '.join(STUDIES)}")
    entry = STUDIES[name]
    if request.train and not entry.trains:
        trained = ", ".join(name for name, other in STUDIES.items() if other.trains)
        raise StudyError(f"{name} trains no network; expected one of {trained}")
    if request.train and not isinstance(request.executor, Local):
        raise StudyError("trainings run on this machine only; use the executor local")
    drawing()  # reports a missing matplotlib before the simulations
    # the results of another experiment are an error of `carry_out`
    prepare(out, force=request.force or request.train or (out / MARKER).exists())
    try:
        out.mkdir(parents=True, exist_ok=True)
        with rl_extra(f"the study {name}"):
            module = import_module(entry.module)
        module.reproduce(request)
    except OSError as error:
        where = error.filename or out
        raise StudyError(f"{where}: cannot be read or written: {error.strerror or error}") from None
