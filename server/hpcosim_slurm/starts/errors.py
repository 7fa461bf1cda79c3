"""Errors of forecasts."""

from __future__ import annotations

from hpcosim_protocol.errors import HpcosimError


class ForecastError(HpcosimError):
    """Base of every error this package raises."""
