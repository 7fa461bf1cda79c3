"""A run of a Batsim scheduler: read the input files, exchange messages, write the results."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcosim_batsim.bridge import requester
from hpcosim_batsim.bridge.bridge import Bridge, run_one_by_one
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.csv_files import files_of, summary_file
from hpcosim_batsim.errors import InputError, RunFailedError, SchedulerError
from hpcosim_batsim.inputs.external_events import read_external_events
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import check_profiles, communicating_profile
from hpcosim_batsim.inputs.workload_json import check_sizes, read_workloads
from hpcosim_batsim.inputs.workload_model import BatsimWorkload
from hpcosim_batsim.results import results_of
from hpcosim_sim.record.folder import prepare, write_together

CUT_SHORT = "_cut_short.txt"
"""End of the name of a file that says that the results are incomplete, and why."""

Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Input files and how to read them.

    Attributes:
        events: files of external events (JSON lines); None: the scheduler also gets no
            `no_more_external_event_to_occur`.
        roles: roles of hosts by name, in addition to those of the platform.
        mmax_workload: use at most the largest `nb_res` of the workloads.
    """

    platform: Path
    workloads: Sequence[Path]
    events: Sequence[Path] | None
    master: str
    roles: Mapping[str, str]
    mmax: int
    mmax_workload: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Output files.

    Attributes:
        wall_times: write wall-clock times to `PREFIX_schedule.csv`.
    """

    prefix: Path
    machine_states: bool
    wall_times: bool


def run_batsim(
    inputs: Inputs,
    options: BatsimOptions,
    address: str | None,
    outputs: Outputs,
    timeouts: requester.BatsimTimeouts,
    report: Report,
    show: Report | None = None,
) -> None:
    """Run a simulation with the scheduler at an address, and write the results.

    Raises:
        InputError: an input file or the address is invalid.
        RunFailedError: the run failed; the results so far are written if the scheduler replied.
        ResultsFolderError: the folder of the output files cannot be written to; nothing has run.
        ResultsError: the results cannot be written.
    """
    if address is not None:
        requester.check_address(address)
    prepare(outputs.prefix.parent, force=True)  # like Batsim, replace the files of an earlier run
    bridge = open_bridge(inputs, options, report)
    wall = requester.WallTimes()

    def run() -> None:
        if address is None:
            _run_without_scheduler(bridge, wall)
            return
        report(f"waiting for the scheduler at {address}")
        requester.exchange_messages(bridge, address, timeouts, wall, show)

    prefix = f"{outputs.prefix}_"
    finish(bridge, run, lambda why: _write(bridge, outputs, wall, cut_short=why), prefix, report)


def finish(
    bridge: Bridge,
    run: Callable[[], None],
    write: Callable[[str], None],
    prefix: str,
    report: Report,
) -> None:
    """Carry out a run and write its results.

    Args:
        write: writes the results; its argument is why the run was cut short, "": it is complete.
        prefix: path and start of the names of the output files.

    Raises:
        RunFailedError: the run failed; the results so far are written if the scheduler replied.
    """
    try:
        run()
    except SchedulerError as error:
        if not bridge.replied:  # keep the files of an earlier run
            raise RunFailedError(str(error)) from error
        write(str(error))
        raise RunFailedError(f"{error}; results so far: {prefix}jobs.csv") from error
    except KeyboardInterrupt:
        if bridge.replied:
            write("the user interrupted the run")
        raise
    write("")
    ended, now_s = bridge.run.simulation.recording.over, bridge.run.simulation.now_s
    report(f"{ended} jobs ended, simulated time {now_s:.6f} s")
    report(f"results: {prefix}jobs.csv and others")


def open_bridge(inputs: Inputs, options: BatsimOptions, report: Report) -> Bridge:
    """Read the input files and return the simulation.

    Raises:
        InputError: an input file is invalid.
    """
    workloads = read_workloads(inputs.workloads)
    platform = read_platform(
        inputs.platform,
        master=inputs.master,
        roles=inputs.roles,
        limit=max_hosts(inputs, workloads),
        energy=options.energy,
    )
    check_jobs(workloads, platform, report)
    if options.energy:
        warn_of_power(platform, report)
    events = inputs.events
    external = (
        None
        if events is None
        else read_external_events(
            events, len(platform.hosts), forward_unknown=options.forward_unknown_events
        )
    )
    return Bridge(workloads, platform, options, external)


def check_jobs(
    workloads: Sequence[BatsimWorkload], platform: BatsimPlatform, report: Report
) -> None:
    """Check that the jobs can run on a platform.

    Raises:
        InputError: the profile of a job cannot run.
    """
    for workload in workloads:
        check_profiles(workload, platform)
    try:
        check_sizes(workloads, platform)
    except InputError as error:  # Batsim leaves it to the scheduler to reject such a job
        report(f"warning: {error}; it must be rejected")
    if platform.no_network and (profile := communicating_profile(workloads)):
        why = f"because {platform.path} has no links"
        report(f"warning: {profile}: communication takes no time, {why}")


def warn_of_power(platform: BatsimPlatform, report: Report) -> None:
    """Report hosts whose energy is unknown. As in Batsim, it is an error only when it is read."""
    if without := platform.hosts_without_power():
        report(f"warning: {platform.path}: {without}; they draw 0 W, and energy cannot be read")


def dump_context(address: str, prefix: Path, *, scheduler: bool = True) -> str:
    """Return the execution context as JSON, which tools of Batsim request before a run."""
    return json.dumps(
        {
            "external_scheduler": scheduler,
            "socket_endpoint": address,
            "redis_enabled": False,
            "redis_hostname": "127.0.0.1",
            "redis_port": 6379,
            "redis_prefix": "default",
            "export_prefix": str(prefix),
        }
    )


def _run_without_scheduler(bridge: Bridge, wall: requester.WallTimes) -> None:
    began_s = time.perf_counter()
    run_one_by_one(bridge)
    wall.simulation_s = time.perf_counter() - began_s


def max_hosts(inputs: Inputs, workloads: Sequence[BatsimWorkload]) -> int:
    """Return the maximum number of compute hosts; 0: all."""
    if not inputs.mmax_workload:
        return inputs.mmax
    wanted = max((workload.nb_res for workload in workloads), default=0)
    return min(wanted, inputs.mmax) if inputs.mmax else wanted


def _write(
    bridge: Bridge, outputs: Outputs, wall: requester.WallTimes, *, cut_short: str = ""
) -> None:
    """Write the results, also those of a run that was cut short for the given reason."""
    outcome = results_of(bridge.run)
    if outputs.wall_times:
        outcome.scheduling_s, outcome.simulation_s = wall.scheduling_s, wall.simulation_s
    name = outputs.prefix.name
    files = files_of(outcome, name, complete=not cut_short)
    if not outputs.machine_states:
        del files[f"{name}_machine_states.csv"]
    notice = f"{name}{CUT_SHORT}"
    if cut_short:
        files[notice] = notice_of(bridge, cut_short)
    seal = summary_file(name)
    write_together(outputs.prefix.parent, files, (seal, notice), seal=seal)


def notice_of(bridge: Bridge, cut_short: str) -> list[str]:
    """Return the lines of the file that says why a run was cut short."""
    return [
        f"The run was cut short at {bridge.run.simulation.now_s:.6f} s of simulated time: "
        f"{cut_short}\n"
        "The other files have the results until then. There is no summary.\n"
    ]
