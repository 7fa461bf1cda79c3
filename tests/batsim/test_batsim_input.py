"""Batsim's inputs: workloads in JSON, SimGrid platforms, and durations of tasks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_batsim.errors import InputError
from hpcosim_batsim.inputs.platform_model import BatsimPlatform, Host, SleepState, Watts
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import (
    HostTask,
    SequentialTask,
    SimpleTask,
    check_profiles,
    progress,
    task_of,
)
from hpcosim_batsim.inputs.workload_json import (
    check_sequences,
    check_sizes,
    in_order,
    parse_job,
    parse_profile,
    read_workload,
    read_workloads,
)
from hpcosim_batsim.inputs.workload_model import (
    MAX_TASKS,
    BatsimJob,
    BatsimProfile,
    BatsimWorkload,
    Composed,
    Delay,
    Parallel,
    ParallelHomogeneous,
)
from hpcosim_batsim.inputs.xml_tree import BANDWIDTHS, FLOPS, MAX_DEPTH, TIMES, amount
from hpcosim_batsim.network import Attachment, Link, Network, Zone
from support.paths import SHARED

GOLDEN = SHARED / "golden" / "batsim"
DELAY = {"type": "delay", "delay": 10}


@pytest.fixture
def inputs() -> Path:
    """The platforms and workloads of the recorded runs."""
    folder = GOLDEN / "inputs"
    if not folder.is_dir():
        pytest.skip(f"the recordings of Batsim are not on this machine: no {folder}")
    return folder


# Workloads


def workload_file(folder: Path, **changes: Any) -> Path:
    """Write a workload of one job with changed fields; None removes a field."""
    content: dict[str, Any] = {
        "nb_res": 4,
        "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "d"}],
        "profiles": {"d": DELAY},
    }
    content = {key: value for key, value in {**content, **changes}.items() if value is not None}
    path = folder / "workload.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_fields_of_jobs(tmp_path: Path) -> None:
    """Known fields are parsed, unknown ones are preserved, and the id is the full id."""
    job = {"id": "a", "subtime": 2.5, "res": 3, "walltime": 60, "profile": "d", "user": {"uid": 7}}
    workload = read_workload(workload_file(tmp_path, jobs=[job], comment="kept nowhere"), "w0")
    assert workload == BatsimWorkload(
        name="w0",
        path=str(tmp_path / "workload.json"),
        nb_res=4,
        jobs=(
            BatsimJob(
                workload="w0",
                name="a",
                submit_s=2.5,
                res=3,
                profile="d",
                walltime_s=60.0,
                raw={**job, "id": "w0!a"},
            ),
        ),
        profiles={"d": Delay(name="d", raw=DELAY, delay_s=10.0)},
    )
    assert workload.jobs[0].full_id == "w0!a"


@pytest.mark.parametrize("walltime", [{}, {"walltime": -1}, {"walltime": -1.0}])
def test_a_job_may_have_no_walltime(walltime: dict[str, float]) -> None:
    """A walltime of -1 or a missing walltime means unlimited."""
    raw = {"id": 1, "subtime": 0, "res": 1, "profile": "d"} | walltime
    assert parse_job(raw, "w0").walltime_s is None


def test_fields_of_profiles() -> None:
    """Every supported profile type is read with `ret` and unknown fields."""
    raws: dict[str, dict[str, Any]] = {
        "delay": {"type": "delay", "delay": 2, "ret": 1, "note": "x"},
        "some": {"type": "parallel", "cpu": [1, 2], "com": [0, 1, 2, 0]},
        "same": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 5},
        "total": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0},
        "all": {"type": "composed", "seq": ["delay", "same"], "repeat": 3},
        "once": {"type": "composed", "seq": ["delay"]},
    }
    assert {name: parse_profile(name, raw) for name, raw in raws.items()} == {
        "delay": Delay(name="delay", ret=1, raw=raws["delay"], delay_s=2.0),
        "some": Parallel(
            name="some", raw=raws["some"], cpu_flop=(1.0, 2.0), com_bytes=(0.0, 1.0, 2.0, 0.0)
        ),
        "same": ParallelHomogeneous(name="same", raw=raws["same"], cpu_flop=1e9, com_bytes=5.0),
        "total": ParallelHomogeneous(
            name="total", raw=raws["total"], total=True, cpu_flop=1e9, com_bytes=0.0
        ),
        "all": Composed(name="all", raw=raws["all"], sequence=("delay", "same"), repeat=3),
        "once": Composed(name="once", raw=raws["once"], sequence=("delay",)),
    }


def test_several_workloads(tmp_path: Path) -> None:
    """Workloads are w0, w1, ...; jobs of the same time are sorted by full id."""
    paths = []
    for folder, times in (("a", (5, 0, 0)), ("b", (0, 5, 1))):
        (tmp_path / folder).mkdir()
        jobs = [
            {"id": number, "subtime": time_s, "res": 1, "profile": "d"}
            for number, time_s in zip((1, 2, 10), times, strict=True)
        ]
        paths.append(workload_file(tmp_path / folder, jobs=jobs))
    workloads = read_workloads(paths)
    assert [job.full_id for job in in_order(workloads)] == [
        "w0!10",
        "w0!2",
        "w1!1",
        "w1!10",
        "w0!1",
        "w1!2",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"jobs": None}, "jobs: is missing"),
        ({"profiles": None}, "profiles: is missing"),
        ({"nb_res": None}, "nb_res: is missing"),
        ({"nb_res": 0}, "nb_res: is 0; it must be from 1"),
        ({"jobs": {}}, "jobs: must be an array, not an object"),
        ({"profiles": []}, "profiles: must be an object, not an array"),
        ({"jobs": [3]}, "jobs[0]: must be an object, not the number 3"),
    ],
)
def test_file_that_is_not_a_workload(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    """The error names the file and the field."""
    path = workload_file(tmp_path, **changes)
    with pytest.raises(InputError) as error:
        read_workload(path, "w0")
    assert str(error.value).startswith(f"{path}: {says}")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"id": None}, "jobs[0].id: is missing"),
        ({"id": 1.5}, "jobs[0].id: must be a string or an integer, not the number 1.5"),
        ({"id": True}, "jobs[0].id: must be a string or an integer, not true"),
        ({"id": "w1!a"}, "jobs[0].id: is 'w1!a'; it must not contain !"),
        ({"id": "a\nb"}, "jobs[0].id: is 'a\\nb'; it must not contain !"),
        ({"subtime": None}, "jobs[0].subtime: is missing"),
        ({"subtime": "0"}, "jobs[0].subtime: must be a number, not the string '0'"),
        ({"subtime": 1e300}, "jobs[0].subtime: is 1e+300; its absolute value must be <= 1e+30"),
        ({"res": 0}, "jobs[0].res: is 0; it must be from 1"),
        ({"res": 1.5}, "jobs[0].res: must be an integer, not the number 1.5"),
        ({"walltime": 0}, "jobs[0].walltime: is 0; it must be above 0"),
        ({"walltime": -2}, "jobs[0].walltime: is -2; it must be above 0"),
        ({"walltime": []}, "jobs[0].walltime: must be a number, not an array"),
        ({"profile": None}, "jobs[0].profile: is missing"),
        ({"profile": 3}, "jobs[0].profile: must be a string, not the number 3"),
        ({"profile": "e"}, "jobs[0].profile: there is no profile 'e'"),
        (
            {"smpi_ranks_to_hosts_mapping": [0, 1]},
            "jobs[0].smpi_ranks_to_hosts_mapping[1]: expected a host of the allocation from 0 to 0",
        ),
    ],
)
def test_a_bad_job_is_refused(tmp_path: Path, fields: dict[str, Any], says: str) -> None:
    """The error names the field of the job."""
    job = {"id": 1, "subtime": 0, "res": 1, "profile": "d"} | fields
    job = {key: value for key, value in job.items() if value is not None}
    path = workload_file(tmp_path, jobs=[job])
    with pytest.raises(InputError) as error:
        read_workload(path, "w0")
    assert str(error.value).startswith(f"{path}: {says}")


def test_two_jobs_of_one_name_are_refused(tmp_path: Path) -> None:
    """The number 1 and the text "1" are the same id."""
    jobs = [{"id": name, "subtime": 0, "res": 1, "profile": "d"} for name in (1, "1")]
    with pytest.raises(InputError, match=r"jobs\[1\]\.id: another job has the id '1'"):
        read_workload(workload_file(tmp_path, jobs=jobs), "w0")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        ([], "profiles.p: must be an object, not an array"),
        ({}, "profiles.p.type: is missing"),
        ({"type": "delay"}, "profiles.p.delay: is missing"),
        ({"type": "delay", "delay": 0}, "profiles.p.delay: is 0; it must be above 0"),
        ({"type": "delay", "delay": "1"}, "profiles.p.delay: must be a number, not the string '1'"),
        ({"type": "delay", "delay": True}, "profiles.p.delay: must be a number, not true"),
        (
            {"type": "delay", "delay": 1e300},
            "profiles.p.delay: is 1e+300; its absolute",
        ),
        ({**DELAY, "ret": 0.5}, "profiles.p.ret: must be an integer"),
        ({**DELAY, "ret": -1}, "profiles.p.ret: is -1; it must be from 0 to"),
        ({"type": "parallel_homogeneous", "cpu": 1}, "profiles.p.com: is missing"),
        (
            {"type": "parallel_homogeneous", "cpu": -1, "com": 0},
            "profiles.p.cpu: is -1; it must be >= 0",
        ),
        ({"type": "parallel", "cpu": [], "com": []}, "profiles.p.cpu: is empty"),
        ({"type": "parallel", "cpu": [1, None], "com": []}, "profiles.p.cpu[1]: must be a number"),
        (
            {"type": "parallel", "cpu": [1, 1], "com": [1]},
            "profiles.p.com: has 1 numbers; 2 hosts need 4",
        ),
        ({"type": "composed", "seq": []}, "profiles.p.seq: is empty"),
        ({"type": "composed", "seq": [1]}, "profiles.p.seq[0]: must be a profile name"),
        ({"type": "composed", "seq": ["d"], "repeat": 0}, "profiles.p.repeat: is 0"),
        ({"type": "composed", "seq": ["e"]}, "profiles.p.seq[0]: there is no profile 'e'"),
        ({"type": "composed", "seq": ["p"]}, "profiles.p.seq[0]: 'p' contains itself"),
        (
            {"type": "smpi", "trace": "t"},
            "profiles.p.type: profile type 'smpi': hpcosim does not support the",
        ),
        ({"type": "usage_trace"}, "profiles.p.trace: is missing"),
        ({"type": "send"}, "profiles.p.type: profile type 'send': hpcosim does not support"),
        ({"type": "recv"}, "profiles.p.type: profile type 'recv': hpcosim does not support"),
        ({"type": "data_staging"}, "profiles.p.nb_bytes: is missing"),
        (
            {"type": "data_staging", "nb_bytes": -1, "from": "a", "to": "b"},
            "profiles.p.nb_bytes: is -1; it must be >= 0",
        ),
        (
            {"type": "parallel_homogeneous_pfs"},
            "profiles.p.bytes_to_read: is missing, and `bytes_to_write` too",
        ),
        (
            {"type": "parallel_homogeneous_pfs", "bytes_to_read": 1, "storage": 2},
            "profiles.p.storage: must be a string",
        ),
        (
            {"type": "ptask"},
            "profiles.p.type: 'ptask' is a type of Batsim 5; its name",
        ),
        (
            {"type": "delya"},
            "profiles.p.type: unknown profile type 'delya'; expected",
        ),
    ],
)
def test_a_bad_profile_is_refused(tmp_path: Path, raw: Any, says: str) -> None:
    """The error names the field, and an unsupported type by its name."""
    jobs = [{"id": 1, "subtime": 0, "res": 1, "profile": "p"}]
    path = workload_file(tmp_path, jobs=jobs, profiles={"d": DELAY, "p": raw})
    with pytest.raises(InputError) as error:
        read_workload(path, "w0")
    assert str(error.value).startswith(f"{path}: {says}")


def composed(**sequences: list[str]) -> dict[str, BatsimProfile]:
    """Return composed profiles by name, and the delay `d`."""
    profiles: dict[str, BatsimProfile] = {"d": Delay(name="d", delay_s=1.0)}
    for name, parts in sequences.items():
        profiles[name] = Composed(name=name, sequence=tuple(parts))
    return profiles


def test_cycle_of_composed_profiles() -> None:
    """A cycle of composed profiles is an error."""
    profiles = composed(a=["d", "b"], b=["a"])
    with pytest.raises(InputError, match=r"profiles\.b\.seq\[0\]: 'a' contains itself"):
        check_sequences(profiles.values(), profiles)


def test_too_many_tasks_of_a_composed_profile() -> None:
    """Forty profiles, each twice the one before, are an error without a long wait."""
    profiles = composed(**{f"p{i}": [f"p{i + 1}"] * 2 for i in range(40)}, p40=["d"])
    with pytest.raises(InputError, match=f"at most {MAX_TASKS}"):
        check_sequences(profiles.values(), profiles)


def test_too_deeply_nested_profiles() -> None:
    """A chain of thousands of profiles is an error without a traceback."""
    profiles = composed(**{f"p{i}": [f"p{i + 1}"] for i in range(5000)}, p5000=["d"])
    with pytest.raises(InputError, match="profiles deep"):
        check_sequences(profiles.values(), profiles)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{\n"nb_res": 2,\n}', "line 3: is not JSON"),
        (" \n", "the file is empty; expected a workload in JSON"),
        ('{"nb_res": NaN}', "line 1: is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must be an object, not an array"),
        ("\xff", "is not JSON"),
    ],
)
def test_file_that_is_not_json(tmp_path: Path, text: str, says: str) -> None:
    """The error names the line."""
    path = tmp_path / "workload.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError) as error:
        read_workload(path, "w0")
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """A missing workload or platform is an error that names it."""
    for read in (lambda path: read_workload(path, "w0"), read_platform):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            read(tmp_path / "none")


def test_a_job_larger_than_the_platform_is_named(tmp_path: Path) -> None:
    """The error has the job, its request and the number of hosts."""
    jobs = [{"id": 7, "subtime": 0, "res": 3, "profile": "d"}]
    workload = read_workload(workload_file(tmp_path, jobs=jobs), "w0")
    check_sizes([workload], platform_of(3))
    with pytest.raises(InputError, match=r"job w0!7: requests 3 hosts; p\.xml has 2"):
        check_sizes([workload], platform_of(2))


# Platforms


def platform_file(folder: Path, inside: str, *, master: bool = True) -> Path:
    """Write a platform with these elements in a zone, and a master host."""
    host = '<host id="master_host" speed="1Gf"/>' if master else ""
    path = folder / "platform.xml"
    path.write_text(
        "<?xml version='1.0'?>\n"
        '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
        f'<platform version="4.1"><zone id="z" routing="Full">{host}\n{inside}\n</zone></platform>',
        encoding="utf-8",
    )
    return path


def one_host(folder: Path, attributes: str = 'speed="1Gf"', properties: str = "") -> Host:
    """Return the host of a platform with one host."""
    inside = f'<host id="h" {attributes}>{properties}</host>'
    (host,) = read_platform(platform_file(folder, inside)).hosts
    return host


def test_the_recorded_energy_platform_is_understood(inputs: Path) -> None:
    """Speeds, power and sleep pstates are read; a switch takes the time of 1 flop."""
    path = inputs / "platforms" / "energy_platform_homogeneous_no_net_128.xml"
    platform = read_platform(path)
    host = platform.hosts[0]
    assert len(platform.hosts) == 128
    assert platform.no_network
    assert len(host.speeds) == len(host.watts) == 16
    assert host.flops(0) == 100e6
    assert host.watts[0] == Watts(95.0, 95.0, 190.738)
    assert host.sleep_states == {13: SleepState(13, 14, 15)}
    assert host.switch_time_s(14) == pytest.approx(6.1)
    assert host.switch_time_s(15) == pytest.approx(151.52)
    assert [pstate for pstate in range(17) if host.computes_in(pstate)] == list(range(13))
    assert host.properties["watt_per_state"] == host.properties["wattage_per_state"]


def test_hosts_are_sorted_by_name_as_text(tmp_path: Path) -> None:
    """Hosts are sorted by name as text, without the master host."""
    inside = '<cluster id="c" prefix="a" suffix="-x" radical="1-2,10" speed="1Gf"/>'
    platform = read_platform(platform_file(tmp_path, inside))
    assert [host.name for host in platform.hosts] == ["a1-x", "a10-x", "a2-x"]
    assert platform.master.name == "master_host"


def test_properties_of_a_cluster_are_those_of_a_zone(tmp_path: Path) -> None:
    """A cluster is a zone: its hosts have its properties twice, as hosts and as those of a zone."""
    inside = (
        '<prop id="site" value="z"/><cluster id="c" prefix="a" radical="0" speed="1Gf">'
        '<prop id="rack" value="7"/></cluster>'
    )
    (host,) = read_platform(platform_file(tmp_path, inside)).hosts
    assert host.zone_properties == {"site": "z", "rack": "7"}
    assert host.properties == {"role": "", "rack": "7"}


UNSUPPORTED_PROFILES = {
    "d": DELAY,
    "replay": {"type": "smpi", "trace": "t"},
    "unknown": {"type": "of another program"},
    "part": {"type": "composed", "seq": ["d", "replay"]},
    "whole": {"type": "composed", "seq": ["part"]},
}


def test_profiles_that_no_job_uses_have_any_type(tmp_path: Path) -> None:
    """A profile of a type that is not supported is left out if no job uses it."""
    workload = read_workload(workload_file(tmp_path, profiles=UNSUPPORTED_PROFILES), "w0")
    assert list(workload.profiles) == ["d"]


@pytest.mark.parametrize("profile", ["replay", "part", "whole"])
def test_profile_that_a_job_uses_is_supported(tmp_path: Path, profile: str) -> None:
    """A job with such a profile, also as a part of its own, is an error."""
    jobs = [{"id": 1, "subtime": 0, "res": 1, "profile": profile}]
    path = workload_file(tmp_path, jobs=jobs, profiles=UNSUPPORTED_PROFILES)
    with pytest.raises(InputError, match=r"profiles\.replay\.type: profile type 'smpi'"):
        read_workload(path, "w0")


def test_power_is_not_read_without_energy(tmp_path: Path) -> None:
    """Without energy, power and sleep pstates are only properties, whatever they contain."""
    inside = (
        '<host id="h" speed="0,1Gf" pstate="1"><prop id="wattage_per_state" value="none"/>'
        '<prop id="sleep_pstates" value="1:7:9"/></host>'
    )
    path = platform_file(tmp_path, inside)
    (host,) = read_platform(path, energy=False).hosts
    assert (host.watts, host.sleep_states, host.flops(1)) == ((), {}, 1e9)
    assert host.properties["wattage_per_state"] == "none"
    with pytest.raises(InputError, match="wattage_per_state"):
        read_platform(path)


def test_limit_of_hosts(tmp_path: Path) -> None:
    """The limit takes the first hosts, and must not exceed their number."""
    path = platform_file(tmp_path, '<cluster id="c" prefix="a" radical="0-11" speed="1Gf"/>')
    assert [host.name for host in read_platform(path, limit=3).hosts] == ["a0", "a1", "a10"]
    with pytest.raises(InputError, match="has 12 compute hosts; --mmax requests 13"):
        read_platform(path, limit=13)


def test_a_cluster_is_a_star_of_links(tmp_path: Path) -> None:
    """A message passes the link of each host, and the backbone once."""
    cluster = (
        '<cluster id="c{0}" prefix="{0}" radical="0-1" speed="2Gf" core="4" bw="125MBps" '
        'lat="1ms" bb_bw="2.25GBps" bb_lat="500us"/>'
    )
    alone = read_platform(platform_file(tmp_path, cluster.format("a")))
    assert [alone.network.links[link] for link in alone.network.route("a0", "a1")] == [
        Link("ca_link_a0_UP", 125e6, 1e-3),
        Link("ca_backbone", 2.25e9, 500e-6),
        Link("ca_link_a1_DOWN", 125e6, 1e-3),
    ]
    assert alone.hosts[0].flops(0) == 8e9
    assert not alone.no_network
    two = read_platform(platform_file(tmp_path, cluster.format("a") + cluster.format("b")))
    with pytest.raises(ValueError, match="zone z has no route from zone ca to zone cb"):
        two.network.route("a0", "b0")


def test_nested_zones(tmp_path: Path) -> None:
    """A host has the properties of all its zones, inner ones override outer ones."""
    inside = (
        '<prop id="site" value="outer"/><prop id="room" value="1"/>'
        '<zone id="y" routing="Full"><prop id="site" value="inner"/><host id="h" speed="1"/></zone>'
    )
    (host,) = read_platform(platform_file(tmp_path, inside)).hosts
    assert host.zone_properties == {"site": "inner", "room": "1"}
    assert host.properties == {"role": ""}


@pytest.mark.parametrize("name", ["watt_per_state", "wattage_per_state"])
def test_power_has_both_property_names(tmp_path: Path, name: str) -> None:
    """Properties have both `watt_per_state` and `wattage_per_state`."""
    watts = "10:20:30, 5:15"
    host = one_host(tmp_path, 'speed="2Gf,1Gf" pstate="1"', f'<prop id="{name}" value="{watts}"/>')
    assert host.watts == (Watts(10.0, 20.0, 30.0), Watts(5.0, 5.0, 15.0))
    assert host.pstate == 1
    assert host.properties == {"role": "", "watt_per_state": watts, "wattage_per_state": watts}


def test_the_master_is_found_by_name_or_role(tmp_path: Path) -> None:
    """The name or the role `master` determines the master host."""
    inside = '<host id="a" speed="1"/><host id="b" speed="1"/>'
    path = platform_file(tmp_path, inside, master=False)
    assert read_platform(path, master="b").master.name == "b"
    assert read_platform(path, roles={"a": "master"}).master.name == "a"
    role = '<host id="a" speed="1"/><host id="b" speed="1"><prop id="role" value="master"/></host>'
    assert read_platform(platform_file(tmp_path, role, master=False)).master.name == "b"


def test_hosts_of_storage_run_no_jobs(tmp_path: Path) -> None:
    """A host with the role `storage` is not a compute host."""
    inside = '<host id="a" speed="1"/><host id="b" speed="1"/>'
    platform = read_platform(platform_file(tmp_path, inside), roles={"b": "storage"})
    assert [host.name for host in platform.hosts] == ["a"]
    assert [(host.name, host.properties["role"]) for host in platform.storage] == [("b", "storage")]


@pytest.mark.parametrize(
    ("text", "units", "value"),
    [
        ("98.095Mf", FLOPS, 98.095e6),
        ("1Gf", FLOPS, 1e9),
        ("2.5 Tflops", FLOPS, 2.5e12),
        ("1e-9Mf", FLOPS, 1e-3),
        ("100", FLOPS, 100.0),
        ("125MBps", BANDWIDTHS, 125e6),
        ("1Gbps", BANDWIDTHS, 125e6),
        ("1KiBps", BANDWIDTHS, 1024.0),
        ("50us", TIMES, 50e-6),
        ("1.461517ms", TIMES, 1.461517e-3),
        ("2m", TIMES, 120.0),
    ],
)
def test_amounts_have_simgrids_units(text: str, units: dict[str, float], value: float) -> None:
    """An amount without a unit is in the base unit."""
    assert amount(text, units, "1") == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["", "Gf", "1.2.3Gf", "nan", "inf", "-1Gf", "1gf", "1Gf2", "1e999"]
)
def test_invalid_amount(text: str) -> None:
    """The error has an example of a valid amount."""
    with pytest.raises(ValueError, match="1Gf"):
        amount(text, FLOPS, "1Gf")


POWERED = 'speed="2f,1f,1f,1f"'


NEAR = '<host id="h" speed="1Gf"/>'


@pytest.mark.parametrize(
    ("inside", "says"),
    [
        ('<host speed="1Gf"/>', "line 4: <host> has no id"),
        ('\n<host id="h"/>', "line 5: <host> has no speed"),
        (
            '<host id="h" speed="fast"/>',
            "line 4: speed: expected an amount such as 1Gf",
        ),
        ('<host id="h" speed="0"/>', "line 4: h has a speed of 0 in pstate 0"),
        ('<host id="h" speed="1Gf" pstate="1"/>', "line 4: h starts in pstate 1"),
        ('<host id="h" speed="1Gf" pstate="x"/>', "line 4: pstate: expected an integer"),
        ('<host id="h" speed="1Gf" core="0"/>', "line 4: core: expected an integer >= 1"),
        ('<host id="h" speed="1Gf"/>' * 2, "line 4: a second host has the name h"),
        (
            '<host id="h" speed="1Gf" availability_file="f"/>',
            "line 4: availability_file is not supported",
        ),
        (
            '<host id="h" speed="1Gf"><prop id="wattage_per_state" value="1:2:3,1:2:3"/></host>',
            "line 4: wattage_per_state has 2 pstates, but speed has 1",
        ),
        (
            '<host id="h" speed="1Gf"><prop id="wattage_per_state" value="95"/></host>',
            "line 4: wattage_per_state: expected idle:epsilon:all in W, got '95'",
        ),
        (
            '<host id="h" speed="1Gf"><prop id="wattage_per_state" value="a:b:c"/></host>',
            "line 4: wattage_per_state: expected an amount",
        ),
        (
            f'<host id="h" {POWERED}><prop id="sleep_pstates" value="1:2"/></host>',
            "line 4: sleep_pstates: expected sleep:off:on",
        ),
        (
            f'<host id="h" {POWERED}><prop id="sleep_pstates" value="1:2:4"/></host>',
            "line 4: sleep_pstates: expected pstates from 0 to 3, got 4",
        ),
        (
            f'<host id="h" {POWERED}><prop id="sleep_pstates" value="1:2:3,2:1:3"/></host>',
            "line 4: sleep_pstates: pstate 1 is a sleep pstate and a transition pstate",
        ),
        (
            f'<host id="h" {POWERED}><prop id="sleep_pstates" value="0:2:3"/></host>',
            "line 4: h starts in pstate 0, which is not one of its computation pstates",
        ),
        ('<cluster id="c" prefix="a" speed="1Gf"/>', "line 4: <cluster> has no radical"),
        (
            '<cluster id="c" prefix="a" radical="0-x" speed="1Gf"/>',
            "line 4: radical: expected a list such as 0-127,130, got '0-x'",
        ),
        (
            '<cluster id="c" prefix="a" radical="5-1" speed="1Gf"/>',
            "line 4: radical: expected ascending intervals, got '5-1'",
        ),
        pytest.param(
            '<cluster id="c" prefix="a" radical="0-1000000" speed="1Gf"/>',
            "line 4: the platform has more than 1000000 hosts",
            marks=pytest.mark.slow,
        ),
        (
            '<cluster id="c" prefix="a" radical="0-1" speed="1Gf" bw="0Bps" lat="0"/>',
            "line 4: bw: expected a bandwidth > 0",
        ),
        (NEAR + '<link id="l" latency="1s"/>', "line 4: <link> has no bandwidth"),
        (
            NEAR + '<link id="l" bandwidth="1Bps" latency="1Bps"/>',
            "line 4: latency: expected an amount",
        ),
        (NEAR + '<link id="l" bandwidth="1Bps"/>' * 2, "line 4: a second link has the name l"),
        (f"{NEAR}<route src='h' dst='x'/>", "line 4: <route>: there is no host or router x"),
        (
            f"{NEAR}<zoneRoute src='z' dst='y' gw_src='h' gw_dst='h'/>",
            "line 4: <zoneRoute>: there is no zone y",
        ),
        (
            f"{NEAR}<zoneRoute src='z' dst='z' gw_src='h' gw_dst='g'/>",
            "line 4: <zoneRoute>: there is no host or router g",
        ),
        (
            f"{NEAR}<route src='h' dst='h'><link_ctn id='l'/></route>",
            "line 4: there is no link l",
        ),
        (
            f"{NEAR}<link id='l' bandwidth='1Bps' sharing_policy='SPLITDUPLEX'/>"
            "<route src='h' dst='h'><link_ctn id='l'/></route>",
            "line 4: direction: expected UP or DOWN for the split link l",
        ),
        (
            f"{NEAR}<link id='l' bandwidth='1Bps'/>"
            + "<route src='h' dst='master_host'><link_ctn id='l'/></route>" * 2,
            "line 4: a second route from h to master_host; routes are symmetrical",
        ),
        (
            '<zone id="z" routing="Full"><host id="h" speed="1Gf"/></zone>',
            "line 3: a second zone has the name z",
        ),
        ('<peer id="p" speed="1Gf"/>', "line 4: <peer>: hpcosim does not support hosts with"),
        (
            '<include file="f"/>',
            "line 4: <include>: hpcosim does not support",
        ),
        ('<trace id="t" file="f"/>', "line 4: <trace>: hpcosim does not support traces"),
        ('<hots id="h" speed="1Gf"/>', "line 4: <hots> is not an element of a SimGrid platform"),
        (
            '<host id="a" speed="1"><prop id="role" value="boss"/></host>',
            "host a: has the unknown role 'bo",
        ),
        (
            '<host id="a" speed="1"><prop id="role" value="master"/></host>',
            "has 2 master hosts (a, master_host)",
        ),
        ("", "has no compute host, only the master host"),
    ],
)
def test_a_bad_platform_is_refused(tmp_path: Path, inside: str, says: str) -> None:
    """The error names the file and the line."""
    path = platform_file(tmp_path, inside)
    with pytest.raises(InputError) as error:
        read_platform(path)
    assert str(error.value).startswith(f"{path}: {says}")


def test_a_platform_without_a_master_is_refused(tmp_path: Path) -> None:
    """The error says how to name a master host."""
    path = platform_file(tmp_path, '<host id="a" speed="1"/>', master=False)
    with pytest.raises(InputError, match="expected a host named boss"):
        read_platform(path, master="boss")


def test_role_of_an_unknown_host(tmp_path: Path) -> None:
    """The error names the unknown host."""
    path = platform_file(tmp_path, '<host id="a" speed="1"/>')
    with pytest.raises(InputError, match="has no host b; --add-role-to-hosts"):
        read_platform(path, roles={"b": "master"})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file is empty; expected a SimGrid platform in XML"),
        ("{}", "is JSON; expected a SimGrid platform in XML"),
        ("\n\n<platform>\n", "line 4: is not XML"),
        ("<platform></zone>", "line 1: is not XML: mismatched tag"),
        ("<workload/>", "line 1: expected the root element <platform>, got <workload>"),
        ("<platform>" + "<zone>" * 1000 + "</zone>" * 1000 + "</platform>", f"{MAX_DEPTH} deep"),
    ],
)
def test_file_that_is_not_a_platform(tmp_path: Path, text: str, says: str) -> None:
    """The error names the line, or the format of the file."""
    path = tmp_path / "platform.xml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        read_platform(path)
    assert str(error.value).startswith(f"{path}: ")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">',
        '<!ENTITY a SYSTEM "file:///etc/passwd">',
        '<!ENTITY % a SYSTEM "http://127.0.0.1/x.dtd"> %a;',
        '<!ATTLIST host speed CDATA "1Gf">',
    ],
)
def test_doctype_with_internal_subset(tmp_path: Path, declared: str) -> None:
    """A DOCTYPE with an internal subset is an error."""
    path = tmp_path / "platform.xml"
    path.write_text(f"<!DOCTYPE platform [{declared}]>\n<platform/>", encoding="utf-8")
    with pytest.raises(InputError, match="line 1: the DOCTYPE has an internal subset"):
        read_platform(path)


def test_a_platform_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file larger than the maximum is an error."""
    monkeypatch.setattr("hpcosim_batsim.inputs.xml_tree.MAX_BYTES", 100)
    path = platform_file(tmp_path, "<!-- " + "x" * 100 + " -->")
    with pytest.raises(InputError, match="is larger than"):
        read_platform(path)


