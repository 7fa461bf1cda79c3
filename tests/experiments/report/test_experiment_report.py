"""The report of an experiment: its files, their content and their bytes."""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from hpcosim_experiments.errors import StoreError
from hpcosim_experiments.report import ReportSettings, Results, write_report
from hpcosim_experiments.report.cells import Cell, column_of
from hpcosim_experiments.report.settings import BoxFigure
from hpcosim_experiments.report.units import Measure
from hpcosim_experiments.statistics.bootstrap import Estimate
from hpcosim_experiments.statistics.rows import Label, Row

pytest.importorskip("jinja2")
pytest.importorskip("matplotlib")

AXES: dict[str, tuple[Label, ...]] = {
    "scheduler": ("easy", "fcfs"),
    "load": (0.5, 0.9),
    "seed": (1, 2, 3),
}
SETTINGS = ReportSettings(
    metrics=("mean_wait_s", "energy_j"), baseline={"scheduler": "easy"}, resamples=200
)
TABLES = replace(SETTINGS, figures=())


def row(scheduler: str, load: float, seed: int, **more: Any) -> Row:
    """Return the row of a run; fcfs waits for an hour longer than easy."""
    wait_s = 36000 * load + 100 * seed + 3600 * (scheduler == "fcfs")
    return {
        "scheduler": scheduler,
        "load": load,
        "seed": seed,
        "run_key": "k",
        "status": "ok",
        "error": "",
        "hpcosim": "1.2.3",
        "mean_wait_s": wait_s,
        "energy_j": 7.2e6 * load,
        **more,
    }


def rows() -> list[Row]:
    """Return the rows of all runs."""
    return [
        row(str(scheduler), float(load), int(seed))
        for scheduler in AXES["scheduler"]
        for load in AXES["load"]
        for seed in AXES["seed"]
    ]


def failed(one: Row, error: str) -> Row:
    """Return the row of a run that failed."""
    return {**one, "status": "failed", "error": error, "mean_wait_s": None, "energy_j": None}


def written(
    folder: Path, found: Sequence[Row], settings: ReportSettings = SETTINGS, **more: Any
) -> dict[str, bytes]:
    """Return the bytes of the report's files, by their paths in the folder."""
    folder.mkdir(exist_ok=True)
    files = write_report(folder, Results("tiny", **{"axes": AXES, "rows": found, **more}), settings)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_report_has_the_same_bytes_in_any_order_of_the_rows(tmp_path: Path) -> None:
    """Two reports of the same runs have equal pages, tables and figures."""
    one = written(tmp_path / "a", rows())
    assert one == written(tmp_path / "b", rows()[::-1])
    assert {"report.html", "report.md", "tables/metrics.tex", "tables/differences.tex"} <= set(one)
    assert {Path(name).suffix for name in one if name.startswith("figures/")} == {".svg", ".pdf"}


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_labels_without_glyphs_give_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The page has labels that the font of the figures lacks, and matplotlib does not warn."""
    found = [{**one, "scheduler": f"{one['scheduler']} \u65e5\u672c"} for one in rows()]
    axes = {**AXES, "scheduler": ("easy \u65e5\u672c", "fcfs \u65e5\u672c")}
    settings = replace(SETTINGS, baseline=None, figures=(BoxFigure("mean_wait_s", "scheduler"),))
    files = written(tmp_path, found, settings, axes=axes)
    assert "easy \u65e5\u672c" in files["report.html"].decode()
    assert not caplog.records


@pytest.mark.parametrize("name", ["report.html", "tables/metrics.tex", "figures/01-box"])
def test_a_full_disk_leaves_the_earlier_files_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The error names the file, and no file is half-written."""
    settings = replace(SETTINGS, figures=(BoxFigure("mean_wait_s", "scheduler"),))
    before = written(tmp_path, rows(), settings)

    def full(file: Path, content: bytes) -> int:
        with file.open("wb") as stream:
            written = stream.write(content[:100] if Path(name).name in file.name else content)
        if Path(name).name in file.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match=rf"{name}\S*: cannot be written: No space left"):
        written(tmp_path, rows(), settings)
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    assert {str(path.relative_to(tmp_path)): path.read_bytes() for path in files} == before


