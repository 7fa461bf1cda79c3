"""Recipes of trainings for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_recipe(folder: Path, name: str, scenario: Path | str, **sections: Any) -> Path:
    """Write the recipe of a trainer into a folder.

    Args:
        folder: the folder of the file.
        name: name of the trainer.
        scenario: the scenario file.
        **sections: other sections; `environment` has the other settings of the environment.
    """
    environment = {
        "name": name,
        "scenario": str(scenario),
        **sections.pop("environment", {}),
    }
    path = folder / "recipe.yaml"
    path.write_text(json.dumps({"train": {"environment": environment, **sections}}, indent=1))
    return path