# Durations of tasks


def platform_of(
    hosts: int = 2, *, network: Network | None = None, cores: int = 1
) -> BatsimPlatform:
    """Return a platform of hosts of 100, 200, 300... flop/s, half of that in pstate 1."""
    return BatsimPlatform(
        path="p.xml",
        hosts=tuple(
            Host(name=f"h{i}", speeds=(100.0 * (i + 1), 50.0 * (i + 1)), cores=cores)
            for i in range(hosts)
        ),
        master=Host(name="m", speeds=(1.0,)),
        no_network=network is None,
        network=network or Network(),
    )


def star(
    bytes_per_s: float,
    split: bool,
    latency_s: float,
    backbone_bytes_per_s: float = math.inf,
    backbone_latency_s: float = 0.0,
) -> Network:
    """Return the network of a cluster of three hosts."""
    links = [Link("backbone", backbone_bytes_per_s, backbone_latency_s)]
    attachments = {}
    for host in ("h0", "h1", "h2"):
        up, down = len(links), len(links) + split
        links += [Link(f"{host} {i}", bytes_per_s, latency_s) for i in range(1 + split)]
        attachments[host] = Attachment((up, 0), (0, down))
    zone = Zone("z", "", "star", attachments=attachments)
    return Network(links, {"z": zone}, dict.fromkeys(attachments, "z"))


