"""Changes a cluster by Slurm's commands.

* `actions`: actions as data, and their commands.
* `carrying`: carries actions out, or prints them, and logs each with its cause.
"""

from hpcosim_slurm.commands.actions import (
    Action,
    Begin,
    Cancel,
    Hold,
    Place,
    PowerDown,
    PowerUp,
    Release,
    Requeue,
    Resume,
    Suspend,
    Terminate,
    Withdraw,
    command_of,
)
from hpcosim_slurm.commands.carrying import Carrier, Order, Refusal

__all__ = [
    "Action",
    "Begin",
    "Cancel",
    "Carrier",
    "Hold",
    "Order",
    "Place",
    "PowerDown",
    "PowerUp",
    "Refusal",
    "Release",
    "Requeue",
    "Resume",
    "Suspend",
    "Terminate",
    "Withdraw",
    "command_of",
]
