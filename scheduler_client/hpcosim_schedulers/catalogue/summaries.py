"""One line about every scheduler, rule, group and power manager: what `hpcosim schedulers` prints.

Symbols: r requested time (s), n cores, s submission time (s), w wait so far (s) of a job.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from hpcosim_schedulers.catalogue.trained import (
    SAMPLED,
    SCHEDULERS,
    TRAINED,
    TrainedScheduler,
    load,
    registered,
)
from hpcosim_schedulers.power.settings import MANAGERS

EVERYDAY: Mapping[str, str] = {
    "fcfs": "first come, first served (FIFO); no backfilling",
    "sjf": "shortest requested time first",
    "ljf": "longest requested time first",
    "smallest": "fewest cores first",
    "saf": "smallest r n (area) first",
    "lxf": "largest (w + r) / r (expansion factor) first",
    "easy": "EASY backfilling: a reservation for the head of the queue",
    "conservative": "conservative backfilling: a reservation for every job",
    "look-ahead": "the best of eight plans for the queue: the least waits by requested times",
    "slurm": "main scheduler, backfilling, limits and preemption of Slurm, at Slurm's times; "
    "settings: scheduler.settings",
    "multifactor": "easy in the order of Slurm's multifactor priority, within the limits of "
    "accounts and QOS; settings: scheduler.settings",
    "fairshare": "easy in the order of Slurm's fair-share of accounts and users; settings: "
    "scheduler.settings",
    "carbon-aware": "easy that delays jobs with a deadline to the start with the lowest mean "
    "carbon intensity (Wiesner et al. 2021)",
    "carbon-aware:SETTINGS": "the same with settings, such as "
    "carbon-aware:signal=price_per_kwh:slack_s=86400",
    "power-capped": "easy that keeps the power of all nodes within the signal power_cap_w",
    "gpu-packing": "jobs go to GPUs in use first, then to idle GPUs of nodes with GPUs in use",
    "gpu-random": "jobs go to any node and any of its GPUs with room",
    "best-fit": "jobs go to the node with the fewest cores and GPUs left",
    "PATH.py:FUNCTION": "a function of your own that takes the view",
    "scripted:FILE": "replays schedule.csv of a results folder",
    "recorded:FILE": "replays the recorded runs of imported jobs",
}
"""Schedulers for any cluster, by name or pattern; words in capitals stand for a file."""

PAPERS: dict[str, str] = {
    "snf": "fewest cores first, then shortest requested time (Pulungan et al. 2026)",
    "f1": "least log10(r) n + 870 log10(s) first (Carastan-Santos, de Camargo 2017)",
    "f2": "least sqrt(r) n + 25600 log10(s) first (same paper)",
    "f3": "least r n + 6860000 log10(s) first (same paper)",
    "f4": "least r sqrt(n) + 530000 log10(s) first (same paper)",
    "wfp3": "greatest (w / r)^3 n first (Tang et al. 2009)",
    "unicep": "greatest w / (log2(n) r) first (Tang et al. 2009)",
    "easy-ORDER": "easy whose head is the first of 64 visible jobs by ORDER: an order above, or "
    "sjf-aged, saf-aged or f1-aged, which prefer jobs that have waited for a day",
    "young-daly": "easy that sets the checkpoint intervals of jobs by Daly's formula (Daly 2006)",
    "esjf": "energy-aware shortest job first on a plan of 30 steps (Esmaili, Pedram 2019)",
    "esjf-now": "esjf that binds only jobs that start immediately",
    "minmin": "Min-min, batch mode: the queue is mapped to nodes at every event "
    "(Maheswaran et al. 1999)",
    "maxmin": "Max-min, batch mode (same paper)",
    "duplex": "the better of minmin and maxmin (Braun et al. 2001)",
    "fgd": "jobs go where the least GPU capacity becomes unusable for the mix of jobs "
    "(Weng et al. 2023)",
    "RULE-immediate": "RULE minmin, maxmin or duplex that binds a job to a node at its submission "
    "(Stafford, Bosque 2024)",
    "RULE-chained": "RULE-immediate as the program of the paper runs it, errors included",
    "JOB-NODE": "the first job by rule JOB goes to the first node by rule NODE that has room "
    "(Lopez, Stafford, Bosque 2025)",
    "JOB-NODE-one": "JOB-NODE that starts at most one job at each event",
}
"""Schedulers of papers and for their comparisons; words in capitals stand for a rule."""


def papers() -> dict[str, str]:
    """Return the schedulers of `PAPERS` and those that other packages register."""
    return PAPERS | {name: load(SCHEDULERS, name).about for name in registered(SCHEDULERS)}


def trained() -> dict[str, str]:
    """Return the schedulers with a trained model; MODEL stands for its file."""
    found = {}
    for name in registered(TRAINED):
        scheduler: TrainedScheduler = load(TRAINED, name)
        found[f"{name}:MODEL"] = scheduler.about
        if scheduler.sampled:
            found[f"{name}{SAMPLED}:MODEL"] = scheduler.sampled
    return found


def all_schedulers() -> dict[str, str]:
    """Return all schedulers."""
    return {**EVERYDAY, **papers(), **trained()}


JOB_RULES: Mapping[str, str] = {
    "first": "earliest submission first",
    "shortest": "shortest requested time first",
    "smallest": "fewest cores first",
    "low-mem": "least memory per task first",
    "low-mem-ops": "least memory traffic first",
    "random": "random order, new at every event",
    "none": "submission order",
}
"""The values of JOB in `JOB-NODE`."""

NODE_RULES: Mapping[str, str] = {
    "high-gflops": "fastest cores first",
    "high-cores": "most free cores first",
    "high-mem": "most free memory first",
    "high-mem-bw": "most free memory bandwidth first",
    "low-power": "least power at full load first",
    "random": "random order, new for every job",
    "high-mem-used": "most used memory first (high-mem in the program of the paper)",
    "none": "order of the platform",
}
"""The values of NODE in `JOB-NODE`."""

GROUPS: Mapping[str, str] = {
    "all-heuristics": "36 JOB-NODE: 6 job rules and 6 node rules, as the paper defines them",
    "reference-heuristics": "the same 36 as the program of the paper runs them",
    "one-per-event": "all-heuristics with -one",
    "reference-one-per-event": "reference-heuristics with -one",
    "minmin-family": "minmin, maxmin, duplex, each also with -immediate",
}
"""Groups of schedulers, which `hpcosim compare` takes."""

POWER_MANAGERS: Mapping[str, str] = {
    "always-on": "every node stays on",
    "timeout": "switches off nodes that are idle for timeout_s",
    "keep-idle": "keeps `warm` idle nodes on; switches off others that are idle for timeout_s",
    "off-at-night": "switches idle nodes off by the clock, in windows of the week",
    "slurm": "Slurm's power saving, with the options of slurm.conf",
    "icon": "SNF-ICON: wakes spare nodes while submissions and run times look exponential "
    "(Pulungan et al. 2026)",
    "predictive": "keeps as many spare nodes as forecasts of the workload advise for a price "
    "of waiting",
    "learned": "predictive with forecasts that a network corrects (hpcosim train spare-nodes)",
    "empirical": "as many spare nodes as past rises of the demand advise for a price of waiting, "
    "with learned weights (hpcosim train rises)",
    "oracle": "least wasted energy for the schedule, with all submissions known in advance",
    "rl": "trained network that switches every node at fixed intervals (hpcosim train power)",
    "adaptive": "learned timeouts by hour and load (hpcosim train adaptive)",
}
"""Power managers, the `name` of a scenario's `scheduler.power`."""


def power_settings(manager: str) -> dict[str, object]:
    """Return the settings of a power manager with their defaults, or `required`."""
    return {
        field.name: "required" if field.required else field.default
        for field in msgspec.structs.fields(MANAGERS[manager])
    }
