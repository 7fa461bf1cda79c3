"""Folders that are no results, half results, damaged and mixed-up results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_sim.record.results import Run, write_results
from hpcosim_view.errors import ReadResultsError
from hpcosim_view.run.csv_columns import read_columns
from hpcosim_view.run.folder import read_folder
from support.commands import FILES
from support.simulating import cluster_of, jobs_of, simulate


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The results folder of three jobs on two nodes of two cores; the third is rejected."""
    return written(tmp_path / "out", (0.0, 10.0, 3), (1.0, 5.0, 4), (2.0, 1.0, 9))


def written(folder: Path, *jobs: tuple[float, float, int]) -> Path:
    """Write the results of jobs."""
    simulation = simulate(cluster_of(2, 2), jobs_of(*jobs))
    run = Run(scenario="a", scheduler="fcfs", seed=3, hpcosim="9.9", complete=True)
    write_results(folder, simulation.record(), run)
    return folder


def error_of(folder: Path) -> str:
    """Return the error of a folder, in one line without the path of the test's folder."""
    with pytest.raises(ReadResultsError) as caught:
        read_folder(folder)
    return str(caught.value).replace(f"{folder.parent}{os.sep}", "")


def edit(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Return a function that changes the text of a file of a folder."""

    def do(folder: Path) -> None:
        text = (folder / name).read_text()
        assert change(text) != text
        (folder / name).write_text(change(text))

    return do


def drop_checksums(folder: Path) -> None:
    """Make `run.json` that of a version without checksums, or of a user who edited the files."""
    run = json.loads((folder / "run.json").read_text())
    del run["files"]
    (folder / "run.json").write_text(json.dumps(run))


def replace(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a function that replaces a text in a file of a folder."""
    return edit(name, lambda text: text.replace(old, new))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda out: (out / "jobs.csv").unlink(), "out/jobs.csv is missing, so this is half a"),
        (lambda out: (out / "metrics.json").unlink(), "out/metrics.json is missing"),
        (edit("jobs.csv", lambda text: text[:-9]), "out/jobs.csv: the file is cut off"),
        (edit("jobs.csv", lambda text: ""), "out/jobs.csv: the file is cut off"),
        (edit("jobs.csv", lambda text: "a,b\n1,2\n"), "out/jobs.csv:1: expected a header line"),
        (replace("jobs.csv", "completed,3", "completed,three"), "out/jobs.csv:2: cores: expected"),
        (replace("jobs.csv", "completed,4", "finished,4"), "out/jobs.csv:3: state: expected one"),
        (replace("jobs.csv", "0.0,0.0,10.0", "0.0,nan,10.0"), "out/jobs.csv:2: start_s: expected"),
        (replace("jobs.csv", "0.0,0.0,10.0", "0.0,1e400,10.0"), "out/jobs.csv:2: start_s: exp"),
        (replace("jobs.csv", "0.0,0.0,10.0", "0.0,20.0,10.0"), "out/jobs.csv:2: job 1 has state"),
        (replace("jobs.csv", ",completed,3,", ",completed,3,,"), "out/jobs.csv:2: expected 20 cel"),
        (replace("jobs.csv", "\n2,", "\n1,"), "out/jobs.csv:3: job 1 is there a second time"),
        (replace("jobs.csv", "\n2,", '\n"2,'), "out/jobs.csv: after row 0: damaged"),
        (edit("jobs.csv", lambda text: text[: text.index("3,2")]), "out/jobs.csv: 2 jobs, but"),
        (edit("schedule.csv", lambda text: text + "77,,,\n"), "out/schedule.csv:4: jobs.csv has"),
        (replace("schedule.csv", "\n2,10.0", "\n2,11.0"), "out/schedule.csv:3: job 2: expected"),
        (replace("schedule.csv", "0 1,2 1", "0 1,2 x"), "out/schedule.csv:2: tasks: expected int"),
        (replace("schedule.csv", "0 1,2 1", "0 1,2"), "out/schedule.csv:2: job 1: expected one"),
        (replace("schedule.csv", "0 1,2 1", "0 1,2 3"), "out/schedule.csv:2: job 1: it takes 3"),
        (replace("schedule.csv", "0 1,2 1", "0 7,2 1"), "out/schedule.csv:2: job 1: expected no"),
        (
            edit("schedule.csv", lambda text: text[: text.index("2,10")]),
            "out/jobs.csv:3: job 2 started, but schedule.csv does not have it",
        ),
        (replace("nodes.csv", "computing", "busy"), "out/nodes.csv:2: state: expected one of"),
        (replace("nodes.csv", "0.0,10.0,1,", "0.0,10.0,1-9,"), "out/nodes.csv:2: expected start_s"),
        (replace("nodes.csv", "0.0,10.0,1,", "0.0,10.0,,"), "out/nodes.csv:2: nodes: expected int"),
        (replace("nodes.csv", "0.0,10.0,1,", "0.0,1.0,1,"), "out/nodes.csv: the energy of all"),
        (lambda out: (out / "nodes.csv").write_bytes(b"\xff\xfe\n"), "out/nodes.csv: damaged"),
        (replace("metrics.json", "{", "["), "out/metrics.json: damaged"),
        (replace("run.json", '"scheduler"', '"planner"'), "out/run.json: Object missing"),
        (replace("run.json", '"protocol": 1', '"protocol": 7'), "hpcosim '9.9' with protocol 7"),
        (edit("run.json", lambda text: "7\n"), "out/run.json: damaged"),
        (edit("run.json", lambda text: "[" * 100_000 + "\n"), "out/run.json: damaged"),
        (
            replace("run.json", '"cores": 2', '"cores": 2000000000'),
            "expected at most 1073741824",
        ),
        (replace("run.json", '"count": 2', '"count": 20000000'), "out/run.json: expected at most"),
        (
            lambda out: (out / "explanations.csv").write_text(
                "job_id,time_s,reason,expected_start_s\n9,1,Priority,\n"
            ),
            "out/explanations.csv:2: jobs.csv has no job 9",
        ),
    ],
)
def test_damage_is_an_error_that_names_file_and_line(
    out: Path, damage: Callable[[Path], object], message: str
) -> None:
    """Half results, damaged files and files that contradict each other are one-line errors."""
    damage(out)
    found = error_of(out)
    assert message in found
    assert "\n" not in found
    assert len(found) < 400


