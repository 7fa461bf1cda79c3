"""Carries actions out by Slurm's commands, or prints them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hpcosim_server import log
from hpcosim_slurm.commands.actions import Action, PowerDown, PowerUp, Withdraw, command_of
from hpcosim_slurm.errors import SlurmError, UnreachableError
from hpcosim_slurm.tools import Tools

AT_ONCE = 8
"""Number of commands that run at the same time; each takes slurmctld some milliseconds."""


@dataclass(frozen=True, slots=True)
class Order:
    """An action with its cause.

    Attributes:
        action: the action.
        cause: the decision that caused it, for the log.
    """

    action: Action
    cause: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An order that Slurm refuses.

    Attributes:
        order: the order.
        words: what Slurm says, one line.
    """

    order: Order
    words: str


class Carrier:
    """Carries orders out.

    Args:
        tools: the commands of the cluster.
        show: prints a command instead of running it; None: run commands.
    """

    def __init__(self, tools: Tools, show: Callable[[str], object] | None = None) -> None:
        self._tools = tools
        self._show = show
        self._shown: set[str] = set()

    def carry_out(self, orders: Sequence[Order]) -> list[Refusal]:
        """Carry orders out, and return those that Slurm refuses.

        Orders for different jobs are independent and run at the same time; all others run in their
        order. Slurm accepts more than it can do at once: what it has done shows in the next
        `ClusterState`.

        Args:
            orders: the orders.

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
