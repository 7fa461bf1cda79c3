"""The policy of a run: a job scheduler and a power manager.

The client validates the settings of the scenario's `scheduler` section here; `model` reads them as
plain data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from hpcosim_client import Policy, PolicyError
from hpcosim_protocol.units import unit_hint
from hpcosim_scenarios.errors import OracleError, ScenarioError
from hpcosim_scenarios.model.file import located
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario, Scheduler
from hpcosim_scenarios.model.signals import Signals, names_of
from hpcosim_schedulers import make_policy
from hpcosim_schedulers.catalogue import policy_files
from hpcosim_schedulers.catalogue.description import describe, policy_file
from hpcosim_schedulers.catalogue.policy_files import is_policy_file, modules_beside, split_name
from hpcosim_schedulers.catalogue.power import check_together, from_folder, title, with_power
from hpcosim_schedulers.catalogue.schedulers import RECORDED, canonical_name
from hpcosim_schedulers.catalogue.signal_policies import check_signal, follows_signal
from hpcosim_schedulers.catalogue.site_policies import SITES, check_settings
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
        """Return the same policy with its files at other places.

        Args:
            moved: returns the place of a file.
        """
        name = self.name
        if (own := policy_file(name)) is not None:
            place = moved(own)
            if is_policy_file(name):
                name = f"{place}:{split_name(name)[1]}"
            else:
                name = f"{name.partition(':')[0]}:{place}"
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

    Args:
        scenario: the scenario.
        path: the scenario's file.
        scheduler: a job scheduler that replaces the scenario's.
        overrides: the overrides of the scenario, for messages.

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
    """Check the settings of the job scheduler. One that replaces the scenario's may ignore them.

    Raises:
        ScenarioError: one is invalid, or the scheduler takes none; has the field.
    """
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
    """Check that a power manager supports the scheduler, the platform and the rules.

    Raises:
        ScenarioError: it does not; has the field, not file and line.
    """
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
