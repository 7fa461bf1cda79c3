"""The part of the Ray executor that runs in Ray's workers.

Ray ships this module to the workers as source, so that a worker on which hpcosim is not installed
can say so.
"""

from __future__ import annotations

from typing import Any


def run_task(
    function: bytes,
    task: bytes,
    files: tuple[str, str, list[Any]],
    folders: dict[str, str],
    version: str,
) -> bytes | str:
    """Run a task and return its packed outcome, or the reason why this worker cannot run tasks.

    Args:
        function: the pickled function.
        task: the pickled task.
        files: digest of the archive of input files, the driver's current folder, and a list with
            the archive's reference, which is resolved only to unpack it.
        folders: environment variables that name folders on the driver.
        version: version of hpcosim on the driver.
    """
    import socket
    import sys

    try:
        from hpcosim_experiments.executors.shipped_files import installed_version, run_on_node
    except ImportError as error:
        fault = f"cannot import hpcosim ({error})"
    else:
        if (here := installed_version()) == version:
            return run_on_node(function, task, files, folders)
        fault = f"has hpcosim {here}, expected {version}"
    return (
        f"a Ray worker on {socket.gethostname()} {fault}; install the same version of hpcosim for "
        f"{sys.executable} on all nodes"
    )
