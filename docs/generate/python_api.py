"""Pages of the Python API: a `mkdocstrings` directive for each public name of a package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

Topics = Mapping[str, Sequence[str]]
"""Public names by the title of the section that describes them, in the order of the page."""

HPCOSIM: Topics = {
    "Run": ("run", "compare", "experiment", "report", "read"),
    "Results": ("Run", "Comparison", "Table"),
    "Schedulers": ("View", "Policy", "main", "make_policy", "managed"),
    "Errors": ("HpcosimError",),
}

CLIENT: Topics = {
    "Run a policy": ("main", "run", "play", "Policy"),
    "View": ("View", "JobQueue", "Job", "Allocation", "NodePool", "PolicyAlarm"),
    "Reservations": ("profile_of", "Profile", "Reservation"),
    "Schedulers by name": (
        "make_policy",
        "scheduled_by",
        "with_power",
        "scheduler_names",
        "check_scheduler",
        "canonical_name",
        "describe",
        "expand",
        "GROUPS",
        "Awareness",
    ),
    "Power managers": (
        "managed",
        "timeout",
        "keep_idle",
        "off_at_night",
        "OffAtNight",
        "slurm",
        "Slurm",
        "oracle",
        "read_plan",
        "by_plan",
        "adaptive",
        "load_rule",
        "Power",
        "parse_power",
        "Manager",
        "IdleClock",
        "PowerExchange",
    ),
    "Connection": ("Connection", "Answer", "Timeouts"),
    "Errors": (
        "ClientError",
        "AddressError",
        "PolicyError",
        "PowerSettingsError",
        "ResultsNotWrittenError",
        "ServerFaultError",
        "ServerGoneError",
        "ServerRefusedError",
    ),
}

FORECAST: Topics = {
    "Forecasts": (
        "ViewForecast",
        "Arrivals",
        "ExpectedArrivals",
        "ArrivalScenarios",
        "RunTimes",
        "TimeDistribution",
        "Releases",
    ),
}

SCENARIOS: Topics = {
    "Run": (
        "simulate",
        "run_scenario",
        "compare_schedulers",
        "compare_policies",
        "Comparison",
        "serve_scenarios",
        "plan_scenario",
    ),
    "Read and check": ("load_scenario", "check", "Scenario"),
    "Errors": ("ScenariosError", "ScenarioError", "RunError"),
}


def reference(packages: Sequence[str], topics: Topics) -> str:
    """Return a section for each topic, with a directive for each of its names.

    A public name that no topic has is in the last section.

    Args:
        packages: packages whose public names are described.
        topics: names that one of the packages has, by topic.
    """
    package_of = {name: each for each in packages for name in import_module(each).__all__}
    known = {name for names in topics.values() for name in names}
    rest = [name for name in package_of if name not in known]
    parts = []
    for title, names in {**topics, "Other names": rest}.items():
        if names:
            directives = "\n\n".join(f"::: {package_of[name]}.{name}" for name in names)
            parts.append(f"## {title}\n\n{directives}")
    return "\n\n".join(parts)
