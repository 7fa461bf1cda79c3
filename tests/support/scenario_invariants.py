"""What the results of every scenario fulfil, computed from its files only."""

from __future__ import annotations

import csv
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

Map = Mapping[str, Any]

CLOSE_S = 1e-6
ENDS = ("completed", "killed", "rejected", "failed", "cancelled", "preempted", "deadline")
"""Ends of the names of the metrics that count jobs by their end."""


class Piece(NamedTuple):
    """A period in which a job computes: its time, and its tasks by node."""

    job: int
    start_s: float
    end_s: float
    tasks: dict[int, int]


class Results:
    """The files of a results folder and the scenario that they are of."""

    def __init__(self, scenario: Map, folder: Path) -> None:
        self.scenario = scenario
        self.platform: Map = scenario["platform"]
        self.jobs = {int(row["job_id"]): row for row in _rows(folder / "jobs.csv")}
        self.nodes = _rows(folder / "nodes.csv")
        self.runs = _rows(folder / "runs.csv")
        self.schedule = _rows(folder / "schedule.csv")
        self.metrics: Map = json.loads((folder / "metrics.json").read_text())
        self.is_complete = bool(json.loads((folder / "run.json").read_text())["complete"])
        self.specs: dict[int, Map] = {
            each["job_id"]: each for each in scenario["workload"]["inline"]
        }
        groups = self.platform["nodes"]
        self.groups = [group for group in groups for _ in range(group["count"])]
        acted_on = {each["job"] for each in scenario.get("actions", ())}
        if any("array" in self.spec(job) for job in acted_on):
            acted_on |= self.jobs.keys() - self.specs.keys()  # tasks of arrays
        self.acted_on = acted_on

    def spec(self, number: int) -> Map:
        """Return a job as the scenario has it; empty: a task of an array but the first."""
        return self.specs.get(number, {})

    def pieces(self) -> Iterator[Piece]:
        """Yield when and where jobs computed."""
        rows = self.runs or self.schedule
        for row in rows:
            if not row["start_s"]:
                continue  # it ended before its nodes were on
            job = int(row["job_id"])
            end_s = row["end_s"] if self.runs else self.jobs[job]["end_s"]
            nodes = _numbers(row["nodes"])
            tasks = [int(each) for each in row["tasks"].split()]
            if len(tasks) == 1:
                tasks *= len(nodes)
            start_s, last_s = float(row["start_s"]), float(end_s or math.inf)
            if last_s > start_s:
                yield Piece(job, start_s, last_s, dict(zip(nodes, tasks, strict=True)))


def violations(scenario: Map, folder: Path) -> list[str]:
    """Return what is wrong with the results of a scenario; empty: nothing."""
    results = Results(scenario, folder)
    pieces = list(results.pieces())
    found = [
        *_of_jobs(results),
        *_of_dependencies(results),
        *_of_energy(results),
        *_of_capacity(results, pieces),
        *_of_states(results, pieces),
        *_of_reservations(results, pieces),
        *_of_arrays(results, pieces),
    ]
    return list(dict.fromkeys(found))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open() as file:
        return list(csv.DictReader(file))