def test_a_report_has_means_and_paired_differences(tmp_path: Path) -> None:
    """Means have an interval in a readable unit; a constant difference has a length of 0."""
    text = written(tmp_path, rows(), TABLES)["report.md"].decode()
    assert "| easy | 0.5 | 3 | 5.06 [5.03, 5.08] | 1.00 [1.00, 1.00] |" in text
    assert "| fcfs | 0.5 | 3 | **1** [1, 1] | 0 [0, 0] |" in text
    assert "| Mean wait (h) | Energy (kWh) |" in text
    assert "95 % confidence interval (percentile bootstrap, 200 resamples)" in text


@pytest.mark.slow
def test_killed_jobs_have_a_column_of_their_own(tmp_path: Path) -> None:
    """The table of metrics has the total of the runs, if any run killed jobs at their request."""
    without = written(tmp_path / "without", rows(), TABLES)["report.md"].decode()
    assert "timed out" not in without
    found = [{**each, "jobs_timed_out": 5 if each["load"] == 0.9 else None} for each in rows()]
    text = written(tmp_path / "with", found, TABLES)["report.md"].decode()
    assert "Jobs timed out, all runs" in text
    assert re.search(r"fcfs .*0\.9 .*\b15 \|", text)


def test_a_page_needs_no_other_file(tmp_path: Path) -> None:
    """The page has its figures and its style in it, loads nothing, and has unique ids."""
    page = written(tmp_path, rows())["report.html"].decode()
    assert page.count("<svg") == 5
    assert not re.search(r"<(script|link|img|iframe)|@import|url\((?!#)", page)
    loaded = re.findall(r'(?:src|href)="([^"]*)"', page)
    links = [one for one in loaded if not one.startswith("data:image/png;base64,")]
    assert all(one.startswith("#") for one in links)
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert {one[1:] for one in links} <= set(ids)


def test_failed_runs_are_listed_and_left_out(tmp_path: Path) -> None:
    """A failure is in a table with its error, its pair is missing, and the means leave it out."""
    found = rows()
    found[0] = failed(found[0], "the scheduler <b> timed out | after 60 s")
    files = written(tmp_path, found, TABLES)
    text = files["report.md"].decode()
    assert "- runs: 12, of which 1 failed" in text
    assert r"| easy | 0.5 | 1 | the scheduler &lt;b> timed out \| after 60 s |" in text
    assert "| easy | 0.5 | 2 of 3 | 5.07 [5.06, 5.08] |" in text
    assert "| fcfs, load 0.5, seed 1 | no result of the baseline |" in text
    assert "&lt;b&gt; timed out" in files["report.html"].decode()
    assert {"tables/failed.tex", "tables/missing-pairs.tex"} <= set(files)


@pytest.mark.slow
def test_an_experiment_in_which_all_runs_failed_has_a_report(tmp_path: Path) -> None:
    """It lists the failures, and has neither tables of results nor figures."""
    files = written(tmp_path, [failed(one, "no") for one in rows()])
    assert "12 of 12 runs failed" in files["report.md"].decode()
    assert set(files) == {"report.html", "report.md", "tables/axes.tex", "tables/failed.tex"}


def test_an_experiment_of_one_run_has_a_report(tmp_path: Path) -> None:
    """Without axes there is one row of metrics without intervals, and no figure."""
    files = written(tmp_path, [row("easy", 0.5, 1)], ReportSettings(metrics=("energy_j",)), axes={})
    text = files["report.md"].decode()
    assert "| runs | Energy (kWh) |\n|---:|---:|\n| 1 | 1 |" in text
    assert not [name for name in files if name.startswith("figures/")]


