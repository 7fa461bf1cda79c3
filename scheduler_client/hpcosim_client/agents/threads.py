"""How many threads torch may use."""

from __future__ import annotations

import torch


def use_one_thread() -> None:
    """Hold torch to one thread, for all of this process.

    With several threads, these wait for each other longer than networks of the sizes here take.
    """
    torch.set_num_threads(1)
