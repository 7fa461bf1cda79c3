"""Random Slurm sites: partitions, memory, devices, accounts, QOS, limits, and jobs for them."""

from __future__ import annotations

from random import Random
from typing import Any

ACCOUNTS = ("physics", "biology", "stray")
USERS = ("ann", "bob", "cid", "")
QOS = ("normal", "high", "long")
PARTITIONS = ("all", "low", "high")
TRES = ("cpu", "mem", "node", "billing", "gres/gpu", "gres/gpu:a")


def make_site(random: Random, scenario: dict[str, Any]) -> None:
    """Give a scenario with the scheduler `slurm` what real sites have, some of it at random."""
    platform, settings = scenario["platform"], scenario["scheduler"]["settings"]
    nodes = sum(group["count"] for group in platform["nodes"])
    _add_resources(random, platform)
    if random.random() < 0.7:
        _add_partitions(random, platform, nodes)
    if random.random() < 0.4 and nodes > 2:
        _add_switches(random, platform, nodes)
    if random.random() < 0.7:
        _add_accounts(random, settings)
    _add_parameters(random, settings, platform)
    for job in scenario["workload"]["inline"]:
        _add_request(random, job, platform, nodes)


def _some(random: Random, chance: float, **values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if random.random() < chance}


def _add_resources(random: Random, platform: dict[str, Any]) -> None:
    if random.random() < 0.5:
        platform["consumable"] = ["cores", "memory"]
    for group in platform["nodes"]:
        group["memory_mb"] = random.choice((4000, 64000))
        if random.random() < 0.5:
            group["features"] = random.sample(("ib", "big", "old"), random.randint(0, 2))
        if random.random() < 0.4:
            group["weight"] = random.choice((1, 5, 10))
        if random.random() < 0.5:
            group["gres"] = random.choice(({"gpu:a": 2}, {"gpu:b": 4}, {"gpu:a": 1, "gpu:b": 2}))


def _add_partitions(random: Random, platform: dict[str, Any], nodes: int) -> None:
    found = []
    for name in random.sample(PARTITIONS, random.randint(1, 3)):
        first = random.randint(0, nodes - 1)
        span = [first, random.randint(first, nodes - 1)]
        span = span if random.random() < 0.6 else [0, nodes - 1]
        size = span[1] - span[0] + 1
        part: dict[str, Any] = {"name": name, "nodes": [span]}
        part |= _some(
            random,
            0.2,
            exclusive=True,
            priority_tier=random.choice((0, 2, 5)),
            priority_job_factor=random.choice((2, 10)),
            max_time_s=random.choice((600.0, 3600.0)),
            min_nodes=min(2, size),
            max_nodes=min(3, size),
            max_cores_per_node=random.choice((1, 4)),
            default_memory_per_core_mb=1000,
            deny_accounts=["stray"],
            allow_qos=["normal", "high"],
            qos="part",
            state=random.choice(("down", "drain", "inactive", "up")),
        )
        found.append(part)
    if random.random() < 0.8:
        random.choice(found)["default"] = True
    platform["partitions"] = found


def _add_switches(random: Random, platform: dict[str, Any], nodes: int) -> None:
    cut = random.randint(1, nodes - 1)
    last = nodes - 1 if random.random() < 0.8 else max(nodes - 2, cut)
    platform["switches"] = [
        {"name": "left", "nodes": [[0, cut - 1]]},
        {"name": "right", "nodes": [[cut, last]]},
        {"name": "top", "switches": ["left", "right"]},
    ]


def _tres(random: Random, least: int = 0) -> dict[str, float]:
    most = {"cpu": 24, "mem": 50_000, "node": 6, "billing": 60, "gres/gpu": 4, "gres/gpu:a": 2}
    names = random.sample(TRES, random.randint(1, 2))
    return {name: random.randint(least, most[name]) for name in names}


def _limits(random: Random) -> dict[str, Any]:
    chance = random.choice((0.0, 0.1, 0.3))
    return _some(
        random,
        chance,
        grp_jobs=random.randint(1, 5),
        grp_submit_jobs=random.randint(3, 40),
        grp_tres=_tres(random),
        grp_tres_mins={"cpu": random.randint(1, 5000)},
        grp_tres_run_mins={"cpu": random.randint(10, 5000)},
        grp_wall_s=random.choice((1000, 100_000)),
        max_tres_per_job=_tres(random),
        max_tres_per_node=_tres(random),
        max_tres_mins_per_job={"cpu": random.randint(10, 2000)},
        max_wall_s=random.choice((100, 3600)),
    )


def _association(random: Random) -> dict[str, Any]:
    found = _limits(random)
    found |= _some(
        random,
        0.15,
        priority=random.randint(1, 9),
        usage_s=random.choice((1000, 1e6)),
        max_jobs=random.randint(1, 4),
        max_submit_jobs=random.randint(2, 20),
        qos=["normal", "high"],
        default_qos="high",
    )
    return {"shares": random.choice((1, 2, 3, 10, 0, "parent")), **found}


