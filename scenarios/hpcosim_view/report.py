"""Writes a report from results folders."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from hpcosim_sim.record.folder import write_together
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.drafts import target_of
from hpcosim_view.errors import BundleError, ReportError
from hpcosim_view.run.extracts import clean, printable
from hpcosim_view.run.folder import read_folder, read_settings
from hpcosim_view.run.frame import Frame, encode_frame

# Settings in which compared runs differ, apart from their schedulers.

EXPECTED = ("name", "scheduler")
"""Sections of a scenario that may differ."""
LOG_PATHS = ("swf", "json", "trace")
"""Settings of a workload that are paths of files; equal files may have different paths."""
MAX_SHOWN = 10
MAX_LEVELS = 100
MAX_CHARACTERS = 40  # of a value

Difference = tuple[str, Any, Any]
"""Dotted path of a setting, its value in the first run and in the other one."""


def different_settings(folders: Sequence[Path], names: Sequence[str]) -> list[str]:
    """Return notices of how the settings of runs differ from those of the first one.

    Runs of older versions, which recorded no settings, count as equal.

    Returns:
        A text for each run with other settings.

    Raises:
        ReadResultsError: a folder has no results that can be read.
        ReportError: the settings of a run are nested too deeply.
    """
    first, *others = [_comparable(read_settings(folder)) for folder in folders]
    found = []
    for folder, name, other in zip(folders[1:], names[1:], others, strict=True):
        try:
            differences = list(_differences(first, other)) if first and other else []
            if differences:
                found.append(_text(names[0], name, differences))
        except RecursionError:
            raise ReportError(f"{folder / 'run.json'}: damaged: too many levels") from None
    return found


def _comparable(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what is compared: a log with a checksum counts by its content, not by its path."""
    if not settings["effective_scenario"]:
        return {}
    chosen = {
        key: value for key, value in settings["effective_scenario"].items() if key not in EXPECTED
    }
    checksum = settings["workload_source"].get("sha256")
    if checksum and isinstance(chosen.get("workload"), Mapping):
        chosen["workload"] = {
            key: value
            for key, value in chosen["workload"].items()
            if key not in LOG_PATHS or not isinstance(value, str)
        }
    return {**chosen, "workload_source": {"sha256": checksum}}


def _differences(one: Any, other: Any, path: str = "", level: int = 0) -> Iterator[Difference]:
    """Yield the settings that differ; a section that is missing is one without settings."""
    if level > MAX_LEVELS:
        raise RecursionError
    if one == other:
        return
    sections = [value for value in (one, other) if isinstance(value, Mapping)]
    if sections and all(isinstance(value, Mapping) or value is None for value in (one, other)):
        for key in dict.fromkeys(key for section in sections for key in section):
            first, second = ((value or {}).get(key) for value in (one, other))
            below = f"{path}.{key}" if path else str(key)
            yield from _differences(first, second, below, level + 1)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (first, second) in enumerate(zip(one, other, strict=True)):
            yield from _differences(first, second, f"{path}[{at}]", level + 1)
    else:
        yield path, one, other


def _text(first: str, name: str, differences: Sequence[Difference]) -> str:
    shown = "; ".join(
        f"{clean(path)}: {_value(one)} and {_value(other)}"
        for path, one, other in differences[:MAX_SHOWN]
    )
    left = len(differences) - MAX_SHOWN
    more = f"; {left} more setting{'' if left == 1 else 's'}" if left > 0 else ""
    return f"The runs {first} and {name} have different settings: {shown}{more}."


def _value(value: Any) -> str:
    """Return a value as JSON, cut off if it is long."""
    if value is None:
        return "not set"
    text = clean(value if isinstance(value, str) else json.dumps(value))
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


# Whether compared runs have the same jobs.


def different_jobs(runs: Sequence[tuple[str, Frame]]) -> str:
    """Return a notice that runs have other jobs than the first one; empty: they have the same.

    Jobs are the same if id, time of submission, cores and requested time are; a requested time
    that is unknown in one of the runs does not count.
    """
    (name, first), *others = runs
    found = []
    for other, run in others:
        count, total = _differing(first, run)
        if count:
            found.append(f"{name} and {other} differ in {count:,} of {total:,} jobs")
    if not found:
        return ""
    return (
        "The runs do not have the same jobs: their results differ for this reason too. "
        f"By submission, cores and requested time, {'; '.join(found)}."
    )


