"""Changes a cluster by Slurm's commands.

* `actions`: actions as data, and their commands.
* `carrying`: carries actions out, or prints them, and logs each with its cause.
"""

from hpcosim_slurm.commands.actions import (
    Action,
    Cancel,
    Hold,
    Place,
    PowerDown,
    PowerUp,
    Release,
    Withdraw,
    command_of,
)
from hpcosim_slurm.commands.carrying import Carrier, Order, Refusal

__all__ = [
    "Action",
    "Cancel",
    "Carrier",
    "Hold",
    "Order",
    "Place",
    "PowerDown",
    "PowerUp",
    "Refusal",
    "Release",
    "Withdraw",
    "command_of",
]
