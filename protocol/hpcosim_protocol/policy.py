"""The limits of the field `policy` of a hello."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hpcosim_protocol.errors import DecodeError

MAX_POLICY_ENTRIES = 50
MAX_POLICY_BYTES = 16 * 2**10  # of the encoded field
MAX_POLICY_NESTING = 4
IN_AN_ENTRY = "$.policy[...]"


def check_policy(policy: Mapping[str, object], encoded_bytes: int) -> None:
    """Check the limits that the type of the field does not express.

    Args:
        policy: the decoded field.
        encoded_bytes: size of the field as the peer encoded it.

    Raises:
        DecodeError: the field is too large, nests too deep, or has a value that is not plain data.
    """
    if encoded_bytes > MAX_POLICY_BYTES:
        what = f"Expected `policy` of at most {MAX_POLICY_BYTES} bytes, got {encoded_bytes}"
        raise DecodeError(what, "$.policy")
    for value in policy.values():
        _check_value(value, MAX_POLICY_NESTING)


def _check_value(value: object, levels: int) -> None:
    """Check a value that may hold at most `levels` levels of lists and maps."""
    if value is None or isinstance(value, str | int):
        return
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DecodeError(f"Expected a finite number, got {value}", IN_AN_ENTRY)
        return
    if not isinstance(value, list | dict):
        what = f"Expected null, bool, int, float, text, list or map, got {type(value).__name__}"
        raise DecodeError(what, IN_AN_ENTRY)
    if levels == 0:
        what = f"Expected at most {MAX_POLICY_NESTING} levels of lists and maps, got more"
        raise DecodeError(what, IN_AN_ENTRY)
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise DecodeError(f"Expected text as key, got {type(key).__name__}", IN_AN_ENTRY)
    for each in value.values() if isinstance(value, dict) else value:
        _check_value(each, levels - 1)
