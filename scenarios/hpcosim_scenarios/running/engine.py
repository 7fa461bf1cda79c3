"""The engine of a run: the reference, or the compiled one where that supports all of the run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hpcosim_client.view import policy_chance
from hpcosim_compiled import policies
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Workload
from hpcosim_scenarios.running.in_process import REPORT_EVERY_S, Report, finished
from hpcosim_scenarios.running.library import LoadedScenario, rules_of, switching_chance
from hpcosim_scenarios.running.policies import Chosen
from hpcosim_scenarios.running.warnings import Warn
from hpcosim_schedulers.power.settings import Awareness
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.record.economics import UNKNOWN
from hpcosim_sim.record.results import Also, Run, metrics_of
from hpcosim_sim.record.run_record import RunRecord

if TYPE_CHECKING:
    from hpcosim_compiled.simulation import CompiledSimulation

MANY_JOBS = 10_000
"""Jobs of `easy` from which loading the compiled engine takes less time than it saves; of others
see `hpcosim_compiled.policies.jobs_alike`."""

MANY_TO_COMPILE = 100_000
"""The same where a part of it must be compiled first; see `hpcosim_compiled.policies.part_of`."""

REFERENCE = "the reference engine simulates, because"
"""Begin of the warning for a user who asked for the compiled engine."""


class EngineChoice(NamedTuple):
    """The engine of a run.

    Attributes:
        is_compiled: whether it is the compiled one.
        why: the reason, a part of a sentence.
    """

    is_compiled: bool
    why: str


def may_be_compiled(scenario: Scenario, chosen: Chosen) -> bool:
    """Return whether it is worth loading the jobs to decide about the engine."""
    if scenario.engine != "auto":
        return scenario.engine == "compiled"
    if _missing(scenario, chosen):
        return False
    return _may_be_many(scenario.workload, MANY_JOBS // policies.jobs_alike(chosen.name))


def engine_of(loaded: LoadedScenario, chosen: Chosen, batch_jobs: int = 0) -> EngineChoice:
    """Return the engine of a run in this process.

    Args:
        loaded: the scenario with its jobs.
        chosen: the policy.
        batch_jobs: jobs of all runs that this process simulates, about; 0: there is one run.
    """
    scenario, jobs = loaded.scenario, loaded.jobs
    if scenario.engine == "reference":
        return EngineChoice(False, "engine: reference")
    missing = _missing(scenario, chosen) or policies.unsupported(
        scenario.platform,
        jobs,
        chosen.name,
        _settings_of(chosen),
        chosen.power,
        _awareness(chosen),
    )
    if missing:
        return EngineChoice(False, f"the compiled engine does not support {missing}")
    if broken := policies.missing_package():
        return EngineChoice(False, broken)
    if scenario.engine == "compiled":
        return EngineChoice(True, "engine: compiled")
    many = max(len(jobs), batch_jobs)
    count = f"{many} jobs"
    if many * policies.jobs_alike(chosen.name) < MANY_JOBS:
        return EngineChoice(False, f"{count} take less time than loading the compiled engine")
    if many < MANY_TO_COMPILE:
        from hpcosim_compiled.compiler import is_warm

        if not is_warm(_part_of(loaded, chosen)):
            why = f"{count} take less time than compiling the engine, which engine: compiled does"
            return EngineChoice(False, why)
    return EngineChoice(True, f"it supports all of the run, which has {count}")


def _settings_of(chosen: Chosen) -> dict[str, object]:
    """Return the settings of the scheduler."""
    return msgspec.json.decode(chosen.settings, type=dict[str, object])


def _awareness(chosen: Chosen) -> Awareness:
    return policies.effective_awareness(chosen.power, chosen.awareness)


def _part_of(loaded: LoadedScenario, chosen: Chosen) -> str:
    return policies.part_of(
        loaded.scenario.platform,
        loaded.jobs,
        chosen.name,
        chosen.power,
        _awareness(chosen),
        _settings_of(chosen),
        explains=chosen.explain,
    )


def _missing(scenario: Scenario, chosen: Chosen) -> str:
    """Return what the compiled engine does not support, apart from jobs and platform."""
    if policies.policy_code(chosen.name) is None:
        return f"the scheduler {chosen.name}"
    if policies.policy_code(chosen.name, _awareness(chosen)) is None:
        return f"power_awareness: {chosen.awareness} of {chosen.name}"
    power = policies.unsupported_power(scenario.platform, chosen.power)
    if power:
        return power
    manages = policies.manager_code(chosen.power) is not None
    if manages and not scenario.wake_on_allocation:
        return "wake_on_allocation: false"
    if manages and chosen.name == "slurm":
        return "the scheduler slurm with power states"
    if chosen.explain and (manages or not policies.can_explain(chosen.name)):
        return "explanations of this scheduler, or beside a power manager"
    if scenario.signals is not None or scenario.failures is not None or scenario.actions:
        return "signals, failures and actions"
    if scenario.dynamic_jobs:
        return "dynamic_jobs: true"
    if scenario.stuck_after_wakeups < Rules().stuck_after_wakeups:
        return "a stuck_after_wakeups below the default"
    return ""


def _may_be_many(workload: Workload, many: int) -> bool:
    """Return whether a workload may have many jobs, without reading it."""
    if workload.jobs is not None and workload.jobs[1] - workload.jobs[0] < many:
        return False
    if workload.synthetic is not None:
        jobs = getattr(workload.synthetic, "jobs", None)
        return jobs is None or jobs >= many
    return not workload.inline


def compiled_simulation(
    loaded: LoadedScenario, chosen: Chosen, warn: Warn, batch_jobs: int = 0
) -> CompiledSimulation | None:
    """Return the compiled simulation of a scenario; None: the reference simulates it.

    Args:
        loaded: the scenario with its jobs.
        chosen: the policy.
        warn: called if the user asked for the compiled engine and does not get it, and before a
            compilation that takes long.
        batch_jobs: see `engine_of`.
    """
    choice = engine_of(loaded, chosen, batch_jobs)
    asked = loaded.scenario.engine == "compiled"
    if not choice.is_compiled:
        if asked:
            warn(f"{REFERENCE} {choice.why}")
        return None
    try:
        from hpcosim_compiled.compiler import is_warm
        from hpcosim_compiled.simulation import CompiledSimulation

        if not is_warm(_part_of(loaded, chosen)):
            warn("the engine is compiled for its first use, which may take minutes")
        rates = loaded.economics.rates if loaded.economics else UNKNOWN
        simulation = CompiledSimulation(
            loaded.scenario.platform,
            loaded.jobs,
            rules_of(loaded.scenario),
            chosen.name,
            rates,
            chosen.power,
            chosen.awareness,
            switching_chance(loaded.scenario.seed),
            policy_chance(loaded.scenario.seed),
            _settings_of(chosen),
            explains=chosen.explain,
        )
        simulation.prepare()
    except Exception as error:  # whatever Numba raises where it does not support the machine
        if asked:
            warn(f"{REFERENCE} Numba failed: {repr(error)[:300]}")
        return None
    return simulation


def run_compiled(
    simulation: CompiledSimulation,
    about: Run,
    out: Path | None,
    report: Report,
    also: Sequence[Also],
    warn: Warn,
) -> tuple[RunRecord, dict[str, int | float]]:
    """Run a compiled simulation, write its results, and return its record and metrics.

    Args:
        simulation: the simulation.
        about: the content of `run.json`.
        out: as for `run_in_process`.
        report: as for `run_in_process`.
        also: as for `run_in_process`.
        warn: as for `run_in_process`.

    Raises:
        ResultsError: as `run_in_process`.
    """
    about.engine = "compiled"
    due_s = 0.0
    with finished(simulation, about, out, also, warn) as ended:
        while simulation.advance():
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + REPORT_EVERY_S
                report(simulation.now_s, simulation.over, len(simulation.jobs))
    return ended.record, metrics_of(ended.record, about)
