"""What happens in a scenario without the scheduler: failures of nodes and actions on jobs."""

from __future__ import annotations

from hpcosim_scenarios.model.actions import check_actions, job_actions
from hpcosim_scenarios.model.failures import failure_models, node_changes
from hpcosim_scenarios.model.host_lists import names_of
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_sim.engine.site_events import NO_SITE_EVENTS, SiteEvents
from hpcosim_workloads.table import JobTable


def site_events_of(scenario: Scenario, jobs: JobTable) -> SiteEvents:
    """Return the failures and actions of a scenario.

    Args:
        scenario: the scenario.
        jobs: the jobs of the run; actions on other jobs are left out.

    Raises:
        ScenarioError: a host list is invalid; has the field, not file and line.
    """
    failures = scenario.failures
    if failures is None and not scenario.actions:
        return NO_SITE_EVENTS
    actions = tuple(job_actions(scenario.actions, jobs))
    if failures is None:
        return SiteEvents(job_actions=actions)
    names = names_of(scenario.platform)
    return SiteEvents(
        tuple(node_changes(failures, names)), actions, tuple(failure_models(failures, names))
    )


def check_site_events(scenario: Scenario, jobs: JobTable) -> None:
    """Check that failures name nodes of the platform, and actions jobs of the workload.

    Args:
        scenario: the scenario.
        jobs: the jobs of the source, before a selection.

    Raises:
        ScenarioError: one does not; has the field, not file and line.
    """
    if scenario.actions:
        check_actions(scenario.actions, jobs)
    if scenario.failures is not None:
        site_events_of(scenario, jobs)