def same(cpu: float, com: float = 0.0, *, total: bool = False) -> ParallelHomogeneous:
    """Return a homogeneous profile."""
    return ParallelHomogeneous(name="p", total=total, cpu_flop=cpu, com_bytes=com)


def run_on(
    profile: BatsimProfile,
    hosts: list[int],
    platform: BatsimPlatform | None = None,
    pstates: tuple[int, ...] = (0, 0, 0, 0),
    others: Mapping[str, BatsimProfile] = MappingProxyType({}),
) -> HostTask:
    """Return the task of a profile on hosts."""
    return task_of(profile, others, platform or platform_of(4), hosts, pstates)


def test_a_delay_loads_nothing() -> None:
    """A delay takes its duration on any host, without load."""
    assert run_on(Delay(name="d", delay_s=7.0), [0, 3]) == SimpleTask("d", 7.0, {})


def test_a_task_is_over_when_its_slowest_host_is() -> None:
    """Faster hosts run at the load with which all hosts finish together."""
    assert run_on(same(1000.0), [0, 1]) == SimpleTask("p", 10.0, {0: 1.0, 1: 0.5})


def test_a_total_is_spread_over_the_hosts() -> None:
    """`parallel_homogeneous_total` on twice as many hosts is half of the work on each."""
    assert run_on(same(1000.0, total=True), [0, 1]) == SimpleTask("p", 5.0, {0: 1.0, 1: 0.5})


