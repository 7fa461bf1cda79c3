"""Fixtures of the tests of running scenarios."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The read and the write end of a pipe."""
    reading, writing = os.pipe()
    yield reading, writing
    for end in (reading, writing):
        try:
            os.close(end)
        except OSError:
            continue  # the test has closed it
