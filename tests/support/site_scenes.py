"""Jobs with requests, and clusters with partitions and devices, for tests."""

from __future__ import annotations

from typing import Any

from hpcosim_protocol import DecisionRejected, Dependency, JobRequest
from hpcosim_protocol.requests import DependencyKind
from hpcosim_sim.engine.simulation import Simulation
from hpcosim_workloads.table import NAMED, PLACEMENTS, JobSpec, JobTable, coded, job_table


def job(
    job_id: int,
    submit_s: float = 0.0,
    run_s: float = 10.0,
    cores: int = 1,
    *,
    requested_s: float | None = None,
    spec: dict[str, Any] | None = None,
    **request: Any,
) -> JobSpec:
    """Return a job; `request` has the fields of its request, `spec` those of `JobSpec`."""
    return JobSpec(
        job_id,
        submit_s,
        run_s,
        run_s if requested_s is None else requested_s,
        cores,
        **{"placement": "cores", **(spec or {})},
        request=JobRequest(**request) if request else None,
    )


def after(kind: DependencyKind, *job_ids: int, delay_s: float = 0.0) -> Dependency:
    """Return a dependency on jobs."""
    return Dependency(kind, job_ids, delay_s)


def table(*jobs: JobSpec) -> JobTable:
    """Return a workload of these jobs, in order of submission."""
    columns: dict[str, Any] = {
        name: [getattr(each, name) for each in jobs]
        for name in JobSpec._fields
        if name not in ("request", "placement", "profile", *NAMED)
    }
    names = {}
    for name in NAMED:
        columns[name], names[name] = coded(getattr(each, name) for each in jobs)
    requests: list[JobRequest] = []
    columns["request"] = []
    for each in jobs:
        columns["request"].append(-1 if each.request is None else len(requests))
        if each.request is not None:
            requests.append(each.request)
    columns["placement"] = [PLACEMENTS.index(each.placement) for each in jobs]
    return job_table(**columns, names=names, requests=tuple(requests))


def rejection(simulation: Simulation, decision: Any) -> tuple[str, str]:
    """Carry out a decision that is rejected; return code and reason."""
    events = simulation.advance([decision], wake_on=["decision_rejected"]).events
    (event,) = [each for each in events if isinstance(each, DecisionRejected)]
    return event.code, event.reason


def final_states(simulation: Simulation) -> dict[int, str]:
    """Return the final state of each job that is over, by job id."""
    from hpcosim_sim.record.recording import STATES

    recording = simulation.recording
    return {
        job_id: STATES[code]
        for job_id, code in zip(recording.job_id, recording.state, strict=True)
        if code > 1
    }
