"""The policies of a run or comparison: job schedulers with power managers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from hpcosim_client import Policy, PolicyError
from hpcosim_protocol.units import unit_hint
from hpcosim_scenarios.errors import OracleError, ScenarioError
from hpcosim_scenarios.model.file import load_scenario, located
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario, Scheduler
from hpcosim_scenarios.model.series import Signals, names_of
from hpcosim_scenarios.model.yaml_tree import parse_yaml
from hpcosim_schedulers import expand, make_policy
from hpcosim_schedulers.catalogue import policy_files
from hpcosim_schedulers.catalogue.description import describe, policy_file, with_file
from hpcosim_schedulers.catalogue.policy_files import is_policy_file, modules_beside
from hpcosim_schedulers.catalogue.power import (
    check_together,
    from_folder,
    manager_title,
    title,
    with_power,
)
from hpcosim_schedulers.catalogue.scheduler_settings import (
    SITES,
    check_settings,
    check_signal,
    follows_signal,
)
from hpcosim_schedulers.catalogue.schedulers import RECORDED, canonical_name, folder_name
from hpcosim_schedulers.catalogue.trained import check_trained
from hpcosim_schedulers.power.settings import (
    PATHS,
    AlwaysOn,
    Awareness,
    Oracle,
    Power,
    PowerSettingsError,
    Slurm,
    as_text,
    parse_awareness,
    parse_power,
)

FIELD = "$.scheduler"
POWER = f"{FIELD}.power"


POWER_PATH = "scheduler.power"
MISSING = "is missing"
EXAMPLE = "always-on, {name: timeout, timeout_s: 900}"

PowerSettings = str | Mapping[str, Any]
"""A power manager: its name, or a mapping of its name and its settings."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job scheduler and a power manager, by name.

    Attributes:
        name: name of the job scheduler, as `make_policy` takes it.
        power: settings of the power manager; paths are relative to the current folder.
        awareness: treatment of nodes that are not on, by the job scheduler.
        called: name that the user gave: for a trained scheduler of the scenario, its key in
            `scheduler.agents`.
        signals: names of the signals of the scenario.
        explain: whether explanations of the job scheduler are sent.
        settings: settings of the job scheduler in JSON, see `make_policy`.
    """

    name: str
    power: Power
    awareness: Awareness
    called: str
    signals: tuple[str, ...] = ()
    explain: bool = False
    settings: str = "{}"

    @property
    def title(self) -> str:
        """The name of the policy in results."""
        return title(self.name, self.power, self.awareness)

    @property
    def needs_plan(self) -> bool:
        """Whether the power manager is an oracle without a plan file."""
        return self.power == Oracle()

    def policy(self) -> Policy:
        """Return a new policy.

        Raises:
            PolicyError: the scheduler is unknown, a file is missing, or the manager does not
                support the scheduler.
        """
        return with_power(self.name, self.power, self.awareness, self._settings())

    def description(self) -> dict[str, object]:
        """Return the description of the policy for `run.json`.

        Raises:
            PolicyError: a file of the policy cannot be read.
        """
        return describe(self.name, self.power, self.awareness, self._settings())

    def files(self) -> list[Path]:
        """Return the files of the policy: those of its names and settings, and imported modules.

        Raises:
            PolicyError: the scheduler's name is incomplete.
        """
        files = []
        if (own := policy_file(self.name)) is not None:
            files.append(own)
            if is_policy_file(self.name):
                files += modules_beside(own).values()
        return files + [Path(getattr(self.power, name)) for name in self._power_files()]

    def moved(self, moved: Callable[[Path], Path]) -> Chosen:
        """Return the same policy with its files at other places."""
        name = self.name
        if (own := policy_file(name)) is not None:
            name = with_file(name, moved(own))
        places = {key: str(moved(Path(getattr(self.power, key)))) for key in self._power_files()}
        power = msgspec.structs.replace(self.power, **places)
        return replace(self, name=name, power=power)

    def _settings(self) -> dict[str, object]:
        return msgspec.json.decode(self.settings, type=dict[str, object])

    def _power_files(self) -> list[str]:
        """Return the settings of the power manager that name a file."""
        return [name for name in PATHS if getattr(self.power, name, "")]

    def check(self) -> None:
        """Check that the policy can be made, apart from the plan of an oracle.

        Raises:
            PolicyError: as `policy`, or the scenario lacks the signal of the scheduler.
        """
        if follows_signal(self.name):
            check_signal(self.name, self.signals, Signals.__struct_fields__)
        if self.needs_plan:
            make_policy(self.name, settings=self._settings())
        else:
            self.policy()

    def options(self) -> list[str]:
        """Return the options of `hpcosim schedule` for this policy, without its name."""
        explain = ["--explain"] if self.explain else []
        return ["--power", as_text(self.power), "--power-awareness", self.awareness, *explain]


def chosen_by(
    scenario: Scenario,
    path: Path,
    scheduler: str | None = None,
    overrides: Overrides | None = None,
) -> Chosen:
    """Return the policy of a scenario.

    Files that the settings name are not opened here; `Chosen.check` opens them.

    Raises:
        ScenarioError: a setting of the scheduler is invalid, or conflicts with other settings or
            with the platform. It has the line and the field.
    """
    own = scenario.scheduler
    try:
        power, awareness = power_of(own), awareness_of(own)
        _check_agents(own)
        _check_switching(scenario, scheduler or own.name, power, awareness)
        _check_settings(own, scheduler)
    except ScenarioError as error:
        raise located(error, path, overrides) from None
    called = scheduler or own.name
    called = name = called if called in own.agents else canonical_name(called)
    if called in own.agents:
        kind, _, model = own.agents[called].partition(":")
        name = f"{kind}:{path.parent / model}"
    elif scheduler is None:
        name = policy_files.from_folder(name, path.parent)
    if f"{name}:" == RECORDED and scenario.workload.json is not None:
        from hpcosim_schedulers.heuristics.recorded import recorded_path

        name = f"{RECORDED}{recorded_path(path.parent / scenario.workload.json)}"
    signals = names_of(scenario.signals)
    settings = msgspec.json.encode(own.settings).decode() if name in SITES else "{}"
    power = from_folder(power, path.parent)
    return Chosen(name, power, awareness, called, signals, own.explain, settings)


def power_of(scheduler: Scheduler) -> Power:
    """Return the power manager of a scenario; its paths are relative to the scenario's folder.

    Raises:
        ScenarioError: the settings are invalid; has the field, not file and line.
    """
    try:
        return parse_power(scheduler.power)
    except PowerSettingsError as error:
        field = f"{POWER}.{error.field}" if error.field else POWER
        hint = unit_hint(field, scheduler.power.get(error.field))
        raise ScenarioError(hint or error.what, field=field) from None


def awareness_of(scheduler: Scheduler) -> Awareness:
    """Return the power awareness of a scenario's job scheduler.

    Raises:
        ScenarioError: the setting is invalid; has the field, not file and line.
    """
    try:
        return parse_awareness(scheduler.power_awareness)
    except PolicyError as error:
        what = str(error).removeprefix("power_awareness: ")
        raise ScenarioError(what, field=f"{FIELD}.power_awareness") from None


def _check_agents(scheduler: Scheduler) -> None:
    for name, agent in scheduler.agents.items():
        try:
            check_trained(agent)
        except PolicyError as error:
            raise ScenarioError(str(error), field=f"{FIELD}.agents.{name}") from None


def _check_settings(own: Scheduler, scheduler: str | None) -> None:
    """Check the settings of the job scheduler. One that replaces the scenario's may ignore them."""
    name = canonical_name(scheduler or own.name)
    if not own.settings or (scheduler is not None and name not in SITES):
        return
    from hpcosim_schedulers.slurm.settings import SiteSettingsError

    try:
        check_settings(name, own.settings)
    except SiteSettingsError as error:
        field = f"{FIELD}.settings.{error.field}" if error.field else f"{FIELD}.settings"
        raise ScenarioError(error.what, field=field) from None


