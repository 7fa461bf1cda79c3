"""Run a scenario with several schedulers and power managers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hpcosim_scenarios.model.overrides import Overrides
from hpcosim_scenarios.running.compared import (
    ComparedPolicy,
    PowerSettings,
    baseline_warnings,
    compared_policies,
    find_policy,
    switching_warnings,
)
from hpcosim_scenarios.running.formats import Format
from hpcosim_scenarios.running.groups import GroupedBy, Groups, groups_of
from hpcosim_scenarios.running.incomplete import incomplete_results_named, is_incomplete
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_scenarios.running.progress import shown
from hpcosim_scenarios.running.run import default_folder, run_chosen, run_scenario
from hpcosim_scenarios.running.savings import outcome_of, savings_of
from hpcosim_scenarios.running.signal_warnings import signal_warnings
from hpcosim_scenarios.running.transport import Transport
from hpcosim_scenarios.running.warnings import Warn, check_seed, ignore_warning, once
from hpcosim_sim.errors import ResultsError
from hpcosim_sim.record.folder import prepare

Metrics = dict[str, int | float]
OnResult = Callable[[str, Mapping[str, int | float]], None]
"""Takes the name of a policy in the comparison and its metrics."""


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
    """Run policies, and compare their results.

    Args:
        policies: policies, each with its results folder; None: it needs none.
        run: runs a policy and returns its metrics.
        on_result: as for `compare_policies`.
        base: name of the policy with which the others are compared; empty: none.
        by: as for `compare_policies`.
    """
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
    """Return the function that runs a policy and returns its metrics.

    `keeps` states that the user has named a folder; with `inproc`, others are temporary.
    """
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
        return run_chosen(policy.chosen, own, folder, report, formats, warn)


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
    """Check and yield the results folder of each policy; None: no results are written.

    Args:
        policies: the policies.
        out: the folder that contains those folders; None: the user named none.
        transport: the transport.
        force: accept folders with results.
        needed: results must be written, at least to temporary folders.
    """
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
