"""The scenarios that a server offers, and the simulations of them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hpcosim_protocol import Hello
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.events import check_actions, failure_models, job_actions, node_changes
from hpcosim_scenarios.model.file import load_scenario, located
from hpcosim_scenarios.model.host_lists import names_of
from hpcosim_scenarios.model.jobs import SourceCache, drop_warnings, load_warnings, moved_s, shape
from hpcosim_scenarios.model.logs import source_of
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.series import (
    FILES,
    LoadedEconomics,
    check_dates,
    load_economics,
    moved_warnings,
    series_of,
    signals_of,
)
from hpcosim_scenarios.model.workload import Lublin, Poisson, Sampled
from hpcosim_server.errors import SessionRefused
from hpcosim_server.service.session import Opened
from hpcosim_sim.engine.signals import Signal
from hpcosim_sim.engine.simulation import Rules, Simulation
from hpcosim_sim.engine.site_events import NO_SITE_EVENTS, SiteEvents
from hpcosim_sim.record.economics import UNKNOWN, Rates
from hpcosim_sim.record.results import Run, WorkloadSource
from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_workloads.errors import WorkloadError
from hpcosim_workloads.table import JobTable

# Values of a scenario that the clients of a server may change.

# Paths that a client cannot set: files of the server's machine, and the name of the scenario.
SERVER_ONLY = (
    "name",
    "workload.swf",
    "workload.json",
    "workload.trace",
    "workload.synthetic.swf",
    "workload.synthetic.trace",
    "economics.tariff",
    "economics.series",
    *FILES,
)
SERVER_ONLY_LISTS = (
    "platform.nodes.",
    "platform.partitions.",
    "platform.reservations.",
    "platform.switches.",
    "workload.inline.",
    "failures.",
    "actions.",
)


ALWAYS = "normal"  # the QOS that exists even if it is not named
ROOT = "root"
MOST_NAMED = 5


def check_overrides(paths: Iterable[str], allowed: Sequence[str] | None) -> None:
    """Check that a client may change the values at paths.

    Args:
        paths: dotted paths in the scenario.
        allowed: patterns of the paths that clients may change, see `fnmatch`; None: all. The seed
            is always allowed; files of the server's machine never are.

    Raises:
        SessionRefused: it may not.
    """
    for path in paths:
        if path in SERVER_ONLY or path.startswith(SERVER_ONLY_LISTS):
            what = f"override {path}: only the server can set it"
            raise SessionRefused("invalid_scenario", what)
        if path == "seed" or allowed is None or any(fnmatchcase(path, one) for one in allowed):
            continue
        what = f"override {path}: this server does not allow it (limits.allow_override)"
        raise SessionRefused("invalid_scenario", what)


# Numbers of the random streams of a seed.
SWITCHING = 1
FAILURES = 4


class LoadedScenario(NamedTuple):
    """A scenario with its jobs, ready to be simulated.

    Attributes:
        source: the origin of the jobs; None: they are not those of the scenario.
        economics: price and carbon intensity of electricity; None: unknown.
        moved_s: time of the first selected job in the source, before the selection moved it to 0.
    """

    scenario: Scenario
    jobs: JobTable
    overrides: Overrides
    source: WorkloadSource | None
    economics: LoadedEconomics | None = None
    signals: tuple[Signal, ...] = ()
    moved_s: float = 0.0


class Library:
    """Scenarios by name. Each is read, with its jobs, when the library is made.

    Args:
        paths: the scenarios' files.
        overrides: values to change in all of them.
        max_jobs: a scenario with more jobs is refused.
        allowed: patterns of the paths that clients may override, such as `workload.load` and
            `scheduler.*` (see `fnmatch`); None: all but those of files of the server.
        first: the scenario in the first file after `overrides`, for a caller that has read it.
        sources: tables of jobs that are used again; None: those of this library.

    Raises:
        ScenarioError, WorkloadError: a scenario or its workload is invalid.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        overrides: Overrides | None = None,
        max_jobs: int = 2_000_000,
        allowed: Sequence[str] | None = None,
        first: Scenario | None = None,
        sources: SourceCache | None = None,
    ) -> None:
        self._allowed = allowed
        self._sources = SourceCache(max_jobs) if sources is None else sources
        self._overrides = dict(overrides or {})
        self._max_jobs = max_jobs
        self._paths: dict[str, Path] = {}
        self._loaded: dict[str, LoadedScenario] = {}
        for path in paths:
            loaded = self._load(path, {}, None if self._loaded else first)
            name = loaded.scenario.name
            if name in self._paths:
                what = f"name: {self._paths[name]} has the same name, {name!r}; rename one of them"
                raise ScenarioError(what, path)
            self._paths[name] = path
            self._loaded[name] = loaded

    @property
    def names(self) -> list[str]:
        """The names of the scenarios, that of `default` first."""
        return list(self._loaded)

    @property
    def default(self) -> LoadedScenario:
        """The first scenario, for clients that name none."""
        return next(iter(self._loaded.values()))

    @property
    def first(self) -> Scenario:
        """The scenario of `default`."""
        return self.default.scenario

    @property
    def first_jobs(self) -> JobTable:
        """The jobs of `default`."""
        return self.default.jobs

    def open(self, hello: Hello) -> Opened:
        """Return the simulation that a hello requests.

        Raises:
            SessionRefused: the scenario is unknown, or an override is invalid.
        """
        name = hello.scenario or self.first.name
        if name not in self._loaded:
            known = ", ".join(self._loaded)
            what = f"scenario: expected one of {known}, got {name!r}"
            raise SessionRefused("unknown_scenario", what)
        loaded = self._loaded[name]
        changes: dict[str, Any] = dict(hello.overrides)
        if hello.seed is not None:
            changes["seed"] = hello.seed
        if changes:
            loaded = self._changed(name, changes)
        opened = open_loaded(loaded, hello.client, self._max_jobs)
        return replace(opened, file=str(self._paths[name].absolute()))

    def _changed(self, name: str, changes: dict[str, Any]) -> LoadedScenario:
        check_overrides(changes, self._allowed)
        try:
            return self._load(self._paths[name], changes)
        except ScenarioError as error:  # a client does not see the path of the file
            what = str(ScenarioError(error.what, field=error.field))
            raise SessionRefused("invalid_scenario", what) from None
        except WorkloadError as error:
            raise SessionRefused("invalid_scenario", error.what) from None

    def _load(
        self, path: Path, changes: Overrides, scenario: Scenario | None = None
    ) -> LoadedScenario:
        overrides = {**self._overrides, **changes}
        scenario = scenario or load_scenario(path, overrides)
        workload = scenario.workload
        # Of other models the jobs are counted as they are drawn.
        if isinstance(workload.synthetic, Lublin | Poisson | Sampled):
            self._check_count(workload.synthetic.jobs, path)
        try:
            table = self._sources.jobs(scenario, path.parent)
            loaded = load_with(scenario, path.parent, table)
        except ScenarioError as error:
            raise located(error, path, overrides) from None
        self._check_count(len(loaded.jobs), path)
        source = source_of(workload, path.parent, len(table), len(loaded.jobs))
        return loaded._replace(overrides=overrides, source=source)

    def _check_count(self, jobs: int, path: Path) -> None:
        if jobs > self._max_jobs:
            most = f"{self._max_jobs} jobs (limits.max_jobs, limits.max_total_jobs)"
            raise ScenarioError(f"workload: expected at most {most}, got {jobs}", path)


