"""The report in Chromium: what the page shows is what was simulated."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browser import Pages, colour_at, colour_in_css, keep_screenshot, painted, position_of
from support.commands import SCENARIO
from support.processes import eventually
from support.report_pages import (
    LOW_CONTRAST,
    class_of_size,
    details,
    jobs_of,
    large_jobs,
    legend_of,
    read_rows,
    report_of,
    simulated,
    write_rows,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow

UNITS_J = {"J": 1, "Wh": 3600, "kWh": 3.6e6, "MWh": 3.6e9, "kJ": 1e3, "MJ": 1e6}
LIGHT, DARK = "light", "dark"


def test_the_energy_on_the_page_is_that_of_the_metrics(pages: Pages, report_runs: Path) -> None:
    """The area of the drawn power, to the digits shown."""
    page = pages.open(report_of(report_runs / "easy"))
    shown = eventually(lambda: re.fullmatch(r"([\d.,]+) (\w+)", energy_text(page)))
    expected = json.loads((report_runs / "easy/metrics.json").read_text())["energy_j"]
    energy_j = float(shown[1].replace(",", "")) * UNITS_J[shown[2]]
    assert energy_j == pytest.approx(expected, rel=2e-3)
    keep_screenshot(page, "report", whole=True)


def energy_text(page: Page) -> str:
    """Return the energy that the page shows."""
    return str(page.locator("#fact-energy").text_content())


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_a_job_has_its_colour_and_a_click_shows_it(
    pages: Pages, report_runs: Path, scheme: str
) -> None:
    """The pixel has the colour of the legend for the job's size; the details are its own."""
    page = pages.open(report_of(report_runs / "easy"), color_scheme=scheme)
    legend, jobs = legend_of(page), jobs_of(report_runs / "easy")
    for row in large_jobs(page):
        page.mouse.move(1, 1)  # no tooltip
        x, y = position_of(page, row)
        # Below the label in the middle.
        colour = legend[class_of_size(int(jobs[row]["cores"]))]
        eventually(partial(has_colour, page, (x, y + 12), colour))
        page.mouse.click(x, y)
        eventually(partial(shows_details, page, f"Job {jobs[row]['job_id']}"))
        assert f"{jobs[row]['cores']} core" in details(page)
        page.keyboard.press("Escape")
    keep_screenshot(page, f"report-{scheme}")


def has_colour(page: Page, place: tuple[float, float], colour: str) -> bool:
    """Return whether the screen shows a colour around a position."""
    return colour_at(page, *place) == colour


def shows_details(page: Page, text: str) -> bool:
    """Return whether a text is among the details of the chosen job."""
    return text in details(page)


def test_keys_reach_everything(pages: Pages, report_runs: Path) -> None:
    """Tab enters the tools, then the chart; there keys zoom, move and choose; / searches."""
    page = pages.open(report_of(report_runs / "easy"))
    order = []
    for _ in range(12):
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.tagName"))
        if page.evaluate("document.activeElement.classList.contains('gantt-canvas')"):
            break
    assert order[0] == "A"  # skips the tools
    assert order[-1] == "CANVAS"
    assert {"SELECT", "INPUT", "BUTTON"} <= set(order)
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"

    whole = visible_s(page)
    page.keyboard.press("+")
    near = visible_s(page)
    assert near[1] - near[0] < whole[1] - whole[0]
    page.keyboard.press("ArrowRight")
    assert visible_s(page)[0] > near[0]
    page.keyboard.press("0")
    assert visible_s(page) == whole
    page.keyboard.press("n")
    chosen = page.evaluate("window.hpcosim.selection.get()")
    eventually(lambda: f"Job {chosen}" in details(page))
    page.keyboard.press("/")
    page.keyboard.type("7")
    page.keyboard.press("Enter")
    eventually(lambda: "Job 7" in details(page))


def visible_s(page: Page) -> tuple[float, float]:
    """Return the visible time."""
    start, end = page.evaluate("[window.hpcosim.viewport.startS, window.hpcosim.viewport.endS]")
    return start, end


def test_two_runs_have_the_right_differences(pages: Pages, report_runs: Path) -> None:
    """The page has both charts with the same axes, and the sum and the mean of the waits."""
    page = pages.open(report_of(report_runs / "easy", report_runs / "fcfs"))
    page.locator(".comparison").scroll_into_view_if_needed()
    text = eventually(lambda: page.locator(".comparison-body p").first.text_content(timeout=60e3))
    first, second = (
        [float(job["start_s"]) - float(job["submit_s"]) for job in jobs_of(report_runs / name)]
        for name in ("easy", "fcfs")
    )
    differences = [later - earlier for earlier, later in zip(first, second, strict=True)]
    assert f"Of {len(first)} jobs" in text
    assert f" {sum(value < 0 for value in differences)} waited less" in text
    assert f" {sum(value > 0 for value in differences)} waited longer" in text
    expected_s = [
        json.loads((report_runs / name / "metrics.json").read_text())["mean_wait_s"]
        for name in ("easy", "fcfs")
    ]
    row = page.locator(".metrics tr", has_text="mean wait").first.inner_text().split("\t")
    values = [float(cell.replace(",", "").replace("\N{MINUS SIGN}", "-")) for cell in row[2:5]]
    assert values == pytest.approx([*expected_s, expected_s[1] - expected_s[0]], rel=1e-3)
    boxes = page.evaluate(
        "[...document.querySelectorAll('.gantt')].map((box) => box.getBoundingClientRect().width)"
    )
    assert len(boxes) == 2
    assert boxes[0] == boxes[1]
    keep_screenshot(page, "report-of-two", whole=True)


