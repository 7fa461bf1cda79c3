"""Forecasts and answers as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_sim.record.economics import J_PER_KWH
from hpcosim_twin.answers.asked import Advice, Answer
from hpcosim_twin.answers.changes import Difference, Effect
from hpcosim_twin.cluster.observation import Observation
from hpcosim_twin.cluster.queue_state import AdoptedState
from hpcosim_twin.futures.forecast import StartForecast
from hpcosim_view.run.extracts import printable

COLUMNS = ("JOBID", "USER", "MEDIAN", "10 %", "90 %", "SQUEUE --START", "REASON")
MAX_USER = 20


def queue_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of `queue_as_json`: local times, the earliest median first; `-`: never."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for each in sorted(data["jobs"], key=lambda row: (_late(row["median_s"]), row["job_id"])):
        times = (each[name] for name in ("median_s", "low_s", "high_s", "squeue_s"))
        user, reason = printable(each["user"])[:MAX_USER], printable(each["reason"]) or "-"
        rows.append((printable(each["label"]), user, *map(_local, times), reason))
    yield from aligned(rows)


REASONS: Mapping[str, str] = {
    "Priority": "jobs of higher priority wait for the same nodes",
    "Resources": "the next job of its partition; what it needs is in use",
    "Dependency": "another job must end first",
    "DependencyNeverSatisfied": "the job that it depends on can no longer meet the condition",
    "BeginTime": "its begin time has not come",
    "JobHeldUser": "held by its user; `scontrol release` lets it go on",
    "JobHeldAdmin": "held by an operator",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "Reservation": "its reservation has not begun, or is full",
    "Licenses": "licences are in use",
    "PartitionDown": "its partition starts no jobs",
    "PartitionInactive": "its partition starts no jobs",
    "PartitionTimeLimit": "its time limit is above that of the partition; it never starts",
    "PartitionNodeLimit": "it needs more nodes than the partition permits; it never starts",
    "BadConstraints": "no nodes have what it asks for; it never starts",
    "JobArrayTaskLimit": "as many tasks of its array run as it permits at once",
}
"""Slurm's reasons (squeue(1), JOB REASON CODES) in words."""
LIMITS = ("QOS", "Assoc", "Max")
"""Beginnings of the reasons that are limits of a quality of service or of an association."""


def _meaning(reason: str) -> str:
    word = reason.split(",")[0].split(" ")[0]
    if word not in REASONS and word.startswith(LIMITS):
        return "a limit of its account, user or quality of service is reached"
    return REASONS.get(word, "")