def _differing(first: Frame, second: Frame) -> tuple[int, int]:
    """Return how many jobs differ between two runs or are in one of them only, and all jobs."""
    one, two = first.columns, second.columns
    common, at, other_at = np.intersect1d(one["job.id"], two["job.id"], return_indices=True)
    total = len(one["job.id"]) + len(two["job.id"]) - len(common)
    differs = np.zeros(len(common), bool)
    for name in ("job.submit_s", "job.cores"):
        differs |= one[name][at] != two[name][other_at]
    requested_s, other_s = one["job.requested_s"][at], two["job.requested_s"][other_at]
    known = ~np.isnan(requested_s) & ~np.isnan(other_s)
    differs |= known & (requested_s != other_s)
    return total - len(common) + int(differs.sum()), total


# Joins the modules of the web page into one.

IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "\./([\w.]+\.js)";\n', re.MULTILINE)
KIND = r"(?:async )?(?:function\*? |class |const |let |var )"
EXPORT = re.compile(rf"^export (?={KIND}(\w+))", re.MULTILINE)
DECLARED = re.compile(rf"^{KIND}(\w+)", re.MULTILINE)
LEFT = re.compile(r"^\s*(?:import|export)\b.*", re.MULTILINE)


def web_file(name: str) -> str:
    """Return the text of a file of the folder `web`.

    Raises:
        BundleError: there is no such file.
    """
    try:
        return files("hpcosim_view").joinpath("web", name).read_text(encoding="utf-8")
    except OSError:
        raise BundleError(f"web/{name}: no such file in the package hpcosim_view") from None


def bundle(entry: str) -> str:
    """Return a module and all that it imports, directly or not, as one module.

    Raises:
        BundleError: a module uses other module syntax, imports a name that is not exported, or
            declares a name that another one declares.
    """
    parts: dict[str, str] = {}
    exports: dict[str, set[str]] = {}
    _collect(entry, parts, exports, ())
    owners: dict[str, str] = {}
    for module, text in parts.items():
        for name in DECLARED.findall(text):
            if (owner := owners.setdefault(name, module)) != module:
                raise BundleError(f"web/{module}: {name} is also declared in web/{owner}")
    return "".join(parts.values())


def _collect(
    module: str, parts: dict[str, str], exports: dict[str, set[str]], importers: tuple[str, ...]
) -> None:
    """Add a module after those that it imports."""
    if module in importers:
        raise BundleError(f"web/{module}: modules import each other: {', '.join(importers)}")
    if module in parts:
        return
    text = web_file(module)
    for names, other in IMPORT.findall(text):
        _collect(other, parts, exports, (*importers, module))
        wanted = {name.strip() for name in names.split(",")} - {""}
        if missing := wanted - exports[other]:
            raise BundleError(f"web/{module}: web/{other} exports no {', '.join(sorted(missing))}")
    exports[module] = set(EXPORT.findall(text))
    text = EXPORT.sub("", IMPORT.sub("", text))
    if left := LEFT.search(text):
        raise BundleError(f"web/{module}: unknown module syntax: {left[0].strip()}")
    parts[module] = text if text.endswith("\n") else text + "\n"


MARK = '<meta name="generator" content="hpcosim '
"""Text at the begin of each page, by which it is recognized."""
LEVEL = 7
"""Compression of the runs."""


def page_of(runs: Sequence[tuple[str, Frame]], notices: Sequence[str] = ()) -> str:
    """Return the page that shows runs.

    Args:
        runs: name and whole run of each.
        notices: what a reader must know about all runs, sentences.
    """
    script = bundle("report_main.js")
    style = web_file("report.css")
    title = ", ".join(dict.fromkeys(str(run.about.get("scenario", "")) for _, run in runs))
    return Template(web_file("report.html")).substitute(
        policy=_policy(script, style),
        version=escape(hpcosim_version()),
        title=escape(title or "run"),
        notices="\n".join(
            f'<p class="notice strong" dir="auto">{escape(notice)}</p>' for notice in notices
        ),
        style=style,
        script=script,
        frames="\n".join(_embedded(name, run) for name, run in runs),
    )


