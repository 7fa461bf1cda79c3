"""Random scenarios in which all features of a scenario are mixed, and smaller ones that fail alike.

A scenario is the plain data of a scenario file. The same seed gives the same scenario.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from hpcosim_schedulers.catalogue.schedulers import scheduler_names

Scenario = dict[str, Any]
Map = dict[str, Any]

PER_JOB = ("pairing-search", "pairing-rule")
"""Begins of the names of schedulers that are left out: they need a model or seconds a decision."""

NAMES = [name for name in scheduler_names() if not name.startswith(PER_JOB)]
SITES = ("slurm", "multifactor", "fairshare")
COMMON = ("fcfs", "easy", "conservative", "slurm", "multifactor", "fairshare", "young-daly")
CONTENTION = {
    "c_mbps": 32000.0,
    "b_per_mbps": -1.85e-05,
    "da": 1.75,
    "db_mbps": 2000.0,
    "dc_mbps": 50000.0,
    "dd_mbps": 6000.0,
}
MAX_WAKEUPS = 2_000
"""`stuck_after_wakeups` of the scenarios: wake-ups in a row without a change of a job."""


def scenario_of(seed: int, scheduler: str | None = None) -> Scenario:
    """Return the scenario of a seed.

    Args:
        seed: the seed.
        scheduler: name of the scheduler; None: drawn, the common ones more often.
    """
    random = Random(seed)
    nodes = _node_groups(random)
    scenario: Scenario = {
        "name": f"fuzz-{seed}",
        "seed": random.randrange(1000),
        "stuck_after_wakeups": MAX_WAKEUPS,
        "kill_at_walltime": random.random() < 0.5,
        "platform": {"nodes": nodes},
    }
    _add_site(random, scenario)
    jobs = _jobs(random, scenario)
    scenario["workload"] = {"inline": jobs}
    if random.random() < 0.3:
        scenario["workload"]["reference_clock_ghz"] = random.choice((1.0, 2.0))
    if random.random() < 0.4:
        scenario["failures"] = _failures(random, nodes)
    actions = _actions(random, jobs)
    if actions:
        scenario["actions"] = actions
    drawn = random.choice(COMMON) if random.random() < 0.5 else random.choice(NAMES)
    _add_scheduler(random, scenario, scheduler or drawn)
    return scenario


def _node_groups(random: Random) -> list[Map]:
    named = random.random() < 0.6
    groups = []
    for letter in "abc"[: random.choice((1, 1, 2, 3))]:
        count = random.randrange(1, 5)
        processor: Map = {
            "cores": random.choice((1, 4, 16)),
            "clock_ghz": random.choice((1.0, 2.0)),
            "static_w": random.choice((0, 60, 100)),
            "dynamic_w": random.choice((0, 5)),
            "idle_fraction": random.choice((0, 0.5, 1)),
        }
        if random.random() < 0.2 and processor["cores"] < 16:
            processor["contention"] = CONTENTION
        group: Map = {"count": count, "processors": [processor] * random.choice((1, 1, 2))}
        if named:
            group["names"] = f"{letter}[1-{count}]"
        group["memory_mb"] = random.choice((8_000, 64_000))
        if random.random() < 0.4:
            group["gres"] = {"gpu:x": random.choice((1, 2, 4))}
        if random.random() < 0.5:
            group["power_states"] = {
                "sleep_w": 5,
                "switch_on_s": random.choice((0, 30, 300)),
                "switch_on_w": 60,
                "switch_off_s": random.choice((0, 60)),
                "switch_off_w": 30,
            }
            if random.random() < 0.3:
                group["power_states"]["switch_on_sd_s"] = 20
        if random.random() < 0.4:
            group["features"] = ["ib"]
        if random.random() < 0.2:
            group["weight"] = random.choice((2, 10))
        groups.append(group)
    return groups


def _first_node(nodes: Sequence[Map]) -> str:
    return "a1" if "names" in nodes[0] else "0"


def _add_site(random: Random, scenario: Scenario) -> None:
    """Add licences, consumable resources, partitions and reservations."""
    platform = scenario["platform"]
    nodes, first = platform["nodes"], _first_node(platform["nodes"])
    if random.random() < 0.4:
        platform["licenses"] = {"s": random.choice((1, 2, 3))}
    if random.random() < 0.6:
        platform["consumable"] = random.choice((["cores"], ["cores", "memory"]))
    if random.random() < 0.3:
        platform["partitions"] = [
            {"name": "main", "nodes": "ALL", "default": True},
            {"name": "short", "nodes": first, "max_time_s": random.choice((100, 3600))},
        ]
        more: tuple[Map, ...] = (
            {"max_time_s": random.choice((200, 5000))},
            {"priority_tier": 2},
            {"exclusive": True},
            {"state": random.choice(("down", "drain", "inactive"))},
            {"max_nodes": 1},
            {"min_nodes": 2},
            {"allow_accounts": ["p"]},
        )
        for partition in platform["partitions"]:
            if random.random() < 0.3:
                partition |= random.choice(more)
    if "names" in nodes[0] and random.random() < 0.4:
        reservation: Map = {
            "name": "m",
            "nodes": random.choice(("ALL", first)),
            "start_s": random.choice((100, 2000)),
            "end_s": random.choice((2500, 4000)),
            "flags": ["maint"],
        }
        if random.random() < 0.3:
            reservation["repeat_s"] = 20_000
        platform["reservations"] = [reservation]


def _jobs(random: Random, scenario: Scenario) -> list[Map]:
    platform, jobs, submit_s = scenario["platform"], [], 0
    cores = sum(
        group["count"] * sum(each["cores"] for each in group["processors"])
        for group in platform["nodes"]
    )
    for number in range(1, random.choice((5, 20, 20, 60)) + 1):
        submit_s += random.choice((0, 0, 0, 1, 10, 100, 500))
        run_s = random.choice((1, 10, 100, 1000, 5000, 0.001))
        job: Map = {
            "job_id": number,
            "submit_s": submit_s,
            "cores": min(random.choice((1, 1, 2, 4, 8)), cores),
            "run_s": run_s,
            "requested_s": random.choice((run_s, run_s * 2, max(0.001, run_s / 2))),
        }
        for add in (_add_conditions, _add_resources, _add_rest):
            add(random, platform, job)
        jobs.append(job)
    return jobs


def _add_conditions(random: Random, platform: Map, job: Map) -> None:
    """Add what decides when a job may start."""
    number = job["job_id"]
    if number > 1 and random.random() < 0.25:
        kind = random.choice(("afterok", "afterany", "after", "afternotok"))
        job["dependency"] = f"{kind}:{random.randrange(1, number)}"
    if random.random() < 0.15:
        job["begin_s"] = job["submit_s"] + random.choice((0, 50, 3000))
    if random.random() < 0.1:
        job["hold"] = True
    if random.random() < 0.05:
        job["deadline_s"] = job["submit_s"] + random.choice((100, 3000))
    if "reservations" in platform and random.random() < 0.1:
        job["reservation"] = "m"
    if random.random() < 0.05:
        job |= random.choice(({"priority": 0}, {"priority": 7}, {"nice": 10}))
    if random.random() < 0.1:
        job["array"] = random.choice(("0-3%2", "1-2"))


def _add_resources(random: Random, platform: Map, job: Map) -> None:
    """Add resources beside cores, and where a job may run."""
    nodes = platform["nodes"]
    if "licenses" in platform and random.random() < 0.4:
        job["licenses"] = {"s": random.choice((1, 1, 2))}
    if any("gres" in group for group in nodes) and random.random() < 0.3:
        job["gres_per_node"] = {"gpu:x": random.choice((0.5, 1, 2))}
        job["nodes_max"] = 1
    if random.random() < 0.2:
        job["memory_per_node_mb"] = random.choice((1_000, 6_000, 30_000))
    if random.random() < 0.1:
        job["memory_volume_mb"] = random.choice((1e3, 1e6))
    if random.random() < 0.05 and job["cores"] > 1 and "nodes_max" not in job:
        job["nodes_min"] = 2
    if random.random() < 0.1:
        job["placement"] = random.choice(("one_node", "whole_nodes"))
    if any("features" in group for group in nodes) and random.random() < 0.1:
        job["features"] = "ib"
    if "partitions" in platform and random.random() < 0.4:
        job["partition"] = random.choice(("main", "short", "main,short"))


def _add_rest(random: Random, platform: Map, job: Map) -> None:
    """Add how a job ends, and whose it is."""
    if random.random() < 0.4:
        job["requeue"] = True
    if random.random() < 0.1:
        job["fails"] = True
    if random.random() < 0.2:
        job["checkpointing"] = {
            "cost_s": random.choice((0, 5)),
            "interval_s": random.choice((50, 600)),
            "restart_s": random.choice((0, 10)),
        }
    if random.random() < 0.4:
        job["user"], job["account"] = random.choice((("u1", "p"), ("u2", "c")))


def _failures(random: Random, nodes: Sequence[Map]) -> Map:
    found: Map = {
        "events": [
            {
                "at_s": random.choice((50, 500, 1500, 3000)),
                "nodes": "ALL" if random.random() < 0.1 else _first_node(nodes),
                "kind": random.choice(("fail", "drain")),
                "repair_after_s": random.choice((10, 1000)),
            }
            for _ in range(random.choice((1, 3)))
        ]
    }
    if random.random() < 0.5:
        found["random"] = [
            {
                "nodes": "ALL",
                "until_failure": {
                    "distribution": random.choice(("exponential", "constant")),
                    "mean_s": random.choice((60_000, 200_000)),
                },
                "until_repair": {"mean_s": 200},
            }
        ]
    return found


def _actions(random: Random, jobs: Sequence[Map]) -> list[Map]:
    """Return actions. What is held is released, and what is suspended is resumed."""
    found: list[Map] = []
    kinds = ("cancel", "hold", "release", "requeue", "suspend", "resume", "update")
    for _ in range(random.choice((0, 0, 3, 8))):
        action: Map = {
            "at_s": random.choice((10, 100, 700, 2000, 5000)),
            "job": random.choice(jobs)["job_id"],
            "kind": random.choice(kinds),
        }
        if action["kind"] == "update":
            action["requested_s"] = random.choice((10, 2000))
        if action["kind"] == "requeue" and random.random() < 0.5:
            action["hold"] = True
        found.append(action)
    for job in jobs:
        if job.get("hold"):
            at_s = random.choice((5, 6000))
            found.append({"at_s": at_s, "job": job["job_id"], "kind": "release"})
    for action in list(found):
        if action["kind"] == "hold" or action.get("hold"):
            found.append({"at_s": 9000, "job": action["job"], "kind": "release"})
        if action["kind"] == "suspend":
            found.append({"at_s": 9500, "job": action["job"], "kind": "resume"})
    return found


def _add_scheduler(random: Random, scenario: Scenario, name: str) -> None:
    scheduler: Map = {"name": name}
    nodes = scenario["platform"]["nodes"]
    if name in SITES and random.random() < 0.6:
        scheduler["settings"] = _site_settings(random, name)
    if any("power_states" in group for group in nodes) and random.random() < 0.8:
        scheduler["power"] = random.choice(
            (
                {"name": "timeout", "timeout_s": random.choice((0, 100, 900))},
                {"name": "always-on"},
                {"name": "keep-idle", "warm": 1, "timeout_s": 60},
                {"name": "slurm", "suspend_time_s": random.choice((30, 300))},
                {"name": "off-at-night", "off": ["Mon 00:00-00:30", "01:00-02:00"]},
            )
        )
        if random.random() < 0.03:  # it takes some 2 ms for each second of simulated time
            scheduler["power"] = {"name": "predictive", "wait_price_w": 500, "samples": 2}
        if name in ("easy", "conservative", "young-daly", "fcfs", "sjf"):
            aware = ("aware", "planned") if name in ("easy", "conservative") else ("aware",)
            if scheduler["power"]["name"] == "slurm":
                aware = ("aware",)
            scheduler["power_awareness"] = random.choice(("unaware", *aware))
    carbon = {"changes": [[0, 300], [1000, 100]], "repeat_s": 2000}
    cap = {"changes": [[0, 1e5], [1000, 500]], "repeat_s": 3000}
    if name == "carbon-aware" or random.random() < 0.05:
        scenario["signals"] = {"co2_g_per_kwh": carbon}
    if name == "power-capped":
        scenario["signals"] = {"power_cap_w": cap}
    scenario["scheduler"] = scheduler


def _site_settings(random: Random, name: str) -> Map:
    """Return accounts with limits, some of which jobs can never meet."""
    users: Map = {"u1": {}, "u2": {}}
    settings: Map = {
        "enforce": random.choice(([], ["limits"], ["limits", "safe"])),
        "accounts": {"p": {"shares": 3, "users": users}, "c": {"users": users}},
    }
    limit: Map = random.choice(
        (
            {"grp_tres": {"cpu": random.choice((1, 4))}},
            {"max_wall_s": random.choice((50, 2000))},
            {"max_jobs": 1},
            {"grp_tres_mins": {"cpu": random.choice((1, 100))}},
            {"max_tres_per_job": {"cpu": 2}},
            {"grp_jobs": 0},
        )
    )
    settings["accounts"]["c"] |= limit
    # Jobs wait for decaying usage: not for weeks.
    settings["priority"] = {"decay_half_life_s": random.choice((0, 1000, 1000))}
    if random.random() < 0.3:
        settings["qos"] = {"normal": {"flags": ["deny_on_limit"], "max_wall_s": 4000}}
    if random.random() < 0.3:
        settings["enforce_part_limits"] = random.choice(("all", "any", "no"))
    if name == "slurm" and random.random() < 0.3:
        mode = random.choice(("requeue", "cancel", "suspend"))
        settings["preemption"] = {"type": "partition_prio", "mode": mode}
    if name == "slurm" and random.random() < 0.3:
        settings["scheduler"] = {"bf_interval_s": random.choice((10, 60))}
    return settings


def minimised(scenario: Scenario, fails: Callable[[Scenario], bool]) -> Scenario:
    """Return a smaller scenario that fails as well; `scenario` fails.

    Parts are removed, large ones first, as long as the rest fails: jobs, actions, failures, node
    groups, keys of jobs, and keys of the scenario.
    """
    smaller = True
    while smaller:
        smaller = False
        for candidate in _reductions(scenario):
            if fails(candidate):
                scenario, smaller = candidate, True
                break
    return scenario


def _reductions(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios with a part less."""
    paths: list[tuple[Any, ...]] = [("workload", "inline"), ("actions",), ("failures", "events")]
    for path in (*paths, ("platform", "nodes"), ("platform", "partitions")):
        count = len(_at(scenario, path) or ())
        size = max(count // 2, 1)
        while count and size:
            for first in range(0, count, size):
                changed = copy.deepcopy(scenario)
                del _at(changed, path)[first : first + size]
                yield changed
            size //= 2
    owners: list[tuple[Any, ...]] = [(), ("platform",), ("scheduler",), ("scheduler", "settings")]
    for path in (("workload", "inline"), ("platform", "nodes")):
        owners += [(*path, at) for at in range(len(_at(scenario, path) or ()))]
    for owner in owners:
        for key in list(_at(scenario, owner) or ()):
            changed = copy.deepcopy(scenario)
            del _at(changed, owner)[key]
            yield changed


def _at(scenario: Scenario, path: Sequence[Any]) -> Any:
    """Return the part of a scenario at a path; None: there is none."""
    part: Any = scenario
    for key in path:
        try:
            part = part[key]
        except (KeyError, IndexError):
            return None
    return part
