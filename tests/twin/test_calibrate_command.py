"""`hpcosim calibrate`: accounting to a calibration and a page, and input that is no accounting."""

from __future__ import annotations

import json
import math
import random
import re
from pathlib import Path

import pytest

from hpcosim_protocol.errors import HpcosimError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.convert import SlurmOptions
from hpcosim_twin.cluster.observation import write_observation
from hpcosim_twin.cluster.observer import configured_site
from hpcosim_twin.cluster.recorded import read_accounting, state_at
from hpcosim_twin.fits.cluster import read_calibration
from support.commands import invoke
from support.recorded_queue import CONF, FIRST_S, queue_text, records
from support.slurm_site import sacct_text

FEW = ("--questions", "12", "--futures", "5")


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """Return the slurm.conf of four nodes."""
    path = tmp_path / "slurm.conf"
    path.write_text(CONF)
    return path


def written(tmp_path: Path, text: str) -> Path:
    """Return a file of accounting."""
    path = tmp_path / "jobs.psv"
    path.write_text(text)
    return path


@pytest.mark.slow
def test_accounting_becomes_a_calibration_and_a_page_that_forecasts_use(
    conf: Path, tmp_path: Path
) -> None:
    """The part kept apart is judged, the same seed gives the same bytes, a forecast reads it."""
    sacct, out, page = written(tmp_path, queue_text(300)), tmp_path / "c.json", tmp_path / "p.html"
    arguments = ("calibrate", "--conf", conf, "--sacct", sacct, *FEW)
    result = invoke(*arguments, "--out", out, "--report", page)
    assert (result.status, result.err) == (0, "")
    assert "all: 12 jobs, median absolute error" in result.out
    found = read_calibration(out)
    assert found.jobs == 300
    assert [each.group for each in found.kept] == ["all", "partition cpu", "account physics"]
    assert found.kept[0].jobs == 12
    assert len(found.scores) == 18
    html = page.read_text()
    assert "<svg" in html
    assert "waiting jobs that are cancelled" in html
    assert "https://" not in html.split("</style>")[1].replace("http://www.w3.org", "")
    invoke(*arguments, "--out", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == out.read_bytes()
    accounting = read_accounting(sacct, configured_site(conf, SlurmOptions()), ImportReport())
    waits = next(job for job in accounting.jobs[200:] if job.start_s > job.submit_s + 600.0)
    write_observation(state_at(accounting, waits.submit_s), tmp_path / "queue.json")
    forecast = ("ask", "queue", "--state", tmp_path / "queue.json", "--json", "--futures", "5")
    plain = json.loads(invoke(*forecast).out)["jobs"][-1]
    wide = json.loads(invoke(*forecast, "--calibration", out).out)["jobs"][-1]
    assert wide["high_s"] != plain["high_s"]
    assert wide["low_s"] <= wide["median_s"] <= wide["high_s"]


def test_what_is_after_the_last_time_is_unknown(conf: Path, tmp_path: Path) -> None:
    """An accounting up to an instant has no later submissions, starts and ends."""
    sacct = written(tmp_path, queue_text(80))
    whole = read_accounting(sacct, configured_site(conf, SlurmOptions()), ImportReport())
    until_s = FIRST_S + 30_000.0
    part = whole.until(until_s)
    assert part.last_s <= until_s
    assert [job.asked.id for job in part.present(until_s)] == [
        job.asked.id for job in whole.present(until_s)
    ]
    for early, late in zip(part.jobs, whole.jobs, strict=False):
        assert early.over_s in (late.over_s, math.inf)
        assert (early.ended is None) == (late.over_s > until_s or late.ended is None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("JobID|State\n1|COMPLETED\n", "the columns"),
        (sacct_text(), "no jobs were found"),
        (queue_text(30), "jobs ended before .* expected at least 50: read more months"),
    ],
)
def test_a_file_without_enough_jobs_is_one_clear_error(
    conf: Path, tmp_path: Path, text: str, message: str
) -> None:
    """The message says what was expected."""
    sacct = written(tmp_path, text)
    result = invoke("calibrate", "--conf", conf, "--sacct", sacct, "--out", tmp_path / "c.json")
    assert result.status == 2
    assert result.err.count("\n") == 1
    assert re.search(message, result.err)
    assert not (tmp_path / "c.json").exists()


def test_options_that_are_wrong_are_clear_errors(conf: Path, tmp_path: Path) -> None:
    """An existing file, a time in another form and one before the first job."""
    sacct, out = written(tmp_path, queue_text(10)), tmp_path / "c.json"
    arguments = ("calibrate", "--conf", conf, "--sacct", sacct, "--out")
    for more, message in (
        ((conf,), "the import reads this file"),
        ((out, "--until", "soon"), "--until: expected a time such as 2026-11-22, got 'soon'"),
        ((out, "--until", "2020-01-01"), "no job was submitted before --until 2020-01-01"),
        ((out, "--time-zone", "Mars"), "there is no time zone"),
    ):
        result = invoke(*arguments, *more)
        assert result.status == 2
        assert message in result.err
    out.write_text("")
    assert "the file exists" in invoke(*arguments, out).err


def test_damaged_accounting_gives_states_or_a_clear_error(conf: Path, tmp_path: Path) -> None:
    """Truncated, shuffled and altered files: states at any time, or an error of the package."""
    site, draw = configured_site(conf, SlurmOptions()), random.Random(3)
    text = sacct_text(*records(25))
    read = 0
    for _ in range(60):
        broken = list(text)
        for _ in range(draw.choice((1, 5, 40))):
            broken[draw.randrange(len(broken))] = draw.choice("|\n0129:-TZ,[]xé\0")
        damaged = "".join(broken)[: draw.choice((len(broken), draw.randrange(len(broken))))]
        try:
            found = read_accounting(written(tmp_path, damaged), site, ImportReport())
        except HpcosimError:
            continue
        read += 1
        for share in (0.0, 0.5, 1.0):
            state_at(found, found.submit_s[0] + share * (found.last_s - found.submit_s[0]))
        found.until(found.last_s)
    assert read > 10
