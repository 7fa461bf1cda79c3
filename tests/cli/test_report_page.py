"""The command `hpcosim report`."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from hpcosim_view.run.folder import read_folder
from hpcosim_view.run.frame import decode_frame
from support.commands import FILES, SCENARIO, invoke, write_scenario, written
from support.report_pages import forget_checksums

HOSTILE = '</script><script>alert("1")</script>&"\'<!--]]>$x{}\u202e'
PAGE = Path("out/report.html")


@pytest.fixture
def results() -> Path:
    """The results folder of a small run."""
    return _run("out")


def _run(out: str, *options: str) -> Path:
    assert invoke("run", "tiny.yaml", "--transport", "inproc", "--out", out, *options).status == 0
    return Path(out)


def test_a_report_holds_the_whole_run_and_is_the_same_again(results: Path) -> None:
    """The embedded frame is that of the folder; a second report has the same bytes."""
    done = invoke("report", "out")
    assert (done.status, done.out, done.err) == (0, "out/report.html\n", "")
    assert written("out") == sorted([*FILES, "report.html"])
    text = PAGE.read_text(encoding="utf-8")
    data = re.findall(r'<script type="application/octet-stream" data-run="easy">([^<]*)<', text)
    (frame,) = [decode_frame(base64.b64decode(part)) for part in data]
    expected = read_folder(results)
    assert frame.about == expected.about
    for name, column in expected.columns.items():
        np.testing.assert_array_equal(frame.columns[name], column)
    assert invoke("report", "out", "-o", "new/again.html").status == 0
    assert Path("new/again.html").read_bytes() == PAGE.read_bytes()
    assert invoke("report", "out").status == 0


def test_the_policy_allows_the_script_and_the_style_of_the_page_only(results: Path) -> None:
    """The hashes are those of the inline script and style, and nothing is loaded."""
    text = _page()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    assert policy.split("; ")[:3] == [
        "default-src 'none'",
        f"script-src '{_hash(script)}'",
        f"style-src '{_hash(style)}'",
    ]
    assert "unsafe" not in policy
    assert not re.findall(r"https?:|\bsrc=|\sstyle=|<link|\son\w+=", text.replace("http-equiv", ""))


def _page() -> str:
    assert invoke("report", "out").status == 0
    return PAGE.read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def test_hostile_names_are_data(results: Path) -> None:
    """Names of the scenario, the scheduler and warnings appear escaped or encoded only."""
    safe = _page().count("<script")
    about = json.loads((results / "run.json").read_text())
    names = {"scenario": HOSTILE, "scheduler": HOSTILE, "warnings": [HOSTILE]}
    (results / "run.json").write_text(json.dumps(about | names))
    text = _page()
    assert text.count("<script") == safe
    assert "alert(" not in text.replace("alert(&quot;", "")


def test_up_to_four_runs_have_names_of_their_own() -> None:
    """Runs are named by scheduler, or by folder if schedulers are equal."""
    folders = [str(_run(name, "--seed", name[-1])) for name in ("a1", "a2", "a3", "a4")]
    assert invoke("report", *folders, "-o", "page.html").status == 0
    assert re.findall(r'data-run="(.*?)"', Path("page.html").read_text()) == folders
    _run("b", "--scheduler", "fcfs")
    assert invoke("report", "b", "a1").out == "b/report.html\n"
    assert re.findall(r'data-run="(.*?)"', Path("b/report.html").read_text()) == ["fcfs", "easy"]
    done = invoke("report", *folders, "b")
    assert "expected 1 to 4 results folders, got 5" in done.error
    assert done.status == 2


def test_runs_on_different_platforms_are_an_error() -> None:
    """The error has both platforms."""
    _run("a")
    write_scenario(SCENARIO.replace("count: 4", "count: 3"))
    invoke("run", "bad.yaml", "--transport", "inproc", "--out", "b")
    done = invoke("report", "a", "b")
    assert done.status == 2
    assert "b: the platform has 3 nodes with 2 cores, but that of a has 4 nodes" in done.error
    assert not Path("a/report.html").exists()


def test_the_same_folder_twice_is_an_error(results: Path) -> None:
    """Also if it is named in another way."""
    done = invoke("report", "out", results.resolve())
    assert done.status == 2
    assert "is given twice" in done.error


@pytest.mark.parametrize("name", FILES)
def test_a_report_of_what_is_no_results_folder_is_an_error(name: str, results: Path) -> None:
    """A folder without one of the files gives one line, and no page."""
    (results / name).unlink()
    done = invoke("report", "out")
    assert done.status == 2
    assert not PAGE.exists()


def test_a_file_that_is_no_report_is_kept(results: Path) -> None:
    """It is replaced with --force only."""
    Path("notes.html").write_text("my notes")
    done = invoke("report", "out", "-o", "notes.html")
    assert done.status == 2
    assert "notes.html: this file is no report of hpcosim" in done.error
    assert Path("notes.html").read_text() == "my notes"
    assert invoke("report", "out", "-o", "notes.html", "--force").status == 0
    assert invoke("report", "out", "-o", "notes.html").status == 0


def test_a_report_where_nothing_can_be_written_is_an_error(results: Path) -> None:
    """The error names the folder, and nothing is left behind."""
    Path("file").write_text("")
    done = invoke("report", "out", "-o", "file/report.html")
    assert done.status in (1, 2)
    assert "file" in done.error
    assert written() == ["file", "out", "tiny.yaml"]


def test_a_report_of_incomplete_results_warns(results: Path) -> None:
    """The warning has the reason."""
    about = json.loads((results / "run.json").read_text())
    stopped = {"complete": False, "ended_because": "stopped by SIGINT"}
    (results / "run.json").write_text(json.dumps(about | stopped))
    done = invoke("report", "out")
    assert done.status == 0
    assert done.err == "warning: out has incomplete results: stopped by SIGINT\n"


def test_runs_with_different_settings_warn() -> None:
    """The page and standard error have the settings with both values, but not the scheduler."""
    _run("a")
    _run("b", "--scheduler", "fcfs", "--set", "kill_at_walltime=true", "--set", "dynamic_jobs=true")
    done = invoke("report", "a", "b", "-o", "page.html")
    assert done.status == 0
    expected = (
        "The runs easy and fcfs have different settings: kill_at_walltime: false and true; "
        "dynamic_jobs: false and true."
    )
    assert f"warning: {expected}\n" in done.err
    (notice,) = re.findall(r'<p class="notice[^>]*>([^<]*)</p>', Path("page.html").read_text())
    assert expected in notice


def test_runs_that_differ_by_their_scheduler_only_have_no_warning() -> None:
    """The comparison of schedulers is what a report is for."""
    _run("a")
    _run("b", "--scheduler", "fcfs")
    assert invoke("report", "a", "b", "-o", "page.html").err == ""


def test_a_folder_of_results_folders_names_all_of_them() -> None:
    """The names can be copied into the command."""
    _run("both/easy")
    _run("both/fcfs", "--scheduler", "fcfs")
    assert "did you mean both/easy both/fcfs?" in invoke("report", "both").error
    Path("study").mkdir()
    Path("study/experiment.json").write_text("{}")
    assert "results of an experiment, which keeps no schedules" in invoke("report", "study").error


def test_runs_with_different_jobs_have_a_notice(results: Path) -> None:
    """Page and warning count them."""
    _run("fcfs", "--scheduler", "fcfs")
    jobs = _jobs(Path("fcfs/jobs.csv"))
    jobs[2]["submit_s"] = str(float(jobs[2]["submit_s"]) - 0.01)
    jobs[1]["requested_s"] = "123456.0"
    jobs[3]["job_id"] = "77"  # two more jobs that are in one of the runs only
    _write_jobs(Path("fcfs/jobs.csv"), jobs, list(jobs[0]))
    schedule = Path("fcfs/schedule.csv").read_text()
    Path("fcfs/schedule.csv").write_text(re.sub(r"(?m)^4,", "77,", schedule))
    done = invoke("report", "out", "fcfs")
    expected = "easy and fcfs differ in 4 of 21 jobs"
    assert done.err.startswith("warning: The runs do not have the same jobs")
    assert expected in done.err
    (notice,) = re.findall(r'<p class="notice[^>]*>([^<]*)</p>', PAGE.read_text())
    assert expected in notice


def test_runs_with_the_same_jobs_have_no_notice(results: Path) -> None:
    """A requested time that one of the runs does not know is no difference."""
    file = _run("fcfs", "--scheduler", "fcfs") / "jobs.csv"
    older = [name for name in _jobs(file)[0] if name != "requested_s"]
    _write_jobs(file, _jobs(file), older)
    done = invoke("report", "out", "fcfs")
    assert (done.status, done.err) == (0, "")
    assert 'class="notice' not in PAGE.read_text()


def _jobs(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def _write_jobs(file: Path, jobs: list[dict[str, str]], columns: list[str]) -> None:
    """Replace `jobs.csv`, and remove the checksums of the files from `run.json`."""
    forget_checksums(file.parent)
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(jobs)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_only_a_regular_file_is_replaced(results: Path, force: tuple[str, ...]) -> None:
    """A FIFO or a link to a device is an error at once, also with --force, and stays."""
    os.mkfifo("fifo")
    Path("null").symlink_to("/dev/null")
    for name in ("fifo", "null"):
        done = invoke("report", "out", "-o", name, *force)
        assert done.status == 2
        assert done.error == f"{name} is not a regular file; expected the path of a file"
    assert Path("fifo").is_fifo()
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_and_its_report_is_replaced(results: Path) -> None:
    """A report through a link is written to the target of the link."""
    Path("far").mkdir()
    Path("link.html").symlink_to("far/page.html")
    for _ in range(2):
        assert invoke("report", "out", "-o", "link.html").status == 0
    assert Path("link.html").is_symlink()
    assert "hpcosim" in Path("far/page.html").read_text(encoding="utf-8")
