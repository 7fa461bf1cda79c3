"""The catalogue of studies: names, and the errors of a study that cannot run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from hpcosim_studies.catalogue import STUDIES, reproduce_study
from hpcosim_studies.deep_eas.cases import CURVES, HELD, OPTIMUM, SWEEPS
from hpcosim_studies.errors import StudyError
from hpcosim_studies.ineps.experiments import EXPERIMENTS
from hpcosim_studies.power.reproduce import PARTS


@pytest.mark.parametrize("module", sorted({entry.module for entry in STUDIES.values()}))
def test_every_study_has_a_module(module: str) -> None:
    """The module of each study has `reproduce`."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    assert callable(import_module(module).reproduce)


def test_papers_declare_the_studies_of_the_catalogue() -> None:
    """The catalogue has exactly the studies that the papers' packages declare."""
    declared = {*EXPERIMENTS, *PARTS, "power-curricula", *SWEEPS, CURVES, HELD, OPTIMUM}
    assert declared == set(STUDIES) - {"ineps", "node-centric"}


def test_an_unknown_study_is_an_error(tmp_path: Path) -> None:
    """The message lists the known studies."""
    with pytest.raises(StudyError, match="unknown study 'x'; expected one of ineps, pairing-exp1"):
        reproduce_study("x", tmp_path / "out")


@pytest.mark.parametrize("name", [name for name, entry in STUDIES.items() if not entry.trains])
def test_training_is_rejected_where_there_is_none(name: str, tmp_path: Path) -> None:
    """The message names the studies with trainings, and nothing is written."""
    with pytest.raises(StudyError, match=f"{name} trains no network; .*pairing-exp1"):
        reproduce_study(name, tmp_path / "out", train=True)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """The message names a file in the place of the output folder."""
    (tmp_path / "file").touch()
    with pytest.raises(StudyError, match=f"{tmp_path / 'file'}: cannot be read or written"):
        reproduce_study("ineps", tmp_path / "file")
