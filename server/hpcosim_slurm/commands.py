"""Actions on a cluster as data, their commands, and what carries them out or prints them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hpcosim_protocol.hosts import compress
from hpcosim_server import log
from hpcosim_slurm.errors import SlurmError, UnreachableError
from hpcosim_slurm.tools import Tools

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_JOB = re.compile(r"[0-9]+(?:_[0-9]+)?")

AT_ONCE = 8
"""Number of commands that run at the same time; each takes slurmctld some milliseconds."""


@dataclass(frozen=True)
class _JobAction:
    """An action on a job.

    Attributes:
        job: `LiveJob.name_in_slurm`.
    """

    job: str


@dataclass(frozen=True)
class Place(_JobAction):
    """Start a job on nodes.

    Slurm starts it within a second if the nodes are free, after their boot if they are off. If they
    are not free, the job waits for them: check before.
    """

    nodes: tuple[str, ...]
    partition: str


@dataclass(frozen=True)
class Release(_JobAction):
    """Let Slurm start a job where it likes.

    Attributes:
        partition: partitions in which the job may start, such as `main,gpu`; empty: the job is
            held, and stays in its own.
    """

    partition: str = ""


@dataclass(frozen=True)
class Withdraw(_JobAction):
    """Take a placement or a release back; the job waits again.

    Attributes:
        partition: partitions in which the job waits, such as `queue`.
    """

    partition: str


class Hold(_JobAction):
    """Hold a waiting job in its partition, as its user would."""


class Cancel(_JobAction):
    """Cancel a job. Slurm says nothing if there is no such job."""


class Terminate(_JobAction):
    """Send SIGTERM to all processes of a running job: it is to end soon.

    Slurm signals no suspended job: `scancel` tries that again for more than a minute.
    """


class Requeue(_JobAction):
    """End the run of a job, and let the job wait again, in the partition in which it ran.

    Slurm starts it at the earliest when its credential has expired, after 2 minutes by default.
    """


@dataclass(frozen=True)
class Begin(_JobAction):
    """Set the earliest start of a waiting job.

    Attributes:
        at_s: Unix time, s; it is rounded up to whole seconds.
    """

    at_s: float


class Suspend(_JobAction):
    """Stop the processes of a running job. Its CPUs are free for other jobs."""


class Resume(_JobAction):
    """Continue a suspended job on its nodes, also if other jobs have its CPUs: check before."""


@dataclass(frozen=True, slots=True)
class PowerUp:
    """Switch nodes on."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PowerDown:
    """Switch nodes off, each when it has no job."""

    nodes: tuple[str, ...]


RunAction = Cancel | Terminate | Requeue | Suspend | Resume
JobAction = Place | Release | Withdraw | Hold | Begin | RunAction
Action = JobAction | PowerUp | PowerDown


def command_of(action: Action) -> list[str]:
    """Return the command of an action, as a list of arguments.

    Raises:
        SlurmError: a name would not be a name to Slurm.
    """
    match action:
        case PowerUp(nodes) | PowerDown(nodes):
            state = "POWER_UP" if isinstance(action, PowerUp) else "POWER_DOWN"
            return ["scontrol", "update", f"NodeName={_nodes(nodes)}", f"State={state}"]
        case Cancel(job):
            return ["scancel", _job(job)]
        case Terminate(job):
            return ["scancel", "--full", "--signal=TERM", _job(job)]
        case Hold(job):
            return ["scontrol", "uhold", _job(job)]
        case Requeue(job) | Suspend(job) | Resume(job):
            return ["scontrol", type(action).__name__.lower(), _job(job)]
        case Begin(job, at_s):
            return ["scontrol", "update", f"JobId={_job(job)}", f"StartTime=uts{math.ceil(at_s)}"]
        case Release(job, ""):
            return ["scontrol", "release", _job(job)]
        case Place(job, nodes, partition):
            wanted = f"ReqNodeList={_nodes(nodes)}"
            return [*_moved(job, partition), wanted]
        case Release(job, partition):
            return _moved(job, partition)
        case Withdraw(job, partition):
            return [*_moved(job, partition), "ReqNodeList="]


