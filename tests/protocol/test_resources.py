"""Resources that a job holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcosim_protocol import (
    JobRequest,
    NodeGroup,
    NodeReservation,
    Partition,
    Platform,
    Processor,
    ProtocolError,
)
from hpcosim_protocol.node_access import (
    blocked_by_reservation,
    first_window,
    fits_in,
    may_use,
    partitions_of,
)
from hpcosim_protocol.resources import (
    DeviceDemand,
    choose_devices,
    gres_on,
    memory_on,
    provides,
    tasks_on,
    thousandths,
)

NODES = (NodeGroup(8, (Processor(cores=4),)),)
SERVICE = NodeReservation(name="service", nodes=((0, 1),), start_s=100, end_s=200)
WEEKLY = NodeReservation(name="weekly", nodes=((2, 2),), start_s=100, end_s=200, repeat_s=1000)


@pytest.mark.parametrize(
    ("job_request", "memory_mb"),
    [
        (None, 30),
        (JobRequest(), 30),
        (JobRequest(memory_per_node_mb=500), 500),
        (JobRequest(all_memory=True), 8000),
    ],
)
def test_memory_on_a_node(job_request: JobRequest | None, memory_mb: float) -> None:
    """Memory is for each core, or for each node, or all of the node's memory."""
    assert memory_on(job_request, 10, 3, 8000) == memory_mb


def test_tasks_have_several_cores() -> None:
    """Cores on a node are divided into tasks."""
    assert tasks_on(None, 6) == 6
    assert tasks_on(JobRequest(cores_per_task=2), 6) == 3


@pytest.mark.parametrize(("amount", "found"), [(1, 1000), (3.0, 3000), (0.25, 250), (0.001, 1)])
def test_amounts_are_thousandths(amount: float, found: int) -> None:
    """Devices and shares of a device are exact integers."""
    assert thousandths(amount) == found


@pytest.mark.parametrize("amount", [0, -1, 1.5, 0.0001, 1 / 3, 0.9999, math.inf, math.nan])
def test_other_amounts_are_rejected(amount: float) -> None:
    """An amount that is neither whole nor a share in thousandths is rejected."""
    with pytest.raises(ProtocolError, match="a share of one device in thousandths"):
        thousandths(amount)


def test_demands_on_a_node() -> None:
    """Requests for each task count once for each task."""
    request = JobRequest(gres_per_node={"gpu": 2}, gres_per_task={"nic": 0.5, "gpu:a": 1})

    assert gres_on(request, 3) == [
        DeviceDemand("gpu:a", 1000, 3),
        DeviceDemand("gpu", 1000, 2),
        DeviceDemand("nic", 500, 3),
    ]


def test_a_job_requestwithout_type_is_met_by_any_type() -> None:
    """A typed request is met by its type only."""
    assert provides("gpu:a100", "gpu")
    assert provides("gpu", "gpu")
    assert provides("gpu:a100", "gpu:a100")
    assert not provides("gpu", "gpu:a100")
    assert not provides("gpu:a1000", "gpu:a100")
    assert not provides("gpus", "gpu")


def test_whole_devices_have_the_lowest_free_numbers() -> None:
    """Whole devices are free devices of lowest number, in the platform's order of types."""
    free = {"gpu:b": [1000, 400, 1000], "gpu:a": [1000]}

    assert choose_devices(JobRequest(gres_per_node={"gpu": 3}), [1], [free]) == [
        {"gpu:b": [0, 2], "gpu:a": [0]}
    ]


def test_shares_are_on_the_fullest_device_that_fits() -> None:
    """A share goes to the device with the least sufficient free part, all of it on one device."""
    free = {"gpu": [1000, 400, 600, 400]}

    assert choose_devices(JobRequest(gres_per_task={"gpu": 0.4}), [3], [free]) == [
        {"gpu": [1, 3, 2]}
    ]
    assert choose_devices(JobRequest(gres_per_node={"gpu": 0.7}), [1], [free]) == [{"gpu": [0]}]


def test_devices_of_the_job_fill_its_nodes_in_order() -> None:
    """Devices of the whole job are taken from the first nodes that have free ones."""
    free = [{"gpu": [1000, 0]}, {"gpu": [1000, 1000]}, {"gpu": [1000]}]

    chosen = choose_devices(JobRequest(gres_per_job={"gpu": 2}), [1, 1, 1], free)

    assert chosen == [{"gpu": [0]}, {"gpu": [0]}, {}]


def test_missing_devices_are_named() -> None:
    """A request that the free devices cannot meet is rejected with what is missing."""
    with pytest.raises(ProtocolError, match="gpu: 2 needed on node 1 of the allocation, 1 not"):
        choose_devices(
            JobRequest(gres_per_node={"gpu": 2}), [1, 1], [{"gpu": [1000] * 2}, {"gpu": [1000]}]
        )
    with pytest.raises(ProtocolError, match="gpu: 3 needed on all nodes together, 1 not free"):
        choose_devices(JobRequest(gres_per_job={"gpu": 3}), [1], [{"gpu": [1000] * 2}])


