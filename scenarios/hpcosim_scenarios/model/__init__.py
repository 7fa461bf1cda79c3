"""The content of a scenario file: sections, bounds and jobs. Loads no scheduler."""

from typing import Literal

Engine = Literal["auto", "reference", "compiled"]
"""What simulates; see `scenario.Scenario`."""