def test_a_parallel_profile_has_the_work_of_each_host() -> None:
    """The first amount is for the first host of the allocation."""
    profile = Parallel(name="p", cpu_flop=(600.0, 0.0, 300.0))
    assert run_on(profile, [2, 0, 1]) == SimpleTask("p", 2.0, {2: 1.0, 1: 0.75})


def test_pstates_have_their_own_speed() -> None:
    """A host in a slower pstate takes longer."""
    assert run_on(same(1000.0), [0], pstates=(1, 0)) == SimpleTask("p", 20.0, {0: 1.0})


def test_each_process_has_one_core() -> None:
    """A process uses one of four cores, and eight processes share them."""
    platform = platform_of(1, cores=4)
    assert run_on(same(1000.0), [0], platform) == SimpleTask("p", 10.0, {0: 0.25})
    assert run_on(same(1000.0), [0] * 4, platform) == SimpleTask("p", 10.0, {0: 1.0})
    assert run_on(same(1000.0), [0] * 8, platform) == SimpleTask("p", 20.0, {0: 1.0})


def test_a_host_that_has_several_processes_does_the_work_of_all() -> None:
    """A host with four processes does the work of all four."""
    assert run_on(same(1000.0, 5.0), [0, 0, 0, 0]) == SimpleTask("p", 40.0, {0: 1.0})


