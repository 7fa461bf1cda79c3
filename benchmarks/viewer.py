"""The report in headless Chromium: size, first paint, frames per second while moving."""

from __future__ import annotations

import shutil
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from hpcosim_scenarios.running.in_process import run_in_process
from hpcosim_scenarios.running.library import Library, open_scenario
from hpcosim_schedulers import make_policy
from hpcosim_view.report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

SCHEDULER = "easy"
MOVE_S = 3.0
STEP_PX = 12
SCENARIO = """name: viewer
seed: 1
platform:
  nodes:
    - count: 1000
      processors: [{{cores: 16, static_w: 100, dynamic_w: 5, idle_fraction: 0.3}}]
workload:
  synthetic:
    model: poisson
    jobs: {jobs}
    mean_interarrival_s: 15
    cores: [1, 512]
    run_s: [60, 14400]
"""
RECORD_FRAMES = """() => {
  const times = (window.frameTimes = []);
  const note = (now) => {
    times.push(now);
    if (window.frameTimes === times) requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}"""
TAKE_FRAMES = "() => { const times = window.frameTimes; window.frameTimes = null; return times; }"


def run(smoke: bool) -> dict[str, float]:
    """Return the figures; without playwright or Chromium, only those of the files."""
    counts = {"1,000": 1_000} if smoke else {"100,000": 100_000, "1,000,000": 1_000_000}
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, jobs in counts.items():
            page = _report(Path(folder) / name.replace(",", ""), jobs, name, figures)
            figures |= {f"{name} jobs: {key}": value for key, value in _shown(page).items()}
    return figures


def _report(folder: Path, jobs: int, name: str, figures: dict[str, float]) -> Path:
    """Simulate a well used cluster and write its report; add the figures of the file."""
    folder.mkdir()
    scenario = folder / "viewer.yaml"
    scenario.write_text(SCENARIO.format(jobs=jobs))
    library = Library([scenario])
    opened = open_scenario(library.first, library.first_jobs, SCHEDULER)
    run_in_process(opened, make_policy(SCHEDULER), folder / "out")
    began_s = time.perf_counter()
    page = write_report([folder / "out"], folder / "report.html")
    figures[f"{name} jobs: hpcosim report, s"] = time.perf_counter() - began_s
    figures[f"{name} jobs: file, MB"] = page.stat().st_size / 1e6
    shutil.rmtree(folder / "out")
    return page


def _shown(file: Path) -> dict[str, float]:
    """Return the figures of the page in a browser."""
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {}
    if path is None:
        return {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        figures = _figures(browser, file)
        browser.close()
    return figures


def _figures(browser: Browser, file: Path) -> dict[str, float]:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(file.as_uri())
    while not page.evaluate("Boolean(window.hpcosim)"):
        time.sleep(0.02)
    loaded_ms, painted_ms = page.evaluate(
        """() => [performance.getEntriesByType("navigation")[0].loadEventEnd,
          performance.getEntriesByName("hpcosim-painted")[0].startTime]"""
    )
    figures = {
        "first paint after load, s": (painted_ms - loaded_ms) / 1000,
        "first paint after the address is opened, s": painted_ms / 1000,
    }
    box = page.locator(".gantt").first.bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    for name, move in (("zoom", _zoom), ("pan", _pan)):
        figures |= {f"{name}, {key}": value for key, value in _frames(page, middle, move).items()}
    return figures


def _frames(page: Page, middle: tuple[float, float], move) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """Return frames per second and the longest frame while the pointer moves the chart."""
    page.evaluate("hpcosim.runs[0].gantt.drawn()")
    page.evaluate(RECORD_FRAMES)
    until_s = time.monotonic() + MOVE_S
    step = 0
    while time.monotonic() < until_s:
        move(page, middle, step)
        step += 1
    times_ms = page.evaluate(TAKE_FRAMES)
    page.mouse.up()
    began_s = time.perf_counter()
    page.evaluate("hpcosim.runs[0].gantt.drawn()")
    gaps_ms = [later - earlier for earlier, later in pairwise(times_ms)]
    return {
        "frames/s": 1000 * len(gaps_ms) / sum(gaps_ms),
        "longest frame, ms": max(gaps_ms),
        "events/s": step / MOVE_S,
        "sharp after the last event, s": time.perf_counter() - began_s,
    }


def _zoom(page: Page, middle: tuple[float, float], step: int) -> None:
    """Turn the wheel: 25 times in, 25 times out."""
    page.mouse.wheel(0, -120 if step % 50 < 25 else 120)


def _pan(page: Page, middle: tuple[float, float], step: int) -> None:
    """Drag a zoomed chart to the left and back."""
    if step == 0:
        page.evaluate("hpcosim.viewport.zoom(0.2)")
        page.mouse.down()
    at = step % 60
    page.mouse.move(middle[0] + STEP_PX * (min(at, 60 - at) - 15), middle[1])
