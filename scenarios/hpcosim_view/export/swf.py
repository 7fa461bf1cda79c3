"""The schedule of a run as a job log in the Standard Workload Format, version 2.2.

The format has whole seconds. The times of submission, start and end are rounded first, halves up;
wait and run time are differences of rounded times. So the fields add up, and jobs that follow each
other on a core do not overlap. A requested time is rounded up.

Status: 1 completed; 0 failed, because a node failed or the requested time was over; 5 cancelled,
that is killed or rejected by a decision; -1 not over at the end of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from hpcosim_view.run.extracts import (
    Placements,
    by_job,
    clean,
    last_period_of,
    nodes_of,
    starts_of,
    states_of,
)
from hpcosim_view.run.frame import Frame, periods_of

STATUS: Mapping[str, int] = {
    "completed": 1,
    "timeout": 0,
    "node_failed": 0,
    "failed": 0,
    "killed": 5,
    "cancelled": 5,
    "preempted": 5,
    "deadline": 5,
    "rejected": 5,
    "running": -1,
    "waiting": -1,
}
"""Field 11 by state of the job."""
UNKNOWN = -1
LONGEST = 200  # characters of a name in a comment


def swf_lines(frame: Frame) -> Iterator[str]:
    """Yield the lines of the log, header comments first, jobs in order of submission.

    A job that never started has run time and allocated processors -1. Users, groups and partitions
    keep their numbers if all names are numbers from 0; otherwise they are numbered from 1, and
    comments state their names.
    """
    numbers = {
        kind: _numbers(frame.about[names])
        for kind, names in (("User", "users"), ("Group", "groups"), ("Partition", "partitions"))
    }
    first = min(frame.columns["job.id"].tolist(), default=1)
    shift = max(0, 1 - first)  # job numbers of the format begin at 1
    yield from (f"; {line}\n" for line in _header(frame, numbers, shift))
    yield from _jobs(frame, numbers, shift)


def whole(time_s: float) -> int:
    """Return a time in whole seconds, halves rounded up; -1: unknown."""
    return math.floor(time_s + 0.5) if math.isfinite(time_s) else UNKNOWN


def _header(frame: Frame, numbers: Mapping[str, list[int]], shift: int) -> Iterator[str]:
    about, nodes = frame.about, nodes_of(frame)
    several = len(frame.columns["pause.start"]) > 0
    yield "Version: 2.2"
    yield f"Computer: simulated by hpcosim, scenario {_short(about['scenario'])}"
    yield f"Information: scheduled by {_short(about['scheduler'])}, seed {about['seed']}"
    yield f"MaxJobs: {len(frame.columns['job.id'])}"
    yield f"MaxRecords: {len(frame.columns['job.id'])}"
    yield f"Preemption: {'TS' if several else 'No'}"
    yield f"MaxNodes: {len(nodes)}"
    yield f"MaxProcs: {sum(node.cores for node in nodes)}"
    if names := about["partitions"]:
        yield f"MaxPartitions: {len(names)}"
        yield from _names("Partition: {} {}", names, numbers["Partition"])
    yield "Note: times are seconds of the simulation, rounded to whole seconds"
    yield "Note: status 0 includes jobs that were killed at their requested time"
    if several:
        yield "Note: of a requeued job the last run; run times are without suspensions"
    if shift:
        yield f"Note: job numbers are the job ids of the results plus {shift}"
    for kind, key in (("User", "users"), ("Group", "groups")):
        if list(map(str, numbers[kind])) != list(map(str, about[key])):
            yield from _names(f"Note: {kind.lower()} {{}} is {{}}", about[key], numbers[kind])


def _jobs(frame: Frame, numbers: Mapping[str, list[int]], shift: int) -> Iterator[str]:
    columns = {name: frame.columns[name].tolist() for name in frame.columns}
    periods = periods_of(frame)
    last = last_period_of(periods)
    start_s = starts_of(periods, last).tolist()
    computed_s = periods.computed_s(frame.columns["start.time_s"], frame.about["now_s"])
    end_s = by_job(frame, "end.job", "end.time_s").tolist()
    placements = Placements(frame)
    start_of = {row: start for row, start in enumerate(last.tolist()) if start >= 0}
    for row, state in enumerate(states_of(frame)):
        submit, start, end = map(whole, (columns["job.submit_s"][row], start_s[row], end_s[row]))
        started = row in start_of
        left = start if started else end  # of the queue
        run = end - start
        if started and periods.resumes[start_of[row]]:
            run = whole(float(computed_s[start_of[row]]))
        requested_s = columns["job.requested_s"][row]
        fields = (
            columns["job.id"][row] + shift,
            submit,
            left - submit if left != UNKNOWN else UNKNOWN,
            run if started and end != UNKNOWN else UNKNOWN,
            placements.cores_of(start_of[row]) if started else UNKNOWN,
            UNKNOWN,  # average CPU time
            UNKNOWN,  # used memory
            columns["job.cores"][row],
            math.ceil(requested_s) if math.isfinite(requested_s) else UNKNOWN,
            UNKNOWN,  # requested memory
            STATUS[state],
            _number(numbers["User"], columns["job.user"][row]),
            _number(numbers["Group"], columns["job.group"][row]),
            UNKNOWN,  # executable
            UNKNOWN,  # queue
            _number(numbers["Partition"], columns["job.partition"][row]),
            UNKNOWN,  # preceding job
            UNKNOWN,  # think time
        )
        yield " ".join(map(str, fields)) + "\n"


def _numbers(names: Iterable[object]) -> list[int]:
    """Return the number of each name."""
    texts = list(map(str, names))
    if all(text.isascii() and text.isdecimal() and text == str(int(text[:18])) for text in texts):
        return list(map(int, texts))
    return list(range(1, len(texts) + 1))


def _number(numbers: list[int], index: int) -> int:
    return numbers[index] if index >= 0 else UNKNOWN


def _names(line: str, names: Iterable[object], numbers: Iterable[int]) -> Iterator[str]:
    for number, name in zip(numbers, names, strict=True):
        yield line.format(number, _short(name))


def _short(name: object) -> str:
    """Return a name for a comment: one line of printable characters, not too long."""
    text = "".join(each if each.isprintable() else " " for each in clean(name))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