def _add_accounts(random: Random, settings: dict[str, Any]) -> None:
    accounts: dict[str, Any] = {}
    for name in random.sample(("physics", "biology", "cells"), random.randint(1, 3)):
        accounts[name] = _association(random)
        if name == "cells" and "biology" in accounts:
            accounts[name]["parent"] = "biology"
        users = random.sample(USERS[:-1], random.randint(0, 3))
        accounts[name]["users"] = {user: _association(random) for user in users}
    if random.random() < 0.2:
        accounts["root"] = _association(random)
        accounts["root"].pop("shares")
    settings["accounts"] = accounts
    settings["qos"] = {}
    for name in ("normal", "high", "part"):
        qos = {"priority": random.choice((0, 5, 100)), **_limits(random)}
        qos |= _some(
            random,
            0.15,
            usage_factor=random.choice((0, 0.5, 2)),
            limit_factor=2.0,
            usage_threshold=0.3,
            max_jobs_per_user=random.randint(1, 4),
            max_jobs_per_account=random.randint(1, 6),
            max_submit_jobs_per_user=random.randint(2, 20),
            max_submit_jobs_per_account=random.randint(2, 30),
            max_tres_per_user=_tres(random),
            max_tres_per_account=_tres(random),
            max_tres_run_mins_per_user={"cpu": random.randint(10, 3000)},
            max_tres_run_mins_per_account={"cpu": random.randint(10, 3000)},
            min_tres_per_job={"cpu": 2},
        )
        flags = ("deny_on_limit", "enforce_usage_threshold", "no_decay", "over_part_qos")
        lifted = ("partition_max_nodes", "partition_min_nodes", "partition_time_limit")
        qos["flags"] = [each for each in (*flags, *lifted) if random.random() < 0.12]
        settings["qos"][name] = qos
    settings["enforce"] = random.choice(
        ([], ["associations"], ["limits"], ["limits"], ["associations", "limits", "qos"], ["safe"])
    )
    keeps = settings["enforce"] == ["safe"]
    for rules in (accounts, settings["qos"]):
        for each in rules.values():
            for limited in (each, *each.get("users", {}).values()):
                if keeps or "no_decay" in each.get("flags", ()):
                    _remove_limits_for_ever(limited)
    settings["enforce_part_limits"] = random.choice(("no", "no", "any", "all"))


def _remove_limits_for_ever(limited: dict[str, Any]) -> None:
    """Remove limits on past usage, which hold a job for ever if that does not fall."""
    limited.pop("grp_tres_mins", None)
    limited.pop("grp_wall_s", None)


def _add_parameters(random: Random, settings: dict[str, Any], platform: dict[str, Any]) -> None:
    settings["priority"] |= _some(
        random,
        0.4,
        weight_assoc=500,
        weight_fair_share=random.choice((100, 10_000)),
        weight_partition=2000,
        weight_qos=3000,
        weight_tres={"cpu": 1000, "gres/gpu": 500},
        site_factors={"physics": 50},
    )
    settings["priority"]["decay_half_life_s"] = random.choice((600, 3600, 86_400))
    flags = ("incr_only", "max_tres", "no_normal_all", "small_relative_to_time", "no_normal_qos")
    settings["priority"]["flags"] = [each for each in flags if random.random() < 0.1]
    settings["scheduler"] |= _some(
        random,
        0.15,
        partition_job_depth=random.choice((1, 3)),
        bf_max_job_user=random.choice((1, 4)),
        bf_max_job_user_part=2,
        bf_max_job_part=5,
        bf_max_job_assoc=3,
        bf_job_part_count_reserve=2,
        bf_one_resv_per_job=True,
    )
    for part in platform.get("partitions", ()):
        if random.random() < 0.3:
            weights = {"cpu": 1.0, "mem": 0.001, "gres/gpu": 7.5}
            settings.setdefault("partitions", {})[part["name"]] = {"billing_weights": weights}


def _add_request(random: Random, job: dict[str, Any], platform: dict[str, Any], nodes: int) -> None:
    names = [each["name"] for each in platform.get("partitions", ())]
    has_default = any(each.get("default") for each in platform.get("partitions", ()))
    alone = any(each.get("exclusive") for each in platform.get("partitions", ()))
    job["user"], job["account"] = random.choice(USERS), random.choice((*ACCOUNTS, "physics", ""))
    job["qos"] = random.choice(("", "normal", "high", "long") if random.random() < 0.5 else ("",))
    if names and (not has_default or random.random() < 0.6):
        count = 1 if alone else random.choice((1, 1, 2, 3))
        chosen = random.sample(names, min(count, len(names)))
        job["partition"] = ",".join(chosen)
    job["placement"] = random.choice(("cores", "cores", "cores", "one_node", "whole_nodes"))
    if random.random() < 0.5:
        return
    chance = random.choice((0.1, 0.3))
    if random.random() < chance and job["cores"] % 2 == 0:
        job["cores_per_task"] = 2
    tasks = job["cores"] // job.get("cores_per_task", 1)
    job |= _some(
        random,
        chance,
        nodes_min=random.randint(1, min(3, tasks, nodes)),
        tasks_per_node=random.randint(1, 4),
        features=random.choice(("ib", "ib&big", "ib|old", "[ib|big]")),
        excluded_nodes=[random.randint(0, nodes - 1)],
        nice=random.choice((-100, 500)),
        priority=random.choice((0, 5, 100_000)),
        name="job",
    )
    memory = {"memory_mb": 1000.5, "memory_per_node_mb": 3000, "all_memory": True}
    if random.random() < 2 * chance:
        name = random.choice(sorted(memory))
        job[name] = memory[name]
    if random.random() < chance and "tasks_per_node" not in job:
        job["nodes_max"] = job.get("nodes_min", 1) + random.choice((0, 0, 1))
    if random.random() < 0.3:
        kind = random.choice(("gres_per_node", "gres_per_task"))
        job[kind] = {random.choice(("gpu", "gpu:a", "gpu:b")): random.choice((1, 1, 2, 0.5, 0.25))}
    if job["placement"] == "one_node":
        for name in ("nodes_min", "nodes_max"):
            job.pop(name, None)