def _check_switching(scenario: Scenario, name: str, power: Power, awareness: Awareness) -> None:
    """Check that a power manager supports the scheduler, the platform and the rules."""
    if isinstance(power, AlwaysOn):
        return
    if all(group.power_states is None for group in scenario.platform.nodes):
        what = "this power manager switches nodes off; add power_states to a node group"
        raise ScenarioError(what, field=POWER)
    wakes_ahead = awareness in ("planned", "ipm") or isinstance(power, Oracle)
    if not (scenario.wake_on_allocation or wakes_ahead):
        raise ScenarioError(
            "this power manager switches nodes off, and with wake_on_allocation: false no job "
            "switches them on; set wake_on_allocation: true, power_awareness: planned or "
            "power: always-on",
            field=POWER,
        )
    try:
        check_together(name, power, awareness)
        match power:
            case Slurm():
                power.check(scenario.platform)
            case Oracle():
                from hpcosim_scenarios.planning.cheapest_switching import every_node

                every_node(scenario.platform)
    except (PolicyError, OracleError) as error:
        raise ScenarioError(str(error), field=POWER) from None


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
    changes = [{**overrides, POWER_PATH: each} for each in power] or [dict(overrides)]
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
        field = f"override {POWER_PATH}"
        if not named or not error.field.startswith(field):
            raise
        power, key = changed[POWER_PATH], error.field.removeprefix(field).removeprefix(".")
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
    """Return the power manager in a mapping."""
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
