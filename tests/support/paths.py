"""Paths of the repository and of the reference data of tests."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
SCENARIOS = ROOT / "scenarios"
SHARED = ROOT.parent / "shared"  # exists on the developers' machines only; tests skip without it
