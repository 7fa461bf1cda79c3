"""A process that ends with the one that started it."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Annotated

import typer

POLL_S = 0.5
GRACE_S = 10.0  # for the policy to return to Python, which handles the signal

Parent = Annotated[
    int | None,
    typer.Option(hidden=True, help="Stop at the end of the parent process with this number."),
]


def end_with(parent: int | None) -> None:
    """Stop this process as SIGTERM does when its parent has ended.

    Args:
        parent: number of the parent process; None: do nothing.
    """
    if parent is not None:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(POLL_S)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(128 + signal.SIGTERM)
