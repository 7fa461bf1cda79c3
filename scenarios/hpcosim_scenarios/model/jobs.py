"""The jobs of a scenario: reading or drawing them, and selecting from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from msgspec.structs import asdict

from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.host_lists import lookup
from hpcosim_scenarios.model.logs import check_jobs_left, imitated_jobs, log_jobs
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.workload import Bernoulli, Imitated, Lublin, Poisson, Workload
from hpcosim_workloads import shaping
from hpcosim_workloads.errors import LineError
from hpcosim_workloads.logs.catalogue import KNOWN
from hpcosim_workloads.logs.job_lines import (
    LOG_FIELDS,
    MAX_NAME_LENGTH,
    JobLines,
    log_field_message,
    read_jsonl,
)
from hpcosim_workloads.logs.swf import SwfFields
from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.synthetic.imitation import MAX_JOBS
from hpcosim_workloads.synthetic.lublin import lublin, poisson
from hpcosim_workloads.table import PLACEMENTS, JobTable

PROFILES = "$.workload.profiles"


def jobs_of(scenario: Scenario, folder: Path, most: int = MAX_JOBS) -> JobTable:
    """Return the jobs of a scenario.

    Args:
        scenario: the scenario.
        folder: the folder of the scenario's file; relative paths start here.
        most: maximum number of jobs that a model may draw if it fills days or sequences.

    Raises:
        ScenarioError: an inline job or a synthetic model is invalid.
        WorkloadError: the source cannot be read, or no job of it is left.
    """
    return shape(source_jobs(scenario, folder, most), scenario.workload)


def source_jobs(scenario: Scenario, folder: Path, most: int = MAX_JOBS) -> JobTable:
    """Return all jobs of the source, before `shape`.

    Arguments and errors are those of `jobs_of`.
    """
    workload, rng = scenario.workload, np.random.default_rng(scenario.seed)
    nodes_of = lookup(scenario.platform)
    if isinstance(workload.synthetic, Imitated):
        return imitated_jobs(workload.synthetic, workload, folder, nodes_of, rng, most)
    if workload.synthetic is not None:
        table = _drawn(workload.synthetic, rng, most)
        code = PLACEMENTS.index(workload.placement)
        return replace(table, placement=np.full(len(table), code, dtype=np.int8))
    if workload.inline is not None:
        return inline_jobs(scenario)
    if workload.json is not None:
        path, lenient = folder / workload.json, workload.lenient
        placement, profiles = workload.placement, workload.profiles
        table = read_jsonl(
            path,
            placement=placement,
            lenient=lenient,
            profiles=profiles,
            nodes_of=nodes_of,
        )
        check_jobs_left(table, path)
        return table
    return log_jobs(workload, workload, folder, nodes_of)


def shape(table: JobTable, workload: Workload) -> JobTable:
    """Return the selected jobs with the sizes and the load that a workload section states.

    Raises:
        WorkloadError: no job is selected.
    """
    if workload.window_s is not None:
        table = shaping.window_by_time(table, *workload.window_s)
    if workload.jobs is not None:
        table = shaping.window_by_number(table, *workload.jobs)
    if workload.divide_cores != 1:
        table = shaping.divide_cores(table, workload.divide_cores)
    if workload.max_cores is not None:
        table = shaping.cap_cores(table, workload.max_cores)
    if workload.load != 1.0:
        table = shaping.scale_load(table, workload.load)
    return table


def moved_s(table: JobTable, workload: Workload) -> float:
    """Return how much earlier `shape` submits the first selected job than the source, s.

    Args:
        table: the jobs of the source.
        workload: the workload section, which selects at least one job.
    """
    if workload.window_s is None and workload.jobs is None:
        return 0.0
    first = 0
    if workload.window_s is not None:
        first = int(np.searchsorted(table.submit_s, workload.window_s[0]))
    if workload.jobs is not None:
        first += workload.jobs[0]
    return float(table.submit_s[first])


def _drawn(model: Lublin | Poisson | Bernoulli, rng: np.random.Generator, most: int) -> JobTable:
    if isinstance(model, Lublin):
        return lublin(rng, jobs=model.jobs, processors=model.processors)
    if isinstance(model, Bernoulli):
        return bernoulli(rng, **asdict(model), max_jobs=most)
    return poisson(
        rng,
        jobs=model.jobs,
        mean_interarrival_s=model.mean_interarrival_s,
        cores=model.cores,
        run_s=model.run_s,
        overestimate=model.overestimate,
    )


def check_log_settings(workload: Workload) -> None:
    """Check that settings of the log reader have a log to apply to.

    Raises:
        ScenarioError: there is no log; has the field, not file and line.
    """
    if workload.swf is not None or workload.trace is not None:
        return
    if isinstance(workload.synthetic, Imitated):
        return
    for name, default in {"zero_run_time": "drop", **SwfFields()._asdict()}.items():
        if getattr(workload, name) != default:
            what = "applies to job logs (swf, trace, or a model that imitates one); remove it"
            raise ScenarioError(what, field=f"$.workload.{name}")


def inline_jobs(scenario: Scenario) -> JobTable:
    """Return the jobs that the scenario itself lists; none, if it has another source of jobs.

    Raises:
        ScenarioError: a job is invalid; has the field, not file and line.
    """
    workload = scenario.workload
    jobs = JobLines(workload.placement, workload.profiles, lookup(scenario.platform))
    number = 0
    try:
        for number, line in enumerate(workload.inline or ()):
            jobs.add(line, number)
        return jobs.table()
    except LineError as error:
        place = number if error.place is None else error.place
        field = f"$.workload.inline[{place}].{error.field}"
        raise ScenarioError(error.what, field=field) from None


def check_profiles(workload: Workload) -> None:
    """Check the names of profiles, and that the source has jobs that can have one.

    Raises:
        ScenarioError: a name or a profile is invalid; has the field, not file and line.
    """
    for name in workload.profiles:
        if not 0 < len(name) <= MAX_NAME_LENGTH or not name.isprintable() or '"' in name:
            what = f"expected names of 1 to {MAX_NAME_LENGTH} printable characters except '\"'"
            what += f", got {name!r}"
            raise ScenarioError(what, field=PROFILES)
    if not workload.profiles or workload.json is not None or workload.inline is not None:
        return
    trace = KNOWN.get(workload.trace or "")
    if workload.synthetic is not None or (trace is not None and trace.format != "swf"):
        source = "a synthetic workload" if trace is None else f"the log {trace.name}"
        what = f"jobs of {source} have no profile; remove the profiles"
        raise ScenarioError(what, field=PROFILES)
    for name, profile in workload.profiles.items():
        for field in LOG_FIELDS:
            if getattr(profile, field) is not None:
                raise ScenarioError(log_field_message(field), field=f'{PROFILES}["{name}"].{field}')
