"""The catalogue of studies."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from hpcosim_client.extras import rl_extra
from hpcosim_scenarios.figures.schedule import drawing
from hpcosim_studies.errors import StudyError

__all__ = ["STUDIES", "Entry", "reproduce_study"]


class Entry(NamedTuple):
    """A study of the catalogue.

    Attributes:
        module: module with the function `reproduce(name, out, *, train, workers)`; imported when
            the study runs.
        trains: whether the study can train networks.
    """

    module: str
    trains: bool = False


_PAIRING = Entry("hpcosim_studies.ineps.pairing", trains=True)
_POWER = Entry("hpcosim_studies.power.reproduce")
_DEEP_EAS = Entry("hpcosim_studies.deep_eas.reproduce", trains=True)

STUDIES: Mapping[str, Entry] = {
    "ineps": Entry("hpcosim_studies.ineps.heuristics"),
    "pairing-exp1": _PAIRING,
    "pairing-exp2": _PAIRING,
    "pairing-exp3": _PAIRING,
    "pairing-exp4": _PAIRING,
    "node-centric": Entry("hpcosim_studies.node_centric.reproduce"),
    "power-timeouts": _POWER,
    "power-curricula": _POWER._replace(trains=True),
    "power-radar": _POWER,
    "power-sensitivity": _POWER,
    "power-pareto": _POWER,
    "deep-eas-fig3": _DEEP_EAS,
    "deep-eas-fig4": _DEEP_EAS,
    "deep-eas-fig5": _DEEP_EAS,
    "deep-eas-beta": _DEEP_EAS,
    "deep-eas-perfect": _DEEP_EAS,
    "deep-eas-machines": _DEEP_EAS,
    "deep-eas-optimum": _DEEP_EAS,
}


def reproduce_study(
    name: str, out: Path, *, train: bool = False, workers: int | None = None
) -> None:
    """Run the experiments of a study and write its tables and figures.

    Args:
        name: a key of `STUDIES`.
        out: output folder; existing files of the same names are replaced.
        train: whether to train the networks of the study into `out` first, which takes from half
            an hour to many hours; trained networks in `out` are reused. False: use the shipped
            networks.
        workers: number of processes; 1: the current process; None: one per core.

    Raises:
        StudyError: the study is unknown or trains no network, its scenarios or results are
            missing, or the folder is not writable.
        ScenarioError, WorkloadError, PolicyError: a scenario, its job log, a model or a package is
            missing or invalid.
        OracleError: SciPy is missing.
        RunError: a simulation failed.
        FigureError: matplotlib is missing.
    """
    if name not in STUDIES:
        raise StudyError(f"unknown study {name!r}; expected one of {', '.join(STUDIES)}")
    entry = STUDIES[name]
    if train and not entry.trains:
        trained = ", ".join(name for name, other in STUDIES.items() if other.trains)
        raise StudyError(f"{name} trains no network; expected one of {trained}")
    drawing()  # reports a missing matplotlib before the simulations
    try:
        out.mkdir(parents=True, exist_ok=True)
        with rl_extra(f"the study {name}"):
            module = import_module(entry.module)
        module.reproduce(name, out, train=train, workers=workers)
    except OSError as error:
        where = error.filename or out
        raise StudyError(f"{where}: cannot be read or written: {error.strerror or error}") from None
