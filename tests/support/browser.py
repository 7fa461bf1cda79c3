"""Pages in a real browser: Debian's Chromium, driven by playwright."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pytest
from numpy.typing import NDArray

from support.processes import SOON_S, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

REQUIRED = "HPCOSIM_BROWSERS"
"""Environment variable of CI: the browsers are installed, and no test is skipped."""
SCREENSHOTS = "HPCOSIM_SCREENSHOTS"
"""Environment variable: folder for screenshots. Without it none are kept."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FIREFOX = ("firefox-esr", "firefox")
Pixels = NDArray[np.uint8]
ARGUMENTS = ["--disable-background-networking", "--disable-component-update", "--disable-quic"]


def browser_path(names: tuple[str, ...]) -> str:
    """Return the path of a browser, `CHROMIUM` or `FIREFOX`; skip the test if it is missing."""
    for name in names:
        if path := shutil.which(name):
            return path
    return _without(f"no {' or '.join(names)} here; .ci/browsers.sh installs it")


def _without(missing: str) -> NoReturn:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{missing}, but {REQUIRED} is set")
    pytest.skip(missing)


@contextmanager
def started_chromium(*arguments: str) -> Iterator[Browser]:
    """Start a headless Chromium; skip the test if playwright or the browser is missing."""
    path = browser_path(CHROMIUM)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _without("playwright is not installed: pip install playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *arguments])
        yield browser
        browser.close()


class Pages:
    """Pages that must report no error, break no security policy and ask no other host.

    Args:
        browser: a started browser.
    """

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.faults: list[str] = []

    def open(self, address: Path | str, ready: str = "window.hpcosim", **context: Any) -> Page:
        """Open a page and wait until it is ready.

        Args:
            address: file of the page, or `http://` address; its host is the only one allowed.
            ready: JavaScript expression that is true once the page is.
            context: options of a browser context, such as `color_scheme`.
        """
        url = address.absolute().as_uri() if isinstance(address, Path) else address
        allowed = url if isinstance(address, Path) else "/".join(url.split("/")[:3]) + "/"
        page = self._browser.new_context(**{"viewport": _size(1200, 900), **context}).new_page()
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", lambda dialog: self._met(dialog))
        page.on("request", lambda request: self._asked(request.url, allowed))
        page.goto(url)
        eventually(lambda: page.evaluate(f"Boolean({ready})") or None)
        return page

    def close(self) -> None:
        """Close all pages."""
        for context in self._browser.contexts:
            context.close()

    def close_after_server(self) -> None:
        """Close all pages; that their server has ended is no fault."""
        self.close()
        self.faults[:] = [fault for fault in self.faults if "net::ERR_" not in fault]

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.faults.append(f"{kind}: {text}")

    def _met(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, url: str, allowed: str) -> None:
        if not url.startswith((allowed, "data:", "blob:")):
            self.faults.append(f"request: {url}")


@pytest.fixture(scope="module")
def pages_of_module() -> Iterator[Pages]:
    """One browser for all tests of a file."""
    with started_chromium() as browser:
        yield Pages(browser)


@pytest.fixture
def pages(pages_of_module: Pages) -> Iterator[Pages]:
    """Pages that are closed after the test, and must have reported nothing."""
    pages_of_module.faults.clear()
    yield pages_of_module
    pages_of_module.close()
    assert pages_of_module.faults == []


def _size(width: int, height: int) -> dict[str, int]:
    return {"width": width, "height": height}


def _kept() -> Path | None:
    """Return the folder for screenshots, if there is to be one."""
    if not (name := os.environ.get(SCREENSHOTS)):
        return None
    Path(name).mkdir(parents=True, exist_ok=True)
    return Path(name)


def keep_screenshot(page: Page, name: str, *, whole: bool = False) -> None:
    """Keep a screenshot as NAME.png if `SCREENSHOTS` is set; `whole`: with what is below."""
    if folder := _kept():
        page.screenshot(path=folder / f"{name}.png", full_page=whole)


def firefox_screenshot(file: Path, folder: Path, *, width: int, height: int) -> bytes:
    """Return a screenshot of a page in headless Firefox, taken when its file is loaded.

    Args:
        file: the page.
        folder: folder for the browser's profile.
        width: width of the window, CSS pixels.
        height: height of the window, CSS pixels.
    """
    path = browser_path(FIREFOX)
    profile, out = folder / "profile", folder / "firefox.png"
    profile.mkdir(exist_ok=True)
    options = ["--headless", "--no-remote", f"--window-size={width},{height}"]
    subprocess.run(
        [path, *options, "--profile", profile, "--screenshot", out, file.absolute().as_uri()],
        check=True,
        capture_output=True,
        timeout=SOON_S,
        env={**os.environ, "HOME": str(folder)},
    )
    if kept := _kept():
        shutil.copy(out, kept / "report-firefox.png")
    return out.read_bytes()


def decoded(png: bytes) -> Pixels:
    """Return an image as rows of pixels of red, green and blue, from 0 to 255."""
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(png)).convert("RGB"))


def colour_at(page: Page, x: float, y: float) -> str:
    """Return the colour that the screen shows most often around a position: `rgb(R, G, B)`.

    A square of 7 pixels outweighs the lines between nodes, and their tints where jobs cross them.
    """
    clip: FloatRect = {"x": x - 3, "y": y - 3, "width": 7, "height": 7}
    return main_colour(decoded(page.screenshot(clip=clip)))


def main_colour(pixels: Pixels) -> str:
    """Return the most frequent colour of an image as `rgb(R, G, B)`."""
    colours, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    red, green, blue = colours[counts.argmax()]
    return f"rgb({red}, {green}, {blue})"


def colour_in_css(page: Page, colour: str) -> str:
    """Return any colour of CSS as `rgb(R, G, B)`."""
    return str(
        page.evaluate(
            """(colour) => {
              const pen = new OffscreenCanvas(1, 1).getContext("2d");
              pen.fillStyle = colour;
              pen.fillRect(0, 0, 1, 1);
              const [red, green, blue] = pen.getImageData(0, 0, 1, 1).data;
              return `rgb(${red}, ${green}, ${blue})`;
            }""",
            colour,
        )
    )


def position_of(page: Page, row: int, run: int = 0) -> tuple[float, float]:
    """Return the position of a job in the window, CSS pixels; its chart is scrolled into view.

    Args:
        page: a page of `Pages`.
        row: row of the job in the model.
        run: index of the run.
    """
    page.locator(".gantt").nth(run).scroll_into_view_if_needed()
    position = page.evaluate(
        """([row, run]) => {
          const { gantt } = window.hpcosim.runs[run];
          const { x, y } = gantt.positionOf(row);
          const box = document.querySelectorAll(".gantt")[run].getBoundingClientRect();
          return [box.x + x, box.y + y];
        }""",
        [row, run],
    )
    return float(position[0]), float(position[1])


def painted(page: Page) -> None:
    """Wait until what was asked for has been painted: two frames."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