@given(
    st.dictionaries(st.sampled_from(["gpu", "gpu:a", "nic"]), st.sampled_from([0.3, 0.5, 1, 2])),
    st.dictionaries(st.sampled_from(["gpu", "gpu:a"]), st.sampled_from([0.2, 1])),
    st.integers(1, 3),
    st.lists(st.integers(0, 1000), max_size=4),
)
def test_no_device_is_held_twice(
    per_node: dict[str, float], per_task: dict[str, float], tasks: int, free: list[int]
) -> None:
    """The chosen parts fit in the free parts of the devices, and are as many as requested."""
    request = JobRequest(gres_per_node=per_node, gres_per_task=per_task)
    try:
        (chosen,) = choose_devices(request, [tasks], [{"gpu:a": free, "nic": [1000, 1000]}])
    except ProtocolError:
        return
    demands = gres_on(request, tasks)
    assert sum(map(len, chosen.values())) == sum(demand.parts for demand in demands)
    gpus = [demand for demand in demands if demand.name != "nic"]
    assert all(free[number] > 0 for number in chosen.get("gpu:a", []))
    assert sum(demand.thousandths * demand.parts for demand in gpus) <= sum(free)


def test_partitions_of_a_job() -> None:
    """A job may run in a partition that it names, or in the default one."""
    first = Partition(name="a", nodes=((0, 1), (4, 4)))
    second = Partition(name="b", nodes=((2, 3),), default=True)
    platform = Platform(NODES, partitions=(first, second))

    assert partitions_of(platform, ["b", "a"]) == [second, first]
    assert partitions_of(platform, []) == [second]
    with pytest.raises(ProtocolError, match="unknown partition 'x'; the partitions are a, b"):
        partitions_of(platform, ["a", "x"])


def test_no_partition_restricts_a_job() -> None:
    """Without partitions, or without a default one, a job has none: it may use all nodes."""
    partitioned = Platform(NODES, partitions=(Partition(name="a", nodes=((0, 1),)),))

    assert partitions_of(Platform(NODES), ["x"]) == []
    assert partitions_of(partitioned, []) == []


@pytest.mark.parametrize(
    ("start_s", "end_s", "window"),
    [
        (0, 100, None),
        (0, 101, (100, 200)),
        (200, 1100, None),
        (150, 150, (100, 200)),
        (100, 100, (100, 200)),
        (200, 1101, (1100, 1200)),
        (5199, 5200, (5100, 5200)),
        (5200, 6100, None),
        (0, math.inf, (100, 200)),
    ],
)
def test_first_window_of_a_repeated_reservation(
    start_s: float, end_s: float, window: tuple[float, float] | None
) -> None:
    """Windows repeat, and contain their begin but not their end."""
    assert first_window(WEEKLY, start_s, end_s) == window


def test_a_reservation_without_repetition_has_one_window() -> None:
    """Nothing is reserved after the only window."""
    assert first_window(SERVICE, 200, math.inf) is None


def test_reservations_block_other_jobs() -> None:
    """A reservation blocks all jobs but its own."""
    platform = Platform(NODES, reservations=(SERVICE, WEEKLY))

    assert blocked_by_reservation(platform, 0, 150) == [(SERVICE, 100, 200), (WEEKLY, 100, 200)]
    assert blocked_by_reservation(platform, 0, 150, own="service") == [(WEEKLY, 100, 200)]
    assert blocked_by_reservation(platform, 1000, 1200) == [(WEEKLY, 1100, 1200)]


def test_jobs_of_a_reservation_run_in_its_window() -> None:
    """Jobs of a reservation stay in one window, except with `flex`."""
    flexible = NodeReservation(name="f", nodes=(), start_s=100, end_s=200, flags=("flex",))

    assert fits_in(WEEKLY, 1100, 1200)
    assert not fits_in(WEEKLY, 1099, 1200)
    assert not fits_in(WEEKLY, 1150, 1201)
    assert not fits_in(SERVICE, 1100, 1200)
    assert fits_in(flexible, 0, 1000)


@pytest.mark.parametrize(
    ("users", "accounts", "allowed"),
    [
        ((), (), False),
        (("ann",), (), True),
        ((), ("physics",), True),
        (("ann",), ("physics",), True),
        (("ann",), ("chemistry",), False),
        (("bob",), ("physics",), False),
    ],
)
def test_users_of_a_reservation(
    users: tuple[str, ...], accounts: tuple[str, ...], allowed: bool
) -> None:
    """A reservation is for the users and accounts that it names."""
    reservation = NodeReservation(
        name="r", nodes=(), start_s=0, end_s=1, users=users, accounts=accounts
    )
    assert may_use(reservation, "ann", "physics") is allowed


@pytest.mark.parametrize("field", ["gres_per_node", "gres_per_task", "gres_per_job"])
def test_typed_requests_choose_first(field: str) -> None:
    """A request for any device leaves devices of a type to those who need the type."""
    free = [{"gpu:a": [1000], "gpu:b": [1000]}]
    for wanted in ({"gpu": 1, "gpu:a": 1}, {"gpu:a": 1, "gpu": 1}):
        request = JobRequest(**{field: wanted})  # type: ignore[arg-type]
        assert choose_devices(request, [1], free) == [{"gpu:a": [0], "gpu:b": [0]}]
