"""The scenarios a server offers, and the simulations it opens from them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import load_scenario, located
from hpcosim_scenarios.model.jobs import jobs_of
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Lublin, Poisson, Sampled
from hpcosim_server.engine.simulation import Rules, Simulation
from hpcosim_server.errors import SessionRefused
from hpcosim_server.record.results import Run
from hpcosim_server.service.session import Opened
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

SWITCHING = 1  # sets the times of switching nodes apart from what else a seed draws

# What a client may not set from afar: the files of this machine, and what the run is called.
NOT_FROM_AFAR = (
    "name",
    "workload.swf",
    "workload.json",
    "workload.trace",
    "workload.synthetic.swf",
    "workload.synthetic.trace",
)
LISTS_NOT_FROM_AFAR = ("platform.nodes.", "workload.inline.")


class Library:
    """Scenarios by name, each read whole, jobs and all, when it is added.

    Args:
        paths: their files.
        overrides: values to change in all of them.
        max_jobs: a scenario of more jobs is refused.

    Raises:
        ScenarioError, WorkloadError: one can't be used.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        overrides: Overrides | None = None,
        max_jobs: int = 2_000_000,
    ) -> None:
        self._overrides = dict(overrides or {})
        self._max_jobs = max_jobs
        self._paths: dict[str, Path] = {}
        self._ready: dict[str, tuple[Scenario, JobTable]] = {}
        for path in paths:
            scenario, jobs = self._load(path, {})
            if scenario.name in self._paths:
                raise ScenarioError(f"there are two scenarios named {scenario.name!r}", path)
            self._paths[scenario.name] = path
            self._ready[scenario.name] = (scenario, jobs)

    @property
    def first(self) -> Scenario:
        """The scenario of a client that names none."""
        return next(iter(self._ready.values()))[0]

    @property
    def first_jobs(self) -> JobTable:
        """Its jobs."""
        return next(iter(self._ready.values()))[1]

    def open(self, hello: Hello) -> Opened:
        """Return the simulation a hello asks for.

        Raises:
            SessionRefused: there is no such scenario, or not with such changes.
        """
        name = hello.scenario or self.first.name
        if name not in self._ready:
            known = ", ".join(self._ready)
            raise SessionRefused("unknown_scenario", f"no scenario {name!r} here; there is {known}")
        scenario, jobs = self._ready[name]
        changes: dict[str, Any] = dict(hello.overrides)
        if hello.seed is not None:
            changes["seed"] = hello.seed
        if changes:
            scenario, jobs = self._changed(name, changes)
        return open_scenario(scenario, jobs, hello.client, self._max_jobs)

    def _changed(self, name: str, changes: dict[str, Any]) -> tuple[Scenario, JobTable]:
        for field in changes:
            if field in NOT_FROM_AFAR or field.startswith(LISTS_NOT_FROM_AFAR):
                raise SessionRefused("invalid_scenario", f"{field} can't be set by a client")
        try:
            return self._load(self._paths[name], changes)
        except ScenarioError as error:  # a client does not see the path of the file
            what = str(ScenarioError(error.what, field=error.field))
            raise SessionRefused("invalid_scenario", what) from None
        except WorkloadError as error:
            raise SessionRefused("invalid_scenario", error.what) from None

    def _load(self, path: Path, changes: Overrides) -> tuple[Scenario, JobTable]:
        scenario = load_scenario(path, self._overrides | dict(changes))
        synthetic = scenario.workload.synthetic
        # Of other models the jobs are counted as they are drawn.
        if isinstance(synthetic, Lublin | Poisson | Sampled) and synthetic.jobs > self._max_jobs:
            raise ScenarioError(f"has more than {self._max_jobs} jobs, the most allowed", path)
        try:
            jobs = jobs_of(scenario, path.parent, self._max_jobs)
        except ScenarioError as error:
            raise located(error, path) from None
        if not len(jobs):
            raise ScenarioError("has a workload without a single job", path)
        if len(jobs) > self._max_jobs:
            raise ScenarioError(f"has {len(jobs)} jobs; {self._max_jobs} are allowed", path)
        return scenario, jobs


def open_scenario(
    scenario: Scenario, jobs: JobTable, scheduler: str, max_jobs: int = 2_000_000
) -> Opened:
    """Return a new simulation of a scenario, with what `run.json` says of it."""
    run = Run(
        hpcosim=importlib.metadata.version("hpcosim"),
        scenario=scenario.name,
        scheduler=scheduler,
        seed=scenario.seed,
        skipped=jobs.skipped,
    )
    rules, chance = rules_of(scenario, max_jobs), switching_chance(scenario.seed)
    simulation = Simulation(scenario.platform, jobs, rules, chance)
    return Opened(simulation, run, len(jobs))


def switching_chance(seed: int) -> np.random.Generator:
    """Return what draws the times of switching nodes in a simulation of this seed."""
    return np.random.default_rng([seed, SWITCHING])


def rules_of(scenario: Scenario, max_jobs: int = 2_000_000) -> Rules:
    """Return what holds in a scenario's simulation, of so many jobs at the most."""
    return Rules(
        reference_ghz=scenario.workload.reference_clock_ghz,
        kill_at_walltime=scenario.kill_at_walltime,
        dynamic_jobs=scenario.dynamic_jobs,
        wake_on_allocation=scenario.wake_on_allocation,
        max_jobs=max_jobs,
    )
