"""The policies of a comparison: job schedulers, each with every power manager."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.yaml_lines import parse_yaml
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_schedulers import expand
from hpcosim_schedulers.catalogue.power import manager_title
from hpcosim_schedulers.catalogue.schedulers import folder_name
from hpcosim_schedulers.power.settings import AlwaysOn, Power, parse_power

POWER = "scheduler.power"
MISSING = "is missing"
EXAMPLE = "always-on, {name: timeout, timeout_s: 900}"

PowerSettings = str | Mapping[str, Any]
"""A power manager: its name, or a mapping of its name and its settings."""


class ComparedPolicy(NamedTuple):
    """A policy of a comparison.

    Attributes:
        name: name in the comparison, different for each policy.
        folder: name of its results folder, different for each policy.
        scheduler: the job scheduler that replaces the scenario's; None: the scenario's.
        scenario: the scenario with the policy's power manager.
        overrides: the overrides that make this scenario from the file.
        chosen: the job scheduler and the power manager.
    """

    name: str
    folder: str
    scheduler: str | None
    scenario: Scenario
    overrides: Overrides
    chosen: Chosen


def compared_policies(
    path: Path,
    schedulers: Sequence[str] | None,
    power: Sequence[PowerSettings],
    overrides: Overrides,
) -> list[ComparedPolicy]:
    """Return the policies of a comparison, each once, after checking that they can be made.

    With one scheduler and power managers, a policy has the name of its manager:
    `timeout(timeout_s=900.0)`. With several schedulers it is `easy, timeout(timeout_s=900.0)`.
    Without power managers it is the scheduler's name.

    Args:
        path: the scenario's file.
        schedulers: names of schedulers or of groups of them; None: the scenario's.
        power: power managers; empty: the scenario's. Paths in them are relative to the scenario's
            folder.
        overrides: values to change in the scenario, by dotted path.

    Raises:
        ScenarioError: the scenario or a power manager is invalid.
        PolicyError: a policy cannot be made, or there is none.
    """
    names: Sequence[str | None] = [None] if schedulers is None else expand(schedulers)
    if not names:
        raise PolicyError("no scheduler is named; expected names separated by commas")
    changes = [{**overrides, POWER: each} for each in power] or [dict(overrides)]
    scenarios = [(load_scenario(path, changed), changed) for changed in changes]
    policies: dict[Chosen, ComparedPolicy] = {}
    for scheduler in names:
        for scenario, changed in scenarios:
            chosen = _chosen(scenario, path, scheduler, changed, named=bool(power))
            chosen.check()
            name, folder = chosen.called, folder_name(chosen.called)
            if power:
                manager = manager_title(chosen.power)
                name = manager if len(names) == 1 else f"{name}, {manager}"
                folder = f"{folder}-{manager.partition('(')[0]}"
            policy = ComparedPolicy(name, folder, scheduler, scenario, changed, chosen)
            policies.setdefault(chosen, policy)
    # Titles leave out folders, so that two models may have one name.
    unique = zip(
        policies.values(),
        _unique(policy.name for policy in policies.values()),
        _unique(policy.folder for policy in policies.values()),
        strict=True,
    )
    return [policy._replace(name=name, folder=folder) for policy, name, folder in unique]


def _chosen(
    scenario: Scenario, path: Path, scheduler: str | None, changed: Overrides, *, named: bool
) -> Chosen:
    """Return a policy; `named` states that `--power` names its manager, for messages."""
    try:
        return chosen_by(scenario, path, scheduler, changed)
    except ScenarioError as error:
        field = f"override {POWER}"
        if not named or not error.field.startswith(field):
            raise
        power, key = changed[POWER], error.field.removeprefix(field).removeprefix(".")
        name = power if isinstance(power, str) else str(power.get("name", "manager"))
        what = error.what
        if what == MISSING:
            value = "900" if key.endswith("_s") else "..."
            what += f"; expected a mapping such as {{name: {name}, {key}: {value}}}"
        raise ScenarioError(f"{key}: {what}" if key else what, field=f"--power {name}") from None


def parse_power_list(text: str) -> list[PowerSettings]:
    """Return the power managers in a text such as `always-on, {name: timeout, timeout_s: 900}`.

    Each is a name, or a mapping of a name and settings in YAML or JSON.

    Raises:
        PolicyError: the text has another form.
    """
    try:
        found = parse_yaml(f"[{text}]")
    except (yaml.YAMLError, ValueError, RecursionError):
        found = None
    if isinstance(found, list) and found and all(isinstance(one, str | dict) for one in found):
        return found
    raise PolicyError(f"--power: expected power managers such as `{EXAMPLE}`, got {text!r}")


def find_policy(text: str, policies: Sequence[ComparedPolicy]) -> str:
    """Return the name of the policy that a text names.

    Args:
        text: the name of a policy, or a scheduler or a power manager that only one of the policies
            has: its name, or for a manager also a mapping as in `parse_power_list`.
        policies: the policies of a comparison.

    Raises:
        PolicyError: no policy, or more than one, has this name.
    """
    names = [policy.name for policy in policies]
    if text in names:
        return text
    manager = manager_title(_manager(text)) if "{" in text else text
    found = [policy.name for policy in policies if manager in _parts(policy.chosen)]
    if len(found) == 1:
        return found[0]
    near = difflib.get_close_matches(text, names, n=1, cutoff=0.4)
    advice = f"did you mean {near[0]!r}? " if near else ""
    what = "names several policies" if found else "is not compared"
    known = "; ".join(found or names)
    raise PolicyError(f"--baseline: {text!r} {what}; {advice}expected one of: {known}")


def switching_warnings(policies: Sequence[ComparedPolicy]) -> list[str]:
    """Return a warning if power managers cannot switch some of the nodes."""
    platform = policies[0].scenario.platform
    fixed = sum(group.count for group in platform.nodes if group.power_states is None)
    if not fixed or all(isinstance(policy.chosen.power, AlwaysOn) for policy in policies):
        return []
    nodes = f"{fixed} of {platform.node_count} nodes"
    return [f"{nodes} are never switched off: their node groups have no power_states"]


def baseline_warnings(baseline: str, policies: Sequence[ComparedPolicy]) -> list[str]:
    """Return a warning if the baseline is the only policy."""
    if not baseline or len(policies) > 1:
        return []
    return [
        f"there is no policy to compare with the baseline {baseline}, so no savings are printed; "
        "add one to --power or --schedulers"
    ]


def _manager(text: str) -> Power:
    """Return the power manager in a mapping.

    Raises:
        PolicyError: it is invalid.
    """
    settings, *others = parse_power_list(text)
    if others:
        raise PolicyError(f"--baseline: expected one power manager, got {text!r}")
    return parse_power({"name": settings} if isinstance(settings, str) else settings)


def _parts(chosen: Chosen) -> tuple[str, str, str]:
    """Return the names of a policy's scheduler and manager, the latter with its settings, too."""
    manager = manager_title(chosen.power)
    return chosen.called, manager.partition("(")[0], manager


def _unique(names: Iterable[str]) -> Iterator[str]:
    """Yield each name, numbered from its second occurrence on."""
    used: Counter[str] = Counter()
    for name in names:
        used[name] += 1
        yield name if used[name] == 1 else f"{name}-{used[name]}"
