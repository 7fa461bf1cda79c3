"""Frames and their encoding."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hpcosim_view.errors import FrameError
from hpcosim_view.run.frame import COLUMNS, decode_frame, encode_frame, frame


@given(st.data(), st.integers(0, 20))
def test_decoding_returns_the_encoded_columns_bit_by_bit(data: st.DataObject, rows: int) -> None:
    """Every column of any content, NaN included, is the same after encoding and decoding."""
    columns = {
        name: data.draw(arrays.arrays(np.dtype(column.type), rows))
        for name, column in COLUMNS.items()
    }
    decoded = decode_frame(encode_frame(frame({"now_s": 1.5, "users": ["a"]}, columns)))
    assert decoded.about["users"] == ["a"]
    for name, column in columns.items():
        assert decoded.columns[name].tobytes() == column.tobytes()


def test_a_missing_column_is_empty() -> None:
    """A frame without starts has the columns of starts without rows."""
    assert len(frame({}, _job()).columns["start.job"]) == 0


def test_columns_of_one_prefix_have_the_same_number_of_rows() -> None:
    """A frame with two job ids and one submission is rejected."""
    with pytest.raises(ValueError, match=r"job\.submit_s has 1 rows; expected 2"):
        frame({}, _job() | {"job.id": [1, 2]})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected a frame"),
        (b"<html>", "expected a frame"),
        (b"HPCF", "damaged"),
        (b"HPCFnot zlib", "damaged"),
        (b"HPCF" + zlib.compress(b"\2\0\0\0[]"), "damaged"),
        (
            encode_frame(frame({}, {"power.time_s": [1.0], "power.node": [1], "power.state": [1]}))[
                :-3
            ],
            "damaged",
        ),
    ],
)
def test_bytes_that_are_no_frame_are_rejected(data: bytes, message: str) -> None:
    """Foreign, cut and damaged bytes give an error of one line."""
    with pytest.raises(FrameError, match=message):
        decode_frame(data)


def _job() -> dict[str, list[float]]:
    return {name: [0] for name in COLUMNS if name.startswith("job.")}
