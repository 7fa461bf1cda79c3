"""The public names of `hpcosim_scenarios`."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import textwrap

import pytest

import hpcosim_scenarios
from support.paths import ROOT


@pytest.mark.parametrize("name", hpcosim_scenarios.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    """Every public name can be imported and has a docstring."""
    assert inspect.getdoc(getattr(hpcosim_scenarios, name))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """An unknown name is an AttributeError."""
    with pytest.raises(AttributeError, match="no attribute 'run_scenarios'"):
        _ = hpcosim_scenarios.run_scenarios


def test_the_example_of_the_docstring_runs_as_shown() -> None:
    """The example prints a mean wait."""
    text = hpcosim_scenarios.__doc__ or ""
    example = textwrap.dedent(text[text.index("    from pathlib") :])
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert float(done.stdout) > 0.0
