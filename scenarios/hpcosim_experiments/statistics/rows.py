"""Tables of results: a row maps column names to values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Label = str | int | float | bool
"""Label of a value of an axis."""

Labels = Mapping[str, Label]
"""Labels of a combination, by axis."""

Row = Mapping[str, Any]
Rows = Sequence[Row]