def load_with(scenario: Scenario, folder: Path, table: JobTable) -> LoadedScenario:
    """Return a scenario with its jobs and the content of its files, without their origin.

    Raises:
        ScenarioError: a file is invalid, or no job is left; has the field, not file and line.
        WorkloadError: a file cannot be read, or no job is selected.
    """
    jobs = shape(table, scenario.workload)
    if not len(jobs):
        raise ScenarioError("expected at least one job, got 0", field="$.workload")
    section = scenario.economics
    economics = load_economics(section, folder) if section else None
    rates = economics.rates if economics else UNKNOWN
    start = section.start if section else None
    signals = signals_of(scenario.signals, folder, scenario.seed, rates, start)
    check_dates(scenario, series_of(scenario, rates, signals))
    check_site_events(scenario, table)
    moved = moved_s(table, scenario.workload)
    return LoadedScenario(scenario, jobs, {}, None, economics, signals, moved)


def scenario_warnings(loaded: LoadedScenario) -> list[str]:
    """Return the warnings about a scenario that is probably not what the user wanted."""
    scenario, jobs, rates = loaded.scenario, loaded.jobs, UNKNOWN
    if loaded.economics is not None:
        rates = loaded.economics.rates
    return [
        *load_warnings(scenario, jobs),
        *drop_warnings(scenario, jobs),
        *site_warnings(scenario, jobs),
        *moved_warnings(scenario, series_of(scenario, rates, loaded.signals), loaded.moved_s),
    ]


def open_loaded(loaded: LoadedScenario, scheduler: str, max_jobs: int = 2_000_000) -> Opened:
    """Return a new simulation of a scenario, with the full content of `run.json`.

    Args:
        scheduler: name of the policy in results.
        max_jobs: maximum number of jobs, those that the client submits included.
    """
    rates, _ = loaded.economics or (UNKNOWN, None)
    opened = open_scenario(loaded.scenario, loaded.jobs, scheduler, max_jobs, rates, loaded.signals)
    _add_origin(opened.run, loaded)
    return opened


def about_loaded(loaded: LoadedScenario, scheduler: str) -> Run:
    """Return the content of `run.json` before the run.

    Args:
        loaded: the scenario with its jobs.
        scheduler: name of the policy in results.
    """
    run = _about(loaded.scenario, loaded.jobs, scheduler)
    _add_origin(run, loaded)
    return run


def _add_origin(run: Run, loaded: LoadedScenario) -> None:
    """Add what `run.json` has of the files and overrides of a scenario."""
    run.economics = loaded.economics.source if loaded.economics else None
    run.overrides = loaded.overrides
    run.workload_source = loaded.source
    run.warnings = scenario_warnings(loaded)


