"""Progress of tasks, in the form of the event `JOB_KILLED`."""

from __future__ import annotations

from typing import Any

from hpcosim_batsim.inputs.tasks import HostTask, SequentialTask, SimpleTask


def progress(task: HostTask, elapsed_s: float) -> dict[str, Any]:
    """Return the progress of a task after `elapsed_s` seconds, in the form of `JOB_KILLED`."""
    if isinstance(task, SimpleTask):
        work_s = task.duration_s - task.latency_s
        done_s = max(elapsed_s - task.latency_s, 0.0)
        share = min(done_s / work_s, 1.0) if work_s else 1.0
        return {"profile_name": task.profile, "progress": share}
    times, index, rest_s = _position(task, min(elapsed_s, task.duration_s))
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress(task.tasks[index], rest_s),
    }


def progress_of_part(task: HostTask, part: int, share: float) -> dict[str, Any]:
    """Return the progress of a task in the form of `JOB_KILLED`.

    Args:
        task: the task.
        part: number of its current simple task, in the order of `parts`.
        share: progress of that simple task, 0 to 1.
    """
    if isinstance(task, SimpleTask):
        return {"profile_name": task.profile, "progress": share}
    counts = [_count_of_parts(each) for each in task.tasks]
    times, rest = divmod(part, sum(counts))
    index = 0
    while rest >= counts[index]:
        rest -= counts[index]
        index += 1
    return {
        "profile_name": task.profile,
        "current_task_index": times * len(task.tasks) + index,
        "current_task": progress_of_part(task.tasks[index], rest, share),
    }


def _count_of_parts(task: HostTask) -> int:
    """Return the number of simple tasks of a task."""
    if isinstance(task, SimpleTask):
        return 1
    return task.repeat * sum(_count_of_parts(each) for each in task.tasks)


def _position(series: SequentialTask, elapsed_s: float) -> tuple[int, int, float]:
    """Return the complete repetitions, the index of the current task, and its elapsed time, s."""
    once_s = series.duration_s / series.repeat
    times = min(int(elapsed_s // once_s), series.repeat - 1) if once_s else series.repeat - 1
    rest_s = max(elapsed_s - times * once_s, 0.0)
    for index, task in enumerate(series.tasks[:-1]):
        if rest_s < task.duration_s:
            return times, index, rest_s
        rest_s -= task.duration_s
    return times, len(series.tasks) - 1, min(rest_s, series.tasks[-1].duration_s)
