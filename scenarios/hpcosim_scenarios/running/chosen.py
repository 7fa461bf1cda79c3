"""Who schedules a run: a job scheduler and the power manager beside it.

Here the client validates the scheduler's settings of a scenario, which `model` reads as plain data.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hpcosim_client import Policy, PolicyError, make_policy
from hpcosim_client.catalogue import policy_files
from hpcosim_client.catalogue.description import describe
from hpcosim_client.catalogue.power import check_together, from_folder, title, with_power
from hpcosim_client.catalogue.schedulers import canonical_name
from hpcosim_client.catalogue.trained import check_trained
from hpcosim_client.heuristics.awareness import Awareness, parse_awareness
from hpcosim_client.power.settings import (
    AlwaysOn,
    Oracle,
    Power,
    PowerSettingsError,
    as_text,
    parse_power,
)
from hpcosim_client.power.slurm_settings import Slurm
from hpcosim_scenarios.errors import OracleError, ScenarioError
from hpcosim_scenarios.model.file import located
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.scheduler import Scheduler
from hpcosim_scenarios.model.units import unit_hint
from hpcosim_scenarios.planning.oracle_nodes import every_node

FIELD = "$.scheduler"
POWER = f"{FIELD}.power"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A job scheduler and a power manager, by name.

    Attributes:
        name: the job scheduler.
        power: the manager; its paths start at the current folder.
        awareness: how the job scheduler treats nodes that are not on.
        called: the name a person used: for a trained scheduler the one that the scenario gives it.
    """

    name: str
    power: Power
    awareness: Awareness
    called: str

    @property
    def title(self) -> str:
        """The name of both in results."""
        return title(self.name, self.power, self.awareness)

    @property
    def needs_plan(self) -> bool:
        """Whether the manager is an oracle without a plan."""
        return self.power == Oracle()

    def policy(self) -> Policy:
        """Return a new policy.

        Raises:
            PolicyError: as `with_power`.
        """
        return with_power(self.name, self.power, self.awareness)

    def description(self) -> dict[str, object]:
        """Return the description of the policy for `run.json`.

        Raises:
            PolicyError: a file of the policy can't be read.
        """
        return describe(self.name, self.power, self.awareness)

    def check(self) -> None:
        """Make sure that there is such a policy, except for its plan.

        Raises:
            PolicyError: there is none.
        """
        if self.needs_plan:
            make_policy(self.name)
        else:
            self.policy()

    def options(self) -> list[str]:
        """Return the options of `hpcosim schedule`, beside the name, that choose the same."""
        return ["--power", as_text(self.power), "--power-awareness", self.awareness]


def chosen_by(scenario: Scenario, path: Path, scheduler: str | None = None) -> Chosen:
    """Return who schedules a scenario.

    Files that the settings name are not opened: `Chosen.check` does that.

    Args:
        scenario: the scenario.
        path: its file.
        scheduler: a job scheduler instead of the scenario's own.

    Raises:
        ScenarioError: a setting of the scheduler is at fault, or does not go with the others or
            with the platform; names the line and the field.
    """
    own = scenario.scheduler
    try:
        power, awareness = power_of(own), awareness_of(own)
        _check_agents(own)
        _check_switching(scenario, power, awareness)
    except ScenarioError as error:
        raise located(error, path) from None
    called = scheduler or own.name
    called = name = called if called in own.agents else canonical_name(called)
    if called in own.agents:
        kind, _, model = own.agents[called].partition(":")
        name = f"{kind}:{path.parent / model}"
    elif scheduler is None:
        name = policy_files.from_folder(name, path.parent)
    return Chosen(name, from_folder(power, path.parent), awareness, called)


def power_of(scheduler: Scheduler) -> Power:
    """Return the power manager of a scenario's scheduler; its paths start at the scenario's folder.

    Raises:
        ScenarioError: the settings describe none; names the field, not file and line.
    """
    try:
        return parse_power(scheduler.power)
    except PowerSettingsError as error:
        field = f"{POWER}.{error.field}" if error.field else POWER
        hint = unit_hint(field, scheduler.power.get(error.field))
        raise ScenarioError(hint or error.what, field=field) from None


def awareness_of(scheduler: Scheduler) -> Awareness:
    """Return how a scenario's job scheduler treats nodes that are not on.

    Raises:
        ScenarioError: it is none of `Awareness`; names the field, not file and line.
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


def _check_switching(scenario: Scenario, power: Power, awareness: Awareness) -> None:
    """Make sure that a power manager goes with its scheduler, the platform and the rules.

    Raises:
        ScenarioError: it does not; names the field, not file and line.
    """
    if isinstance(power, AlwaysOn):
        return
    if all(group.power_states is None for group in scenario.platform.nodes):
        what = "the manager switches nodes off, but no node group states its power_states"
        raise ScenarioError(what, field=POWER)
    wakes_ahead = awareness == "planned" or isinstance(power, Oracle)
    if not (scenario.wake_on_allocation or wakes_ahead):
        raise ScenarioError(
            "the manager switches nodes off, but with wake_on_allocation: false nothing switches "
            "them on for a job; state wake_on_allocation: true, or no power, or "
            "power_awareness: planned",
            field=POWER,
        )
    try:
        check_together(power, awareness)
        match power:
            case Slurm():
                power.check(scenario.platform)
            case Oracle():
                every_node(scenario.platform)
    except (PolicyError, OracleError) as error:
        raise ScenarioError(str(error), field=POWER) from None
