"""The catalogue of studies: names, and the errors of a study that cannot run."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from hpcosim_experiments.carry_out import checked_plan
from hpcosim_experiments.definition import load_experiment
from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.executors import Ray
from hpcosim_papers.studies.study import (
    STUDIES,
    Request,
    StudyError,
    papers_folder,
    reproduce_study,
)
from hpcosim_scenarios.shipped import shipped_experiments
from hpcosim_sim.errors import ResultsFolderError

PAPERS = papers_folder()
FILES = [file for file in shipped_experiments().values() if file.is_relative_to(PAPERS)]


@pytest.mark.parametrize("module", sorted({entry.module for entry in STUDIES.values()}))
def test_every_study_has_a_module(module: str) -> None:
    """The module of each study has `reproduce`."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    assert callable(import_module(module).reproduce)


def test_papers_declare_the_studies_of_the_catalogue() -> None:
    """The catalogue has exactly the studies that the papers' packages declare."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    from hpcosim_papers.deep_eas.study.cases import CURVES, HELD, LENGTHS, OPTIMUM, SWEEPS
    from hpcosim_papers.ineps.study.pairing_tables import EXPERIMENTS
    from hpcosim_papers.ineps.study.unseen import STUDY as UNSEEN
    from hpcosim_papers.power.study.reproduce import PARTS

    declared = {*EXPERIMENTS, UNSEEN, *PARTS, *SWEEPS, CURVES, HELD, LENGTHS, OPTIMUM}
    assert declared == set(STUDIES) - {"ineps", "node-centric"}


def test_an_unknown_study_is_an_error(tmp_path: Path) -> None:
    """The message lists the known studies."""
    with pytest.raises(StudyError, match="unknown study 'x'; expected one of ineps, pairing-exp1"):
        reproduce_study(Request("x", tmp_path / "out"))


@pytest.mark.parametrize("name", [name for name, entry in STUDIES.items() if not entry.trains])
def test_training_is_rejected_where_there_is_none(name: str, tmp_path: Path) -> None:
    """The message names the studies with trainings, and nothing is written."""
    with pytest.raises(StudyError, match=f"{name} trains no network; .*pairing-exp1"):
        reproduce_study(Request(name, tmp_path / "out", train=True))
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    """A file in its place, other files, and the results of another study are errors."""
    (tmp_path / "file").touch()
    with pytest.raises(ResultsFolderError, match="file: expected a results folder"):
        reproduce_study(Request("ineps", tmp_path / "file"))
    with pytest.raises(ResultsFolderError, match="not empty"):
        reproduce_study(Request("ineps", tmp_path))
    Path(tmp_path / "experiment.json").write_text(
        '{"name": "other", "file": "other.yaml", "sha256": "", "hpcosim": ""}'
    )
    with pytest.raises(ExperimentError, match="results of the experiment other"):
        reproduce_study(Request("ineps", tmp_path))


def test_a_training_on_a_cluster_is_an_error(tmp_path: Path) -> None:
    """Trainings write into the output folder, which other machines do not have."""
    with pytest.raises(StudyError, match="trainings run on this machine only"):
        reproduce_study(Request("pairing-exp1", tmp_path / "out", train=True, executor=Ray()))


def test_every_experiment_belongs_to_a_study() -> None:
    """Each experiment file of a paper has the name of a study, and in it the same name."""
    assert len(FILES) == 11
    for file in FILES:
        assert file.stem in STUDIES
        assert load_experiment(file).name == file.stem


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_experiment_can_be_run(
    file: Path, traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs and report of each experiment file are valid, and give no warning."""
    pytest.importorskip("torch", reason="trained agents need the extra rl")
    monkeypatch.setenv("HPCOSIM_TRACES", str(traces))
    warned: list[str] = []
    planned, _ = checked_plan(file, None, warned.append)
    assert len(planned.runs) > 1
    assert warned == []