def test_a_valid_file_that_was_changed_is_an_error_in_one_line(out: Path) -> None:
    """The error names the file, and how to read the folder as it is."""
    text = (out / "jobs.csv").read_text()
    (out / "jobs.csv").write_text(text.replace(",0\n", ",1\n").replace(",0.0\n", ",1.0\n"))
    assert error_of(out).startswith("out: jobs.csv is not the file that run.json describes: ")
    drop_checksums(out)
    read_folder(out)


def test_files_of_two_runs_are_an_error(out: Path, tmp_path: Path) -> None:
    """The schedule of another run is not drawn with the jobs of this one."""
    other = written(tmp_path / "other", (0.0, 10.0, 3), (1.0, 5.0, 4), (2.0, 1.0, 2))
    (other / "schedule.csv").replace(out / "schedule.csv")
    assert "the files are of different runs" in error_of(out)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no results folder: run.json is missing; `hpcosim run"),
        (["out_schedule.csv"], "it has only results in Batsim's format"),
        (["out_jobs.csv"], "it has only results in Batsim's format"),
        (["experiment.json"], "it has the results of an experiment"),
        (["easy/run.json"], "folder/easy?"),
        (["easy/run.json", "sjf/run.json"], "folder/easy "),
    ],
)
def test_a_folder_without_results_says_what_it_has(
    tmp_path: Path, files: list[str], message: str
) -> None:
    """The error says what to do instead."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in files:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}")
    assert message in error_of(folder)


def test_a_file_and_a_missing_folder_are_no_results(tmp_path: Path) -> None:
    """The error says that a results folder was expected."""
    (tmp_path / "file").write_text("")
    assert error_of(tmp_path / "file") == "file: a file; expected a results folder"
    assert error_of(tmp_path / "none") == "none: no such folder; expected a results folder"
    assert "cannot be read" in error_of(tmp_path / "a\0b")


def test_results_without_the_new_columns_are_read(out: Path) -> None:
    """Older results have unknown requested times and users, and jobs on parts of nodes."""
    lines = (out / "jobs.csv").read_text().splitlines()
    (out / "jobs.csv").write_text("".join(",".join(line.split(",")[:9]) + "\n" for line in lines))
    drop_checksums(out)
    columns = read_folder(out).columns
    assert np.isnan(columns["job.requested_s"]).all()
    assert columns["job.user"].tolist() == [-1, -1, -1]
    assert columns["job.placement"].tolist() == [0, 0, 0]


def test_users_of_any_name_are_read(out: Path) -> None:
    """Quoted cells with commas, quotation marks and line ends are names as they are."""
    names = ['<b>,"x"\n', "7", '<b>,"x"\n']
    lines = (out / "jobs.csv").read_text().splitlines()
    header, rows = lines[0], [line.split(",") for line in lines[1:]]
    place = header.split(",").index("user")
    for row, name in zip(rows, names, strict=True):
        row[place] = '"' + name.replace('"', '""') + '"'
    (out / "jobs.csv").write_text("\n".join([header, *map(",".join, rows)]) + "\n")
    drop_checksums(out)
    frame = read_folder(out)
    assert [frame.about["users"][code] for code in frame.columns["job.user"]] == names


def test_split_and_parsed_cells_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file gives the same columns in blocks of any size, with and without quotation marks."""
    path = tmp_path / "some.csv"
    cells = [[f"{row}{column}" for column in "abc"] for row in range(50)]
    found = []
    for size in (1, 30, 10_000):
        monkeypatch.setattr("hpcosim_view.run.csv_columns.BLOCK_CHARACTERS", size)
        for quote in ("", '"'):
            rows = [
                ["x", "y", "z"],
                *cells[:20],
                [f"{quote}q{quote}", "r\u2028s", "t"],
                *cells[20:],
            ]
            path.write_text("".join(",".join(row) + "\n" for row in rows))
            blocks = list(read_columns(path, {"x": tuple, "z": tuple}))
            found.append([[c for block in blocks for c in block[name]] for name in ("x", "z")])
    assert all(one == found[0] for one in found)
    assert len(found[0][0]) == 51


def test_metrics_of_the_run_are_in_the_frame(out: Path) -> None:
    """The frame has the content of `metrics.json`."""
    assert read_folder(out).about["metrics"] == json.loads((out / "metrics.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of two jobs, for tests that leave it as it is."""
    return written(tmp_path_factory.mktemp("whole") / "out", (0.0, 10.0, 3), (1.0, 5.0, 4))


@given(st.sampled_from(FILES), st.floats(0, 1), st.binary(max_size=3), st.integers(0, 40))
def test_any_damage_is_an_error_or_a_frame(
    whole: Path, name: str, where: float, put: bytes, cut: int
) -> None:
    """Whatever bytes a file has, reading ends with a frame or an error of this package."""
    data = (whole / name).read_bytes()
    at = int(where * len(data))
    try:
        (whole / name).write_bytes(data[:at] + put + data[at + cut :])
        with suppress(ReadResultsError):
            read_folder(whole)
    finally:
        (whole / name).write_bytes(data)