def queue_as_json(
    observation: Observation,
    adopted: AdoptedState,
    drawn: Sequence[StartForecast],
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return forecasts as they were drawn as plain data: Unix times, s; None: never, or unknown.

    `low_s` and `high_s` are those drawn until ranges are calibrated (`calibration.calibrated`).
    """

    def unix(at_s: float) -> float | None:
        return adopted.origin_s + at_s if math.isfinite(at_s) else None

    jobs = observation.state.jobs
    rows = [
        {
            "job_id": each.job_id,
            "label": jobs[each.job_id].label or str(each.job_id),
            "user": jobs[each.job_id].user,
            "median_s": unix(each.median_s),
            "low_s": unix(each.low_s),
            "high_s": unix(each.high_s),
            "drawn_low_s": unix(each.low_s),
            "drawn_high_s": unix(each.high_s),
            "at_limits_s": unix(each.at_limits_s),
            "squeue_s": observation.slurm_s.get(each.job_id),
            "reason": jobs[each.job_id].reason,
            "meaning": _meaning(jobs[each.job_id].reason),
        }
        for each in drawn
    ]
    history_jobs = len(observation.history)
    return {**_about(observation, samples, seed), "history_jobs": history_jobs, "jobs": rows}


def _about(observation: Observation, samples: int, seed: int) -> dict[str, Any]:
    return {"at_s": observation.state.at_s, "samples": samples, "seed": seed}


RANGES = (0.5, 0.8, 0.95)
"""Probabilities of the ranges of an answer, each between quantiles of equal tails."""
MANY_UNSTARTED = 0.5
"""Difference of the mean numbers of jobs that never start from which on it is told."""
SOON_S = 3600.0
"""Time for which an answer has the chance to start, s."""


def ways_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of `ways_as_json`: what most probably ends first is the first."""
    rows: list[tuple[str, ...]] = [("JOB", "START", "10 %", "90 %", "END", "IN 1 H", "ENDS FIRST")]
    by = "chance_to_start_by"
    for each in sorted(data["jobs"], key=lambda row: -row["chance_to_end_first"]):
        chances = (each["chance_to_end_first"], *each["chance_to_end_first_95"])
        rows.append(
            (
                printable(each["options"]),
                *_of_start(each["start"]),
                _local(each["end"]["median_s"]),
                f"{100 * each['chance_to_start_within_1_h']:.0f} %",
                "{:.0f} % ({:.0f} to {:.0f})".format(*(100 * chance for chance in chances)),
                *([f"{100 * each[by]:.0f} %"] if by in each else []),
            )
        )
    if by in data["jobs"][0]:
        rows[0] = (*rows[0], "BY THEN")
    if len(data["jobs"]) == 1:
        rows = [(*row[:6], *row[7:]) for row in rows]
    yield from aligned(rows)


def ways_as_json(
    answers: Sequence[Answer],
    observation: Observation,
    adopted: AdoptedState,
    samples: int,
    seed: int,
    by_s: float | None = None,
) -> dict[str, Any]:
    """Return answers as plain data: Unix times, s; None: never.

    Args:
        by_s: a Unix time, s: answers have the chance to start until then; None: they have not.
    """
    rows = []
    for each in answers:
        row = {
            "options": each.asked.options,
            **_start_and_end(each, adopted),
            "chance_to_end_first": each.first,
            "chance_to_end_first_95": [each.first_low, each.first_high],
        }
        if by_s is not None:
            row["chance_to_start_by"] = float((each.start_s + adopted.origin_s <= by_s).mean())
        rows.append(row)
    return {**_about(observation, samples, seed), "jobs": rows}


def _start_and_end(answer: Answer, adopted: AdoptedState) -> dict[str, Any]:
    return {
        "start": _quantiles(answer.start_s, adopted.origin_s),
        "end": _quantiles(answer.end_s, adopted.origin_s),
        "chance_to_start_within_1_h": _soon(answer, adopted),
    }


def advice_as_json(
    same: Answer,
    advice: Sequence[Advice],
    observation: Observation,
    adopted: AdoptedState,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return advice as plain data; the times of `ways_as_json`."""
    ways = [
        {
            "what": each.what,
            **_start_and_end(each.answer, adopted),
            "chance_to_start_sooner": each.sooner,
            "median_gain_s": each.gain_s if math.isfinite(each.gain_s) else None,
        }
        for each in advice
    ]
    about = _about(observation, samples, seed)
    return {**about, "options": same.asked.options, **_start_and_end(same, adopted), "ways": ways}


def map_as_json(
    partition: str,
    nodes: Sequence[int],
    hours: Sequence[float],
    answers: Sequence[Answer],
    observation: Observation,
    adopted: AdoptedState,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return a map of waits as plain data, in s; None: such a job never starts.

    Args:
        answers: for each number of nodes, those of each time limit.
    """

    def wait_s(answer: Answer, share: float) -> float | None:
        value = _quantile(answer.start_s, share) - adopted.state.now_s
        return value if math.isfinite(value) else None

    shapes = [(count, time_h) for count in nodes for time_h in hours]
    cells = [
        {
            "nodes": count,
            "hours": time_h,
            "median_wait_s": wait_s(answer, 0.5),
            "low_wait_s": wait_s(answer, 0.1),
            "high_wait_s": wait_s(answer, 0.9),
            "chance_to_start_within_1_h": _soon(answer, adopted),
        }
        for (count, time_h), answer in zip(shapes, answers, strict=True)
    ]
    return {**_about(observation, samples, seed), "partition": partition, "cells": cells}


def effect_as_json(
    effect: Effect,
    days: float,
    price_per_kwh: float | None,
    observation: Observation,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return the effect of a change as plain data; `is_shown`: whether the futures show it."""

    def plain(found: Difference, factor: float = 1.0) -> dict[str, Any]:
        interval = [factor * found.low, factor * found.high]
        return {
            "now": factor * found.now,
            "changed": factor * found.changed,
            "difference": factor * found.difference,
            "interval": None if math.isnan(found.low) else interval,
            "is_shown": found.is_shown,
            "range": [factor * found.least, factor * found.most],
        }

    waits = [
        {
            "account": each.account,
            "jobs": each.jobs,
            "mean_wait_s": plain(each.wait_s),
            "unstarted_now": each.unstarted_now,
            "unstarted_changed": each.unstarted_changed,
        }
        for each in effect.waits
    ]
    found = {**_about(observation, samples, seed), "days": days, "waits": waits}
    found["energy_kwh"] = plain(effect.energy_j, 1.0 / J_PER_KWH)
    if price_per_kwh is not None:
        found["cost"] = plain(effect.energy_j, price_per_kwh / J_PER_KWH)
    return found


def advice_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of `advice_as_json`."""
    rows: list[tuple[str, ...]] = [("WHAT", "START", "10 %", "90 %", "SOONER", "GAIN")]
    rows.append((printable(data["options"]), *_of_start(data["start"]), "", ""))
    for each in data["ways"]:
        gain_s, sooner = each["median_gain_s"], f"{100 * each['chance_to_start_sooner']:.0f} %"
        gain = "" if gain_s is None else _span(gain_s)
        rows.append((printable(each["what"]), *_of_start(each["start"]), sooner, gain))
    yield from aligned(rows)
    if not data["ways"]:
        yield "no shorter limit, fewer nodes or other partition is possible"


def _of_start(start: Mapping[str, Any]) -> Iterator[str]:
    """Yield median and 80 % range of starts."""
    return map(_local, (start["median_s"], *start["ranges"]["0.8"]))


def map_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of `map_as_json`: median waits, nodes down, hours across; `-`: never."""
    cells = {(each["nodes"], each["hours"]): each["median_wait_s"] for each in data["cells"]}
    nodes, hours = (sorted({shape[at] for shape in cells}) for at in (0, 1))
    yield f"median wait in {printable(data['partition'])}"
    rows = [("NODES", *(f"{time_h:g} H" for time_h in hours))]
    rows += [(str(n), *(_span(cells[n, time_h]) for time_h in hours)) for n in nodes]
    yield from aligned(rows)


def effect_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of `effect_as_json`."""
    rows: list[tuple[str, ...]] = [
        ("WHAT", "JOBS", "NOW", "CHANGED", "DIFFERENCE", "95 % OF TIMES", "MEAN, 95 %")
    ]
    for each in data["waits"]:
        what, found = (
            f"mean wait, {printable(each['account']) or 'no account'}",
            each["mean_wait_s"],
        )
        rows.append((what, f"{each['jobs']:.0f}", *_shown(found, _span)))
    rows.append(("energy, kWh", "", *_shown(data["energy_kwh"], _figure)))
    if "cost" in data:
        rows.append(("cost", "", *_shown(data["cost"], _figure)))
    yield from aligned(rows)
    for each in data["waits"]:
        if abs(each["unstarted_changed"] - each["unstarted_now"]) >= MANY_UNSTARTED:
            never, now = each["unstarted_changed"], each["unstarted_now"]
            yield f"{printable(each['account'])}: {never:.1f} jobs never start then, {now:.1f} now"


def _shown(found: Mapping[str, Any], text: Callable[[float], str]) -> tuple[str, ...]:
    low, high = found["interval"] or (math.nan, math.nan)
    interval = f"{text(low)} to {text(high)}" if low == low else "unknown"
    if not found["is_shown"]:
        interval += ": no difference shown"
    means = (text(found[name]) for name in ("now", "changed", "difference"))
    return (*means, " to ".join(map(text, found["range"])), interval)


def _figure(value: float) -> str:
    """Return a number with three digits, or more before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def _late(unix_s: float | None) -> float:
    return math.inf if unix_s is None else unix_s


def _local(unix_s: float | None) -> str:
    return "-" if unix_s is None else datetime.fromtimestamp(round(unix_s)).isoformat()


def _span(seconds: float | None) -> str:
    """Return a duration such as `3:05`, in hours and minutes, or `40 s`; `-`: none."""
    if seconds is None:
        return "-"
    sign, whole = "-" * (seconds <= -0.5), round(abs(seconds))
    if whole < 60:
        return f"{sign}{whole} s"
    minutes = round(whole / 60)
    return f"{sign}{minutes // 60}:{minutes % 60:02}"


def _soon(answer: Answer, adopted: AdoptedState) -> float:
    return float((answer.start_s <= adopted.state.now_s + SOON_S).mean())


def _quantile(times_s: Floats, share: float) -> float:
    return float(np.quantile(times_s, share, method="inverted_cdf"))


def _quantiles(times_s: Floats, origin_s: float) -> dict[str, Any]:
    def unix(share: float) -> float | None:
        value = _quantile(times_s, share)
        return origin_s + value if math.isfinite(value) else None

    ranges = {str(each): [unix((1 - each) / 2), unix((1 + each) / 2)] for each in RANGES}
    return {"median_s": unix(0.5), "ranges": ranges}


def aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield rows as lines, their columns below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
