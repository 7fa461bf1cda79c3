"""The report in browsers: hostile names, odd runs, a narrow window and Firefox."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.browser import (
    Pages,
    colour_at,
    decoded,
    firefox_screenshot,
    keep_screenshot,
    main_colour,
    painted,
    position_of,
)
from support.processes import eventually
from support.report_pages import changed, jobs_of, large_jobs, report_of, simulated

pytestmark = pytest.mark.slow

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>",
    "\"'`--><!--${alert(3)}{{alert(4)}}",
    "\u202eright to left \u2066 \x07\x1b[31m \U0001f4a5 \u05d0\u0628",
    "long" * 2500,
)


def test_hostile_names_do_nothing(pages: Pages, report_runs: Path, tmp_path: Path) -> None:
    """Names from files are shown as text, whole in the details, and change no layout."""
    folder = Path(shutil.copytree(report_runs / "easy", tmp_path / "hostile"))
    about = {"scenario": HOSTILE[0], "scheduler": HOSTILE[1], "warnings": list(HOSTILE)}

    def name(job: dict[str, str]) -> None:
        number = int(job["job_id"])
        job["user"] = HOSTILE[number % len(HOSTILE)].replace("\x07", "").replace("\x1b", "")
        job["group"] = HOSTILE[0]
        job["partition"] = HOSTILE[1]

    changed(folder, about, name)
    page = pages.open(report_of(folder), viewport={"width": 1000, "height": 800})
    for row in large_jobs(page):
        page.evaluate("(row) => hpcosim.selection.set(hpcosim.runs[0].model.idOf(row))", row)
        painted(page)
        assert HOSTILE[0] in str(page.locator("#details").text_content())
    page.keyboard.press("/")
    page.keyboard.type("script>alert")
    eventually(lambda: page.locator("#search-results li").count() >= 1)
    page.keyboard.press("Control+a")
    page.keyboard.type("long")
    eventually(lambda: page.locator("#search-results li").count() >= 1)
    assert page.evaluate("""() => [...document.querySelectorAll(".popup li")].every(
      (row) => row.offsetHeight < 90 && row.scrollWidth <= row.clientWidth)""")
    assert page.locator("img, #details script, header script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert HOSTILE[0] in page.title()
    keep_screenshot(page, "report-hostile-names")


TWO_NODES = "{nodes: [{count: 2, processors: [{cores: 4, static_w: 9, dynamic_w: 1}]}]}"
ODD = {
    "one job": "{model: poisson, jobs: 1, mean_interarrival_s: 9, cores: [1, 1], run_s: [9, 10]}",
    "shared nodes": "{model: poisson, jobs: 30, mean_interarrival_s: 9, cores: [1, 3], "
    "run_s: [50, 99]}",
    "no job starts": "{model: poisson, jobs: 3, mean_interarrival_s: 9, cores: [99, 99], "
    "run_s: [9, 10]}",
}


HIDDEN_COLUMNS = """() => {
  for (const each of document.querySelectorAll(".charts-grid details")) each.open = true;
  return new Promise((resolve) => setTimeout(() => resolve(
    [...document.querySelectorAll(".charts-grid .table-box, .metrics .table-box")]
      .filter((box) => box.scrollWidth > box.clientWidth)
      .map((box) => box.getAttribute("aria-label")))));
}"""


@pytest.mark.parametrize("case", [*ODD, "incomplete"])
def test_odd_runs_are_shown(pages: Pages, report_runs: Path, tmp_path: Path, case: str) -> None:
    """The page tells how many jobs there are, and that results are incomplete."""
    if case == "incomplete":
        folder = Path(shutil.copytree(report_runs / "easy", tmp_path / "run"))
        about = {"complete": False, "ended_because": "stopped by SIGINT", "scheduler": "easy-" * 15}
        changed(folder, about, lambda job: None)
    else:
        workload = f"workload: {{synthetic: {ODD[case]}}}"
        text = f"name: odd\nseed: 1\nplatform: {TWO_NODES}\n{workload}\nscheduler: {{name: easy}}\n"
        folder = simulated(tmp_path / "run", text)
    page = pages.open(report_of(folder))
    painted(page)
    jobs = jobs_of(folder)
    assert page.locator("#fact-jobs").text_content() == str(len(jobs))
    drawn = page.evaluate("[...hpcosim.runs[0].model.boxCount].filter((count) => count > 0).length")
    assert drawn == sum(job["start_s"] != "" for job in jobs)
    if case == "incomplete":
        assert "stopped by SIGINT" in str(page.locator("header").text_content())
        assert page.evaluate(HIDDEN_COLUMNS) == []
        assert "mean_wait_s is of the jobs that ended" in str(
            page.locator("#panels").text_content()
        )
    keep_screenshot(page, f"report-{case.replace(' ', '-')}")


def test_a_narrow_window_does_not_scroll_sideways(
    pages: Pages, report_runs: Path, tmp_path: Path
) -> None:
    """At the widths of phones, for one run and for a comparison of three."""
    again = Path(shutil.copytree(report_runs / "easy", tmp_path / "again"))
    changed(again, {"scheduler": "easy with a longer name"}, lambda job: None)
    folders = [report_runs / "easy", report_runs / "fcfs", again]
    for count in (1, 3):
        page = pages.open(report_of(*folders[:count]), viewport={"width": 360, "height": 740})
        for width in (360, 400):
            page.set_viewport_size({"width": width, "height": 740})
            painted(page)
            assert page.evaluate("document.documentElement.scrollWidth") == width, count
        keep_screenshot(page, f"report-narrow-{count}", whole=True)


def test_firefox_draws_the_same(pages: Pages, report_runs: Path, tmp_path: Path) -> None:
    """A screenshot of Firefox has the colour of each large job where Chromium draws it."""
    report = report_of(report_runs / "easy")
    page = pages.open(report)
    places = {row: position_of(page, row) for row in large_jobs(page)}
    colours = {row: colour_at(page, x, y + 12) for row, (x, y) in places.items()}

    def same() -> bool:
        picture = decoded(firefox_screenshot(report, tmp_path, width=1200, height=900))
        squares = {
            row: picture[round(y) + 9 : round(y) + 16, round(x) - 3 : round(x) + 4]
            for row, (x, y) in places.items()
        }
        return {row: main_colour(square) for row, square in squares.items()} == colours

    # Firefox takes the screenshot when the file is loaded, on a busy machine before the paint.
    eventually(same)