def test_no_work_takes_no_time() -> None:
    """A profile of zeros has a duration of 0."""
    assert run_on(same(0.0), [0, 1]) == SimpleTask("p", 0.0, {})


def test_communication_takes_no_time_where_there_are_no_links() -> None:
    """On a platform without a network only computation takes time."""
    assert run_on(same(1000.0, 1e12), [0, 1]) == SimpleTask("p", 10.0, {0: 1.0, 1: 0.5})


@pytest.mark.parametrize(
    ("network", "hosts", "seconds"),
    [
        (star(10.0, True, 0.0), [0, 1, 2], 20.0),  # each sends 2 x 100 bytes
        (star(10.0, False, 0.0), [0, 1, 2], 40.0),  # and receives as many, on the same link
        (star(10.0, True, 0.0, 20.0), [0, 1, 2], 30.0),  # 600 bytes in all
        (star(10.0, True, 1.0, 20.0, 0.5), [0, 1, 2], 32.5),  # two links and the backbone
        (star(10.0, True, 0.0), [0, 0, 1], 40.0),  # host 0 sends 2 x 100, and as many to itself
        (star(10.0, True, 0.0), [0, 0, 1, 1], 60.0),  # each of two sends 100 to three
        (star(10.0, True, 1.0), [0], 1.0),  # a single process has no messages
        (star(1e9, True, 0.0), [0, 1], 1.0),  # computation takes longer
    ],
)
def test_communication_on_a_star_takes_what_its_busiest_link_does(
    network: Network, hosts: list[int], seconds: float
) -> None:
    """Communication overlaps computation, and the latency is added."""
    platform = platform_of(3, network=network)
    task = run_on(same(100.0, 100.0), hosts, platform)
    assert task.duration_s == pytest.approx(seconds)


