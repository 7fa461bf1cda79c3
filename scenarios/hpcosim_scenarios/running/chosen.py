"""Who schedules a run: a job scheduler and the power manager beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hpcosim_client import Policy, make_policy
from hpcosim_client.catalogue.power import Oracle, Power, as_text, from_folder, title, with_power
from hpcosim_client.heuristics.power_aware import Awareness
from hpcosim_client.power.oracle import write_plan
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.planning.oracle import plan_of
from hpcosim_workloads.table import JobTable

PLAN = "plan.json"


@dataclass(frozen=True, slots=True)
class Chosen:
    """They, by name.

    Attributes:
        name: the job scheduler.
        called: what a person called it, by the scenario's own name for a trained one.
        power: the manager; its paths are from the current folder.
        awareness: what the job scheduler makes of nodes that are not on.
    """

    name: str
    power: Power
    awareness: Awareness
    called: str

    @property
    def title(self) -> str:
        """What results call them."""
        return title(self.name, self.power, self.awareness)

    @property
    def needs_plan(self) -> bool:
        """Whether they are an oracle that has yet to look into the future."""
        return self.power == Oracle()

    def policy(self) -> Policy:
        """Return a new policy.

        Raises:
            PolicyError: as `with_power`.
        """
        return with_power(self.name, self.power, self.awareness)

    def check(self) -> None:
        """Make sure that there is such a policy, but for a plan.

        Raises:
            PolicyError: there is none.
        """
        if self.needs_plan:
            make_policy(self.name)
        else:
            self.policy()

    def options(self) -> list[str]:
        """Return the options of `hpcosim schedule` that say so much, but for the name."""
        return ["--power", as_text(self.power), "--power-awareness", self.awareness]


def chosen_by(scenario: Scenario, folder: Path, scheduler: str | None = None) -> Chosen:
    """Return who schedules a scenario.

    Args:
        scenario: it.
        folder: where its file lies.
        scheduler: instead of its own.
    """
    own = scenario.scheduler
    called = name = scheduler or own.name
    if called in own.agents:
        kind, _, model = own.agents[called].partition(":")
        name = f"{kind}:{folder / model}"
    return Chosen(name, from_folder(own.power, folder), own.power_awareness, called)


@contextmanager
def with_plan(
    chosen: Chosen, scenario: Scenario, jobs: JobTable, out: Path | None
) -> Iterator[Chosen]:
    """Make a plan for an oracle that has none, and keep it with the results if all goes well.

    Args:
        chosen: who schedules; one that needs no plan comes back as it is.
        scenario: what the plan is for.
        jobs: its jobs.
        out: the results folder; None: nothing is kept.

    Raises:
        As `plan_of`; PolicyError: the plan can't be written.
    """
    if not chosen.needs_plan:
        yield chosen
        return
    plan = plan_of(scenario, jobs, chosen.name).plan
    with TemporaryDirectory(prefix="hpcosim-") as scratch:
        file = Path(scratch) / PLAN
        write_plan(plan, file)
        yield replace(chosen, power=Oracle(str(file)))
    if out is not None:
        write_plan(plan, out / PLAN)
