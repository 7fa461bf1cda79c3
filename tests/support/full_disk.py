"""Processes for which files have a greatest size, like those on a disk that is nearly full."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable


def files_up_to(size: int) -> Callable[[], None]:
    """Return the `preexec_fn` of a process whose files cannot exceed a size, bytes.

    Python in this process does not store compiled modules: it would store parts of them, which
    other processes then load.
    """

    def limit() -> None:
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # for a process that begins here
        sys.dont_write_bytecode = True  # for one that goes on
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit
