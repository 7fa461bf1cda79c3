"""The jobs of a scenario."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from hpcosim_scenarios.scenario import Lublin, Poisson, Scenario, Workload
from hpcosim_server.workload import shaping
from hpcosim_server.workload.catalogue import find_trace
from hpcosim_server.workload.jsonl import read_jsonl
from hpcosim_server.workload.lublin import lublin
from hpcosim_server.workload.poisson import poisson
from hpcosim_server.workload.swf import read_swf
from hpcosim_server.workload.table import PLACEMENTS, JobTable


def jobs_of(scenario: Scenario, folder: Path) -> JobTable:
    """Return the jobs of a scenario, shaped as it says.

    Args:
        scenario: it.
        folder: where its file lies; paths in it are relative to that.

    Raises:
        WorkloadError: the source can't be read, or nothing of it is left.
    """
    spec = scenario.workload
    table = _source(spec, scenario.seed, folder)
    if spec.window_s is not None:
        table = shaping.window_by_time(table, *spec.window_s)
    if spec.jobs is not None:
        table = shaping.window_by_number(table, *spec.jobs)
    if spec.max_cores is not None:
        table = shaping.cap_cores(table, spec.max_cores)
    if spec.load != 1.0:
        table = shaping.scale_load(table, spec.load)
    return table


def _source(spec: Workload, seed: int, folder: Path) -> JobTable:
    if spec.synthetic is not None:
        table = _drawn(spec.synthetic, np.random.default_rng(seed))
        code = PLACEMENTS.index(spec.placement)
        return replace(table, placement=np.full(len(table), code, dtype=np.int8))
    if spec.json is not None:
        return read_jsonl(folder / spec.json, placement=spec.placement, lenient=spec.lenient)
    path = find_trace(spec.trace) if spec.trace is not None else folder / str(spec.swf)
    return read_swf(path, placement=spec.placement, lenient=spec.lenient)


def _drawn(model: Lublin | Poisson, rng: np.random.Generator) -> JobTable:
    if isinstance(model, Lublin):
        return lublin(rng, jobs=model.jobs, processors=model.processors)
    return poisson(
        rng,
        jobs=model.jobs,
        mean_interarrival_s=model.mean_interarrival_s,
        cores=model.cores,
        run_s=model.run_s,
        overestimate=model.overestimate,
    )
