"""Jobs that share hosts and links: rates, ends, progress, walltimes and energy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpcosim_batsim.bridge.bridge import Bridge
from hpcosim_batsim.bridge.run import BatsimOptions
from hpcosim_batsim.fair_bottleneck import Amount, Claim, SharedRates, fair_rates
from hpcosim_batsim.inputs.platform_xml import read_platform
from hpcosim_batsim.inputs.tasks import shares_resources, task_of
from hpcosim_batsim.inputs.workload_json import read_workloads
from hpcosim_batsim.inputs.workload_model import Parallel, ParallelHomogeneous
from hpcosim_batsim.results import results_of
from support.batsim_inputs import write_workload
from support.shared_jobs import end_times_by_bridge_s
from support.sharing_oracle import end_times_s
from support.simgrid_tasks import MeasuredTask

CLUSTERS = """<?xml version="1.0"?>
<platform version="4.1"><zone id="z" routing="Full">
<cluster id="a" prefix="a" radical="0-3" speed="1Gf" core="2" bw="100MBps" lat="1ms"
  bb_bw="150MBps" bb_lat="2ms"/>
<cluster id="b" prefix="b" radical="0-3" speed="2Gf" bw="80MBps" lat="1ms" loopback_bw="1GBps"/>
<zone id="m" routing="Full"><host id="master_host" speed="1Gf"/></zone>
<link id="between" bandwidth="90MBps" latency="10ms"/>
<zoneRoute src="a" dst="b" gw_src="aa_router" gw_dst="b3"><link_ctn id="between"/></zoneRoute>
</zone></platform>"""
WATTS = '<prop id="wattage_per_state" value="100:120:200"/>'
ALL_TO_ALL = {"type": "parallel_homogeneous", "cpu": 0, "com": 1e8}
WORK = {"type": "parallel_homogeneous", "cpu": 1e10, "com": 0}  # 10 s on one host


def write_xml(folder: Path, text: str) -> Path:
    """Write a platform file."""
    path = folder / "platform.xml"
    path.write_text(text, encoding="utf-8")
    return path


def flat(hosts: int, network: str = 'bw="100MBps" bb_bw="100MBps"', watts: str = "") -> str:
    """Return a platform with one cluster of single-core hosts."""
    return (
        '<platform version="4.1"><zone id="z" routing="Full">'
        f'<cluster id="c" prefix="h" radical="0-{hosts - 1}" speed="1Gf" {network}>{watts}'
        "</cluster>"
        '<zone id="m" routing="Full"><host id="master_host" speed="1Gf"/></zone>'
        "</zone></platform>"
    )


def play(
    folder: Path,
    xml: str,
    jobs: list[dict[str, Any]],
    profiles: dict[str, Any],
    decisions: list[tuple[float, str, dict[str, Any]]],
    **options: Any,
) -> tuple[Bridge, list[dict[str, Any]]]:
    """Play a run whose scheduler sends all decisions in its first reply; return its events."""
    workloads = read_workloads([write_workload(folder, jobs, profiles)])
    bridge = Bridge(workloads, read_platform(write_xml(folder, xml)), BatsimOptions(**options))
    events = json.loads(bridge.first_message())["events"]
    decided = [{"timestamp": at_s, "type": kind, "data": data} for at_s, kind, data in decisions]
    reply = {"now": decisions[-1][0], "events": decided}
    while not bridge.ended:
        message = json.loads(bridge.next_message(json.dumps(reply).encode()))
        events += message["events"]
        reply = {"now": message["now"], "events": []}
    bridge.run.simulation.validate()
    return bridge, events


def job(number: int, profile: str, res: int = 1, **more: Any) -> dict[str, Any]:
    """Return a job that is submitted at 0 s."""
    return {"id": number, "subtime": 0, "res": res, "profile": profile, **more}


def execute(at_s: float, number: int, alloc: str) -> tuple[float, str, dict[str, Any]]:
    """Return the decision to start a job."""
    return at_s, "EXECUTE_JOB", {"job_id": f"w0!{number}", "alloc": alloc}


def ends_s(bridge: Bridge) -> dict[str, float | None]:
    """Return the end of each job, s."""
    return {one.name: one.end_s for one in results_of(bridge.run).jobs}


# Rates


def link_claims(limits: list[float], sizes: list[float]) -> list[Claim]:
    """Return the claims of tasks on one link."""
    return [
        Claim(limit, {0: Amount(size, size)}) for limit, size in zip(limits, sizes, strict=True)
    ]


def test_tasks_have_equal_parts_of_a_link() -> None:
    """The link is divided by bytes per second, not by the progress of the tasks."""
    rates = fair_rates(link_claims([1e9, 1e9], [1.0, 4.0]), {0: 100.0})
    assert rates == [50.0, 12.5]


@given(
    slow=st.lists(st.floats(0.001, 1.0), max_size=6),
    sizes=st.lists(st.floats(1.0, 1e6), min_size=1, max_size=6),
)
def test_slow_tasks_leave_capacity_to_the_others(slow: list[float], sizes: list[float]) -> None:
    """The others divide what tasks below an equal part leave, and use the whole link."""
    capacity, count = 1e6, len(slow) + len(sizes)
    limits = [share * capacity / count for share in slow] + [math.inf] * len(sizes)
    claims = link_claims([*limits[: len(slow)], *(1e12 for _ in sizes)], [1.0] * len(slow) + sizes)
    rates = fair_rates(claims, {0: capacity})
    assert rates[: len(slow)] == pytest.approx(limits[: len(slow)])
    left = capacity - math.fsum(rates[: len(slow)])
    used = [rate * size for rate, size in zip(rates[len(slow) :], sizes, strict=True)]
    assert used == pytest.approx([left / len(sizes)] * len(sizes))


amounts = st.builds(
    lambda parts: Amount(math.fsum(parts), max(parts), len(parts)),
    st.lists(st.floats(1.0, 1e4), min_size=1, max_size=3),
)
claims_of_some = st.lists(
    st.builds(
        Claim,
        st.floats(1e-3, 1e3),
        st.dictionaries(st.integers(0, 4), amounts, min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=6,
)
capacities_of_all = st.lists(st.floats(10.0, 1e6), min_size=5, max_size=5).map(
    lambda found: dict(enumerate(found))
)


@given(claims=claims_of_some, capacities=capacities_of_all)
def test_no_resource_is_overloaded_and_no_task_is_starved(
    claims: list[Claim], capacities: dict[int, float]
) -> None:
    """Each task has at least an equal part of every resource, unless its limit is below that."""
    rates = fair_rates(claims, capacities)
    for resource, capacity in capacities.items():
        used = [
            rate * claim.amounts[resource].total
            for rate, claim in zip(rates, claims, strict=True)
            if resource in claim.amounts
        ]
        assert math.fsum(used) <= capacity * (1 + 1e-9)
    for rate, claim in zip(rates, claims, strict=True):
        assert rate <= claim.limit_per_s * (1 + 1e-9)
        parts = {
            each: sum(other.amounts[each].parts for other in claims if each in other.amounts)
            for each in claim.amounts
        }
        least = min(
            capacities[each] / parts[each] / amount.largest
            for each, amount in claim.amounts.items()
        )
        assert rate >= min(least, claim.limit_per_s) * (1 - 1e-9)


@given(claims=claims_of_some, capacities=capacities_of_all, order=st.randoms(use_true_random=False))
def test_order_of_tasks_has_no_effect(
    claims: list[Claim], capacities: dict[int, float], order: Any
) -> None:
    """The rates are the same in any order of the tasks."""
    places = list(range(len(claims)))
    order.shuffle(places)
    rates = fair_rates(claims, capacities)
    shuffled = fair_rates([claims[place] for place in places], capacities)
    assert shuffled == pytest.approx([rates[place] for place in places], rel=1e-6)


def test_only_connected_tasks_are_solved_again() -> None:
    """A task that shares nothing with the others keeps its rate, untouched."""
    rates = SharedRates(lambda _: 10.0)
    one = Amount(1.0, 1.0)
    assert rates.update({1: Claim(10.0, {0: one}), 2: Claim(10.0, {0: one, 1: one})}, []) == {
        1: 5.0,
        2: 5.0,
    }
    assert rates.update({3: Claim(8.0, {7: one})}, []) == {3: 8.0}
    assert rates.update({4: Claim(10.0, {1: one})}, []) == {1: 5.0, 2: 5.0, 4: 5.0}
    assert rates.update({}, [2]) == {1: 10.0, 4: 10.0}


# Jobs


tasks_of_some = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.lists(st.integers(0, 7), min_size=1, max_size=4),
        st.lists(st.integers(0, 20), min_size=4, max_size=4),
        st.lists(st.sampled_from([0, 0, 1, 3, 10]), min_size=16, max_size=16),
    ),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=60)
@given(drawn=tasks_of_some)
def test_ends_are_those_of_the_reference(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Any]
) -> None:
    """Random jobs that share hosts of two clusters end as in the slow reference."""
    platform = read_platform(write_xml(tmp_path_factory.mktemp("p"), CLUSTERS))
    tasks = []
    for number, (start, hosts, flop, sizes) in enumerate(drawn):
        count = len(hosts)
        profile = Parallel(
            name=f"t{number}",
            raw={},
            cpu_flop=tuple(each * 1e8 for each in flop[:count]),
            com_bytes=tuple(each * 1e7 for each in sizes[: count * count]),
        )
        tasks.append(MeasuredTask(f"t{number}", start / 10, tuple(hosts), profile, math.nan))
    found = end_times_by_bridge_s(platform, tasks, share_hosts=True)
    assert found == pytest.approx(end_times_s(platform, tasks), rel=1e-7, abs=1e-7)


def test_jobs_of_one_cluster_slow_each_other(tmp_path: Path) -> None:
    """Batsim needs 53.3 s and 86.8 s for these jobs, of 12.0 s and 44.1 s alone."""
    xml = flat(96, 'bw="125MBps" lat="50us" bb_bw="2.25GBps" bb_lat="500us"')
    jobs = [job(n, "all", 16) for n in range(4)] + [job(4, "all", 32)]
    starts = [execute(0, n, f"{16 * n}-{16 * n + 15}") for n in range(4)] + [execute(0, 4, "64-95")]
    bridge, _ = play(tmp_path, xml, jobs, {"all": ALL_TO_ALL}, starts)
    found = ends_s(bridge)
    assert [found[str(n)] for n in range(4)] == pytest.approx([53.333933] * 4, abs=1e-6)
    assert found["4"] == pytest.approx(86.756156, abs=1e-6)


def test_a_job_alone_takes_its_own_time(tmp_path: Path) -> None:
    """Without other jobs the duration is that of the task."""
    xml = flat(4)
    bridge, _ = play(tmp_path, xml, [job(1, "all", 4)], {"all": ALL_TO_ALL}, [execute(0, 1, "0-3")])
    assert ends_s(bridge) == {"1": 12.0}


def test_jobs_without_a_common_link_have_a_fixed_duration(tmp_path: Path) -> None:
    """The links of a cluster without a backbone belong to one host each."""
    platform = read_platform(write_xml(tmp_path, flat(4, 'bw="100MBps"')))
    profile = ParallelHomogeneous(name="p", cpu_flop=0.0, com_bytes=1e8)
    assert not shares_resources(task_of(profile, {}, platform, [0, 1], [0] * 4))
    assert shares_resources(task_of(profile, {}, platform, [0, 1], [0] * 4, share_hosts=True))


def test_computing_jobs_share_a_host(tmp_path: Path) -> None:
    """The second job halves the speed of the first one from its start on."""
    jobs = [job(1, "work"), job(2, "work")]
    starts = [execute(0, 1, "0"), execute(4, 2, "0")]
    bridge, _ = play(tmp_path, flat(1), jobs, {"work": WORK}, starts, compute_sharing=True)
    assert ends_s(bridge) == pytest.approx({"1": 16.0, "2": 20.0})


@pytest.mark.parametrize(
    ("walltime", "state"),
    [(16, "COMPLETED_SUCCESSFULLY"), (15, "COMPLETED_WALLTIME_REACHED")],
)
def test_walltime_of_a_job_that_is_slowed(tmp_path: Path, walltime: int, state: str) -> None:
    """A job that ends at its walltime is complete; one that needs longer is killed."""
    jobs = [job(1, "work", walltime=walltime), job(2, "work")]
    starts = [execute(0, 1, "0"), execute(4, 2, "0")]
    bridge, _ = play(tmp_path, flat(1), jobs, {"work": WORK}, starts, compute_sharing=True)
    first = results_of(bridge.run).jobs[0]
    assert (first.name, first.state) == ("1", state)
    assert first.end_s == pytest.approx(walltime)
    # A killed job leaves its half of the host to the other one.
    assert ends_s(bridge)["2"] == pytest.approx({16: 20.0, 15: 19.5}[walltime])


def test_kill_has_the_progress_of_a_slowed_job(tmp_path: Path) -> None:
    """The progress counts what the job has computed, in the current task of its sequence."""
    profiles = {"work": WORK, "wait": {"type": "delay", "delay": 3}}
    profiles["all"] = {"type": "composed", "seq": ["wait", "work"], "repeat": 2}
    kill = (21.0, "KILL_JOB", {"job_ids": ["w0!1"]})
    decisions = [execute(0, 1, "0"), execute(16, 2, "0"), kill]
    jobs = [job(1, "all"), job(2, "work")]
    bridge, events = play(tmp_path, flat(1), jobs, profiles, decisions, compute_sharing=True)
    (killed,) = [event["data"] for event in events if event["type"] == "JOB_KILLED"]
    assert killed["job_progress"]["w0!1"] == {
        "profile_name": "all",
        "current_task_index": 3,
        "current_task": {"profile_name": "work", "progress": 0.25},  # half of the host for 5 s
    }
    assert ends_s(bridge)["2"] == pytest.approx(28.5)


def test_energy_of_jobs_that_share_a_host(tmp_path: Path) -> None:
    """A host draws its power for the load of all its jobs, once."""
    xml = flat(1, 'bw="100MBps" core="2"', WATTS)
    jobs = [job(1, "work"), job(2, "work"), job(3, "wait")]
    profiles = {"work": WORK, "wait": {"type": "delay", "delay": 40}}
    starts = [execute(0, 1, "0"), execute(5, 2, "0"), execute(5, 3, "0")]
    bridge, _ = play(tmp_path, xml, jobs, profiles, starts, compute_sharing=True, energy=True)
    bridge.run.simulation.settle()
    energy_j = math.fsum(meter.energy_j for meter in bridge.run.simulation.cluster.meters)
    # One of two cores: 160 W; both: 200 W; none: 100 W.
    assert energy_j == pytest.approx(5 * 160 + 5 * 200 + 5 * 160 + 30 * 100)


def test_energy_of_a_composed_job_over_several_hosts(tmp_path: Path) -> None:
    """Hosts draw the power of each part, and idle power during latencies."""
    xml = flat(2, 'bw="100MBps" lat="1ms" bb_bw="100MBps"', WATTS)
    profiles = {
        "work": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "both": {"type": "parallel", "cpu": [1e9, 0], "com": [0, 4e8, 0, 0]},
        "all": {"type": "composed", "seq": ["work", "both"]},
    }
    jobs = [job(1, "all", 2)]
    bridge, _ = play(tmp_path, xml, jobs, profiles, [execute(0, 1, "0-1")], energy=True)
    assert ends_s(bridge) == {"1": pytest.approx(1 + 0.002 + 4)}
    (row,) = results_of(bridge.run).jobs
    # Both compute for 1 s; then one computes at a quarter of its speed, at the rate of its message.
    assert row.energy_j == pytest.approx(2 * 200 + 2 * 0.002 * 100 + 4 * (140 + 100))


def test_a_fatpipe_link_limits_each_message(tmp_path: Path) -> None:
    """A slow job leaves a fast one the bandwidth of the link, and no more, unlike in SimGrid."""
    xml = (
        '<platform version="4.1"><zone id="z" routing="Full"><host id="master_host" speed="1Gf"/>'
        '<host id="a" speed="1"/><host id="b" speed="1"/><host id="c" speed="1"/>'
        '<link id="fat" bandwidth="1kBps" sharing_policy="FATPIPE"/>'
        '<link id="slow" bandwidth="100Bps"/>'
        '<route src="a" dst="b"><link_ctn id="fat"/></route>'
        '<route src="a" dst="c"><link_ctn id="fat"/><link_ctn id="slow"/></route>'
        "</zone></platform>"
    )
    profiles = {"send": {"type": "parallel", "cpu": [0, 0], "com": [0, 1e4, 0, 0]}}
    jobs = [job(1, "send", 2), job(2, "send", 2)]
    starts = [execute(0, 1, "0 1"), execute(0, 2, "0 2")]
    bridge, _ = play(tmp_path, xml, jobs, profiles, starts, compute_sharing=True)
    assert ends_s(bridge) == {"1": 10.0, "2": 100.0}
