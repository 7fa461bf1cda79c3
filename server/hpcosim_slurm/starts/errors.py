"""Errors of forecasts."""

from __future__ import annotations


class ForecastError(Exception):
    """Base of every error this package raises."""