def test_a_matrix_of_communication_is_the_same_as_a_number() -> None:
    """`parallel` with equal amounts takes as long as `parallel_homogeneous`."""
    platform = platform_of(3, network=star(10.0, True, 1.0, 15.0))
    com = tuple(0.0 if i % 4 == 0 else 70.0 for i in range(9))
    matrix = Parallel(name="p", cpu_flop=(100.0,) * 3, com_bytes=com)
    assert run_on(matrix, [2, 0, 1], platform) == run_on(same(100.0, 70.0), [2, 0, 1], platform)


def test_communication_on_an_unsupported_network(tmp_path: Path) -> None:
    """The error occurs in `check_profiles`, and at the start of a registered job."""
    platform = platform_of(2, network=Network(unsupported="line 3: <bypassRoute>"))
    says = r"profile p: communicates, but .* the network of p\.xml: line 3: <bypassRoute>"
    with pytest.raises(InputError, match=says):
        run_on(same(1.0, 1.0), [0, 1], platform)
    profiles = {"p": {"type": "parallel_homogeneous", "cpu": 1, "com": 1}}
    for res, refused in ((1, False), (2, True)):
        jobs = [{"id": 1, "subtime": 0, "res": res, "profile": "p"}]
        path = workload_file(tmp_path, profiles=profiles, jobs=jobs)
        workload = read_workload(path, "w0")
        if refused:
            with pytest.raises(InputError, match=f"{path}: job w0!1: profile p: communicates"):
                check_profiles(workload, platform)
        else:
            check_profiles(workload, platform)


