"""The live page in Chromium: it follows a run, sets its pace, and changes no result."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from support.browser import Pages, keep_screenshot, painted
from support.commands import command as hpcosim
from support.live_sessions import scenario_in
from support.processes import SOON_S, Processes, Server, eventually, folder, processes, read

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["folder", "processes"]
pytestmark = pytest.mark.slow


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The scenario `live`."""
    return scenario_in(tmp_path)


@pytest.fixture
def served(processes: Processes, scenario: Path, tmp_path: Path) -> tuple[Server, Any, str]:
    """A server, its scheduler and the address of its page; it runs 60 s a second."""
    options = ("--once", "--http", "127.0.0.1:0", "--speed", "60")
    server = Server(processes, scenario, *options, out=tmp_path / "out")
    scheduler = processes.start("schedule", "easy", "--connect", server.address)
    url = str(eventually(lambda: server.log("live_page"))[0]["url"])
    return server, scheduler, url


def drawn_jobs(page: Page) -> int:
    """Return the number of jobs on the chart."""
    return int(
        page.evaluate("hpcosim.runs[0].model.boxCount.reduce((sum, count) => sum + (count > 0), 0)")
    )


def now_s(page: Page) -> float:
    """Return the simulated time that the page shows."""
    return float(page.evaluate("hpcosim.runs[0].model.nowS"))


def status(page: Page) -> str:
    """Return the state of the session that the page shows."""
    return str(page.locator(".status").text_content())


def test_the_page_follows_and_controls_a_run(
    pages: Pages, served: tuple[Server, Any, str], scenario: Path, tmp_path: Path
) -> None:
    """Chart, buttons and keys work, also after a reload; the results are those of a plain run."""
    server, scheduler, url = served
    page = pages.open(url)
    first = drawn_jobs(page)
    eventually(lambda: drawn_jobs(page) > first)

    page.get_by_role("button", name="Pause").click()
    eventually(lambda: status(page) == "paused")
    painted(page)
    before_s = now_s(page)
    page.get_by_role("button", name="Step").click()
    eventually(lambda: now_s(page) > before_s)
    assert status(page) == "paused"
    keep_screenshot(page, "live-paused")

    page.reload()
    eventually(lambda: page.evaluate("Boolean(window.hpcosim)"))
    eventually(lambda: now_s(page) > before_s and status(page) == "paused")
    before_s = now_s(page)
    page.locator("body").press("n")
    eventually(lambda: now_s(page) > before_s and status(page) == "paused")
    page.locator("body").press("Space")
    eventually(lambda: status(page) == "running")
    page.locator("body").press("m")
    eventually(lambda: status(page) in ("ended", "the server has ended"))
    assert drawn_jobs(page) == 30
    keep_screenshot(page, "live-ended")
    assert scheduler.wait(SOON_S) == server.end() == 0
    pages.close_after_server()
    same_as_plain(scenario, tmp_path)


def test_the_page_of_workers_survives_its_server_process(
    pages: Pages, processes: Processes, scenario: Path, tmp_path: Path
) -> None:
    """With two workers the page pauses and steps; it goes on when its process was killed."""
    options = ("--workers", "2", "--sessions", "1", "--http", "127.0.0.1:0", "--speed", "60")
    server = Server(processes, scenario, *options, out=tmp_path / "out")
    scheduler = processes.start("schedule", "easy", "--connect", server.address)
    url = str(eventually(lambda: server.log("live_page"))[0]["url"])
    page = pages.open(url)
    eventually(lambda: page.evaluate("Boolean(window.hpcosim)"))
    page.get_by_role("button", name="Pause").click()
    eventually(lambda: status(page) == "paused")
    before_s = now_s(page)
    started = server.log("process_started")
    (pid,) = (entry["pid"] for entry in started if entry["process"] == "live page")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(server.log("process_started")) > len(started))
    eventually(lambda: "hpcosim_viewers 1.0" in httpx.get(f"{url}metrics").text)
    eventually(lambda: status(page) == "paused")
    page.locator("body").press("n")
    eventually(lambda: now_s(page) > before_s and status(page) == "paused")
    page.locator("body").press("Space")
    page.locator("body").press("m")
    eventually(lambda: status(page) in ("ended", "the server has ended"))
    eventually(lambda: drawn_jobs(page) == 30)  # the page draws the session again
    keep_screenshot(page, "live-workers")
    assert scheduler.wait(SOON_S) == server.end() == 0
    pages.close_after_server()
    (session,) = (tmp_path / "out").glob("live-easy-*")
    session.rename(tmp_path / "session")
    same_as_plain(scenario, tmp_path, "session")


def test_a_page_that_disappears_changes_nothing(
    pages: Pages, served: tuple[Server, Any, str], scenario: Path, tmp_path: Path
) -> None:
    """The run goes on, and its results are those of a plain run."""
    server, scheduler, url = served
    page = pages.open(url)
    label = page.evaluate("hpcosim.label")
    pages.close()
    pace = httpx.post(f"{url.rstrip('/')}/api/sessions/{label}/pace", json={"speed": None})
    assert pace.status_code == 200, pace.text
    assert scheduler.wait(SOON_S) == server.end() == 0
    same_as_plain(scenario, tmp_path)


def same_as_plain(scenario: Path, folder: Path, session: str = "out") -> None:
    """Check that the results of the server equal those of a run without viewers."""
    out = folder / "plain"
    assert hpcosim("run", scenario, "--transport", "inproc", "--out", out).status == 0
    names = {file.name for file in out.iterdir()} - {"run.json"}  # it names the client
    results, expected = read(folder / session), read(out)
    assert {name: results[name] for name in names} == {name: expected[name] for name in names}
