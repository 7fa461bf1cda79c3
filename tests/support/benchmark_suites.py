"""Small suites of the benchmark, and submissions that are not what they claim to be."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import structs

from hpcosim_experiments.benchmark.bounds import seals_of
from hpcosim_experiments.benchmark.instance_runs import run_policy
from hpcosim_experiments.benchmark.submission import ABOUT, Author, Verified
from hpcosim_experiments.benchmark.suite import Suite, find_suite, read_suite, write_seals

AUTHOR = Author("mine", "me", "nowhere", "requested")
SCENARIO = """name: tiny
platform: {nodes: [{count: 8, processors: [{cores: 1, static_w: 100, dynamic_w: 0}]}]}
workload:
  synthetic:
    {model: poisson, jobs: 40, mean_interarrival_s: 100, cores: [1, 8], run_s: [10, 900]}
"""
SUITE = """name: tiny-1
title: Two small instances.
score: {mean_response_s: 1}
shown: [mean_wait_s]
bound: mean-response
decisions: [allocate_job, set_alarm, cancel_alarm]
reference: {scheduler: easy}
instances:
  - {name: a, scenario: tiny.yaml, set: {seed: 1}}
  - {name: b, scenario: tiny.yaml, set: {seed: 2}}
"""

Files = dict[str, bytes]


def tiny_suite(folder: Path) -> Suite:
    """Write and seal a suite of two instances, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.yaml").write_text(SCENARIO)
    file = folder / "suite.yaml"
    file.write_text(SUITE)
    write_seals(folder, list(seals_of(read_suite(file))))
    return find_suite(str(file))


def smallest_of(name: str) -> Suite:
    """Return a shipped suite with nothing but its instance of the fewest jobs."""
    suite = find_suite(name)
    seal = min(suite.seals.values(), key=lambda seal: seal.jobs)
    one = tuple(each for each in suite.file.instances if each.name == seal.instance)
    return Suite(structs.replace(suite.file, instances=one), suite.folder, {seal.instance: seal})


def submitted(suite: Suite, out: Path, scheduler: str = "fcfs") -> Verified:
    """Run a suite with a scheduler in this process, and write the submission."""
    return run_policy(
        suite, scheduler, {"name": "always-on"}, "unaware", out, AUTHOR, lambda _: None
    )


def changed(path: Path, change: Callable[[Files], None]) -> None:
    """Change the files in a submission."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def about_changed(files: Files, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a submission states."""
    about = json.loads(files[ABOUT])
    change(about)
    files[ABOUT] = json.dumps(about).encode()


def journal_changed(files: Files, change: Callable[[list[bytes]], None]) -> None:
    """Change the lines of the journal of instance `a`, and state its new checksum."""
    lines = files["a.jsonl"].splitlines(keepends=True)
    change(lines)
    files["a.jsonl"] = b"".join(lines)
    digest = hashlib.sha256(files["a.jsonl"]).hexdigest()
    about_changed(files, lambda about: about["instances"]["a"].update(journal_sha256=digest))
