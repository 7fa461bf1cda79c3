"""Hooks of MkDocs: put generated text and included files where pages have a marker."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from docs.generate import (
    benchmark,
    commands,
    definitions,
    experiment,
    included,
    layers,
    learned,
    metrics,
    python_api,
    recipe,
    results,
    scenario,
    schedulers,
    workloads,
)
from mkdocs.structure.files import File, Files

from hpcosim_server.service.status import Failure, LivePage, Progress

MARKER = re.compile(r"<!-- generated: (\S+) -->")

GENERATED: Mapping[str, Callable[[], str]] = {
    "benchmark-bounds": benchmark.bounds,
    "benchmark-suites": benchmark.suites,
    "commands": commands.reference,
    "experiment": experiment.reference,
    "experiment-short-names": experiment.short_names,
    "layers": layers.diagram,
    "learned-details": learned.details,
    "learned-summary": learned.summary,
    "metrics": metrics.reference,
    "power-managers": scenario.managers,
    "python": partial(python_api.reference, ["hpcosim"], python_api.HPCOSIM),
    "python-client": partial(
        python_api.reference, ("hpcosim_client", "hpcosim_schedulers"), python_api.CLIENT
    ),
    "python-forecast": partial(
        python_api.reference, ["hpcosim_schedulers.forecast"], python_api.FORECAST
    ),
    "python-scenarios": partial(python_api.reference, ["hpcosim_scenarios"], python_api.SCENARIOS),
    "recipe-sections": recipe.other_sections,
    "recipe-trainers": recipe.trainers,
    "results-tables": results.tables,
    "run-json": results.run_json,
    "savings": metrics.savings,
    "scenario": scenario.reference,
    "scenario-tree": scenario.tree,
    "site-settings": scenario.site,
    "server-settings": commands.server_settings,
    "scheduler-groups": schedulers.groups,
    "schedulers": schedulers.schedulers,
    "schedulers-of-papers": schedulers.schedulers_of_papers,
    "trained-schedulers": schedulers.trained_schedulers,
    "job-rules": schedulers.job_rules,
    "node-rules": schedulers.node_rules,
    "power-managers-table": schedulers.power_managers,
    "statistics-intervals": definitions.intervals,
    "statistics-pairs": definitions.pairs,
    "statistics-period": definitions.period,
    "statistics-values": definitions.values,
    "status-failure": partial(results.status, Failure),
    "status-page": partial(results.status, LivePage),
    "status-progress": partial(results.status, Progress),
    "swf": workloads.swf_rules,
}
"""The text for each marker `<!-- generated: NAME -->`."""


def on_files(files: Files, *, config: Any) -> Files:
    """Add the images of included files."""
    for file in included.included_files(Path(config.docs_dir)):
        for image in included.images_of(file):
            target = f"{included.IMAGES}/{image}"
            if files.get_file_from_path(target) is None:
                source = str(included.ROOT / image)
                files.append(File.generated(config, target, abs_src_path=source))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Replace the markers of a page."""
    pages = included.included_files(Path(config.docs_dir))
    here = page.file.src_uri
    text = included.MARKER.sub(lambda match: included.page_of(match[1], here, pages), markdown)
    text = included.FILE.sub(lambda match: included.code_of(match[1]), text)
    return MARKER.sub(lambda match: GENERATED[match[1]](), text)
