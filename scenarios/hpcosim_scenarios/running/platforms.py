"""Run a scenario on several platforms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import scenario_tree
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running.compare import Comparison, OnResult, compare_policies
from hpcosim_scenarios.running.compared import compared_policies
from hpcosim_scenarios.running.groups import Groups


def compare_platforms(
    path: Path,
    platforms: Sequence[Path],
    schedulers: Sequence[str] | None = None,
    *,
    out: Path | None = None,
    overrides: Overrides | None = None,
    on_result: OnResult = lambda name, metrics: None,
    **options: Any,
) -> Comparison:
    """Run a scenario on several platforms, each with several schedulers and power managers.

    A policy has the name of the platform's file, and, if there are several policies, its own name.

    Args:
        path: the scenario's file.
        platforms: scenario files whose section `platform` takes the place of that of the scenario.
        schedulers: as for `compare_policies`.
        out: folder for the results, with a folder for each platform; None: as there.
        overrides: as for `compare_policies`.
        on_result: as for `compare_policies`.
        options: as for `compare_policies`, whose errors it raises; there is no baseline.

    Raises:
        PolicyError: two platforms have files of the same name, or their results have no folder.
        ScenarioError: a file has no section `platform`, or it does not fit the scenario.
    """
    if out is None and options.get("transport", "inproc") != "inproc":
        raise PolicyError("several platforms over ipc or tcp need a folder for results: --out")
    metrics: dict[str, dict[str, int | float]] = {}
    groups: dict[str, Groups] = {}
    stems = [file.stem for file in platforms]
    if repeated := next((stem for stem in stems if stems.count(stem) > 1), ""):
        raise PolicyError(f"two platforms have the name {repeated!r}; rename one of the files")
    changes = {file.stem: {**(overrides or {}), "platform": _platform(file)} for file in platforms}
    for changed in changes.values():  # before the first run
        compared_policies(path, schedulers, options.get("power", ()), changed)
    for stem, changed in changes.items():
        several = len(compared_policies(path, schedulers, options.get("power", ()), changed)) > 1

        def named(name: str, stem: str = stem, several: bool = several) -> str:
            return f"{stem}, {name}" if several else stem

        def report(name: str, found: Mapping[str, int | float], named: Any = named) -> None:
            on_result(named(name), found)

        own = compare_policies(
            path,
            schedulers,
            out=None if out is None else out / stem,
            overrides=changed,
            on_result=report,
            **options,
        )
        metrics.update({named(name): found for name, found in own.metrics.items()})
        groups.update({named(name): found for name, found in own.groups.items()})
    return Comparison(metrics, groups=groups)


def _platform(path: Path) -> Any:
    """Return the section `platform` of a scenario file, as plain data.

    Raises:
        ScenarioError: it has none.
    """
    tree = scenario_tree(path)
    if not isinstance(tree, dict) or "platform" not in tree:
        raise ScenarioError("expected a scenario file with the section `platform`", path)
    return tree["platform"]
