"""Run a scenario with several schedulers and power managers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, NamedTuple, get_args

from hpcosim_client import PolicyError
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.file import scenario_tree
from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running import Transport
from hpcosim_scenarios.running.in_process import shown
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.policies import (
    ComparedPolicy,
    PowerSettings,
    baseline_warnings,
    compared_policies,
    find_policy,
    switching_warnings,
)
from hpcosim_scenarios.running.results import Format, incomplete_results_named, is_incomplete
from hpcosim_scenarios.running.run import default_folder, run_chosen, run_scenario
from hpcosim_scenarios.running.warnings import (
    Warn,
    check_seed,
    ignore_warning,
    once,
    signal_warnings,
)
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.folder import prepare

Metrics = dict[str, int | float]
OnResult = Callable[[str, Mapping[str, int | float]], None]
"""Takes the name of a policy in the comparison and its metrics."""


YEAR_S = 365 * 86_400.0
LEAST_DELAY_S = 1e-6
"""Differences of waits below are rounding errors, s."""


SAVED = ("energy_kwh", "energy_cost", "co2_kg")
WAITS = ("mean_wait_s", "p95_wait_s", "max_wait_s")


GroupedBy = Literal["partition", "account", "user", "group", "qos"]
"""Column of `jobs.csv` by which jobs are grouped."""

GROUPED_BY: tuple[GroupedBy, ...] = get_args(GroupedBy)
NO_NAME = "(none)"

Group = Mapping[str, int | float]
Groups = Mapping[str, Mapping[str, Group]]
"""Figures of each group, by kind and name of the group; see `groups_of`."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of a comparison.

    Attributes:
        metrics: the metrics of each policy, by its name.
        baseline: name of the policy with which the others are compared; empty: none.
        savings: what each other policy saves and how much longer jobs wait, by name; see
            `savings_of`. Empty without a baseline.
        groups: waits by user, account and so on of each policy; see `groups_of`. Empty if none were
            asked for.
    """

    metrics: dict[str, Metrics]
    baseline: str = ""
    savings: Mapping[str, Metrics] = field(default_factory=dict)
    groups: Mapping[str, Groups] = field(default_factory=dict)


def compare_schedulers(
    path: Path, schedulers: Sequence[str] | None = None, **options: Any
) -> dict[str, Metrics]:
    """Run a scenario with several schedulers, and return the metrics by name.

    Args:
        path: the scenario's file.
        schedulers: names of schedulers or of groups of them; None: the scenario's.
        options: as for `compare_policies`, whose errors it raises.
    """
    return compare_policies(path, schedulers, **options).metrics


def compare_policies(
    path: Path,
    schedulers: Sequence[str] | None = None,
    *,
    power: Sequence[PowerSettings] = (),
    baseline: str = "",
    by: Sequence[GroupedBy] = (),
    transport: Transport = "inproc",
    out: Path | None = None,
    force: bool = False,
    overrides: Overrides | None = None,
    formats: Sequence[Format] = (),
    warn: Warn = ignore_warning,
    on_result: OnResult = lambda name, metrics: None,
) -> Comparison:
    """Run a scenario with several schedulers, each with several power managers.

    Args:
        path: the scenario's file.
        schedulers: names of schedulers or of groups of them; None: the scenario's.
        power: power managers, by name or as mappings of `name` and settings; empty: the scenario's.
            Paths in them are relative to the scenario's folder.
        baseline: the policy with which the others are compared: its name in the comparison, or the
            name of a scheduler or power manager that only it has. Empty: none.
        by: kinds of groups of jobs, of which waits are returned.
        transport: as for `run_scenario`.
        out: folder for the results, with a folder for each policy. None: with `inproc` no results
            are written, with `ipc` and `tcp` they are written to `results/SCENARIO-POLICY`.
        force: replace the results in folders that are not empty; not needed for the results of a
            run that did not complete.
        overrides: values to change in the scenario, by dotted path.
        formats: additional formats of results.
        warn: called with each warning; a warning about several policies comes once.
        on_result: called with the name and the metrics of a policy when its run has ended, even if
            its results cannot be written.

    Raises:
        PolicyError: a policy cannot be made, or the baseline is not one of them.
        ScenarioError, WorkloadError, OracleError, RunError, ResultsFolderError, ResultsError: as
            `run_scenario`.
    """
    policies = compared_policies(path, schedulers, power, overrides or {})
    base = find_policy(baseline, policies) if baseline else ""
    warn = once(warn)
    for warning in [*_warnings(path, policies), *baseline_warnings(base, policies)]:
        warn(warning)
    run = _runner(path, transport, overrides, formats, warn, keeps=out is not None)
    with _folders(policies, out, transport, force=force, needed=bool(base or by)) as folders:
        return _compared(zip(policies, folders, strict=True), run, on_result, base, by)


def _compared(
    policies: Iterable[tuple[ComparedPolicy, Path | None]],
    run: Run,
    on_result: OnResult,
    base: str,
    by: Sequence[GroupedBy],
) -> Comparison:
    """Run policies, and compare their results."""
    metrics, outcomes, groups = {}, {}, {}
    for policy, folder in policies:
        try:
            metrics[policy.name] = run(policy, folder)
        except ResultsError as error:
            if error.metrics is not None:
                on_result(policy.name, error.metrics)
            raise
        on_result(policy.name, metrics[policy.name])
        if base and folder is not None:
            outcomes[policy.name] = outcome_of(folder, metrics[policy.name])
        if by and folder is not None:
            groups[policy.name] = groups_of(folder, by)
    savings = {
        name: savings_of(outcome, outcomes[base])
        for name, outcome in outcomes.items()
        if name != base
    }
    return Comparison(metrics, base, savings, groups)


def _warnings(path: Path, policies: Sequence[ComparedPolicy]) -> Iterator[str]:
    """Yield the warnings about the policies, before the first run."""
    yield from switching_warnings(policies)
    for policy in policies:
        yield from signal_warnings(policy.scenario, path, policy.chosen, policy.overrides)


Run = Callable[[ComparedPolicy, Path | None], Metrics]


def _runner(
    path: Path,
    transport: Transport,
    overrides: Overrides | None,
    formats: Sequence[Format],
    warn: Warn,
    *,
    keeps: bool,
) -> Run:
    """Return the function that runs a policy and returns its metrics."""
    if transport == "inproc":
        loaded = Library([path], overrides).default
        return partial(_run_in_process, loaded, formats, warn, keeps)
    return partial(_run_over, transport, path, formats, warn)


def _run_in_process(
    loaded: LoadedScenario,
    formats: Sequence[Format],
    warn: Warn,
    keeps: bool,
    policy: ComparedPolicy,
    folder: Path | None,
) -> Metrics:
    scenario, overrides = policy.scenario, policy.overrides
    check_seed(scenario, overrides, policy.chosen.name, warn)
    with (
        incomplete_results_named(folder, warn) if folder and keeps else nullcontext(),
        shown(f"{scenario.name} {policy.name}") as report,
    ):
        # The power manager has no effect on the jobs.
        own = loaded._replace(scenario=scenario, overrides=overrides)
        return run_chosen(policy.chosen, own, folder, report, formats, warn).metrics


def _run_over(
    transport: Transport,
    path: Path,
    formats: Sequence[Format],
    warn: Warn,
    policy: ComparedPolicy,
    folder: Path | None,
) -> Metrics:
    metrics, _ = run_scenario(
        path,
        scheduler=policy.scheduler,
        transport=transport,
        out=folder,
        force=True,  # the folders are checked before the first run
        overrides=policy.overrides,
        formats=formats,
        warn=warn,
    )
    return metrics


@contextmanager
def _folders(
    policies: Sequence[ComparedPolicy],
    out: Path | None,
    transport: Transport,
    *,
    force: bool,
    needed: bool,
) -> Iterator[list[Path] | list[None]]:
    """Check and yield the results folder of each policy; None: no results are written."""
    if out is None and transport == "inproc":
        if not needed:
            yield [None] * len(policies)
            return
        with TemporaryDirectory(prefix="hpcosim-") as scratch:
            yield [Path(scratch) / policy.folder for policy in policies]
        return
    folders = [
        default_folder(policy.scenario, policy.folder) if out is None else out / policy.folder
        for policy in policies
    ]
    for folder in folders:
        prepare(folder, force=force or is_incomplete(folder))
    yield folders


class Outcome(NamedTuple):
    """What a comparison needs of a run."""

    metrics: Metrics
    waits_s: Mapping[int, float]


def outcome_of(folder: Path, metrics: Metrics) -> Outcome:
    """Return the outcome of a run with results in a folder."""
    waits_s = {
        int(job["job_id"]): float(job["start_s"]) - float(job["submit_s"])
        for job in _started_jobs(folder)
    }
    return Outcome(metrics, waits_s)


def _started_jobs(folder: Path) -> Iterator[Mapping[str, str]]:
    """Yield the rows of `jobs.csv` of the jobs that started."""
    with (folder / "jobs.csv").open(encoding="utf-8", newline="") as file:
        yield from (job for job in csv.DictReader(file) if job["start_s"])


def savings_of(outcome: Outcome, baseline: Outcome) -> dict[str, int | float]:
    """Return what a policy saves against a baseline, and how much longer jobs wait.

    Returns:
        saved_energy_kwh: Energy of the baseline - energy of the policy, kWh.
        saved_energy_cost: Cost of the baseline - cost of the policy, in the currency of the
            scenario. Only with a price.
        saved_co2_kg: Emissions of the baseline - emissions of the policy, kg of CO2. Only with a
            carbon intensity.
        saved_energy_share: Saved energy / energy of the baseline.
        saved_energy_kwh_per_year: Saved energy of a year of such jobs, kWh: saved_energy_kwh * 365
            days / makespan of the baseline. Like the two below, it is absent if that is 0.
        saved_energy_cost_per_year: Saved cost of a year of such jobs, in the currency.
        saved_co2_kg_per_year: Saved emissions of a year of such jobs, kg of CO2.
        extra_mean_wait_s: Mean wait of the policy - mean wait of the baseline, s.
        extra_p95_wait_s: The same for the 95th percentile of the wait, s.
        extra_max_wait_s: The same for the longest wait, s.
        jobs_compared: Number of jobs that started in both runs.
        jobs_delayed: Number of them that wait longer than with the baseline.
        longest_delay_s: Largest increase of the wait of a job, s; 0: no job waits longer.
        longest_delay_job_id: Id of that job. Absent if no job waits longer.
    """
    ours, theirs = outcome.metrics, baseline.metrics
    saved = {name: theirs[name] - ours[name] for name in SAVED if name in theirs}
    found = {f"saved_{name}": value for name, value in saved.items()}
    total_kwh = theirs["energy_kwh"]
    found["saved_energy_share"] = saved["energy_kwh"] / total_kwh if total_kwh else 0.0
    if theirs["makespan_s"]:
        scale = YEAR_S / theirs["makespan_s"]
        found |= {f"saved_{name}_per_year": value * scale for name, value in saved.items()}
    found |= {f"extra_{name}": ours[name] - theirs[name] for name in WAITS}
    return found | _delays(outcome, baseline)


def _delays(outcome: Outcome, baseline: Outcome) -> dict[str, int | float]:
    """Return the increases of waits, job by job."""
    before_s = baseline.waits_s
    delays_s = {
        job: wait_s - before_s[job] for job, wait_s in outcome.waits_s.items() if job in before_s
    }
    delayed = {job: delay_s for job, delay_s in delays_s.items() if delay_s > LEAST_DELAY_S}
    found: dict[str, int | float] = {
        "jobs_compared": len(delays_s),
        "jobs_delayed": len(delayed),
        "longest_delay_s": max(delayed.values(), default=0.0),
    }
    if delayed:
        found["longest_delay_job_id"] = max(delayed, key=delayed.__getitem__)
    return found


def groups_of(folder: Path, by: Sequence[GroupedBy]) -> dict[str, dict[str, dict[str, float]]]:
    """Return figures of the jobs of a run, by user, account and so on.

    Returns:
        For each kind and each name:

        - `jobs`: number of jobs that started.
        - `mean_wait_s`: mean time from submission to start, s.
        - `max_wait_s`: longest such time, s.
        - `core_hours`: cores times run time of these jobs, core-hours.

        Groups in order of their core-hours, the largest first.
    """
    found: dict[str, dict[str, dict[str, float]]] = {kind: {} for kind in by}
    for job in _started_jobs(folder):
        wait_s = float(job["start_s"]) - float(job["submit_s"])
        run_s = float(job["end_s"]) - float(job["start_s"]) if job["end_s"] else 0.0
        for kind, groups in found.items():
            name = job.get(kind) or NO_NAME
            _add(groups.setdefault(name, {}), wait_s, run_s * float(job["cores"]) / 3600.0)
    return {kind: _ordered(groups) for kind, groups in found.items()}


def _add(group: dict[str, float], wait_s: float, core_hours: float) -> None:
    group["jobs"] = group.get("jobs", 0) + 1
    group["mean_wait_s"] = group.get("mean_wait_s", 0.0) + wait_s  # the sum until `_ordered`
    group["max_wait_s"] = max(group.get("max_wait_s", 0.0), wait_s)
    group["core_hours"] = group.get("core_hours", 0.0) + core_hours


def _ordered(groups: Mapping[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    for group in groups.values():
        group["mean_wait_s"] /= group["jobs"]
    return dict(sorted(groups.items(), key=lambda each: (-each[1]["core_hours"], each[0])))


def compare_platforms(
    path: Path,
    platforms: Sequence[Path],
    schedulers: Sequence[str] | None = None,
    *,
    out: Path | None = None,
    overrides: Overrides | None = None,
    on_result: OnResult = lambda name, metrics: None,
    **options: Any,
) -> Comparison:
    """Run a scenario on several platforms, each with several schedulers and power managers.

    A policy has the name of the platform's file, and, if there are several policies, its own name.

    Args:
        path: the scenario's file.
        platforms: scenario files whose section `platform` takes the place of that of the scenario.
        schedulers: as for `compare_policies`.
        out: folder for the results, with a folder for each platform; None: as there.
        overrides: as for `compare_policies`.
        on_result: as for `compare_policies`.
        options: as for `compare_policies`, whose errors it raises; there is no baseline.

    Raises:
        PolicyError: two platforms have files of the same name, or their results have no folder.
        ScenarioError: a file has no section `platform`, or it does not fit the scenario.
    """
    if out is None and options.get("transport", "inproc") != "inproc":
        raise PolicyError("several platforms over ipc or tcp need a folder for results: --out")
    metrics: dict[str, dict[str, int | float]] = {}
    groups: dict[str, Groups] = {}
    stems = [file.stem for file in platforms]
    if repeated := next((stem for stem in stems if stems.count(stem) > 1), ""):
        raise PolicyError(f"two platforms have the name {repeated!r}; rename one of the files")
    changes = {file.stem: {**(overrides or {}), "platform": _platform(file)} for file in platforms}
    for changed in changes.values():  # before the first run
        compared_policies(path, schedulers, options.get("power", ()), changed)
    for stem, changed in changes.items():
        several = len(compared_policies(path, schedulers, options.get("power", ()), changed)) > 1

        def named(name: str, stem: str = stem, several: bool = several) -> str:
            return f"{stem}, {name}" if several else stem

        def report(name: str, found: Mapping[str, int | float], named: Any = named) -> None:
            on_result(named(name), found)

        own = compare_policies(
            path,
            schedulers,
            out=None if out is None else out / stem,
            overrides=changed,
            on_result=report,
            **options,
        )
        metrics.update({named(name): found for name, found in own.metrics.items()})
        groups.update({named(name): found for name, found in own.groups.items()})
    return Comparison(metrics, groups=groups)


def _platform(path: Path) -> Any:
    """Return the section `platform` of a scenario file, as plain data."""
    tree = scenario_tree(path)
    if not isinstance(tree, dict) or "platform" not in tree:
        raise ScenarioError("expected a scenario file with the section `platform`", path)
    return tree["platform"]
