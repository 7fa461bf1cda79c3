"""Build hook: packs the shipped scenarios into the wheel, where `shipped_folder()` finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SUFFIXES = {".csv", ".json", ".jsonl", ".safetensors", ".yaml"}
"""Scenarios and what they read: job logs, trained networks, tables, evaluations of networks."""

PATTERNS = (
    *("*.yaml", "*.csv", "*.jsonl"),
    *("batch/**/*", "experiments/*.yaml", "papers/**/*", "suites/**/*"),
)


class ShippedScenarios(BuildHookInterface[Any]):
    """Adds scenarios, experiments, their tables and the data of papers to `hpcosim_scenarios`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files; an editable installation reads them in the checkout."""
        if version == "editable":
            return
        folder = Path(self.root) / "scenarios"
        for pattern in PATTERNS:
            for path in folder.glob(pattern):
                if path.suffix in SUFFIXES:
                    target = Path("hpcosim_scenarios/shipped") / path.relative_to(folder)
                    build_data["force_include"][str(path)] = target.as_posix()
