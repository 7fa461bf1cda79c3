"""The public names of `hpcosim_server`."""

from __future__ import annotations

import doctest
import subprocess
import sys

import hpcosim_server


def test_every_public_name_is_there() -> None:
    """Each name of `__all__` can be imported from the package."""
    assert all(getattr(hpcosim_server, name).__name__ == name for name in hpcosim_server.__all__)


def test_example_of_the_package_runs() -> None:
    """The example in the package docstring is correct."""
    assert doctest.testmod(hpcosim_server).failed == 0


def test_import_loads_no_simulator() -> None:
    """`import hpcosim_server` loads neither SimPy nor numpy."""
    code = "import sys, hpcosim_server; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"simpy", "numpy", "zmq", "msgspec"} & set(done.stdout.split())
