"""The number of threads of torch."""

from __future__ import annotations

import torch


def use_one_thread() -> None:
    """Limit torch to one thread, in the whole process.

    For networks of these sizes, synchronising several threads costs more time than it saves.
    """
    torch.set_num_threads(1)
