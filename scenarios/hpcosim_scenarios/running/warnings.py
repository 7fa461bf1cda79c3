"""Warnings about runs that are probably not what the user wanted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hpcosim_protocol import NodeGroup
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import located
from hpcosim_scenarios.model.jobs import draws_numbers
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.series import Signals, SignalSource, signals_of
from hpcosim_scenarios.model.workload import Workload
from hpcosim_scenarios.running.policies import Chosen
from hpcosim_schedulers.catalogue.policy_files import is_policy_file
from hpcosim_schedulers.catalogue.scheduler_settings import (
    CarbonAware,
    follows_signal,
    parse_settings,
)
from hpcosim_schedulers.power.settings import AlwaysOn, KeepIdle, Oracle, Rl, Slurm

Warn = Callable[[str], None]
"""Takes a warning: a sentence, without the word "warning" in front."""


IN_ADVANCE = (KeepIdle, Slurm, Oracle, Rl)
"""Power managers that switch nodes on before a job needs them."""


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


def signal_warnings(
    scenario: Scenario, path: Path, chosen: Chosen, overrides: Overrides | None = None
) -> list[str]:
    """Return the warnings about a scheduler that follows a signal without the effect expected.

    Raises:
        ScenarioError: the file of a signal cannot be read or is invalid.
    """
    if not follows_signal(chosen.name) or scenario.signals is None:
        return []
    settings = parse_settings(chosen.name)
    if isinstance(settings, CarbonAware):
        return _delay_warnings(scenario, chosen, settings)
    cap = scenario.signals.power_cap_w
    if cap is None:
        return []
    try:
        return _cap_warnings(scenario, path.parent, chosen, cap)
    except ScenarioError as error:
        raise located(error, path, overrides) from None


def _delay_warnings(scenario: Scenario, chosen: Chosen, settings: CarbonAware) -> list[str]:
    """Return warnings if `carbon-aware` delays no job."""
    name, found = settings.signal, []
    source: SignalSource | None = getattr(scenario.signals, name)
    if source is not None and not source.forecast_s:
        found.append(
            f"{chosen.called} delays no job: the signal {name} has no forecast; set "
            f"signals.{name}.forecast_s, for example to 172800 (two days)"
        )
    if not settings.slack_s and not _may_have_deadlines(scenario.workload):
        found.append(
            f"{chosen.called} delays no job: slack_s is 0 and no job has a deadline_s; "
            f"carbon-aware:signal={name}:slack_s=86400 may delay each job by a day"
        )
    return found


def _may_have_deadlines(workload: Workload) -> bool:
    """Return whether jobs may have deadlines; the file of `json` is not read."""
    if workload.json is not None:
        return True
    return any(job.deadline_s is not None for job in workload.inline or ())


def _cap_warnings(scenario: Scenario, folder: Path, chosen: Chosen, cap: SignalSource) -> list[str]:
    """Return a warning if the cap is below the power of nodes without jobs."""
    [signal] = signals_of(Signals(power_cap_w=cap), folder, scenario.seed)
    lowest_w = float(signal.series.values.min())
    groups, switches = scenario.platform.nodes, not isinstance(chosen.power, AlwaysOn)
    least_w = sum(group.count * _least_w(group, switches=switches) for group in groups)
    falls_to = f"signals.power_cap_w falls to {lowest_w:,.6g} W"
    if lowest_w < least_w:
        kilowatts = f"; {lowest_w:g} kW are {lowest_w * 1e3:g}" if least_w <= lowest_w * 1e3 else ""
        return [
            f"{falls_to}, but all nodes without jobs draw at least {least_w:,.6g} W: "
            f"{chosen.called} can start no job below such a cap and rejects jobs if no higher cap "
            f"is known; the unit is W{kilowatts}"
        ]
    ahead = isinstance(chosen.power, IN_ADVANCE)
    most_w = sum(group.count * _most_w(group, ahead=ahead) for group in groups)
    if switches and lowest_w < most_w:
        return [
            f"{falls_to}, but all nodes without jobs draw up to {most_w:,.6g} W if the power "
            "manager switches them at the same time: the power may exceed the cap then; "
            f"{chosen.called} keeps only a cap of at least {most_w:,.6g} W at all times"
        ]
    return []


def _least_w(group: NodeGroup, *, switches: bool) -> float:
    """Return the least power of a node without a job, W."""
    states = group.power_states
    return min(group.idle_w, states.sleep_w) if states and switches else group.idle_w


def _most_w(group: NodeGroup, *, ahead: bool) -> float:
    """Return the greatest power of a node without a job, W."""
    states = group.power_states
    if states is None:
        return group.idle_w
    on_w = states.switch_on_w if ahead else 0.0
    return max(group.idle_w, states.sleep_w, states.switch_off_w, on_w)
