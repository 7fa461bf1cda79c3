"""Jobs of a real Slurm, from the arguments of sbatch."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from hpcosim_protocol import JobRequest
from hpcosim_workloads.table import JobSpec

NODES = ("b1", "g1", "m1", "m2", "m3", "m4", "n1", "n2", "n3", "n4")
"""Names of the nodes by number, in Slurm's order."""

NEVER_S = 1e6
"""Run time of a job that runs until Slurm ends it, s."""


def events_jobs(path: Path) -> list[JobSpec]:
    """Return the jobs of a workload file of UBCCR's simulator."""
    jobs = []
    for line in path.read_text(encoding="utf-8").splitlines():
        found = re.match(r"-dt (\S+) -e submit_batch_job \| (.*?)\s*pseudo\.job\s*$", line)
        if found is None:
            continue
        words = shlex.split(found[2])
        at = words.index("-sim-walltime")
        seconds = float(words[at + 1])
        name = words[words.index("-J") + 1]
        number = int(name.removeprefix("jobid_"))
        jobs.append(sbatch_job(number, float(found[1]), seconds, words[:at] + words[at + 2 :]))
    return jobs


_SHORT = {
    "-J": "job-name",
    "-t": "time",
    "-n": "ntasks",
    "-N": "nodes",
    "-A": "account",
    "-p": "partition",
    "-q": "qos",
    "-C": "constraint",
    "-c": "cpus-per-task",
    "-w": "nodelist",
    "-x": "exclude",
    "-d": "dependency",
}


def sbatch_options(words: list[str]) -> dict[str, str]:
    """Return options of sbatch by their long names; options without a value have ""."""
    options = {}
    rest = iter(words)
    for word in rest:
        if word in _SHORT:
            options[_SHORT[word]] = next(rest)
        else:
            name, _, value = word.removeprefix("--").partition("=")
            options[name] = value
    return options


def sbatch_job(number: int, submit_s: float, seconds: float, words: list[str]) -> JobSpec:
    """Return the job that sbatch would submit.

    Args:
        number: its number.
        submit_s: its submission, s.
        seconds: its run time, s; -1: until it is ended.
        words: the arguments of sbatch.
    """
    options = sbatch_options(words)
    tasks = int(options.get("ntasks", 0))
    nodes = [int(part) for part in options.get("nodes", "0").split("-")]
    per_task = int(options.get("cpus-per-task", 1))
    tasks = tasks or max(nodes[0], 1)
    gres = {}
    if "gres" in options:
        resource, _, count = options["gres"].rpartition(":")
        gres = {resource: float(count)}
    memory_node = float(options.get("mem", 0))
    request = JobRequest(
        name=options.get("job-name", ""),
        nodes_min=nodes[0],
        nodes_max=nodes[-1],
        tasks_per_node=int(options.get("ntasks-per-node", 0)),
        cores_per_task=per_task,
        features=options.get("constraint", ""),
        gres_per_node=gres,
        memory_per_node_mb=memory_node,
        all_memory=options.get("mem") == "0",
        required_nodes=_numbers(options.get("nodelist", "")),
        excluded_nodes=_numbers(options.get("exclude", "")),
    )
    return JobSpec(
        number,
        submit_s,
        NEVER_S if seconds < 0 else seconds,
        _seconds(options["time"]) if "time" in options else 365 * 86_400.0,
        tasks * per_task,
        "whole_nodes" if "exclusive" in options else "cores",
        memory_mb=float(options.get("mem-per-cpu", 0 if "mem" in options else 2800)),
        user=options.get("uid", ""),
        account=options.get("account", ""),
        qos=options.get("qos", "normal"),
        partition=options.get("partition", "normal"),
        request=request,
    )


def _numbers(names: str) -> tuple[int, ...]:
    return tuple(sorted(NODES.index(name) for name in host_names(names)))


def host_names(text: str) -> list[str]:
    """Return the names of a host list such as `b1,m[1-2,4]`."""
    names = []
    for prefix, ranges, plain in re.findall(r"([a-z]+)\[([^\]]+)\]|([a-z]+\d+)", text):
        if plain:
            names.append(plain)
        for part in ranges.split(",") if ranges else ():
            first, _, last = part.partition("-")
            names += [f"{prefix}{n}" for n in range(int(first), int(last or first) + 1)]
    return names


def _seconds(text: str) -> float:
    if ":" not in text:
        return 60.0 * int(text)
    seconds = 0.0
    for part in text.split(":"):
        seconds = seconds * 60 + int(part)
    return seconds
