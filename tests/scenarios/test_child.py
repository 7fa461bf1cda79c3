"""Child processes with a command of hpcosim: forks and new interpreters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import SOON_S

pytestmark = pytest.mark.slow

CHILD = """
import atexit, sys, threading
from hpcosim_scenarios.running.processes import start
sys.stdout.write("before ")
atexit.register(print, "at exit")
{before}
child = start({command}, {{}}, prints=True, fork={fork})
child.wait()
print(type(child).__name__, child.returncode, child.errors.read())
"""
WAITS = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
VERSION = ["--version"]


def run(before: str = "", *, fork: bool = True, command: object = VERSION) -> tuple[str, str]:
    """Start a command from a new process; return the output and the errors of that process."""
    code = CHILD.format(before=before, fork=fork, command=command)
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=SOON_S,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # as the command sets it
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("fork", [True, False])
def test_a_process_with_one_thread_forks_if_it_may(fork: bool) -> None:
    """The command runs in a fork or in a new interpreter, and prints the same, once."""
    kind = "_Forked" if fork else "_Started"
    out, errors = run(fork=fork)
    assert out == f"before {kind} 0 \nat exit\n"
    assert errors.startswith("hpcosim ")
    assert len(errors.splitlines()) == 1


def test_a_process_with_threads_starts_a_new_interpreter() -> None:
    """A lock that a thread holds cannot stay locked in the child."""
    assert run(WAITS)[0] == "before _Started 0 \nat exit\n"


@pytest.mark.parametrize("fork", [True, False])
def test_errors_and_status_of_a_child_are_those_of_the_command(fork: bool) -> None:
    """A fork reports wrong usage as the command does: one line and exit status 2."""
    out, _ = run(fork=fork, command=["serve"])
    assert " 2 error: missing argument" in out.lower()


@pytest.mark.parametrize("fork", [True, False])
def test_a_process_that_ignores_the_ends_of_children_learns_their_statuses(fork: bool) -> None:
    """A child that fails does not count as successful."""
    ignored = "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    assert " 2 error: missing argument" in run(ignored, fork=fork, command=["serve"])[0].lower()


def test_a_lost_status_is_an_error() -> None:
    """If another part of the process has taken the status of a fork, it has failed."""
    takes = "import os; wait = os.waitpid; os.waitpid = lambda *args: [wait(*args), wait(*args)]"
    assert "_Forked 255" in run(takes)[0]


def test_a_child_inherits_only_the_files_to_keep(tmp_path: Path) -> None:
    """A fork has no other open file of its parent, such as the other end of a pipe."""
    policy = tmp_path / "names.py"
    policy.write_text("import os\nprint(len(os.listdir('/proc/self/fd')) - 1)\n")
    command = ["schedule", f"{policy}:nothing", "--connect", "tcp://127.0.0.1:1"]
    counts = []
    for fork in (True, False):
        files = "files = [open('/dev/null') for _ in range(9)]"
        counts.append(run(files, fork=fork, command=command)[1].split()[0])
    assert counts[0] == counts[1]
