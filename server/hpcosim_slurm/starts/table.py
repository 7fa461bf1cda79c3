"""Forecasts as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from hpcosim_slurm.starts.forecast import StartForecast
from hpcosim_slurm.starts.observation import Observation
from hpcosim_slurm.starts.queue_state import AdoptedState

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
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


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


def _local(unix_s: float) -> str:
    if not math.isfinite(unix_s):
        return "-"
    return datetime.fromtimestamp(round(unix_s)).isoformat()


def _plain(text: str) -> str:
    """Return a text without control characters, which a terminal would carry out."""
    return "".join(character if character.isprintable() else "?" for character in text)
