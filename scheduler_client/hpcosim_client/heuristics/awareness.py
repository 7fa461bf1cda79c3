"""How much a job scheduler knows of the power states of nodes."""

from __future__ import annotations

from typing import Literal, get_args

from hpcosim_client.errors import PolicyError

Awareness = Literal["unaware", "aware", "planned"]
"""The answers to the question what a job scheduler does with nodes that are not on.

They move waiting times more than any power manager does.

- `unaware`: a sleeping node counts as free now. A job gets the lowest-numbered nodes and holds
  those that are on while the others boot.
- `aware`: of the nodes a job may have, it gets those that are on first, then those being switched
  on, then those that sleep. Estimates include the time to boot: a job waits for running jobs where
  that is sooner; otherwise it gets sleeping nodes, which wakes them.
- `planned`: a job gets nodes only when they are on. Nodes that its reservation needs are switched
  on just early enough to be on when it begins, and serve other jobs until then.
"""

AWARENESSES: tuple[Awareness, ...] = get_args(Awareness)


def parse_awareness(text: str) -> Awareness:
    """Return the awareness that a setting names.

    Raises:
        PolicyError: there is no such awareness.
    """
    if text not in AWARENESSES:
        known = ", ".join(AWARENESSES)
        raise PolicyError(f"power_awareness: expected one of {known}, got {text!r}")
    return text