def test_a_parallel_profile_for_other_hosts_is_refused(tmp_path: Path) -> None:
    """A wrong number of hosts is an error in the check and at the start."""
    profiles = {
        "p": {"type": "parallel", "cpu": [1, 1], "com": []},
        "d": {"type": "composed", "seq": ["p"]},
    }
    workload = read_workload(workload_file(tmp_path, profiles=profiles), "w0")
    with pytest.raises(InputError, match="job w0!1: profile p: is for 2 hosts, but"):
        check_profiles(workload, platform_of())
    with pytest.raises(InputError, match="profile p: is for 2 hosts, got 1"):
        run_on(workload.profiles["p"], [0])


SEQUENCE = Composed(name="all", sequence=("d", "p"), repeat=3)
PARTS: dict[str, BatsimProfile] = {"d": Delay(name="d", delay_s=2.0), "p": same(1000.0)}


def test_a_composed_profile_does_one_part_after_the_other() -> None:
    """The parts run in order, with repetitions."""
    task = run_on(SEQUENCE, [0], others=PARTS)
    parts = (SimpleTask("d", 2.0, {}), SimpleTask("p", 10.0, {0: 1.0}))
    assert task == SequentialTask("all", parts, 3, 36.0)


def test_a_composed_profile_of_an_unknown_one_is_refused() -> None:
    """An unknown part is an error at the start of a job."""
    with pytest.raises(InputError, match="profile all: there is no profile 'd'"):
        run_on(SEQUENCE, [0])


