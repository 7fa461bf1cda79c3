"""Whether a scenario's power manager fits its scheduler and its platform."""

from __future__ import annotations

from hpcosim_client import PolicyError
from hpcosim_client.catalogue.power import Oracle, check_together
from hpcosim_client.power.slurm_settings import Slurm
from hpcosim_scenarios.errors import OracleError, ScenarioError
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.oracle_nodes import every_node

FIELD = "$.scheduler.power"


def check_power(scenario: Scenario) -> None:
    """Make sure that it does. Files it names are not opened: they may be of another machine.

    Raises:
        ScenarioError: it does not; names the field.
    """
    power = scenario.scheduler.power
    try:
        check_together(power, scenario.scheduler.power_awareness)
        match power:
            case Slurm():
                power.check(scenario.platform)
            case Oracle():
                every_node(scenario.platform)
    except (PolicyError, OracleError) as error:
        raise ScenarioError(str(error), field=FIELD) from None
