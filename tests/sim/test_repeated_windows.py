"""Jobs that are longer than the time between the windows of repeated reservations."""

from __future__ import annotations

import pytest

from hpcosim_protocol import JobRequest, NodeGroup, NodeReservation, Platform, Processor
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.feasibility import longest_gap_s
from hpcosim_workloads.table import JobSpec

DAY_S = 86400.0


def daily(
    name: str, begin_s: float, end_s: float, repeat_s: float | None = DAY_S, nodes: int = 2
) -> NodeReservation:
    """Return a reservation of the first nodes."""
    return NodeReservation(
        name=name,
        nodes=((0, nodes - 1),),
        start_s=begin_s,
        end_s=end_s,
        repeat_s=repeat_s,
        users=("u",),
    )


def reason(
    requested_s: float,
    *reservations: NodeReservation,
    submit_s: float = DAY_S,
    cores: int = 1,
    own: str = "",
) -> str:
    """Return why a job can never run on two nodes with a core each; empty: it can."""
    platform = Platform((NodeGroup(2, (Processor(1),)),), reservations=reservations)
    request = JobRequest(reservation=own) if own else None
    spec = JobSpec(1, submit_s, 1.0, requested_s, cores, "cores", user="u", request=request)
    return infeasibility(Cluster(platform, 0.0), spec)


def test_a_job_longer_than_the_gap_can_never_run() -> None:
    """Of two jobs, the one that is longer than the time between two windows is rejected."""
    maintenance = daily("m", 43200.0, 50400.0)
    assert "repeated windows of reservations is too short" in reason(86400.0, maintenance)
    assert not reason(79200.0, maintenance)


def test_windows_without_a_gap_leave_no_time() -> None:
    """A window as long as the time of repetition reserves the nodes for ever."""
    assert reason(1.0, daily("m", 0.0, DAY_S))


def test_a_long_job_may_run_before_the_first_window() -> None:
    """A job that can end before the first window is admitted."""
    maintenance = daily("m", 10 * DAY_S, 10 * DAY_S + 7200.0)
    assert not reason(9 * DAY_S, maintenance)
    assert reason(9 * DAY_S, maintenance, submit_s=1.5 * DAY_S)


def test_nodes_without_the_reservation_are_enough() -> None:
    """The nodes beside the reservation count: one core of them is enough for one of two jobs."""
    maintenance = daily("m", 0.0, 7200.0, nodes=1)
    assert not reason(2 * DAY_S, maintenance)
    assert reason(2 * DAY_S, maintenance, cores=2)


def test_jobs_of_the_reservation_are_not_rejected() -> None:
    """The windows of the job's own reservation do not count."""
    assert not reason(7200.0, daily("own", 0.0, 80000.0), own="own")


@pytest.mark.parametrize(
    ("second_s", "repeat_s", "gap_s"),
    [
        (50000.0, DAY_S, 46400.0),
        (0.0, 2 * DAY_S, 82800.0),
        (50000.0, 86400.5, 82800.0),
    ],
)
def test_gap_between_the_windows_of_two_reservations(
    second_s: float, repeat_s: float, gap_s: float
) -> None:
    """The gap counts the windows of both; of fractional repetitions, it is the shorter own gap."""
    first, second = daily("a", 0.0, 3600.0), daily("b", second_s, second_s + 3600.0, repeat_s)
    assert longest_gap_s((first, second)) == gap_s
