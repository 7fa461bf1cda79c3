"""The power manager of the papers in the catalogue: a trained network."""

from __future__ import annotations

from hpcosim_papers.power.agent import learned
from hpcosim_schedulers.power.manager import Manager
from hpcosim_schedulers.power.settings import Rl


def rl(settings: Rl) -> Manager:
    """Return the power manager `rl`."""
    return learned(settings.model, settings.interval_s, settings.origin_s)