def test_the_header_tells_schedulers_from_runs(
    pages: Pages, report_runs: Path, tmp_path: Path
) -> None:
    """Each scheduler once, then the runs if they have other names; a time only if all have it."""
    again = Path(shutil.copytree(report_runs / "easy", tmp_path / "again"))
    header = pages.open(report_of(report_runs / "easy", report_runs / "fcfs")).locator("header")
    assert header.locator(".subtitle").text_content() == "scheduled by easy, fcfs"
    assert header.locator("#fact-jobs").text_content() == "20"
    assert header.locator("#fact-time").count() == 0
    header = pages.open(report_of(again, report_runs / "easy")).locator("header")
    assert header.locator(".subtitle").text_content() == "scheduled by easy; runs: again, easy"
    assert header.locator("#fact-time").count() == 1


def test_the_details_say_what_the_scheduler_did_not(pages: Pages, tmp_path: Path) -> None:
    """They say from when on it explained the wait, and that of others it said nothing."""
    folder = simulated(tmp_path / "run", SCENARIO, "--scheduler", "easy", "--explain")
    jobs = [job for job in jobs_of(folder) if float(job["start_s"]) > float(job["submit_s"])]
    late, silent, plain = (job["job_id"] for job in jobs[:3])
    said = read_rows(folder / "explanations.csv")
    kept = [row for row in said if row["job_id"] not in (late, silent)]
    about_late = next(row for row in said if row["job_id"] == late)
    start_s = next(float(job["start_s"]) for job in jobs if job["job_id"] == late)
    kept.append(about_late | {"time_s": str(start_s - 0.1)})
    kept.sort(key=lambda row: float(row["time_s"]))
    write_rows(folder / "explanations.csv", kept)
    page = pages.open(report_of(folder))
    assert "Nothing until " in details_of(page, late)
    assert "Nothing: the scheduler was not called" in details_of(page, silent)
    assert "Nothing" not in details_of(page, plain)
    texts = [details_of(page, job["job_id"]) for job in jobs]
    assert not re.search("than 1 core|1 core were", " ".join(texts))
    parts = [text for text in texts if "last until" in text]
    assert all("In the rest enough cores were free." in text for text in parts)
    keep_screenshot(page, "report-explained")


def details_of(page: Page, job: str) -> str:
    """Choose a job and return the text about it."""
    page.evaluate("(job) => window.hpcosim.selection.set(job)", job)
    eventually(partial(shows_details, page, f"Job {job}\n"))
    return details(page)


def test_every_chart_has_a_name_and_a_table(pages: Pages, report_runs: Path) -> None:
    """Each table opens and has as many cells in each row as titles."""
    page = pages.open(report_of(report_runs / "easy", report_runs / "fcfs"))
    for pane in page.locator("#panels > section").all():
        pane.scroll_into_view_if_needed()
        eventually(pane.locator("canvas, table").count)
    without = page.evaluate(
        """() => [...document.querySelectorAll("canvas")]
          .filter((canvas) => !canvas.closest("#minimap, #details") && !canvas.closest(
            "figure, section").querySelector("details.data, table"))
          .map((canvas) => canvas.className)"""
    )
    assert without == []
    for summary in page.locator("details.data > summary").all():
        summary.click()
    eventually(lambda: page.locator("details.data table").count() >= 4)
    uneven = page.evaluate(
        """() => [...document.querySelectorAll("table")].filter(({ tHead }) => tHead)
          .filter(({ tHead, tBodies }) => [...tBodies[0].rows].some(
            ({ cells }) => cells.length !== tHead.rows[0].cells.length))
          .map((table) => table.caption.textContent)"""
    )
    assert uneven == []


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_text_has_contrast(pages: Pages, report_runs: Path, scheme: str) -> None:
    """4.5 to 1, as WCAG 2 asks for (level AA), computed from the styles of all texts."""
    page = pages.open(report_of(report_runs / "easy"), color_scheme=scheme)
    painted(page)
    assert page.evaluate(LOW_CONTRAST) == []


def test_colours_follow_the_choice(pages: Pages, report_runs: Path) -> None:
    """The legend and the pixels change with the colouring and with the theme."""
    page = pages.open(report_of(report_runs / "easy"))
    row = large_jobs(page)[0]
    page.get_by_label("Colour by").select_option("wait")
    x, y = position_of(page, row)
    legend = legend_of(page)
    eventually(lambda: colour_at(page, x - 6, y + 9) in legend.values())
    before = colour_in_css(page, page.evaluate("getComputedStyle(document.body).backgroundColor"))
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Light / dark").click()
    after = colour_in_css(page, page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert before != after


def test_details_stay_beside_the_schedule(pages: Pages, report_runs: Path) -> None:
    """Scrolled to the metrics, the details of a job cover none of them."""
    page = pages.open(report_of(report_runs / "easy"))
    page.locator(".metrics").scroll_into_view_if_needed()
    bottom, top = page.evaluate(
        """() => [document.getElementById("details-body").getBoundingClientRect().bottom,
          document.getElementById("panels").getBoundingClientRect().top]"""
    )
    assert bottom <= top
