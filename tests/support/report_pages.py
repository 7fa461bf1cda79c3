"""Reports of small runs, and what they show."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hpcosim_view.report import write_report
from support.commands import SCENARIO, invoke

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def report_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of `easy` and `fcfs`."""
    folder = tmp_path_factory.mktemp("runs")
    for scheduler in ("easy", "fcfs"):
        simulated(folder / scheduler, SCENARIO, "--scheduler", scheduler)
    return folder


def simulated(out: Path, scenario: str, *options: str) -> Path:
    """Simulate a scenario in process; return the results folder."""
    file = out.parent / f"{out.name}.yaml"
    file.write_text(scenario)
    done = invoke("run", file, "--transport", "inproc", "--out", out, *options)
    assert done.status == 0, done.err
    return out


def report_of(*folders: Path) -> Path:
    """Write a report of results folders; return the file."""
    return write_report(folders, folders[0].parent / f"{folders[0].name}.html", force=True)


def jobs_of(folder: Path) -> list[dict[str, str]]:
    """Return the rows of `jobs.csv`."""
    return read_rows(folder / "jobs.csv")


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def forget_checksums(folder: Path) -> None:
    """Remove the checksums of the files from `run.json`, as if an old version had written it."""
    described = json.loads((folder / "run.json").read_text())
    described.pop("files", None)
    (folder / "run.json").write_text(json.dumps(described))


def write_rows(path: Path, rows: list[dict[str, str]]) -> None:
    """Write the rows of a CSV file; the first one has the columns."""
    forget_checksums(path.parent)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def changed(folder: Path, about: dict[str, Any], change: Callable[[dict[str, str]], None]) -> None:
    """Change the description and each job of a results folder."""
    described = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(described | about))
    jobs = jobs_of(folder)
    for job in jobs:
        change(job)
    write_rows(folder / "jobs.csv", jobs)


def large_jobs(page: Page, run: int = 0) -> list[int]:
    """Return the rows of jobs whose largest box has room for a pixel without border and label."""
    return list(
        page.evaluate(
            """(run) => {
              const { model } = window.hpcosim.runs[run];
              return [...Array(model.jobs).keys()].filter((row) => !(model.boxCount[row] === 0))
                .sort((a, b) => (model.endS[b] - model.startS[b]) * model.cores[b]
                  - (model.endS[a] - model.startS[a]) * model.cores[a]).slice(0, 6);
            }""",
            run,
        )
    )


def legend_of(page: Page) -> dict[str, str]:
    """Return the colours of the legend by label."""
    return dict(
        page.evaluate(
            """() => [...document.querySelectorAll(".legend .key-item")].map((item) =>
              [item.textContent, getComputedStyle(item.firstChild).backgroundColor])"""
        )
    )


def class_of_size(cores: int) -> str:
    """Return the text of the legend for jobs of this size."""
    return "1 core" if cores == 1 else "2\N{EN DASH}4" if cores <= 4 else "5\N{EN DASH}16"


def details(page: Page) -> str:
    """Return the text about the chosen job."""
    return str(page.locator("#details").inner_text())


LOW_CONTRAST = """() => {
  const channels = (colour) => {
    const pen = new OffscreenCanvas(1, 1).getContext("2d");
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const light = ([red, green, blue]) => [red, green, blue]
    .map((value) => value / 255)
    .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const colour = channels(getComputedStyle(each).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const hidden = !element.checkVisibility() || /^(SCRIPT|STYLE|NOSCRIPT)$/.test(element.tagName);
    if (hidden || walker.currentNode.textContent.trim() === "") continue;
    const [a, b] = [light(channels(getComputedStyle(element).color)), light(behind(element))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add(`${element.textContent.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return [...found];
}"""
