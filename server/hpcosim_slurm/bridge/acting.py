"""Carries out what a live world orders, and decides when to stop: the fall-back to shadow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hpcosim_server import log
from hpcosim_slurm.bridge.session import SchedulerSession
from hpcosim_slurm.commands import Carrier, Order
from hpcosim_slurm.errors import SlurmError
from hpcosim_slurm.worlds.live import LiveWorld
from hpcosim_slurm.worlds.promises import LiveOrder


@dataclass(frozen=True, slots=True)
class SafetyLimits:
    """When a bridge stops acting.

    Attributes:
        silent_s: longest time in which a scheduler that has a reply sends no request, or is not
            connected, s.
        unreachable_s: longest time in which the controller does not answer, s.
        diverged_s: longest time in which a job runs where the scheduler cannot see it, s.
        rejected: largest number of rejected decisions in a row.
    """

    silent_s: float = 60.0
    unreachable_s: float = 60.0
    diverged_s: float = 10.0
    rejected: int = 20


class Acting:
    """Carries out orders.

    Args:
        carrier: runs commands.
        limits: when to stop.
    """

    def __init__(self, carrier: Carrier, limits: SafetyLimits | None = None) -> None:
        self._carrier = carrier
        self._limits = limits or SafetyLimits()

    def carry_out(self, orders: Sequence[LiveOrder]) -> list[tuple[LiveOrder, str]]:
        """Carry out orders; return those that were refused, with Slurm's words.

        Raises:
            SlurmError: the controller does not answer.
        """
        by_order = {id(each.order): each for each in orders}
        refusals = self._carrier.carry_out([each.order for each in orders])
        return [(by_order[id(refusal.order)], refusal.words) for refusal in refusals]

    def release(self, orders: Sequence[Order]) -> None:
        """Let Slurm start jobs. If it cannot be told now, the caller tries again later."""
        if not orders:
            return
        try:
            self._carrier.carry_out(orders)
        except SlurmError as error:
            log.error("jobs_not_released", jobs=len(orders), error=str(error))

    def why_stop(
        self,
        session: SchedulerSession | None,
        silent_since_s: float | None,
        unreachable_since_s: float | None,
        now_s: float,
    ) -> str:
        """Return why the bridge must stop acting; empty: it need not.

        Args:
            session: the open session.
            silent_since_s: time since which the scheduler should say something, s; None: it need
                not.
            unreachable_since_s: time since which the controller does not answer, s; None: it does.
            now_s: the present time, s.
        """
        limits = self._limits
        if unreachable_since_s is not None and now_s - unreachable_since_s > limits.unreachable_s:
            return f"the controller has not answered for {limits.unreachable_s:g} s"
        if silent_since_s is not None and now_s - silent_since_s > limits.silent_s:
            return f"the scheduler has been silent or gone for {limits.silent_s:g} s"
        if session is None or not isinstance(session.world, LiveWorld):
            return ""
        world = session.world
        if world.diverged and now_s - world.diverged_s > limits.diverged_s:
            return f"the scheduler's view differs from the cluster: {world.diverged}"
        if world.rejected_in_a_row > limits.rejected:
            return f"{world.rejected_in_a_row} decisions in a row were rejected"
        return ""
