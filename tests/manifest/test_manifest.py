"""No output of the cases has changed. See `checksums.py` for a change that is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from manifest.cases import cases
from manifest.checksums import outputs_of, read_checksums

pytestmark = pytest.mark.slow
CASES = cases()


def test_every_case_has_checksums() -> None:
    """No case is left out."""
    assert read_checksums().keys() == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_the_same(name: str, tmp_path: Path) -> None:
    """Each file and each printed JSON text of a case has the checksum that is kept."""
    assert outputs_of(CASES[name], tmp_path) == read_checksums()[name]
