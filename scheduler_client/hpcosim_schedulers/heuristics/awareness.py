"""Awareness of a job scheduler of the power states of nodes."""

from __future__ import annotations

from typing import Literal, get_args

from hpcosim_client.errors import PolicyError

Awareness = Literal["unaware", "aware", "planned", "ipm"]
"""How a job scheduler treats nodes that are not on.

- `unaware`: a sleeping node counts as free. A job is allocated the lowest-numbered nodes and holds
  those that are on while the others boot.
- `aware`: a job is allocated nodes that are on first, then booting nodes, then sleeping nodes.
  Estimates include the boot time: a job waits for running jobs to end if that is sooner than a
  boot; otherwise it is allocated sleeping nodes, which switches them on.
- `planned`: a job is allocated only nodes that are on. The nodes of a reservation are switched on
  one boot time before it begins; until then other jobs may use them.
- `ipm`: as `planned`, with the whole queue planned on the nodes that waste the least energy, see
  `hpcosim_schedulers.ipm` (Pulungan et al. 2026).
"""

AWARENESSES: tuple[Awareness, ...] = get_args(Awareness)


def parse_awareness(text: str) -> Awareness:
    """Return the awareness that a setting names; case does not matter.

    Raises:
        PolicyError: there is no such awareness.
    """
    text = text.lower()
    if text not in AWARENESSES:
        known = ", ".join(AWARENESSES)
        raise PolicyError(f"power_awareness: expected one of {known}, got {text!r}")
    return text