def _moved(job: str, partition: str) -> list[str]:
    return ["scontrol", "update", f"JobId={_job(job)}", f"Partition={_names(partition)}"]


def _job(job: str) -> str:
    if not _JOB.fullmatch(job):
        raise SlurmError(f"expected a number of a job such as 17 or 101_3, got {job[:80]!r}")
    return job


def _names(names: str) -> str:
    return ",".join(map(_name, names.split(",")))


def _name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise SlurmError(f"expected a name of letters, digits, `.`, `_`, `-`, got {name[:80]!r}")
    return name


def _nodes(nodes: tuple[str, ...]) -> str:
    if not nodes:
        raise SlurmError("expected at least one node")
    return compress(map(_name, nodes))


@dataclass(frozen=True, slots=True)
class Order:
    """An action with its cause."""

    action: Action
    cause: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An order that Slurm refuses."""

    order: Order
    words: str


class Carrier:
    """Carries orders out."""

    def __init__(self, tools: Tools, show: Callable[[str], object] | None = None) -> None:
        self._tools = tools
        self._show = show
        self._shown: set[str] = set()

    def carry_out(self, orders: Sequence[Order]) -> list[Refusal]:
        """Carry orders out, and return those that Slurm refuses.

        Orders for different jobs are independent and run at the same time; all others run in their
        order. Slurm accepts more than it can do at once: what it has done shows in the next
        `ClusterState`.

        Raises:
            UnreachableError: the controller does not answer. Some orders may have been carried out;
                the next `ClusterState` shows which.
            SlurmError: there is no such program.
        """
        refused: list[Refusal] = []
        for group in _groups(orders):
            refused += self._together(group)
        return refused

    def _together(self, orders: Sequence[Order]) -> list[Refusal]:
        valid: list[tuple[Order, list[str]]] = []
        refused: list[Refusal] = []
        for order in orders:
            try:
                valid.append((order, command_of(order.action)))
            except SlurmError as invalid:
                refused.append(self._refused(order, str(invalid)))
        if self._show is not None:
            self._print(valid, self._show)
            return refused
        try:
            errors = self._tools.attempts([command for _, command in valid])
        except UnreachableError as unreachable:
            errors = [unreachable for _ in valid]
        away = None
        for (order, command), error in zip(valid, errors, strict=True):
            if error is None:
                log.info("carried_out", command=shlex.join(command), cause=order.cause)
            elif isinstance(error, UnreachableError):
                log.error("unanswered", command=shlex.join(command), cause=order.cause)
                away = error
            else:
                refused.append(self._refused(order, error.words))
        if away is not None:
            raise away
        return refused

    def _print(
        self, valid: Sequence[tuple[Order, list[str]]], show: Callable[[str], object]
    ) -> None:
        """Print commands, each once: what was not done is decided again, and not taken back."""
        for order, command in valid:
            text = shlex.join(command)
            if text not in self._shown and not isinstance(order.action, Withdraw):
                self._shown.add(text)
                show(text)

    def _refused(self, order: Order, words: str) -> Refusal:
        log.warning("refused", action=str(order.action), cause=order.cause, words=words)
        return Refusal(order, words)


def _groups(orders: Sequence[Order]) -> Iterator[list[Order]]:
    """Yield orders in groups of at most `AT_ONCE` for different jobs, in their order."""
    group: list[Order] = []
    jobs: set[str | None] = set()  # None: nodes
    for order in orders:
        job = None if isinstance(order.action, PowerUp | PowerDown) else order.action.job
        if group and (job is None or None in jobs or job in jobs or len(group) == AT_ONCE):
            yield group
            group, jobs = [], set()
        group.append(order)
        jobs.add(job)
    if group:
        yield group
