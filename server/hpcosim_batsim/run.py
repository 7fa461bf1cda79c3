"""Running a scheduler of Batsim's: files in, a conversation, files out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.conversation import Patience, Wall, converse
from hpcosim_batsim.bridge.opening import Options
from hpcosim_batsim.errors import InputError, RunFailedError, SchedulerError
from hpcosim_batsim.inputs.external_events import read_external_events
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.profiles import check_profiles
from hpcosim_batsim.inputs.workload_json import check_sizes, read_workloads
from hpcosim_batsim.inputs.workload_model import Workload
from hpcosim_batsim.outputs.csv_files import files_of
from hpcosim_batsim.outputs.results import results_of
from hpcosim_server.record.folder import write_together

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What is read.

    Attributes:
        platform: SimGrid's file.
        workloads: the files of jobs.
        events: files of external events; None: there are none, and no word of their end.
        master: the name of the host no job runs on.
        roles: of hosts, beside those of the platform.
        mmax: take so many hosts only; 0: all.
        mmax_workload: take only as many as the most that a workload was made for.
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
    """What is written.

    Attributes:
        prefix: what the names of the files begin with.
        machine_states: that file, too.
        wall_times: wall seconds, too.
    """

    prefix: Path
    machine_states: bool
    wall_times: bool


def run_batsim(
    inputs: Inputs, options: Options, address: str, outputs: Outputs, patience: Patience, say: Say
) -> None:
    """Let the scheduler at an address schedule jobs on hosts, and write what comes of it.

    Args:
        inputs: what is read.
        options: what holds.
        address: where the scheduler listens.
        outputs: what is written.
        patience: how long the scheduler is waited for.
        say: told what a person wants to know.

    Raises:
        InputError: bad input.
        RunFailedError: the run failed; what was recorded is written.
        ResultsError: the results can't be written.
    """
    bridge = open_bridge(inputs, options, say)
    say(f"waiting for the scheduler at {address}")
    wall = Wall()
    try:
        converse(bridge, address, patience, wall)
    except SchedulerError as error:
        _write(bridge, outputs, wall)
        raise RunFailedError(f"{error}; results so far: {outputs.prefix}_jobs.csv") from error
    except KeyboardInterrupt:
        _write(bridge, outputs, wall)
        raise
    _write(bridge, outputs, wall)
    simulation = bridge.run.simulation
    say(f"{simulation.recording.over} jobs are over at {simulation.now_s:.6f} s")
    say(f"results: {outputs.prefix}_jobs.csv and others")


def open_bridge(inputs: Inputs, options: Options, say: Say) -> Bridge:
    """Read all there is to be read.

    Raises:
        InputError: bad input.
    """
    workloads = read_workloads(inputs.workloads)
    platform = read_platform(
        inputs.platform,
        master=inputs.master,
        roles=inputs.roles,
        limit=_limit(inputs, workloads),
    )
    for workload in workloads:
        check_profiles(workload, platform)
    try:
        check_sizes(workloads, platform)
    except InputError as error:  # a scheduler can reject such jobs; those of Batsim do
        say(f"warning: {error}; the scheduler must reject it")
    events = inputs.events
    external = (
        None
        if events is None
        else read_external_events(
            events, len(platform.hosts), forward_unknown=options.forward_unknown_events
        )
    )
    return Bridge(workloads, platform, options, external)


def dump_context(address: str, prefix: Path) -> str:
    """Return what Batsim's own tools ask for before a run, as JSON."""
    return json.dumps(
        {
            "external_scheduler": True,
            "socket_endpoint": address,
            "redis_enabled": False,
            "redis_hostname": "127.0.0.1",
            "redis_port": 6379,
            "redis_prefix": "default",
            "export_prefix": str(prefix),
        }
    )


def _limit(inputs: Inputs, workloads: Sequence[Workload]) -> int:
    if not inputs.mmax_workload:
        return inputs.mmax
    wanted = max((workload.nb_res for workload in workloads), default=0)
    return min(wanted, inputs.mmax) if inputs.mmax else wanted


def _write(bridge: Bridge, outputs: Outputs, wall: Wall) -> None:
    outcome = results_of(bridge.run)
    if outputs.wall_times:
        outcome.scheduling_s, outcome.simulation_s = wall.scheduling_s, wall.simulation_s
    files = files_of(outcome, outputs.prefix.name)
    if not outputs.machine_states:
        del files[f"{outputs.prefix.name}_machine_states.csv"]
    write_together(outputs.prefix.parent, files)