def _policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy that allows this script and this style only."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _embedded(name: str, run: Frame) -> str:
    data = base64.b64encode(encode_frame(run, LEVEL)).decode()
    kind = "application/octet-stream"
    return f'<script type="{kind}" data-run="{escape(name)}">{data}</script>'


MAX_RUNS = 4
HEAD_CHARACTERS = 4096  # of a file, to recognize a report


def write_report(
    folders: Sequence[Path],
    out: Path,
    *,
    force: bool = False,
    warn: Callable[[str], None] = lambda warning: None,
) -> Path:
    """Write a report of one to four runs, as a whole or not at all.

    The same results give the same bytes.

    Args:
        out: the file; missing folders are created. A report there is replaced; a link stays.
        force: also replace a file that is no report.
        warn: receives each notice that jobs or settings differ; the page has them, too.

    Returns:
        The file.

    Raises:
        ReportError: the runs cannot be compared, or `out` is a file that is no report.
        NoRegularFileError: a folder, a device or a FIFO has the name `out`.
        ReadResultsError: a folder has no results that can be read.
        ResultsError: the file cannot be written.
    """
    target = _target(out, force=force)
    page = report_page(folders, warn)
    write_together(target.parent, {target.name: [page]})
    return out


def report_page(folders: Sequence[Path], warn: Callable[[str], None] = lambda warning: None) -> str:
    """Return the page that shows the runs of one to four results folders.

    Args:
        warn: receives each notice that jobs or settings differ; the page has them, too.

    Raises:
        ReportError: the runs cannot be compared.
        ReadResultsError: a folder has no results that can be read.
    """
    if not 1 <= len(folders) <= MAX_RUNS:
        raise ReportError(f"expected 1 to {MAX_RUNS} results folders, got {len(folders)}")
    places = [folder.resolve() for folder in folders]
    for at, place in enumerate(places):
        if place in places[:at]:
            raise ReportError(f"{folders[at]}: the results folder is given twice; name it once")
    runs = [read_folder(folder) for folder in folders]
    for folder, run in zip(folders[1:], runs[1:], strict=True):
        _check_platform(folders[0], runs[0], folder, run)
    names = _names(folders, runs)
    named = list(zip(names, runs, strict=True))
    notices = [different_jobs(named), *different_settings(folders, names)]
    notices = [notice for notice in notices if notice]
    for notice in notices:
        warn(printable(notice))
    return page_of(named, notices)


def _check_platform(first: Path, expected: Frame, folder: Path, run: Frame) -> None:
    """Check that two runs have the same nodes, so that their charts have the same axes."""
    texts = [_platform_text(each) for each in (expected, run)]
    if texts[0] != texts[1]:
        raise ReportError(
            f"{folder}: the platform has {texts[1]}, but that of {first} has {texts[0]}; "
            "expected runs on equal platforms; write a report for each"
        )


def _platform_text(run: Frame) -> str:
    """Return `24 nodes with 16 cores and 8 nodes with 32 cores`."""
    return " and ".join(
        f"{count} node{'' if count == 1 else 's'} with {cores} core{'' if cores == 1 else 's'}"
        for count, cores, _ in run.about["nodes"]
    )


def _names(folders: Sequence[Path], runs: Sequence[Frame]) -> list[str]:
    """Return different names for the runs: their schedulers, the names of the folders, or paths."""
    choices = (
        [str(run.about.get("scheduler", "")) for run in runs],
        [folder.resolve().name for folder in folders],
        [str(folder) for folder in folders],
    )
    return next((names for names in choices if max(Counter(names).values()) == 1), choices[-1])


def _target(out: Path, *, force: bool) -> Path:
    """Return the file to replace; check that it is a report if it exists."""
    target = target_of(out)
    if force or not target.exists():
        return target
    with target.open("rb") as file:
        head = file.read(HEAD_CHARACTERS)
    if MARK.encode() not in head:
        raise ReportError(
            f"{out}: this file is no report of hpcosim; choose another one with --out, or replace "
            "it with --force"
        )
    return target
