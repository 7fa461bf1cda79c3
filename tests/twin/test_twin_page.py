"""The page of a twin in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.browser import Pages, pages, pages_of_module
from support.twins import OPERATOR_TOKEN, RunningTwin, StillSource, running_twin, two_users

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["pages", "pages_of_module"]

HOSTILE = "<img src=x onerror=document.title='sprung'>"


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTwin]:
    """A twin of a queue in which a job has a hostile user and reason."""
    cluster = two_users()
    cluster.jobs[7] = replace(cluster.jobs[7], user=HOSTILE, reason=HOSTILE)
    with running_twin(tmp_path_factory.mktemp("twin"), StillSource(cluster)) as found:
        yield found


def opened(pages: Pages, twin: RunningTwin, width: int = 1200, scheme: str = "light") -> Page:
    """Open the page and wait for the queue."""
    url, size = f"{twin.url}?token={OPERATOR_TOKEN}", {"width": width, "height": 900}
    ready = "document.querySelector('#jobs tr')"
    return pages.open(url, ready, viewport=size, color_scheme=scheme)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 380])
def test_the_queue_is_shown(pages: Pages, twin: RunningTwin, width: int, scheme: str) -> None:
    """With a bar for each job, on wide and narrow screens, in both themes."""
    page = opened(pages, twin, width, scheme)
    assert page.locator("#jobs tr").count() == 6
    assert page.locator("#jobs .median").count() == 6
    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert "token" not in page.url


@pytest.mark.slow
def test_texts_of_users_are_no_markup(pages: Pages, twin: RunningTwin) -> None:
    """Names and reasons are shown as they are."""
    page = opened(pages, twin)
    assert page.locator("#jobs td", has_text=HOSTILE).count() == 1
    assert page.locator("#jobs img").count() == 0
    assert page.title() == "hpcosim twin"


@pytest.mark.slow
def test_questions_are_asked(pages: Pages, twin: RunningTwin) -> None:
    """Ways, a map of waits, advice for a job, and what the twin says against a bad question."""
    page = opened(pages, twin)
    page.fill("#ways-text", "-n 1 -t 10\n-n 2 -t 5")
    page.click("#ways button")
    page.locator("#ways-answer tbody tr").nth(1).wait_for()
    assert page.locator("#ways-answer tbody th").all_inner_texts() == [
        "-n 1 -t 10",
        "-n 2 -t 5",
    ]
    page.fill("#ways-text", f"-p {HOSTILE}")
    page.click("#ways button")
    page.locator("#ways-answer .failure").wait_for()
    page.click("#map button")
    page.locator("#map-answer tbody tr").nth(2).wait_for()
    page.fill("#filter", "10")
    assert page.locator("#jobs tr").count() == 1
    page.click("#jobs button")
    page.locator("#advice-answer tbody tr").first.wait_for()
    assert page.locator("#advice-title").inner_text() == "What would help job 10"
    assert page.locator("#record").inner_text().endswith("none of their jobs has started yet.")
    pages.faults[:] = [fault for fault in pages.faults if "status of 422" not in fault]
