"""The observation of a live Slurm: state, accounting, usage, settings, expected starts."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hpcosim_scenarios.model.file import load_scenario
from hpcosim_slurm.config import CONFIG, check_version, parse_config
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.files.output import InputError
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.sacct_records import COLUMNS
from hpcosim_slurm.files.slurm.convert import SlurmOptions, import_slurm
from hpcosim_slurm.reading import new_separator, read_state
from hpcosim_slurm.state import ClusterState, LiveJob
from hpcosim_slurm.texts import number_of, task_id, text_of, time_of
from hpcosim_slurm.tools import Tools
from hpcosim_twin.cluster.observation import (
    UNLIMITED_S,
    EndedJob,
    ForecastError,
    Observation,
    Site,
)
from hpcosim_twin.cluster.recorded import ENDED, ended_job, jobs_of, read_records, run_s_of
from hpcosim_workloads.accounting.record import Record

HISTORY_DAYS = 30
SACCT_TIMEOUT_S = 120.0
MOST_PAST = 1000
"""Number of jobs that are over, the last submitted ones, from which submissions are drawn."""
SACCT = (
    *("sacct", "--allusers", "--allocations", "--parsable2", "--duplicates"),
    f"--starttime=now-{HISTORY_DAYS}days",
    f"--format={','.join(COLUMNS)}",
)
SSHARE = ("sshare", "--all", "--parsable2", "--noheader", "--format=Account,User,RawUsage")
STARTS = ("squeue", "--noheader", "--all", "--array", "--states=PENDING")
"""Slurm plans the starts of jobs that wait; with `--start` it would sort them."""
_START_FIELDS = ("JobID", "ArrayJobID", "ArrayTaskID", "StartTime")

ADVICE = (
    "copy it with the accounts from the cluster, import it with `hpcosim import slurm` and name "
    "the scenario with --scenario"
)


class Accounted(NamedTuple):
    """What the accounting knows of the last `HISTORY_DAYS` days.

    Attributes:
        history: the jobs that ended.
        past: the last submitted ones of the jobs that are over, at most `MOST_PAST`.
    """

    history: list[EndedJob]
    past: list[LiveJob]


def accounted(tools: Tools, site: Site) -> Accounted:
    """Return what the accounting knows.

    Raises:
        SlurmError: the accounting does not answer.
        InputError: its answer has another form than expected.
    """
    in_utc = {**tools.environment, "SLURM_TIME_FORMAT": "standard", "TZ": "UTC"}
    text = replace(tools, environment=in_utc, timeout_s=SACCT_TIMEOUT_S).output(*SACCT)
    if text.count("\n") < 2:
        return Accounted([], [])  # the header only
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.psv"
        path.write_text(text, encoding="utf-8")
        records = read_records(path, ImportReport())
    last = jobs_of(records, site, ImportReport(), MOST_PAST)
    over = [job.at(job.over_s) for job in last if job.over_s < math.inf]
    return Accounted(_history(records.each), over)


def with_past(state: ClusterState, past: Iterable[LiveJob]) -> ClusterState:
    """Return a state with jobs that are over, and that it does not have."""
    return replace(state, jobs={**{job.id: job for job in past}, **state.jobs})


def history_of(path: Path) -> list[EndedJob]:
    """Return the ended jobs of a file with the output of `sacct -P`.

    Raises:
        InputError: the file cannot be read or lacks columns.
    """
    return _history(read_records(path, ImportReport()).each)


def _history(records: Iterable[Record]) -> list[EndedJob]:
    return [job for record in records if (job := ended_job(record)) is not None]


def remembered_history(state: ClusterState) -> list[EndedJob]:
    """Return the ended jobs that the controller still remembers."""
    found = []
    for job in state.jobs.values():
        word = job.slurm_state.split("+")[0].split(" ")[0]
        if job.state != "over" or word not in ENDED:
            continue
        if job.started_s is None or job.ended_s is None:
            continue
        requested_s = UNLIMITED_S if job.time_limit_s is None else job.time_limit_s
        run_s, cores = run_s_of(word, job.ended_s - job.started_s), float(job.cpus)
        found.append(EndedJob(job.user, requested_s, run_s, job.account, cores))
    return found


def usage_of(text: str) -> dict[str, dict[str, float]]:
    """Return the raw usage by account and user of the output of `SSHARE`.

    Raises:
        ForecastError: the text has another form.
    """
    found: dict[str, dict[str, float]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("|")]
        try:
            account, user, usage = fields
            used_s = float(usage or 0.0)
        except ValueError:
            raise ForecastError(
                f"sshare: expected Account|User|RawUsage, got {line[:80]!r}"
            ) from None
        if user:
            users = found.setdefault(account, {})
            users[user] = users.get(user, 0.0) + used_s
    return found


def expected_starts(tools: Tools) -> dict[int, float]:
    """Return when Slurm expects to start waiting jobs, by number, Unix time, s.

    Raises:
        SlurmError: the controller does not answer, or in another form than expected.
    """
    separator = new_separator()
    layout = ",".join(f"{name}:{separator}" for name in _START_FIELDS)
    return starts_of_text(tools.output(*STARTS, f"--Format={layout}"), separator)


def starts_of_text(text: str, separator: str) -> dict[int, float]:
    """Return the expected starts of the output of `STARTS` in `_START_FIELDS`.

    Raises:
        ReadingError: the text has another form.
    """
    words = [word.strip() for word in text.split(separator)][:-1]
    rows: Iterable[tuple[str, ...]] = zip(*[iter(words)] * len(_START_FIELDS), strict=False)
    found = {}
    for number, array, task, start in rows:
        start_s = time_of(start)
        if start_s is not None:
            index = text_of(task)
            plain = re.fullmatch(r"\d{1,10}", index)
            job = task_id(number_of(array), int(index)) if plain else number_of(number)
            found[job] = start_s
    return found


def observe(
    tools: Tools,
    scenario: Path | None = None,
    history: list[EndedJob] | None = None,
    warn: Callable[[str], object] = lambda _: None,
) -> Observation:
    """Return an observation of the cluster of this machine.

    Args:
        scenario: the site; None: as slurm.conf and the accounting describe it.
        history: ended jobs; None: those of the accounting, or those that Slurm remembers.

    Raises:
        SlurmError: the cluster cannot be read.
    """
    text = tools.output(*CONFIG)
    config = parse_config(text)
    check_version(config.version)
    state = read_state(tools)
    slurm_s = expected_starts(tools)
    usage_s: Mapping[str, Mapping[str, float]] = {}
    if scenario is not None:
        site = site_of(scenario)
    else:
        site = _imported(tools, text, config.name if config.has_accounts else "", warn)
    if config.has_accounts:
        try:
            usage_s = usage_of(tools.output(*SSHARE))
            if history is None:
                history, past = accounted(tools, site)
                state = with_past(state, past)
        except (SlurmError, InputError) as error:
            warn(f"usage or history of the accounting is unknown: {error}")
    if history is None:
        history = remembered_history(state)
    return Observation(
        state=state,
        platform=site.platform,
        settings=site.settings,
        booted_s=_booted_s(text),
        history=tuple(history),
        usage_s=usage_s,
        slurm_s=slurm_s,
    )


def _booted_s(config: str) -> float | None:
    """Return the Unix time of the controller's start, s; None: unknown.

    Slurm prints Unix times, as `SLURM_TIME_FORMAT` of `Tools` says.
    """
    found = re.search(r"(?m)^BOOT_TIME\s*= (\d{1,12})\s*$", config)
    return None if found is None else float(found[1])


def site_of(path: Path) -> Site:
    """Return the site that a scenario describes.

    Raises:
        ScenarioError: the file cannot be read, or is no scenario.
        ForecastError: its scheduler is not `slurm`.
    """
    scenario = load_scenario(path)
    name = scenario.scheduler.name
    if name != "slurm":
        raise ForecastError(
            f"{path}: scheduler.name: expected slurm, whose settings the site has, got {name:.80}"
        )
    return Site(scenario.platform, scenario.scheduler.settings)


def _imported(tools: Tools, config: str, accounts_of: str, warn: Callable[[str], object]) -> Site:
    """Return the site as slurm.conf and the accounting describe it."""
    found = re.search(r"(?m)^SLURM_CONF\s*= (.+?)\s*$", config)
    conf = Path(found[1] if found else "/etc/slurm/slurm.conf")
    try:
        conf.open("rb").close()
    except OSError as error:
        raise ForecastError(f"{conf}: {error.strerror}; {ADVICE}") from None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump, qos = folder / "accounts.txt", folder / "qos.psv"
        options = SlurmOptions()
        if accounts_of:
            try:
                tools.output("sacctmgr", "--immediate", "dump", accounts_of, f"file={dump}")
                qos.write_text(tools.output("sacctmgr", "--parsable2", "show", "qos"))
                options = SlurmOptions(sacctmgr=dump, qos=qos)
            except SlurmError as error:
                warn(f"limits and shares of accounts are unknown: {error}")
        try:
            return configured_site(conf, options)
        except InputError as error:
            raise ForecastError(f"{error}; {ADVICE}") from None


def configured_site(conf: Path, options: SlurmOptions) -> Site:
    """Return the site that a slurm.conf describes.

    Raises:
        InputError: a file cannot be read or is invalid.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "site.yaml"
        import_slurm(conf, out, options)
        return site_of(out)
