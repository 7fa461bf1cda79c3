"""The compiled engine writes the bytes of the reference, for random scenarios that it supports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hpcosim_scenarios import run_scenario
from support.engines import differences
from support.paths import ROOT
from support.random_scenarios import Scenario, minimised
from support.random_sites import make_site

pytest.importorskip("numba", reason="the compiled engine needs the extra fast")

from hpcosim_compiled import simulation

FAILED = ROOT / "results" / "fuzz"
STAY_ON = ("first-high-mem-bw", "random-random", "shortest-random-one")
"""Rules that the compiled engine supports without a power manager only."""

NODE_RULES = (
    "first-high-gflops",
    "shortest-high-mem",
    "smallest-high-cores",
    "low-mem-low-power-one",
    "low-mem-ops-high-mem-used",
    "none-none",
    "first-high-cores-one",
    *STAY_ON,
)
LISTS = ("fcfs", "sjf", "ljf", "smallest", "saf", "snf", "f1", "f2", "f3", "f4", "wfp3", "unicep")
BY_RULE = ("easy-sjf", "easy-f1-aged", "easy-lxf", "easy-snf")
BACKFILLING = ("easy", "conservative", "look-ahead", *BY_RULE)
AWARE = ("easy", "conservative")

MEMORIES = (
    {"c_mbps": 32000, "b_per_mbps": -1.85e-05, "da": 1.75, "db_mbps": 2000}
    | {"dc_mbps": 50000, "dd_mbps": 6000},
    {"c_mbps": 21000, "b_per_mbps": -1.85e-05, "da": 1, "db_mbps": 169}
    | {"dc_mbps": 25000, "dd_mbps": 100},
)
"""Constants of contention."""


def supported_scenario(seed: int, *, sites: bool = True) -> Scenario:
    """Return a random scenario that the compiled engine supports.

    Args:
        seed: the seed.
        sites: whether most scenarios with `slurm` have partitions, resources and accounts.
    """
    random = Random(seed)
    is_slurm = random.random() < 0.25
    backfills = is_slurm or random.random() < 0.6
    placement = random.choice(("cores", "cores", "whole_nodes", "one_node"))
    mixes, scales = random.random() < 0.5 and not is_slurm, random.random() < 0.4
    contends = random.random() < 0.5 and not is_slurm
    if is_slurm:
        placement = "cores"
    groups: list[dict[str, Any]] = []
    cores = random.choice((1, 1, 2, 8))
    for _ in range(random.choice((1, 1, 2, 3))):
        processor: dict[str, Any] = {
            "cores": cores,
            "static_w": random.choice((0, 100.1, 190)),
            "dynamic_w": random.choice((0, 0.7, 10)),
            "idle_fraction": random.choice((1.0, 0.5, 0.3)),
            "clock_ghz": random.choice((1.0, 2.5, 3.1)) if scales else 1.0,
        }
        processors = [processor]
        if contends and random.random() < 0.7:
            processor["contention"] = random.choice(MEMORIES)
        if contends and random.random() < 0.5:
            processors.append(random.choice((processor, {**processor, "static_w": 55.3})))
        groups.append(
            {
                "count": random.randint(1, 12),
                "processors": processors,
                "memory_mb": random.choice((0, 64000)),
            }
        )
        cores = random.choice((cores, 1, 2, 8))
    total = sum(
        each["count"] * sum(part["cores"] for part in each["processors"]) for each in groups
    )
    span_s = random.choice((10, 1000, 5000))
    jobs = []
    for number in range(1, random.choice((1, 10, 60)) + 1):
        run_s = random.choice((0.1, 1, 5, 60, 60, 600.3, 3600))
        job: dict[str, Any] = {
            "job_id": number,
            "submit_s": random.choice((0, random.randint(0, span_s))),
            "cores": random.randint(1, random.choice((1, 3, total, total + 1))),
            "run_s": run_s,
            "requested_s": run_s * random.choice((0.5, 1, 1, 1.5, 10)),
        }
        if contends:
            job["memory_mb"] = random.choice((0, 100, 3000))
            job["memory_volume_mb"] = run_s * random.choice((0, 3000, 12000.5, 40000))
            if random.random() < 0.5:
                job["req_ops"] = int(run_s * 2e9)
                del job["run_s"]
        if random.random() < 0.3:
            job["user"] = random.choice("abc")
        if mixes and random.random() < 0.2:
            job["placement"] = random.choice(("cores", "one_node", "whole_nodes"))
        jobs.append(job)
    jobs.sort(key=lambda job: (job["submit_s"], job["job_id"]))
    workload: Scenario = {"inline": jobs, "placement": placement}
    if scales:
        workload["reference_clock_ghz"] = 2.0
    orders = LISTS if random.random() < 0.5 else NODE_RULES
    scheduler: dict[str, Any] = {"name": random.choice(BACKFILLING if backfills else orders)}
    if orders is not NODE_RULES or backfills:
        scheduler["explain"] = random.random() < 0.5
    if is_slurm:
        scheduler = {"name": "slurm", "settings": _slurm_settings(random)}
    scenario: Scenario = {
        "name": f"engines-{seed}",
        "platform": {"nodes": groups},
        "workload": workload,
        "scheduler": scheduler,
        "kill_at_walltime": random.random() < 0.5,
    }
    sizes = {sum(part["cores"] for part in each["processors"]) for each in groups}
    asked = {job.get("placement", placement) for job in jobs}
    counts = asked == {"cores"} or (asked == {"whole_nodes"} and len(sizes) == 1)
    if is_slurm and sites and random.random() < 0.7:
        make_site(random, scenario)
    may_switch = not (is_slurm or scheduler.get("explain") or scheduler["name"] in STAY_ON)
    has_power = may_switch and random.random() < 0.7
    if has_power and (counts or not backfills or scheduler["name"] in AWARE):
        _add_power(random, scenario, may_be_unaware=counts or not backfills)
    return scenario


def _add_power(random: Random, scenario: Scenario, *, may_be_unaware: bool) -> None:
    """Add power states to some node groups, and a power manager."""
    timeout_s, groups = random.choice((0, 0, 0.1, 30, 600, 5000)), scenario["platform"]["nodes"]
    managers = ({"name": "timeout"}, {"name": "keep-idle", "warm": random.choice((0, 1, 3, 100))})
    power: dict[str, Any] = {**random.choice(managers), "timeout_s": timeout_s}
    if random.random() < 0.2:
        off = random.choice((["00:00-00:30"], ["Mon 00:10-00:20", "Thu 00:15-01:00"]))
        power = {"name": "off-at-night", "off": off, "origin_s": random.choice((0, 259_200))}
    scenario["scheduler"]["power"] = power
    if scenario["scheduler"]["name"] in AWARE:
        unaware = ["unaware"] if may_be_unaware else []
        awareness = random.choice((*unaware, "aware", "planned", "planned"))
        scenario["scheduler"]["power_awareness"] = awareness
    elif scenario["scheduler"]["name"] in LISTS:
        scenario["scheduler"]["power_awareness"] = random.choice(("unaware", "aware"))
    scenario["seed"] = random.randint(0, 5)
    for group in groups:
        if group is groups[0] or random.random() < 0.8:
            group["power_states"] = {
                "sleep_w": random.choice((0, 5.3)),
                "switch_on_w": random.choice((0, 120.7)),
                "switch_off_w": random.choice((0, 80.1)),
                "switch_on_s": random.choice((0, 5, 60, 300.5)),
                "switch_off_s": random.choice((0, 5, 60.2)),
                "switch_on_sd_s": random.choice((0, 0, 20)),
                "switch_off_sd_s": random.choice((0, 0, 3)),
            }


def _slurm_settings(random: Random) -> dict[str, Any]:
    """Return random settings of `slurm` that the compiled engine supports."""
    return {
        "priority": {
            "type": random.choice(("multifactor", "multifactor", "multifactor", "basic")),
            "weight_age": random.choice((0, 1000, 100_000)),
            "weight_job_size": random.choice((0, 700)),
            "max_age_s": random.choice((1000, 604_800)),
            "calc_period_s": random.choice((60, 300, 1000.5)),
            "favor_small": random.random() < 0.5,
            "start_time": random.choice(("", "2026-11-22T08:00:07")),
        },
        "scheduler": {
            "backfill": random.random() < 0.9,
            "batch_sched_delay_s": random.choice((0, 3, 10)),
            "sched_interval_s": random.choice((20, 60)),
            "sched_max_job_start": random.choice((0, 0, 1, 3)),
            "default_queue_depth": random.choice((100, 100, 2, 0)),
            "bf_interval_s": random.choice((5, 30, 47.5)),
            "bf_window_s": random.choice((600, 86_400)),
            "bf_resolution_s": random.choice((1, 60, 300)),
            "bf_max_job_test": random.choice((500, 500, 3)),
            "bf_max_job_start": random.choice((0, 0, 1)),
            "bf_job_cost_s": random.choice((0, 0, 0.01)),
            "loop_s": random.choice((1.0, 1.003)),
        },
        "kill_wait_s": random.choice((0, 30)),
        "over_time_limit_s": random.choice((0, 0, 60)),
        "dtstart_s": random.choice((0, 0, 59.3)),
    }


def failure_of(scenario: Scenario, folder: Path) -> str:
    """Run a scenario with both engines in a new folder; return what differs, or an error."""
    folder.mkdir(parents=True)
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(scenario))
    outs = [folder / engine for engine in ("reference", "compiled")]
    warnings: list[str] = []
    for out in outs:
        overrides = {"engine": out.name}
        run_scenario(file, transport="inproc", out=out, overrides=overrides, warn=warnings.append)
    missing = [text for text in warnings if "reference engine" in text]
    return "; ".join((*missing, *differences(*outs)))


def test_random_scenarios_have_the_bytes_of_the_reference(
    seeds: Iterable[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All result files of both engines are equal, however the simulation is divided into calls."""
    monkeypatch.setattr(simulation, "INSTANTS", 3)
    for seed in seeds:
        scenario = supported_scenario(seed)
        failure = failure_of(scenario, tmp_path / f"{seed}")
        if failure:
            tries = iter(range(10**6))

            def fails(smaller: Scenario) -> bool:
                try:
                    return bool(failure_of(smaller, tmp_path / f"smaller-{next(tries)}"))  # noqa: B023
                except Exception:
                    return False  # it is no scenario any more

            FAILED.mkdir(parents=True, exist_ok=True)
            file = FAILED / f"{scenario['name']}.yaml"
            file.write_text(json.dumps(minimised(scenario, fails), indent=1) + "\n")
            pytest.fail(f"seed {seed}: {failure}\nA smaller scenario that fails is {file}")
