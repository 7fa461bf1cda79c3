"""The instances of a suite: loaded, and identified by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct, structs

from hpcosim_experiments.benchmark.errors import BenchmarkError
from hpcosim_experiments.benchmark.suite import InstanceFile, Suite
from hpcosim_scenarios.running.chosen import Chosen, chosen_by
from hpcosim_scenarios.running.library import Library, LoadedScenario
from hpcosim_workloads.table import JobSpec

FORMAT = 1
"""Version of the content that is hashed."""


def load_instance(suite: Suite, instance: InstanceFile) -> LoadedScenario:
    """Return an instance with its jobs, as the simulator gets them.

    Raises:
        BenchmarkError: the instance has a part that no suite may have, or its content is not the
            one that the suite states.
        ScenarioError, WorkloadError: its scenario or its workload is invalid.
    """
    loaded = Library([suite.folder / instance.scenario], instance.set).default
    scenario = loaded.scenario
    parts = ("economics", "signals", "failures", "actions", "dynamic_jobs", "kill_at_walltime")
    if forbidden := next((name for name in parts if getattr(scenario, name)), None):
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: an instance of a suite may not have {forbidden}"
        )
    seal = suite.seals.get(instance.name)
    if seal is not None and (found := digest_of(loaded)) != seal.sha256:
        raise BenchmarkError(
            f"{suite.file.name}: {instance.name}: this installation makes other jobs or another "
            f"platform: expected the SHA-256 {seal.sha256}, got {found}; expected the files of the "
            "suite, and a NumPy that draws the same numbers"
        )
    return loaded


def digest_of(loaded: LoadedScenario) -> str:
    """Return the SHA-256 of the content of an instance: platform, rules, seed and jobs.

    The content is JSON without values that are defaults, so that a new key with a default in a
    later version of hpcosim leaves it unchanged.
    """
    scenario = loaded.scenario
    content = {
        "format": FORMAT,
        "seed": scenario.seed,
        "platform": _plain(scenario.platform),
        "reference_clock_ghz": scenario.workload.reference_clock_ghz,
        "wake_on_allocation": scenario.wake_on_allocation,
        "jobs": [_plain_job(job) for job in loaded.jobs.rows()],
    }
    return hashlib.sha256(msgspec.json.encode(content, order="deterministic")).hexdigest()


def policy_of(
    suite: Suite,
    instance: InstanceFile,
    loaded: LoadedScenario,
    scheduler: str,
    power: Mapping[str, Any],
    power_awareness: str,
) -> Chosen:
    """Return a policy for an instance.

    Args:
        suite: the suite.
        instance: one of its instances.
        loaded: the same, loaded.
        scheduler: name of a job scheduler, or of an agent of the instance's scenario.
        power: the power manager, as in a scenario.
        power_awareness: treatment of nodes that are not on, as in a scenario.

    Raises:
        ScenarioError, PolicyError: the policy is invalid, or cannot schedule the instance.
    """
    own = structs.replace(
        loaded.scenario.scheduler, power=dict(power), power_awareness=power_awareness
    )
    scenario = structs.replace(loaded.scenario, scheduler=own)
    chosen = chosen_by(scenario, suite.folder / instance.scenario, scheduler)
    chosen.check()
    return chosen


def _plain_job(job: JobSpec) -> dict[str, Any]:
    """Return the values of a job that are no defaults."""
    defaults = JobSpec._field_defaults
    return {
        name: _plain(value)
        for name, value in job._asdict().items()
        if name not in defaults or value != defaults[name]
    }


def _plain(value: Any) -> Any:
    """Return plain data without the values of structs that are defaults."""
    if isinstance(value, Struct):
        return {
            field.name: _plain(getattr(value, field.name))
            for field in structs.fields(value)
            if getattr(value, field.name) != _default(field)
        }
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default
