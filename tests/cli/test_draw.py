"""The command `hpcosim show draw`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import (
    FILES,
    SCENARIO,
    command,
    invoke,
    write_scenario,
    written,
)


@pytest.mark.slow
def test_draw_makes_a_png_and_an_svg_and_the_same_ones_again() -> None:
    """Two drawings of a run are identical files."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    pictures = []
    for _ in range(2):
        done = command("show", "draw", "out")
        assert (done.status, done.err) == (0, "")
        assert done.out.split() == ["out/schedule.png", "out/schedule.svg"]
        pictures.append([Path(path).read_bytes() for path in done.out.split()])
        for path in done.out.split():
            Path(path).unlink()
    assert pictures[0] == pictures[1]
    png, svg = pictures[0]
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert svg.startswith(b"<?xml")
    assert b"</svg>" in svg


@pytest.mark.slow
def test_draw_takes_another_name() -> None:
    """--out is the path of the images without extension."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    assert invoke("show", "draw", "out", "--out", "v1.2").status == 0
    assert written() == ["out", "tiny.yaml", "v1.2.png", "v1.2.svg"]
    assert written("out") == FILES


@pytest.mark.parametrize("name", FILES)
def test_draw_of_what_is_no_results_folder_is_bad_input(name: str) -> None:
    """A folder without one of the files of a run is bad input."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    Path("out", name).unlink()
    done = invoke("show", "draw", "out")
    assert done.status == 2
    assert "results folder" in done.error


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.json", "[]"),
        ("run.json", "7"),
        ("jobs.csv", "a,b\n1,2\n"),
        ("jobs.csv", "job_id,submit_s,start_s,end_s,state,cores,nodes\n1,x,y,z,completed,1,0\n"),
        ("nodes.csv", "start_s,end_s,nodes,state,power_w\n0,1,all,idle,5\n"),
    ],
)
def test_draw_of_damaged_results_is_an_error_in_one_line(name: str, text: str) -> None:
    """A file with other content than a run writes is bad input."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    Path("out", name).write_text(text)
    assert invoke("show", "draw", "out").status == 2


@pytest.mark.slow
def test_draw_where_nothing_can_be_written_is_an_error_in_one_line() -> None:
    """An --out in a missing folder is an error that names the path."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    done = invoke("show", "draw", "out", "--out", "nowhere/x")
    assert done.status == 2
    assert "nowhere/x: cannot be written" in done.error


@pytest.mark.slow
def test_draw_takes_the_name_of_a_client_as_it_is() -> None:
    """A scheduler name that looks like a formula, such as `$x^{$`, is drawn as text."""
    invoke("run", "tiny.yaml", "--transport", "inproc", "--out", "out")
    about = json.loads(Path("out/run.json").read_text())
    Path("out/run.json").write_text(json.dumps(about | {"scheduler": "$x^{$"}))
    assert invoke("show", "draw", "out").status == 0


@pytest.mark.slow
def test_draw_of_a_run_in_which_nothing_ran() -> None:
    """If all jobs were rejected, the power of the idle nodes is drawn."""
    write_scenario(SCENARIO.replace("cores: [1, 8]", "cores: [9, 12]"))
    invoke("run", "bad.yaml", "--transport", "inproc", "--out", "out")
    assert invoke("show", "draw", "out").status == 0
