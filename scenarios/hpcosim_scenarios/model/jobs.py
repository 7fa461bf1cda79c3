"""The jobs of a scenario: reading or drawing them, and selecting from them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import OrderedDict
from pathlib import Path

import msgspec
import msgspec.structs
import numpy as np
from msgspec.structs import asdict

from hpcosim_protocol import Platform
from hpcosim_scenarios.errors import ScenarioError
from hpcosim_scenarios.model.host_lists import lookup
from hpcosim_scenarios.model.logs import check_jobs_left, imitated_jobs, log_jobs, log_path
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.series import draws_forecasts
from hpcosim_scenarios.model.workload import Bernoulli, Imitated, Lublin, Poisson, Workload
from hpcosim_workloads import shaping
from hpcosim_workloads.errors import LineError, WorkloadError
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
from hpcosim_workloads.table import DROPS, PLACEMENTS, JobTable

PROFILES = "$.workload.profiles"


LOW, HIGH = 0.01, 1.0  # offered loads outside are probably a mistake
USUAL = 0.7  # the load that a warning recommends
MOST_DROPPED = 0.05  # share of the jobs of a log that may be dropped without a warning


MOST_JOBS = 2_000_000
"""Maximum number of jobs in all cached tables."""

FEW_JOBS = 200_000
"""The same where runs with the same jobs follow each other; about 40 MB."""


def jobs_of(scenario: Scenario, folder: Path, most: int = MAX_JOBS) -> JobTable:
    """Return the jobs of a scenario.

    Args:
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
        return dataclasses.replace(table, placement=np.full(len(table), code, dtype=np.int8))
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


def offered_load(jobs: JobTable, platform: Platform, reference_ghz: float | None) -> float | None:
    """Return the offered load: requested core-seconds / (cores x span of submissions).

    Above 1 the platform cannot keep up with the submissions. Run times that depend on the node are
    those on a core of average speed.

    Args:
        jobs: the jobs, in order of submission.
        reference_ghz: clock at which run times hold; None: they hold on every node.

    Returns:
        The load, a share of 1; None: all jobs are submitted at one instant.
    """
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0]) if len(jobs) else 0.0
    if not span_s:
        return None
    ghz = np.where(jobs.ops > 0.0, 1.0, reference_ghz or np.nan)  # nan: the same on every node
    scale = np.nan_to_num(ghz * 1e9 / _mean_ops_per_s(platform), nan=1.0)
    return float(jobs.cores @ (jobs.run_s * scale)) / (platform.core_count * span_s)


def load_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return a warning if the offered load is below `LOW` or above `HIGH`.

    Jobs that the scenario lists have none: such examples are often short on purpose.
    """
    if scenario.workload.inline is not None:
        return []
    load = offered_load(jobs, scenario.platform, scenario.workload.reference_clock_ghz)
    if load is None or LOW <= load <= HIGH:
        return []
    factor = float(f"{scenario.workload.load * USUAL / load:.2g}") if load else 0.0
    change = f"; --set workload.load={factor:g} makes it about {USUAL:g}" if factor else ""
    if load < LOW:
        return [f"the offered load is {load:.2g}, so jobs rarely wait{change}"]
    return [f"the offered load is {load:.3g}, so the queue grows until the last submission{change}"]


def drop_warnings(scenario: Scenario, jobs: JobTable) -> list[str]:
    """Return a warning if the reader dropped more than `MOST_DROPPED` of the selected jobs."""
    if scenario.workload.synthetic is not None:  # the counts are those of the whole log
        return []
    dropped = sum(count for rule, count in jobs.skipped.items() if rule in DROPS)
    total = dropped + len(jobs)
    if dropped <= MOST_DROPPED * total:
        return []
    return [f"{dropped} of {total} jobs of the log were dropped: {jobs.rules.drops()}"]


def draws_numbers(scenario: Scenario) -> bool:
    """Return whether jobs, switching times, forecasts or failures depend on the seed."""
    if scenario.workload.synthetic is not None or draws_forecasts(scenario.signals):
        return True
    if scenario.failures is not None and scenario.failures.random:
        return True
    states = [group.power_states for group in scenario.platform.nodes if group.power_states]
    return any(each.switch_on_sd_s > 0.0 or each.switch_off_sd_s > 0.0 for each in states)


def _mean_ops_per_s(platform: Platform) -> float:
    """Return the mean speed of all cores, operations per second."""
    total = sum(
        group.count * each.cores * each.ops_per_s
        for group in platform.nodes
        for each in group.processors
    )
    return total / platform.core_count


class SourceCache:
    """The results of `source_jobs` that were used last.

    A table is the same if the platform, the settings of the reader or model, and the file (by size
    and time of change) are the same; for a model, also the seed. Selections and load come later.

    Args:
        most_jobs: maximum number of jobs per table.
        most_cached: maximum number of jobs in all tables.
    """

    def __init__(self, most_jobs: int, most_cached: int = MOST_JOBS) -> None:
        self._most_jobs = most_jobs
        self._most_cached = most_cached
        self._tables: OrderedDict[bytes, JobTable] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of jobs in all tables."""
        return sum(map(len, self._tables.values()))

    def jobs(self, scenario: Scenario, folder: Path) -> JobTable:
        """Return the jobs of the source of a scenario; errors are those of `source_jobs`."""
        if scenario.workload.inline is not None:  # they are in memory
            return source_jobs(scenario, folder, self._most_jobs)
        key = _key(scenario, folder)
        table = self._tables.pop(key, None)
        if table is None:
            table = source_jobs(scenario, folder, self._most_jobs)
        self._tables[key] = table
        while len(self) > self._most_cached and len(self._tables) > 1:
            self._tables.popitem(last=False)
        return table


def _key(scenario: Scenario, folder: Path) -> bytes:
    workload = scenario.workload
    reading = msgspec.structs.replace(
        workload, window_s=None, jobs=None, divide_cores=1, max_cores=None, load=1.0
    )
    seed = None if workload.synthetic is None else scenario.seed
    parts = (scenario.platform, reading, seed, *_file_state(scenario, folder))
    return hashlib.sha256(msgspec.json.encode(parts)).digest()


def _file_state(scenario: Scenario, folder: Path) -> tuple[str | int, ...]:
    """Return the path, size and time of change of the file of jobs; empty: there is none."""
    workload = scenario.workload
    which = workload.synthetic if isinstance(workload.synthetic, Imitated) else workload
    if workload.json is None and which.swf is None and which.trace is None:
        return ()
    try:
        path = folder / workload.json if workload.json else log_path(which, folder)
        state = path.stat()
    except (OSError, ValueError, WorkloadError):  # reading it reports the error
        return ()
    return (str(path), state.st_size, state.st_mtime_ns, state.st_ino)
