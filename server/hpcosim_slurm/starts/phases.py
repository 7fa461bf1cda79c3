"""The policy `slurm` as it may be in the middle of its work."""

from __future__ import annotations

from msgspec.structs import replace
from numpy.random import Generator

from hpcosim_schedulers.slurm.policy import SlurmPolicy, slurm
from hpcosim_schedulers.slurm.settings import SiteSettings

DRIFT_S = 0.3
"""Most by which a period of Slurm's periodic work is longer than stated, s.

Measured for passes of the backfill scheduler: 0.0 to 0.3 s.
"""


def slurm_at(
    site: SiteSettings, now_s: float, uptime_s: float | None, generator: Generator
) -> SlurmPolicy:
    """Return the policy of a site whose controller has been running for some time.

    The controller calculates priorities every PriorityCalcPeriod from its start on, starts jobs in
    passes of two schedulers, and checks time limits every 30 s. Each period drifts a little, so
    that the phase is less known the longer the controller has been running: it is drawn.

    Args:
        site: its settings; the usage is that at `now_s`.
        now_s: the present time on the clock of the simulation, s.
        uptime_s: time since the start of the controller, s; None: unknown.
        generator: the source of randomness; one number is drawn.
    """
    period_s, share = site.priority.calc_period_s, float(generator.random())
    if uptime_s is None:
        since_s = period_s * share
    else:
        drift_s = min(DRIFT_S * (uptime_s // period_s), period_s)
        since_s = (uptime_s - drift_s * share) % period_s
    return slurm(replace(site, dtstart_s=since_s - now_s))
