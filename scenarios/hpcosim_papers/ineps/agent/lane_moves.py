"""Changes of the lanes of a node. A place is the position of a job, counted over all lanes."""

from __future__ import annotations

from hpcosim_papers.ineps.agent.lanes import Lanes


def size(lanes: Lanes) -> int:
    """Return the number of planned jobs."""
    return sum(map(len, lanes))


def lane_at(lanes: Lanes, place: int) -> tuple[int, int]:
    """Return the lane of a place, and the position in it."""
    for number, lane in enumerate(lanes):
        if place < len(lane):
            return number, place
        place -= len(lane)
    raise IndexError("place outside the lanes")


def without(lanes: Lanes, place: int, running: int) -> tuple[Lanes, int]:
    """Remove the job at a place; return the lanes and the job.

    Args:
        lanes: the lanes.
        place: the place.
        running: number of running jobs; their lanes stay when they become empty.
    """
    number, at = lane_at(lanes, place)
    lane = lanes[number]
    rest = lane[:at] + lane[at + 1 :]
    kept = (rest,) if rest or number < running else ()
    return (*lanes[:number], *kept, *lanes[number + 1 :]), lane[at]


def within(lanes: Lanes, job: int, number: int, at: int) -> Lanes:
    """Insert a job at a position of a lane; the lane after the last one is new."""
    if number == len(lanes):
        return (*lanes, (job,))
    lane = lanes[number]
    return (*lanes[:number], (*lane[:at], job, *lane[at:]), *lanes[number + 1 :])


def replaced(lanes: Lanes, place: int, job: int) -> Lanes:
    """Replace the job at a place."""
    number, at = lane_at(lanes, place)
    lane = lanes[number]
    new = (*lane[:at], job, *lane[at + 1 :])
    return (*lanes[:number], new, *lanes[number + 1 :])


def job_at(lanes: Lanes, place: int) -> int:
    """Return the job at a place."""
    number, at = lane_at(lanes, place)
    return lanes[number][at]
