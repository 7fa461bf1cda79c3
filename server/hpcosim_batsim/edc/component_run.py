"""A run of components of Batsim 5: read the input files, exchange messages, write the results."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.requester import BatsimTimeouts, WallTimes, check_address
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.csv_files import SUMMARY5, files5_of
from hpcosim_batsim.edc.batsim5 import BINARY, Batsim5, Format, SimulationInfo
from hpcosim_batsim.edc.components import (
    ComponentPlan,
    context_of,
    exchange,
    introduce,
    open_component,
)
from hpcosim_batsim.edc.ensemble import Member, combine
from hpcosim_batsim.edc.messages import Hello
from hpcosim_batsim.edc.profiles import parser_of
from hpcosim_batsim.errors import InputError, RunFailedError, SchedulerError
from hpcosim_batsim.inputs.external_events import ExternalEvent, read_generic_events
from hpcosim_batsim.inputs.platform_model import BatsimPlatform
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workload
from hpcosim_batsim.inputs.workload_model import BatsimWorkload
from hpcosim_batsim.results import results_of
from hpcosim_batsim.run import (
    CUT_SHORT,
    Inputs,
    Report,
    check_jobs,
    finish,
    max_hosts,
    notice_of,
    warn_of_power,
)
from hpcosim_sim.record.folder import prepare, write_together


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs5:
    """Output files.

    Attributes:
        prefix: path and start of the names of the files; with a slash at its end, a folder.
        wall_times: write wall-clock times to `PREFIXreal_exec_info.json`.
    """

    prefix: str
    machine_states: bool
    pstates: bool
    wall_times: bool

    @property
    def folder(self) -> Path:
        """The folder of the files."""
        return Path(self.prefix) if self.prefix.endswith("/") else Path(self.prefix).parent

    @property
    def name(self) -> str:
        """The start of the names of the files."""
        return "" if self.prefix.endswith("/") else Path(self.prefix).name


@dataclass(frozen=True, slots=True, kw_only=True)
class InputData:
    """What the input files say."""

    workloads: Sequence[BatsimWorkload]
    platform: BatsimPlatform
    external: Sequence[ExternalEvent] | None


def run_batsim5(
    inputs: Inputs,
    plans: Sequence[ComponentPlan],
    outputs: Outputs5,
    timeouts: BatsimTimeouts,
    *,
    energy: bool,
    arguments: Sequence[str],
    report: Report,
    show: Report | None = None,
) -> None:
    """Run a simulation with components, and write the results.

    Args:
        plans: one component or more.
        energy: simulate power and energy.
        arguments: the command as the user gave it, for the component.

    Raises:
        InputError: an input file or the address is invalid.
        RunFailedError: the run failed; the results so far are written if the component replied.
        ResultsFolderError: the folder of the output files cannot be written to; nothing has run.
        ResultsError: the results cannot be written.
    """
    for plan in plans:
        if plan.kind == "process":
            check_address(plan.target)
    prepare(outputs.folder, force=True)  # like Batsim, replace the files of an earlier run
    given = read_inputs(inputs, energy=energy, report=report)
    with ExitStack() as stack:
        members = []
        for plan in plans:
            component = stack.enter_context(open_component(plan, timeouts, show))
            if plan.kind == "process":
                report(f"waiting for the component at {plan.target}")
            try:
                members.append(Member(component, plan, introduce(component, plan, "5.0.0")))
            except SchedulerError as error:
                raise RunFailedError(str(error)) from error
        if given.external is not None and any(each.said.form is BINARY for each in members):
            raise InputError(
                "",
                "--external-events",
                "no published source shows the number of ExternalEventOccurredEvent in the binary "
                "form; let the component use JSON",
            )
        first = members[0]
        whole, said = (first.component, first.said) if len(members) == 1 else combine(members)
        addresses = [plan.target for plan in plans if plan.kind == "process"]
        no_walltime = -1.0 if said.interface == "flags" else None
        context = context_of(addresses[0] if addresses else "", outputs.prefix)
        info = SimulationInfo(arguments, context, no_walltime)
        bridge = bridge_of(given, said.hello, said.form, info, energy=energy)
        wall = WallTimes()
        finish(
            bridge,
            lambda: exchange(bridge, whole, wall),
            lambda why: _write(bridge, outputs, wall, cut_short=why),
            outputs.prefix,
            report,
        )


def read_inputs(inputs: Inputs, *, energy: bool, report: Report) -> InputData:
    """Read the input files.

    Raises:
        InputError: an input file is invalid.
    """
    workloads = [
        read_workload(path, f"w{place}", parser_of(f"w{place}"))
        for place, path in enumerate(inputs.workloads)
    ]
    platform = read_platform(
        inputs.platform,
        master=inputs.master,
        roles=inputs.roles,
        limit=max_hosts(inputs, workloads),
        numeric_order=True,
    )
    check_jobs(workloads, platform, report)
    if energy:
        warn_of_power(platform, report)
    events = inputs.events
    external = None if events is None else read_generic_events(events)
    return InputData(workloads=workloads, platform=platform, external=external)


def bridge_of(
    given: InputData, hello: Hello, form: Format, info: SimulationInfo, *, energy: bool
) -> Bridge:
    """Return the simulation for a component that has said hello.

    Raises:
        InputError: the combination of platform, workloads and options is not supported.
    """
    features, constraints = hello.requested_simulation_features, hello.scheduling_constraints
    options = BatsimOptions(
        energy=energy,
        compute_sharing=constraints.compute_sharing,
        storage_sharing=constraints.storage_sharing,
        dynamic_jobs=features.dynamic_registration,
        acknowledge_dynamic_jobs=features.acknowledge_dynamic_jobs,
    )
    front = Batsim5(hello, form, info)
    bridge = Bridge(given.workloads, given.platform, options, given.external, front)
    if energy:
        bridge.run.hosts.start_meters()
    return bridge


def _write(bridge: Bridge, outputs: Outputs5, wall: WallTimes, *, cut_short: str) -> None:
    """Write the results, also those of a run that was cut short for the given reason."""
    outcome = results_of(bridge.run)
    outcome.pstates = bridge.run.hosts.log.pstates  # also without energy
    for job in outcome.jobs:
        owner = bridge.run.registry.find(f"{job.workload}!{job.name}").profile_workload
        job.profile = f"{owner}!{job.profile}"
    if outputs.wall_times:
        outcome.scheduling_s, outcome.simulation_s = wall.scheduling_s, wall.simulation_s
    name = outputs.name
    files = files5_of(
        outcome,
        name,
        machine_states=outputs.machine_states,
        pstates=outputs.pstates,
        complete=not cut_short,
    )
    notice = f"{name}{CUT_SHORT.lstrip('_')}"
    if cut_short:
        files[notice] = notice_of(bridge, cut_short)
    seal = f"{name}{SUMMARY5}"
    write_together(outputs.folder, files, (seal, notice), seal=seal)
