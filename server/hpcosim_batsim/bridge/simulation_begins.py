"""The event `SIMULATION_BEGINS`: options, hosts and workloads of a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host
from hpcosim_batsim.inputs.workload_model import BatsimWorkload, used_profiles


class BatsimOptions(Struct, frozen=True, kw_only=True):
    """Options of a run, named as Batsim's.

    Attributes:
        energy: simulate power and energy, and let the scheduler change power states.
        compute_sharing: a host may run several jobs at the same time.
        storage_sharing: a storage host may be used by several jobs at the same time; only reported
            to the scheduler.
        forward_profiles: `JOB_SUBMITTED` contains the job's profile.
        dynamic_jobs: the scheduler may register jobs and profiles.
        acknowledge_dynamic_jobs: the scheduler gets `JOB_SUBMITTED` of the jobs it registers.
        profile_reuse: the scheduler may reuse profiles of finished jobs; only reported to it, as
            profiles are always kept.
        forward_unknown_events: the scheduler gets external events of unknown types.
        sched_config: configuration text for the scheduler.
    """

    energy: bool = False
    compute_sharing: bool = False
    storage_sharing: bool = True
    forward_profiles: bool = False
    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = False
    profile_reuse: bool = False
    forward_unknown_events: bool = False
    sched_config: str = ""


def simulation_begins_data(
    platform: BatsimPlatform,
    workloads: Iterable[BatsimWorkload],
    options: BatsimOptions,
) -> dict[str, Any]:
    """Return the data of `SIMULATION_BEGINS`."""
    hosts = len(platform.hosts)
    workloads = list(workloads)
    return {
        "nb_resources": hosts + len(platform.storage),
        "nb_compute_resources": hosts,
        "nb_storage_resources": len(platform.storage),
        "allow_compute_sharing": options.compute_sharing,
        "allow_storage_sharing": options.storage_sharing,
        "config": {
            "redis-enabled": False,
            "redis-hostname": "127.0.0.1",
            "redis-port": 6379,
            "redis-prefix": "default",
            "profiles-forwarded-on-submission": options.forward_profiles,
            "dynamic-jobs-enabled": options.dynamic_jobs,
            "dynamic-jobs-acknowledged": options.acknowledge_dynamic_jobs,
            "profile-reuse-enabled": options.profile_reuse,
            "sched-config": options.sched_config,
            "forward-unknown-events": options.forward_unknown_events,
        },
        "compute_resources": [
            _resource(number, host) for number, host in enumerate(platform.hosts)
        ],
        "storage_resources": [
            _resource(number, host) for number, host in enumerate(platform.storage, start=hosts)
        ],
        "workloads": {workload.name: str(Path(workload.path).absolute()) for workload in workloads},
        "profiles": {
            workload.name: {name: profile.raw for name, profile in used_profiles(workload).items()}
            for workload in workloads
        },
    }


def _resource(number: int, host: Host) -> dict[str, Any]:
    return {
        "id": number,
        "name": host.name,
        "state": "idle",
        "properties": host.properties,
        "zone_properties": host.zone_properties,
    }