def test_energy_is_idle_epsilon_all() -> None:
    """No load draws idle power, any load more than epsilon, full load all."""
    watts = Watts(10.0, 50.0, 100.0)
    assert [watts.at(load) for load in (0.0, 1e-12, 0.5, 1.0)] == [
        10.0,
        pytest.approx(50.0),
        75.0,
        100.0,
    ]


def test_the_recorded_job_uses_the_recorded_energy(inputs: Path) -> None:
    """Half a gigaflop on two hosts takes 5 s and 1907.38 J, as in Batsim's jobs.csv."""
    path = inputs / "platforms" / "energy_platform_homogeneous_no_net_128.xml"
    platform = read_platform(path, limit=16)
    workload = read_workload(inputs / "workloads" / "test_energy_minimal_load50.json", "w0")
    check_profiles(workload, platform)
    profile = workload.profiles["ptask_prof"]
    task = task_of(profile, workload.profiles, platform, [0, 1], [0] * 16)
    assert isinstance(task, SimpleTask)
    power_w = sum(platform.hosts[host].watts[0].at(load) for host, load in task.loads.items())
    assert task.duration_s == 5.0
    assert power_w * task.duration_s == pytest.approx(1907.38, abs=1e-9)


def test_the_time_of_batsims_own_test_of_moldable_jobs(inputs: Path) -> None:
    """A gigaflop on each of four hosts takes 20.621958 s, as in Batsim's tests."""
    platform = read_platform(inputs / "platforms" / "small_platform.xml")
    for hosts, factor in (([0, 1, 2, 3], 1), ([0, 0, 2, 2], 2), ([0, 0, 0, 0], 4)):
        task = task_of(same(1e9), {}, platform, hosts, [0] * 4)
        assert task.duration_s == pytest.approx(factor * 20.621958, abs=1e-4)


@given(
    seconds=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    repeat=st.integers(1, 20),
    share=st.floats(0.0, 1.0),
)
def test_progress_adds_up_to_the_elapsed_time(
    seconds: list[int], repeat: int, share: float
) -> None:
    """The progress of a sequence, part by part, adds up to the elapsed time."""
    profiles: dict[str, BatsimProfile] = {
        str(i): Delay(name=str(i), delay_s=float(each)) for i, each in enumerate(seconds)
    }
    whole = Composed(name="all", sequence=tuple(profiles), repeat=repeat)
    task = run_on(whole, [1], others=profiles)
    assert task.duration_s == repeat * sum(seconds)
    found = progress(task, share * task.duration_s)
    index, part = found["current_task_index"], found["current_task"]
    parts_s = seconds * repeat
    assert part["profile_name"] == str(index % len(seconds))
    passed_s = sum(parts_s[:index]) + part["progress"] * parts_s[index]
    assert passed_s == pytest.approx(share * task.duration_s, rel=1e-9, abs=1e-9)
