"""Profiles of Batsim 4 that read from and write to storage hosts, by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.errors import BadReplyError, InputError
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.run import check_jobs
from support.batsim_inputs import write_workload

PROFILES: dict[str, Any] = {
    "both": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1e6, "bytes_to_write": 3e6},
    "fast": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 2e6, "storage": "fast"},
    "stage": {"type": "data_staging", "nb_bytes": 6e6, "from": "fast", "to": "slow"},
    "wait": {"type": "delay", "delay": 10},
    "in turn": {"type": "composed", "seq": ["fast", "wait"]},
}


def write_platform(folder: Path, storage: str, network: bool = True) -> Path:
    """Write hosts `a` and `b`, storage hosts with one letter and a master in a star.

    Each host has links of 1 MB/s to the centre and from it, without latency.
    """
    names = ["a", "b", *storage, "master_host"]
    role = '<prop id="role" value="storage"/>'
    hosts = [
        f'<host id="{name}" speed="1Gf">{role if name in storage else ""}</host>' for name in names
    ]
    links = [
        f'<link id="{name}_link" bandwidth="1MBps" sharing_policy="SPLITDUPLEX"/>' for name in names
    ]
    ends = [
        f'<host_link id="{name}" up="{name}_link_UP" down="{name}_link_DOWN"/>' for name in names
    ]
    inside = [*hosts, *(links + ends if network else ())]
    path = folder / "platform.xml"
    path.write_text(
        '<?xml version="1.0"?>\n<platform version="4.1">'
        f'<zone id="z" routing="Cluster">{"".join(inside)}</zone></platform>'
    )
    return path


def run_jobs(
    folder: Path, jobs: Sequence[tuple[str, str, dict[str, int] | None]], storage: str
) -> list[float]:
    """Start jobs at 0 and return the times of their ends.

    Args:
        jobs: profile, hosts and `storage_mapping` of each.
    """
    rows = [
        {"id": number, "subtime": 0, "res": 2 if "-" in alloc else 1, "profile": profile}
        for number, (profile, alloc, _) in enumerate(jobs)
    ]
    workloads = read_workloads([write_workload(folder, rows, PROFILES)])
    bridge = Bridge(workloads, read_platform(write_platform(folder, storage)), BatsimOptions())
    ends: dict[str, float] = {}
    message = json.loads(bridge.first_message())
    while not bridge.ended:
        decisions = []
        for event in message["events"]:
            if event["type"] == "JOB_SUBMITTED":
                job_id = event["data"]["job_id"]
                _, alloc, mapping = jobs[int(job_id.partition("!")[2])]
                data = {"job_id": job_id, "alloc": alloc}
                data |= {} if mapping is None else {"storage_mapping": mapping}
                decisions.append({"timestamp": 0.0, "type": "EXECUTE_JOB", "data": data})
            elif event["type"] == "JOB_COMPLETED":
                ends[event["data"]["job_id"]] = event["timestamp"]
        reply = {"now": message["now"], "events": decisions}
        message = json.loads(bridge.next_message(json.dumps(reply).encode()))
    return [ends[f"w0!{number}"] for number in range(len(jobs))]


def test_hosts_read_and_write_at_the_same_time(tmp_path: Path) -> None:
    """Two hosts write 3 MB each over the storage host's link of 1 MB/s; reading takes 2 s."""
    assert run_jobs(tmp_path, [("both", "0-1", None)], "s") == [6.0]


def test_storage_mapping_chooses_the_storage_host(tmp_path: Path) -> None:
    """Storage hosts have the numbers after those of the compute hosts."""
    jobs = [("fast", "0", {"fast": 2}), ("fast", "1", {"fast": 3})]
    assert run_jobs(tmp_path, jobs, "st") == [2.0, 2.0]


def test_jobs_share_the_link_of_a_storage_host(tmp_path: Path) -> None:
    """Each of two jobs gets half of it, although it belongs to one host."""
    jobs = [("fast", "0", {"fast": 2}), ("fast", "1", {"fast": 2})]
    assert run_jobs(tmp_path, jobs, "st") == [4.0, 4.0]


def test_data_are_staged_between_storage_hosts(tmp_path: Path) -> None:
    """6 MB take 6 s; a job that reads from the first one gets half of its link for 4 s."""
    both = {"fast": 2, "slow": 3}
    assert run_jobs(tmp_path, [("stage", "0", both)], "st") == [6.0]
    jobs = [("stage", "0", both), ("fast", "1", {"fast": 2})]
    assert run_jobs(tmp_path, jobs, "st") == [8.0, 4.0]


def test_transfer_can_be_a_part_of_a_job(tmp_path: Path) -> None:
    """2 s of reading and 10 s of waiting."""
    assert run_jobs(tmp_path, [("in turn", "0", {"fast": 2})], "s") == [12.0]


@pytest.mark.parametrize(
    ("profile", "storage", "mapping", "wrong"),
    [
        ("both", "st", None, "needs a storage host for 'pfs'; storage_mapping has no label"),
        ("fast", "s", {"slow": 2}, "needs a storage host for 'fast'; storage_mapping has 'slow'"),
        ("stage", "s", None, "needs a storage host for 'fast'; storage_mapping has no label"),
        ("fast", "s", {"fast": 0}, "fast: 0 is no storage host; expected 2 to 2"),
    ],
)
def test_missing_storage_host_is_named(
    tmp_path: Path, profile: str, storage: str, mapping: dict[str, int] | None, wrong: str
) -> None:
    """The error names the label and what the decision has."""
    with pytest.raises(BadReplyError) as caught:
        run_jobs(tmp_path, [(profile, "0", mapping)], storage)
    assert wrong in str(caught.value)


def test_platform_without_storage_hosts_is_an_error(tmp_path: Path) -> None:
    """The error names the job and the profile."""
    job = {"id": 1, "subtime": 0, "res": 1, "profile": "both"}
    workloads = read_workloads([write_workload(tmp_path, [job], PROFILES)])
    platform = read_platform(write_platform(tmp_path, ""))
    with pytest.raises(InputError, match=r"job w0!1: profile both: needs a storage host; .* none"):
        check_jobs(workloads, platform, lambda _: None)


def test_transfer_without_links_is_a_warning(tmp_path: Path) -> None:
    """It takes no time, also for a job of one host."""
    job = {"id": 1, "subtime": 0, "res": 1, "profile": "both"}
    workloads = read_workloads([write_workload(tmp_path, [job], PROFILES)])
    platform = read_platform(write_platform(tmp_path, "s", network=False))
    warnings: list[str] = []
    check_jobs(workloads, platform, warnings.append)
    assert len(warnings) == 1
    assert "profile both: communication takes no time" in warnings[0]