@pytest.mark.slow
def test_labels_and_errors_are_text_in_every_format(tmp_path: Path) -> None:
    """Characters with a meaning in HTML, Markdown, LaTeX or matplotlib are shown as they are."""
    odd = r"_<script>$x_1^2$ & 50 % | a#b~{\}"
    found = [{**one, "scheduler": odd} if one["scheduler"] == "fcfs" else one for one in rows()]
    files = written(tmp_path, found, axes={**AXES, "scheduler": ("easy", odd)})
    assert "<script>" not in files["report.html"].decode()
    latex = files["tables/metrics.tex"].decode()
    assert r"\_\textless{}script\textgreater{}\$x\_1\textasciicircum{}2\$ \& 50 \%" in latex
    assert r"\textbar{} a\#b\textasciitilde{}\{\textbackslash{}\}" in latex
    assert r"\_&lt;script>$x\_1^2$ & 50 % \| a\#b\~{\\}" in files["report.md"].decode()


def test_latex_tables_have_the_rules_of_booktabs(tmp_path: Path) -> None:
    """Each row has as many cells as the table has columns."""
    latex = written(tmp_path, rows(), TABLES)["tables/differences.tex"].decode()
    lines = [line for line in latex.splitlines() if not line.startswith("%")]
    assert lines[:2] == [r"\begin{tabular}{llrrr}", r"\toprule"]
    assert lines[3] == r"\midrule"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert all(line.count(" & ") == 4 for line in lines if line.endswith(r"\\"))


def test_classes_of_jobs_have_a_table(tmp_path: Path) -> None:
    """Classes are sorted by size, also if the first run has no jobs of one."""
    classes = [
        {**one, "breakdown": "cores", "class": name, "jobs": 10, "mean_wait_s": 60.0}
        for one in rows()
        for name in ("1-7", "8-63", "64+")
        if (one["seed"], name) != (1, "1-7")
    ]
    text = written(tmp_path, rows(), TABLES, breakdowns=classes)["report.md"].decode()
    assert "| scheduler | load | cores | runs | Jobs | Mean wait (s) |" in text
    places = [text.index(f"| easy | 0.5 | {name} |") for name in ("1-7", "8-63", "64+")]
    assert places == sorted(places)
    assert "| easy | 0.5 | 1-7 | 2 | 10 [10, 10] | 60 [60, 60] |" in text


def test_users_with_most_jobs_are_shown(tmp_path: Path) -> None:
    """Of many users the table has the ten with most jobs, and says so."""
    users = [
        {**one, "breakdown": "user", "class": str(user), "jobs": user, "mean_wait_s": 60.0}
        for one in rows()
        for user in range(1, 31)
    ]
    text = written(tmp_path, rows(), TABLES, breakdowns=users)["report.md"].decode()
    assert "The table has the 10 of 30 classes with most jobs." in text
    assert "| easy | 0.5 | 21 |" in text
    assert "| easy | 0.5 | 20 |" not in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("figure", "caption"),
    [
        (
            {"kind": "line", "metric": "mean_wait_s", "axis": "load", "by": "scheduler"},
            "Line: mean over seed. Band: 95 % confidence interval (percentile bootstrap, 200 "
            "resamples). n = 3 runs per point.",
        ),
        (
            {"kind": "pareto", "x": "mean_wait_s", "y": "energy_j", "by": "scheduler"},
            "Point: mean over seed. Grey line: the combinations that no other one dominates; less "
            "is better.",
        ),
        (
            {"kind": "box", "metric": "mean_wait_s", "by": "scheduler", "panels": "load"},
            "Box: quartiles and median of the runs. Whiskers: minimum and maximum. n = 3 runs per "
            "box.",
        ),
        (
            {"kind": "heat_map", "metric": "mean_wait_s", "x": "load", "y": "scheduler"},
            "Colour and number: mean over seed. n = 3 runs per cell.",
        ),
        (
            {"kind": "line", "metric": "mean_wait_s", "axis": "load"},
            "The labels of scheduler have equal weights, and repeats are resampled in each.",
        ),
    ],
)
def test_captions_state_what_is_shown(tmp_path: Path, figure: Any, caption: str) -> None:
    """A caption has the statistic, the averaged axes, the interval and n."""
    settings = msgspec.convert(
        {"figures": [figure], "resamples": 200, "metrics": ["mean_wait_s"]}, ReportSettings
    )
    assert caption in written(tmp_path, rows(), settings)["report.md"].decode()