def _numbers(text: str) -> list[int]:
    """Return the numbers of intervals such as `0-3 7`."""
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _of_jobs(results: Results) -> Iterator[str]:
    """Every job is there once and ends; times are in order; counts add up."""
    jobs = results.jobs
    if results.is_complete and (lost := results.specs.keys() - jobs.keys()):
        yield f"lost jobs {sorted(lost)[:5]}"
    counts = {end: results.metrics.get(f"jobs_{end}", 0) for end in ENDS}
    if results.is_complete and sum(counts.values()) != results.metrics["jobs"]:
        yield f"{results.metrics['jobs']} jobs, but {counts}"
    if results.metrics["jobs"] != len(jobs):
        yield f"{len(jobs)} rows of jobs, but {results.metrics['jobs']} jobs in the metrics"
    for number, row in jobs.items():
        if results.is_complete and row["state"] in ("waiting", "running", "allocated", "suspended"):
            yield f"job {number} is {row['state']} at the end"
        if not row["start_s"]:
            continue
        submit_s, start_s, end_s = (
            float(row[name] or "inf") for name in ("submit_s", "start_s", "end_s")
        )
        if not submit_s <= start_s <= end_s:
            yield f"job {number}: submission {submit_s}, start {start_s}, end {end_s}"
        spec, is_task = results.spec(number), "array" in results.spec(number)
        acted_on = number in results.acted_on
        if not (is_task or acted_on) and start_s < spec.get("begin_s", 0.0) - CLOSE_S:
            yield f"job {number} starts at {start_s}, before begin_s {spec['begin_s']}"
        limit_s = float(row["requested_s"]) + CLOSE_S
        killed = results.scenario.get("kill_at_walltime")
        if killed and not acted_on and not results.runs and end_s - start_s > limit_s:
            yield f"job {number} ran {end_s - start_s} s, its request is {limit_s} s"


def _of_dependencies(results: Results) -> Iterator[str]:
    """A job that ran once started after what it waits for."""
    jobs = results.jobs
    for number, spec in results.specs.items():
        kind, _, other = spec.get("dependency", "").partition(":")
        if not kind or number not in jobs or int(other) not in jobs:
            continue
        row, before = jobs[number], jobs[int(other)]
        arrays = "array" in spec or "array" in results.spec(int(other))
        if arrays or not row["start_s"] or row["runs"] != "1" or before["runs"] not in ("0", "1"):
            continue
        start_s = float(row["start_s"]) + CLOSE_S
        ended_s = float(before["end_s"] or "inf")
        if kind == "afterok" and (before["state"] != "completed" or start_s < ended_s):
            yield f"job {number} is afterok of {other}, {before['state']} at {ended_s}"
        if kind == "afternotok" and (before["state"] == "completed" or start_s < ended_s):
            yield f"job {number} is afternotok of {other}, {before['state']} at {ended_s}"
        if kind == "afterany" and start_s < ended_s:
            yield f"job {number} is afterany of {other}, which ends at {ended_s}"
        if kind == "after" and before["start_s"] and start_s < float(before["start_s"]):
            yield f"job {number} is after {other}, which starts at {before['start_s']}"


def _of_energy(results: Results) -> Iterator[str]:
    """The energy is the integral of the power, and each node has a state at each time."""
    energy_j, by_node = 0.0, defaultdict(list)
    for row in results.nodes:
        start_s, end_s = float(row["start_s"]), float(row["end_s"])
        nodes = _numbers(row["nodes"])
        energy_j += (end_s - start_s) * float(row["power_w"]) * len(nodes)
        for node in nodes:
            by_node[node].append((start_s, end_s))
    measured_j = results.metrics["energy_j"]
    if not math.isclose(energy_j, measured_j, rel_tol=1e-6, abs_tol=1e-6):
        yield f"the integral of power is {energy_j} J, energy_j is {measured_j} J"
    for node, spans in by_node.items():
        spans.sort()
        if any(end_s != next_s for (_, end_s), (next_s, _) in pairwise(spans)):
            yield f"the states of node {node} overlap or have a gap"
    if by_node and len(by_node) != len(results.groups):
        yield f"{len(by_node)} of {len(results.groups)} nodes have states"


