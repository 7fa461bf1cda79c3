"""The rows of the tables of running and waiting jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpcosim_view.run.frame import Frame
from hpcosim_view.run.moment import Moment, RunningJobs
from hpcosim_view.runs import clean, printable
from hpcosim_view.terminal.text import duration, node_list, node_names

ROWS = 200
"""Maximum number of rows of a table."""
WIDTH = 24
"""Maximum number of characters of a name."""

RUNNING = ("JOBID", "USER", "CORES", "TIME", "LEFT", "NODES", "NODELIST")
WAITING = ("JOBID", "USER", "CORES", "WAITED", "LIMIT", "START", "REASON")


SUSPENDED = "suspended on "


class Rows(NamedTuple):
    """The first rows of a table.

    Attributes:
        cells: the cells of each row.
        total: number of rows of the whole table.
    """

    cells: Sequence[Sequence[str]]
    total: int


class Order(NamedTuple):
    """The order of a table.

    Attributes:
        column: number of the column; -1: the order of the queue, or of the starts.
        descending: whether the highest value is first.
    """

    column: int = -1
    descending: bool = False


def running_rows(frame: Frame, then: Moment, order: Order) -> Rows:
    """Return the rows of `RUNNING`, unknown values last; suspended jobs follow the running ones."""
    running, rests = _with_suspended(then), len(then.running.job)
    widths = np.array([sum(b - a + 1 for a, b in each) for each in running.nodes], np.int64)
    first = np.array([each[0][0] if each else -1 for each in running.nodes], np.int64)
    keys = [*_keys(frame, running.job), running.used_s, running.left_s, widths, first]
    chosen = _sorted(keys, order)
    users = _names(frame, "users", "job.user", running.job[chosen])
    names = node_names(frame)
    cells = [
        (
            *_first(frame, int(running.job[index]), user),
            duration(running.used_s[index]),
            duration(running.left_s[index]),
            str(widths[index]),
            f"{SUSPENDED if index >= rests else ''}{node_list(running.nodes[index][:20], names)}",
        )
        for index, user in zip(chosen.tolist(), users, strict=True)
    ]
    return Rows(cells, len(running.job))


def _with_suspended(then: Moment) -> RunningJobs:
    running, suspended = then.running, then.suspended
    nodes = [*running.nodes, *suspended.nodes]
    numbers = zip(running[:-1], suspended[:-1], strict=True)
    job, start_s, used_s, left_s = (np.concatenate(pair) for pair in numbers)
    return RunningJobs(job, start_s, used_s, left_s, nodes)


def waiting_rows(frame: Frame, then: Moment, order: Order) -> Rows:
    """Return the rows of `WAITING`, unknown values last."""
    waiting = then.waiting
    columns = frame.columns
    waited_s = then.at_s - columns["job.submit_s"][waiting.job]
    requested_s = columns["job.requested_s"][waiting.job]
    left_s = waiting.expected_start_s - then.at_s
    reasons = _ranks(frame.about["reasons"])[waiting.reason]
    keys = [*_keys(frame, waiting.job), waited_s, requested_s, left_s, reasons]
    chosen = _sorted(keys, order)
    users = _names(frame, "users", "job.user", waiting.job[chosen])
    names = [*(_name(name) for name in frame.about["reasons"]), ""]
    cells = [
        (
            *_first(frame, int(waiting.job[index]), user),
            duration(waited_s[index]),
            duration(requested_s[index]),
            "" if np.isnan(left_s[index]) else f"in {duration(left_s[index])}",
            names[waiting.reason[index]],
        )
        for index, user in zip(chosen.tolist(), users, strict=True)
    ]
    return Rows(cells, len(waiting.job))


def _keys(frame: Frame, jobs: NDArray[np.int64]) -> list[NDArray[Any]]:
    columns = frame.columns
    users = _ranks(frame.about["users"])[columns["job.user"][jobs]]
    return [columns["job.id"][jobs], users, columns["job.cores"][jobs]]


def _sorted(keys: Sequence[NDArray[Any]], order: Order) -> NDArray[np.int64]:
    """Return the indices of the first `ROWS` rows."""
    if order.column < 0:
        return np.arange(min(len(keys[0]), ROWS))
    key = np.asarray(keys[order.column], float)
    return np.argsort(-key if order.descending else key, kind="stable")[:ROWS]


def _ranks(names: Iterable[object]) -> NDArray[np.float64]:
    """Return the place of each name in their order; the last element is for unknown ones."""
    texts = list(map(str, names))
    ranks = np.full(len(texts) + 1, np.nan)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks


def _names(frame: Frame, key: str, column: str, jobs: NDArray[np.int64]) -> list[str]:
    names = frame.about[key]
    return [
        _name(names[index]) if index >= 0 else "" for index in frame.columns[column][jobs].tolist()
    ]


def _name(name: object) -> str:
    text = printable(clean(name)[: WIDTH + 1])
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _first(frame: Frame, job: int, user: str) -> tuple[str, str, str]:
    columns = frame.columns
    return str(columns["job.id"][job]), user, str(columns["job.cores"][job])
