"""The live page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.browser import Pages, keep_screenshot, painted
from support.live_sessions import scenario_in
from support.processes import SOON_S, Processes, eventually, processes, read

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["processes"]
pytestmark = pytest.mark.slow
JOBS = 30


def state_of(page: Page) -> str:
    """Return the state that the page shows."""
    return page.inner_text(".status")


def now_s(page: Page) -> float:
    """Return the simulated time of the run on the page, s."""
    return float(page.evaluate("window.hpcosim.runs[0].model.nowS"))


def step(page: Page) -> None:
    """Let the run take one step, and wait until the page shows it."""
    requests = "window.hpcosim.runs[0].model.about.live.requests"
    before = page.evaluate(requests)
    page.keyboard.press("n")
    eventually(lambda: page.evaluate(requests) == before + 1)
    painted(page)


def shows_the_queue_beside_the_schedule(page: Page) -> None:
    """Check that the waiting jobs are in the right column while no job is chosen."""
    for _ in range(20):  # until a job waits that the scheduler has explained
        if "expected in" in page.inner_text("#details .queue"):
            break
        step(page)
    waiting = page.evaluate(
        "window.hpcosim.runs[0].model.state.filter((each) => each === 0).length"
    )
    assert waiting > 0
    assert page.locator("#details .queue tbody tr").count() == waiting
    assert re.search(r"\d s\tResources", page.inner_text("#details .queue tbody"))
    assert "No job waited" not in page.inner_text("#details-body")
    keep_screenshot(page, "live-queue")
    page.locator("#details .queue tbody button").first.click()
    eventually(lambda: page.locator("#panels .queue").count() == 1)
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Escape")
    eventually(lambda: page.locator("#details .queue").count() == 1)


def fits_narrow_windows(page: Page) -> None:
    """Check that the page does not scroll sideways on a phone."""
    for width in (360, 400):
        page.set_viewport_size({"width": width, "height": 740})
        painted(page)
        assert page.evaluate("document.documentElement.scrollWidth") == width
    keep_screenshot(page, "live-narrow", whole=True)
    page.set_viewport_size({"width": 1200, "height": 900})


def test_a_run_is_paused_stepped_and_watched_to_its_end(
    pages: Pages, processes: Processes, tmp_path: Path
) -> None:
    """Keys pause and step; a page that is loaded again goes on; at the end it has every job."""
    scenario, out = scenario_in(tmp_path), tmp_path / "out"
    run = processes.start("run", scenario, "--watch", "--speed", "200", "--explain", "--out", out)
    assert run.stderr is not None
    url = next(line.split()[-1] for line in run.stderr if "live view" in line)
    page = pages.open(url)
    assert "token" not in page.url
    page.keyboard.press(" ")
    eventually(lambda: state_of(page) == "paused")
    before_s = now_s(page)
    page.reload()
    eventually(lambda: page.evaluate("Boolean(window.hpcosim)"))
    eventually(lambda: state_of(page) == "paused" and now_s(page) >= before_s)
    shows_the_queue_beside_the_schedule(page)
    fits_narrow_windows(page)
    step(page)
    keep_screenshot(page, "live-paused")
    page.keyboard.press("m")
    page.keyboard.press(" ")
    eventually(lambda: state_of(page) == "ended")
    assert run.wait(SOON_S) == 0
    assert "metrics.json" in read(out)
    assert page.evaluate("window.hpcosim.runs[0].model.jobs") == JOBS
    assert page.is_disabled("text=Pause")
    over = re.search(r"over\s+(\d+)", page.inner_text("#live-header"))
    assert over is not None
    assert int(over[1]) == JOBS
    keep_screenshot(page, "live-ended")
    pages.close_after_server()