MANY: dict[str, tuple[Label, ...]] = {"x": tuple(range(1, 32))}


def many_rows(axes: dict[str, tuple[Label, ...]]) -> list[Row]:
    """Return a row for each label of the only axis."""
    (name,) = axes
    metrics = {"status": "ok", "mean_wait_s": 60.0, "energy_j": 5.0}
    return [{name: label, **metrics} for label in axes[name]]


@pytest.mark.parametrize(
    "figure",
    [
        {"kind": "box", "metric": "mean_wait_s", "by": "x"},
        {"kind": "pareto", "x": "mean_wait_s", "y": "energy_j"},
        {"kind": "line", "metric": "mean_wait_s", "axis": "load", "by": "x"},
        {"kind": "line", "metric": "mean_wait_s", "axis": "load", "panels": "x"},
        {"kind": "heat_map", "metric": "mean_wait_s", "x": "x", "y": "load"},
    ],
)
def test_a_figure_with_too_many_labels_is_left_out(tmp_path: Path, figure: Any) -> None:
    """The report says why, whether the labels are ticks, a legend or panels."""
    settings = msgspec.convert({"figures": [figure], "metrics": ["energy_j"]}, ReportSettings)
    found = [{**one, "load": 1} for one in many_rows(MANY)]
    files = written(tmp_path, found, settings, axes={**MANY, "load": (1,)})
    assert not [name for name in files if name.startswith("figures/")]
    why = "x has 31 labels and a figure has room for 30"
    assert why in files["report.html"].decode()
    assert re.search(f"- figure left out: .*: {why}\n", files["report.md"].decode())


@pytest.mark.slow
def test_a_line_figure_may_have_many_numbers_along_its_axis(tmp_path: Path) -> None:
    """The default figures of an axis of many numbers are lines."""
    settings = replace(SETTINGS, baseline=None)
    files = written(tmp_path, many_rows(MANY), settings, axes=MANY)
    drawn = [name for name in files if name.endswith(".svg")]
    assert drawn == ["figures/01-line-mean-wait-s-x.svg", "figures/02-line-energy-j-x.svg"]


def test_long_tables_are_cut(tmp_path: Path) -> None:
    """A table has 1,000 rows, and refers to the table of all runs; long lists of labels too."""
    axes: dict[str, tuple[Label, ...]] = {"x": tuple(f"v{number}" for number in range(1001))}
    settings = replace(TABLES, baseline=None)
    files = written(tmp_path, many_rows(axes), settings, axes=axes)
    assert files["tables/metrics.tex"].decode().count("\nv") == 1000
    text = files["report.md"].decode()
    assert "The table has the first 1,000 of 1,001 rows; results.parquet (or results.csv)" in text
    assert "v8, v9, ... (1,001 labels)" in text
    assert "v1000" not in text


@pytest.mark.parametrize(
    ("low", "high", "cell"),
    [
        (0.0004, 6.0, Cell("2.0000", "[0.0004, 6.0000]", strong=True)),
        (-17.604, -0.00004, Cell("2.00000", "[−17.60400, −0.00004]", strong=True)),  # noqa: RUF001
        (1.0, 6.0, Cell("2.00", "[1.00, 6.00]", strong=True)),
        (0.0, 6.0, Cell("2.00", "[0.00, 6.00]")),
    ],
)
def test_a_bold_interval_does_not_show_0(low: float, high: float, cell: Cell) -> None:
    """The cell has more digits than the column if a bound would be rounded to 0."""
    measure = Measure("wait", "wait")
    typical = Estimate(2.005, math.nan, math.nan, 1)  # gives the column two digits
    _, (_, _, found) = column_of(measure, [typical, typical, Estimate(2.0, low, high, 5)], 0.0)
    assert found == cell
