"""Forecasts and answers as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from hpcosim_client.arrays import Floats
from hpcosim_twin.asked import Answer
from hpcosim_twin.forecast import StartForecast
from hpcosim_twin.observation import Observation
from hpcosim_twin.queue_state import AdoptedState

COLUMNS = ("JOBID", "USER", "MEDIAN", "10 %", "90 %", "SQUEUE --START")
MAX_USER = 20


def table_of(
    observation: Observation, adopted: AdoptedState, forecasts: Sequence[StartForecast]
) -> Iterator[str]:
    """Yield the lines of the table: local times, the earliest median first; `-`: never."""
    rows: list[tuple[str, ...]] = [COLUMNS]
    for each in sorted(forecasts, key=lambda each: (each.median_s, each.low_s, each.job_id)):
        job = observation.state.jobs[each.job_id]
        times = (each.median_s, each.low_s, each.high_s)
        rows.append(
            (
                job.label or str(job.id),
                _plain(job.user)[:MAX_USER],
                *(_local(adopted.origin_s + at_s) for at_s in times),
                _local(observation.slurm_s.get(each.job_id, math.inf)),
            )
        )
    yield from _aligned(rows)


def as_json(
    observation: Observation,
    adopted: AdoptedState,
    forecasts: Sequence[StartForecast],
    drawn: Sequence[StartForecast],
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return the forecasts as plain data: Unix times, s; None: never, or nothing is known."""

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
            "drawn_low_s": unix(raw.low_s),
            "drawn_high_s": unix(raw.high_s),
            "at_limits_s": unix(each.at_limits_s),
            "squeue_s": observation.slurm_s.get(each.job_id),
        }
        for each, raw in zip(forecasts, drawn, strict=True)
    ]
    return {
        "at_s": observation.state.at_s,
        "samples": samples,
        "seed": seed,
        "history_jobs": len(observation.history),
        "jobs": rows,
    }


RANGES = (0.5, 0.8, 0.95)
"""Probabilities of the ranges of an answer, each between quantiles of equal tails."""
SOON_S = 3600.0
"""Time for which an answer has the chance to start, s."""


def answer_table(answers: Sequence[Answer], adopted: AdoptedState) -> Iterator[str]:
    """Yield the lines of a table of answers; the one that most probably ends first is the first."""
    rows: list[tuple[str, ...]] = [("JOB", "START", "10 %", "90 %", "END", "IN 1 H", "ENDS FIRST")]
    for each in sorted(answers, key=lambda answer: -answer.first):
        times = (each.start_s, 0.5), (each.start_s, 0.1), (each.start_s, 0.9), (each.end_s, 0.5)
        first = [100 * share for share in (each.first, each.first_low, each.first_high)]
        rows.append(
            (
                _plain(each.asked.options),
                *(_local(adopted.origin_s + _quantile(*time)) for time in times),
                f"{100 * _soon(each, adopted):.0f} %",
                "{:.0f} % ({:.0f} to {:.0f})".format(*first),
            )
        )
    if len(answers) == 1:
        rows = [row[:-1] for row in rows]
    yield from _aligned(rows)


def answers_as_json(
    answers: Sequence[Answer],
    observation: Observation,
    adopted: AdoptedState,
    samples: int,
    seed: int,
) -> dict[str, Any]:
    """Return answers as plain data: Unix times, s; None: never."""
    rows = [
        {
            "options": each.asked.options,
            "start": _quantiles(each.start_s, adopted.origin_s),
            "end": _quantiles(each.end_s, adopted.origin_s),
            "chance_to_start_within_1_h": _soon(each, adopted),
            "chance_to_end_first": each.first,
            "chance_to_end_first_95": [each.first_low, each.first_high],
        }
        for each in answers
    ]
    return {"at_s": observation.state.at_s, "samples": samples, "seed": seed, "jobs": rows}


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


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _local(unix_s: float) -> str:
    if not math.isfinite(unix_s):
        return "-"
    return datetime.fromtimestamp(round(unix_s)).isoformat()


def _plain(text: str) -> str:
    """Return a text without control characters, which a terminal would carry out."""
    return "".join(character if character.isprintable() else "?" for character in text)
