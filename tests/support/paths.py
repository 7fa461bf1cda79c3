"""Where the repository and the reference data that tests read are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
SHARED = ROOT.parent / "shared"  # missing outside the developers' machines; such tests skip