def _of_capacity(results: Results, pieces: Sequence[Piece]) -> Iterator[str]:
    """No cores, memory, devices or licences are held twice."""
    changes: list[tuple[float, bool, str, float]] = []
    for piece in pieces:
        spec = results.spec(piece.job)
        held: defaultdict[str, float] = defaultdict(float)
        for node, tasks in piece.tasks.items():
            held[f"cores of node {node}"] += tasks
            held[f"devices of node {node}"] += sum(spec.get("gres_per_node", {}).values())
            if "memory" in results.platform.get("consumable", ()):
                held[f"memory of node {node}"] += spec.get("memory_per_node_mb", 0)
        held["licences"] += spec.get("licenses", {}).get("s", 0)
        for what, amount in held.items():
            changes += [(piece.start_s, True, what, amount), (piece.end_s, False, what, -amount)]
    room: dict[str, float] = {"licences": results.platform.get("licenses", {}).get("s", 0)}
    for node, group in enumerate(results.groups):
        room[f"cores of node {node}"] = sum(each["cores"] for each in group["processors"])
        room[f"devices of node {node}"] = sum(group.get("gres", {}).values())
        room[f"memory of node {node}"] = group.get("memory_mb", 0)
    total: defaultdict[str, float] = defaultdict(float)
    for at_s, _, what, amount in sorted(changes, key=lambda change: change[:2]):
        total[what] += amount
        if total[what] > room[what] + CLOSE_S:
            yield f"{total[what]} {what} are held at {at_s} s, there are {room[what]}"
            return


def _of_states(results: Results, pieces: Sequence[Piece]) -> Iterator[str]:
    """Jobs compute on nodes that compute."""
    others = defaultdict(list)
    for row in results.nodes:
        if row["state"] != "computing":
            for node in _numbers(row["nodes"]):
                others[node].append((float(row["start_s"]), float(row["end_s"]), row["state"]))
    for piece in pieces:
        for node in piece.tasks:
            for start_s, end_s, state in others[node]:
                if start_s < piece.end_s - CLOSE_S and end_s > piece.start_s + CLOSE_S:
                    yield f"job {piece.job} computes on node {node}, which is {state}"
                    return


def _of_reservations(results: Results, pieces: Sequence[Piece]) -> Iterator[str]:
    """No job starts within a reservation, or before it with a request that reaches into it."""
    for each in results.platform.get("reservations", ()):
        reserved = set(range(len(results.groups))) if each["nodes"] == "ALL" else {0}
        for piece in pieces:
            own = results.spec(piece.job).get("reservation")
            if own or piece.job in results.acted_on or not reserved & piece.tasks.keys():
                continue
            at_s, length_s = piece.start_s, each["end_s"] - each["start_s"]
            begin_s = each["start_s"]
            if each.get("repeat_s") and at_s >= begin_s:
                begin_s += (at_s - begin_s) // each["repeat_s"] * each["repeat_s"]
            is_within = begin_s <= at_s < begin_s + length_s - CLOSE_S
            if is_within and not _booted_since(results, piece, begin_s):
                yield f"job {piece.job} starts at {at_s} s within a reservation"


def _booted_since(results: Results, piece: Piece, time_s: float) -> bool:
    """Return whether a node began to boot for a job before a time, and took longer than planned."""
    return any(
        row["state"] == "switching_on"
        and float(row["start_s"]) < time_s
        and abs(float(row["end_s"]) - piece.start_s) < CLOSE_S
        and any(node in piece.tasks for node in _numbers(row["nodes"]))
        for row in results.nodes
    )


def _of_arrays(results: Results, pieces: Sequence[Piece]) -> Iterator[str]:
    """No more tasks of an array run at once than its limit permits."""
    for number, spec in results.specs.items():
        limit = int(spec.get("array", "").partition("%")[2] or 0)
        if not limit or number in results.acted_on:
            continue
        name = results.jobs[number]["name"] if number in results.jobs else ""
        tasks = {job for job, row in results.jobs.items() if name and row["name"] == name}
        changes = [(p.start_s, 1) for p in pieces if p.job in tasks]
        changes += [(p.end_s, -1) for p in pieces if p.job in tasks]
        running = 0
        for at_s, change in sorted(changes, key=lambda each: (each[0], each[1])):
            running += change
            if running > limit:
                yield f"{running} tasks of array {number} run at {at_s} s, its limit is {limit}"
                return
