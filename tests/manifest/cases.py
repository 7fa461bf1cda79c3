"""The cases of the manifest: commands whose outputs must stay the same, byte by byte.

Each case is a list of commands of `hpcosim`, run one after the other in an empty folder with the
files of `write_inputs`. What a case writes to that folder and prints is its output.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from support.accounting_files import lines_by_manager, site_jobs
from support.batsim_inputs import delays, write_platform, write_workload
from support.paths import SCENARIOS
from support.random_scenarios import scenario_of
from support.slurm_site import record, sacct_text, write_site

Command = Sequence[str]

NETWORKS = {
    "pairing": "papers/ineps/pairing-exp1/energy.safetensors",
    "deep-eas": "papers/deep_eas/lambda_0.7.safetensors",
    "rl": "papers/power/models/a2c-real-2.safetensors",
    "adaptive": "papers/power/models/adaptive-400-1.safetensors",
    "learned": "papers/power/predictive/learned.safetensors",
    "empirical": "papers/power/predictive/rises.safetensors",
    "batch": "batch/agent.safetensors",
}
"""Shipped networks, by the name that they have in the folder of a case."""
RANDOM = {
    1: "easy",
    2: "conservative",
    3: "slurm",
    4: "slurm",
    5: "multifactor",
    6: "fairshare",
    7: "fcfs",
    8: "young-daly",
    9: "saf",
    10: "easy-sjf",
}
"""Seeds of random scenarios, and their schedulers."""
STUDY = """name: study
scenario: demo
set: {workload.synthetic.jobs: 100}
axes: {scheduler: [fcfs, easy], load: [0.5, 0.8], seed: [1, 2]}
measure: {warm_up_s: 3600, size_classes: [1, 8]}
report: {baseline: {scheduler: fcfs}, metrics: [mean_wait_s, energy_kwh]}
"""


def run(scenario: str | Path, scheduler: str = "", *options: str) -> list[Command]:
    """Return the command that runs a scenario in process, with a scheduler and more options."""
    chosen = ("--scheduler", scheduler) if scheduler else ()
    words = ("run", str(scenario), *chosen, "--transport", "inproc", "--json", "--out", "out")
    return [(*words, *options)]


def put(**values: object) -> list[str]:
    """Return options that replace values of a scenario; `__` in a name stands for a dot."""
    words: list[str] = []
    for name, value in values.items():
        words += ["--set", f"{name.replace('__', '.')}={json.dumps(value)}"]
    return words


def power(**manager: object) -> list[str]:
    """Return the options that choose a power manager and its settings."""
    return put(scheduler__power=manager)


WHOLE = put(workload__placement="whole_nodes", workload__synthetic__jobs=100)


def simulations() -> dict[str, list[Command]]:
    """Return runs of the shipped scenarios with schedulers and power managers."""
    few = put(workload__synthetic__jobs=200)
    found = {
        f"demo-{name}": run("demo", name, "--explain", *few)
        for name in (
            *("fcfs", "sjf", "easy", "conservative", "multifactor", "fairshare", "slurm", "f1"),
            *("easy-saf", "best-fit", "young-daly"),
        )
    }
    found |= {
        f"site-{name}": run("site", name, "--explain")
        for name in ("easy", "conservative", "multifactor", "fairshare", "gpu-packing")
    }
    found["site-slurm"] = run("site", "slurm", "--explain", *put(workload__jobs=[0, 120]))
    found |= {
        f"exp3-{name}": run("ineps/exp3", name)
        for name in (
            *("minmin", "minmin-immediate", "duplex", "esjf", "pairing-rule-energy"),
            *("shortest-low-power", "first-high-gflops-one"),
        )
    }
    week = put(workload__synthetic__jobs=300)
    managers: dict[str, list[str]] = {
        "always-on": power(name="always-on"),
        "timeout": power(name="timeout", timeout_s=600),
        "keep-idle": power(name="keep-idle", timeout_s=300, warm=4),
        "off-at-night": power(name="off-at-night"),
        "slurm": power(name="slurm", suspend_time_s=600),
        "predictive": power(name="predictive", wait_price_w=500),
        "learned": power(name="learned", model="learned.safetensors", wait_price_w=500),
        "empirical": power(name="empirical", model="empirical.safetensors", wait_price_w=500),
        "rl": power(name="rl", model="rl.safetensors"),
        "adaptive": power(name="adaptive", model="adaptive.safetensors"),
    }
    found |= {
        f"office-hours-{name}": run("office-hours.yaml", "easy", *options, *week)
        for name, options in managers.items()
    }
    icon = (*power(name="icon"), *put(scheduler__power_awareness="ipm"), *WHOLE)
    found["office-hours-icon"] = run("office-hours", "snf", *icon)
    found |= {
        f"carbon-{name}": run("carbon", name) for name in ("easy", "carbon-aware", "power-capped")
    }
    sequences = put(workload__synthetic__sequences=20)
    found |= {
        "conformance": run("conformance", "easy"),
        "conformance-site": run("conformance-site", "slurm"),
        "exp1-pairing": run("ineps/exp1", "pairing:pairing.safetensors"),
        "exp2-search": run("ineps/exp2", "pairing-search-energy"),
        "exp2-heuristic": run("ineps/exp2", "low-mem-high-mem-bw"),
        "deep-eas": run("deep_eas/lambda_0.7", "deep-eas:deep-eas.safetensors", *sequences),
        "deep-eas-esjf": run("deep_eas/lambda_0.7", "esjf", *sequences),
        "node16-one": run("node_centric/node16", "first-low-power-one"),
        "batch-agent": run("demo", "batch:batch.safetensors", *few),
        "demo-tcp": [
            ("run", "demo", "--transport", "tcp", "--json", "--out", "out", *few),
        ],
        "demo-seed": run("demo", "easy", "--seed", "5", *few),
    }
    found |= {
        f"random-{seed}-{name}": run(f"random-{seed}.yaml", name, "--explain")
        for seed, name in RANDOM.items()
    }
    return found


def other_commands() -> dict[str, list[Command]]:
    """Return the cases of the commands that read or compare runs, and of imports."""
    demo = run("demo", "easy", "--explain", *put(workload__synthetic__jobs=100))
    quick = ("--transport", "inproc", "--json")
    return {
        "compare": [("compare", "demo", "--schedulers", "fcfs,easy", *quick, "--out", "out")],
        "compare-by": [
            ("compare", "site", "--schedulers", "multifactor,easy", "--by", "user", *quick)
        ],
        "validate": [("validate", name, "--json") for name in ("demo", "site", "ineps/exp3")],
        "oracle": [("oracle", "office-hours", "--json", "--out", "plan.json", *WHOLE)],
        "experiment": [
            ("experiment", "study.yaml", "--out", "out", "--format", "csv", "--workers", "1")
        ],
        "reading": [
            *demo,
            ("show", "squeue", "out", "--at", "50%", "--json"),
            ("show", "sinfo", "out", "--at", "50%", "--json"),
            ("export", "out", "--swf", "demo.swf", "--perfetto", "demo.pb"),
        ],
        "batsim-files": run("demo", "easy", "--format", "batsim"),
        "batsim": [
            ("batsim", "-p", "platform.xml", "-w", "jobs.json", "-e", "out/b", "--no-sched", "-E")
        ],
        "imported": [
            ("import", "slurm", "--conf", "slurm.conf", "--sacctmgr", "dump.cfg", "-o", "c.yaml"),
            ("import", "sacct", "sacct.psv", "-o", "jobs.jsonl", "--json"),
            ("compare", "c.yaml", "--workload", "jobs.jsonl", "--schedulers", "slurm,easy", *quick),
        ],
        "accounting": [
            ("import", name, f"accounting.{name}", "-o", name, "--json")
            for name in ("pbs", "lsf", "sge", "oar")
        ],
        "benchmark": [("benchmark", "verify", "easy.zip")],
        "study": [("reproduce", "pairing-exp1", "--out", "out", "--workers", "1")],
        "scenarios": [("scenarios", "--all", "--json")],
        "schedulers": [("schedulers", "--all", "--json")],
    }


def cases() -> Mapping[str, list[Command]]:
    """Return all cases by name."""
    return {**simulations(), **other_commands()}


def write_inputs(folder: Path) -> None:
    """Write the files that cases read."""
    for name, path in NETWORKS.items():
        shutil.copy(SCENARIOS / path, folder / f"{name}.safetensors")
    for seed, name in RANDOM.items():
        (folder / f"random-{seed}.yaml").write_text(json.dumps(scenario_of(seed, name)))
    for name in ("office-hours.yaml", "office-hours-tariff.csv"):
        shutil.copy(SCENARIOS / name, folder)
    (folder / "study.yaml").write_text(STUDY)
    shutil.copy(SCENARIOS / "suites/backfilling-1/submissions/easy.zip", folder)
    write_platform(folder, 8, energy=True)
    write_workload(folder, *delays(30, 4, np.random.default_rng(1)))
    write_site(folder)
    gpu = {"Partition": "gpu", "User": "bob", "Account": "theory", "NodeList": "g1"}
    records = (
        record(),
        record(JobID="102", NodeList="c[01-02]", Start="2026-03-02T08:10:00"),
        record(JobID="103", **gpu, ReqTRES="cpu=32,mem=8G,node=1,gres/gpu=4"),
    )
    (folder / "sacct.psv").write_text(sacct_text(*records))
    for name, lines in lines_by_manager(site_jobs(20)).items():
        (folder / f"accounting.{name}").write_text("".join(f"{line}\n" for line in lines))
