"""SIGTERM before a command has anything to lose."""

from __future__ import annotations

import signal

import pytest
import typer

from hpcosim.cli.usage import errors_in_one_line


@pytest.fixture(autouse=True)
def _default_action() -> None:
    """Have the action of SIGTERM that a process begins with; pytest needs no other."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_sigterm_ends_a_server_that_still_loads_at_once() -> None:
    """An exception of a handler can be lost between the imports; the default action cannot."""
    with errors_in_one_line(sigterm_interrupts=False):
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_sigterm_interrupts_a_run_so_that_its_results_are_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit status and the error name the signal."""
    with pytest.raises(typer.Exit) as ended, errors_in_one_line():
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.exit_code == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "error: stopped by SIGTERM\n"