def open_scenario(
    scenario: Scenario,
    jobs: JobTable,
    scheduler: str,
    max_jobs: int = 2_000_000,
    rates: Rates = UNKNOWN,
    signals: Iterable[Signal] = (),
) -> Opened:
    """Return a new simulation of a scenario.

    Args:
        jobs: the jobs to simulate; the workload section is not read.
        scheduler: name of the policy in results.
        max_jobs: maximum number of jobs, those that the client submits included.
        rates: price and carbon intensity of electricity; the economics section is not read.
        signals: the signals to simulate; the signals section is not read.
    """
    rules, chance = rules_of(scenario, max_jobs), switching_chance(scenario.seed)
    simulation = Simulation(
        scenario.platform,
        jobs,
        rules,
        chance,
        rates,
        signals,
        site_events_of(scenario, jobs),
        failure_chance(scenario.seed),
    )
    about, span_s = _about(scenario, jobs, scheduler), _span_s(jobs, simulation.start_s)
    return Opened(simulation, about, len(jobs), span_s)


def _about(scenario: Scenario, jobs: JobTable, scheduler: str) -> Run:
    return Run(
        hpcosim=hpcosim_version(),
        scenario=scenario.name,
        scheduler=scheduler,
        seed=scenario.seed,
        effective_scenario=msgspec.to_builtins(scenario),
        skipped=jobs.skipped,
    )


def _span_s(jobs: JobTable, start_s: float) -> float:
    """Return the time from the start to the end of the last job if no job waited, s."""
    return float((jobs.submit_s + jobs.run_s).max()) - start_s if len(jobs) else 0.0


def switching_chance(seed: int) -> np.random.Generator:
    """Return the random number generator for the times of switching nodes."""
    return np.random.default_rng([seed, SWITCHING])


def failure_chance(seed: int) -> np.random.Generator:
    """Return the random number generator for failures and repairs of nodes."""
    return np.random.default_rng([seed, FAILURES])


def rules_of(scenario: Scenario, max_jobs: int = 2_000_000) -> Rules:
    """Return the rules of a scenario's simulation."""
    return Rules(
        reference_ghz=scenario.workload.reference_clock_ghz,
        kill_at_walltime=scenario.kill_at_walltime,
        dynamic_jobs=scenario.dynamic_jobs,
        wake_on_allocation=scenario.wake_on_allocation,
        stuck_after_wakeups=scenario.stuck_after_wakeups,
        max_jobs=max_jobs,
    )


def site_events_of(scenario: Scenario, jobs: JobTable) -> SiteEvents:
    """Return the failures and actions of a scenario.

    Args:
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

    Raises:
        ScenarioError: one does not; has the field, not file and line.
    """
    if scenario.actions:
        check_actions(scenario.actions, jobs)
    if scenario.failures is not None:
        site_events_of(scenario, jobs)


def site_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return warnings about accounts that nothing uses and QOS of partitions that do not exist."""
    settings = scenario.scheduler.settings
    if not settings:
        return []
    return [
        *_unused_accounts(_mapping(settings, "accounts"), jobs),
        *_unknown_qos(scenario, _mapping(settings, "qos")),
    ]


def _unused_accounts(accounts: Mapping[str, Any], jobs: JobTable) -> Iterator[str]:
    """Yield a warning for the accounts without users, accounts below and jobs."""
    parents = {_mapping(accounts, name).get("parent", ROOT) for name in accounts}
    used = {jobs.names["account"][code] for code in set(jobs.account.tolist())}
    idle = [
        name
        for name in accounts
        if not _mapping(_mapping(accounts, name), "users")
        and name not in parents
        and name not in used
        and name != ROOT
    ]
    if idle:
        others = [name for name in accounts if name not in idle] + sorted(used - {""})
        what = "an account has" if len(idle) == 1 else f"{len(idle)} accounts have"
        yield f"scheduler.settings.accounts: {what} neither users nor jobs: {_few(idle, others)}"


def _unknown_qos(scenario: Scenario, described: Mapping[str, Any]) -> Iterator[str]:
    """Yield a warning for each partition that names QOS without settings."""
    known = (ALWAYS, *described)
    for partition in scenario.platform.partitions:
        own = (partition.qos, *partition.allow_qos, *partition.deny_qos)
        unknown = [name for name in dict.fromkeys(own) if name and name not in known]
        if unknown:
            yield (
                f"the partition {partition.name} names QOS that scheduler.settings.qos lacks, so "
                f"that they have no limits: {_few(unknown, known)}"
            )


def _few(names: Collection[str], known: Collection[str]) -> str:
    """Return some of the names, each with the one that is probably meant."""
    texts = []
    for name in list(names)[:MOST_NAMED]:
        near = difflib.get_close_matches(name, known, n=1)
        texts.append(f"{name!r}{f' (did you mean {near[0]!r}?)' if near else ''}")
    return ", ".join(texts) + (", ..." if len(names) > MOST_NAMED else "")


def _mapping(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = values.get(name)
    return found if isinstance(found, Mapping) else {}
