"""Warnings about runs that are probably not what the user wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hpcosim_scenarios.model.load import draws_numbers
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_schedulers.catalogue.policy_files import is_policy_file

Warn = Callable[[str], None]
"""Takes a warning: a sentence, without the word "warning" in front."""


def ignore_warning(warning: str) -> None:
    """Ignore a warning."""


def once(warn: Warn) -> Warn:
    """Return a function that passes each warning on the first time only."""
    seen: set[str] = set()

    def warn_once(warning: str) -> None:
        if warning not in seen:
            seen.add(warning)
            warn(warning)

    return warn_once


def check_seed(scenario: Scenario, overrides: Overrides, scheduler: str, warn: Warn) -> None:
    """Warn about a seed that has no effect.

    Args:
        scenario: the scenario after overrides.
        overrides: the overrides; without a seed there is no warning.
        scheduler: the job scheduler's name.
        warn: called with the warning.
    """
    if "seed" not in overrides or draws_numbers(scenario):
        return
    # The names of schedulers that draw random numbers; a policy file may draw some.
    if "random" in scheduler or "sampled" in scheduler or is_policy_file(scheduler):
        return
    warn(
        f"the seed has no effect: jobs and switching times of {scenario.name} are fixed, and "
        f"{scheduler} draws no random numbers"
    )


def recorded_warnings(results: Path) -> list[str]:
    """Return the warnings in the `run.json` of a results folder."""
    run = json.loads((results / "run.json").read_text(encoding="utf-8"))
    return [str(warning) for warning in run["warnings"]]
