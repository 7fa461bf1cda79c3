"""Types of a scenario's numbers and names, with bounds.

The bounds are far above the size of any machine. Within them no number of a run overflows.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Count = Annotated[int, Meta(ge=0, lt=2**31)]
Cores = Annotated[int, Meta(gt=0, le=1_000_000)]
Clock = Annotated[float, Meta(ge=1e-6, le=1e6)]
Factor = Annotated[float, Meta(ge=1e-6, le=1e6)]
Seconds = Annotated[float, Meta(gt=0, le=1e12)]
WholeSeconds = Annotated[int, Meta(gt=0, le=10**12)]
Jobs = Annotated[int, Meta(gt=0, le=100_000_000)]
Days = Annotated[int, Meta(gt=0, le=36_525)]
Steps = Annotated[int, Meta(gt=0, le=100_000_000)]

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
CURRENCY_PATTERN = r"^[A-Z]{3}$"
Currency = Annotated[str, Meta(pattern=CURRENCY_PATTERN)]
Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
