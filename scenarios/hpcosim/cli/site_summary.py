"""What a scenario has beyond nodes, cores and run times, for `hpcosim validate`."""

from __future__ import annotations

from typing import Any

from hpcosim_protocol import Platform
from hpcosim_protocol.hosts import NodeNames
from hpcosim_protocol.node_access import numbers_in
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_workloads.table import NAMED, JobTable

MOST_SHOWN = 60  # characters of a host list


def site_of(scenario: Scenario, jobs: JobTable) -> dict[str, Any]:
    """Return partitions, reservations, resources, failures and actions by name.

    Args:
        scenario: the scenario.
        jobs: the jobs of the run.
    """
    platform, failures = scenario.platform, scenario.failures
    names = NodeNames(platform)
    return {
        "consumable": list(platform.consumable),
        "gres": _gres(platform),
        "licenses": dict(platform.licenses),
        "partitions": {
            each.name: names.text(numbers_in(each.nodes)) for each in platform.partitions
        },
        "reservations": {
            each.name: names.text(numbers_in(each.nodes)) for each in platform.reservations
        },
        "switches": len(platform.switches),
        "node_events": len(failures.events) if failures else 0,
        "random_failures": len(failures.random) if failures else 0,
        "actions": len(scenario.actions),
        "jobs_with_requests": int((jobs.request >= 0).sum()),
        "names_in_jobs": {name: _used(jobs, name) for name in NAMED},
    }


def _gres(platform: Platform) -> dict[str, int]:
    """Return the number of devices of each generic resource on the whole platform."""
    total: dict[str, int] = {}
    for group in platform.nodes:
        for name, count in group.gres.items():
            total[name] = total.get(name, 0) + count * group.count
    return total


def _used(jobs: JobTable, column: str) -> int:
    """Return how many names of a column the jobs have."""
    return len(set(getattr(jobs, column).tolist()) - {0})


def site_lines(site: dict[str, Any]) -> dict[str, str]:
    """Return the lines of the table by label; what the scenario does not have is left out."""
    lines = {}
    if site["consumable"] != ["cores"]:
        lines["consumable"] = ", ".join(site["consumable"]) or "nodes"
    for kind, label in (("gres", "devices"), ("licenses", "licences")):
        for name, count in site[kind].items():
            lines[f"{label} {name}"] = f"{count:,}"
    for kind in ("partition", "reservation"):
        for name, nodes in site[f"{kind}s"].items():
            more = "..." if len(nodes) > MOST_SHOWN else ""
            lines[f"{kind} {name}"] = f"{nodes[:MOST_SHOWN]}{more}"
    counts = {key.replace("_", " "): value for key, value in site.items() if isinstance(value, int)}
    counts |= {f"{name} names in jobs": n for name, n in site["names_in_jobs"].items()}
    return lines | {label: f"{count:,}" for label, count in counts.items() if count}
