"""Metrics of the quality of forecasts: the starts that the scheduler expected and the real ones."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from hpcosim_sim.record.run_record import RunRecord

Floats = NDArray[np.float64]

LEAD_CLASSES_S: Mapping[str, tuple[float, float]] = MappingProxyType(
    {
        "up_to_1h": (-np.inf, 3600.0),
        "1h_to_6h": (3600.0, 21_600.0),
        "6h_to_24h": (21_600.0, 86_400.0),
        "over_24h": (86_400.0, np.inf),
    }
)
"""Classes of lead times, s, by name: above the first bound, up to the second one."""


def start_forecasts(record: RunRecord) -> dict[str, int | float]:
    """Return the errors of the forecasts of start times.

    A forecast is an explanation with an expected start, of a job that has started. Its error is
    start - expected start: above 0 if the job started later than expected. Its lead time is
    expected start - time of the explanation, known when the forecast is made: classes by the real
    start would collect late jobs in the classes of long lead times. Every forecast counts once, so
    a job with several forecasts counts several times. The metrics are there if the scheduler sent
    an expected start (`--explain`) of a job that has started, and those of a class if it has a
    forecast.

    Returns:
        start_forecasts: Number of forecasts.
        mean_start_error_s: Mean error (bias) of the forecasts, s. Above 0: jobs started later than
            expected.
        mean_abs_start_error_s: Mean absolute error of the forecasts, s.
        start_forecasts_up_to_1h: Number of forecasts with a lead time of 1 h or less.
        mean_start_error_up_to_1h_s: Mean error of these forecasts, s.
        mean_abs_start_error_up_to_1h_s: Mean absolute error of these forecasts, s.
        start_forecasts_1h_to_6h: Number of forecasts with a lead time above 1 h and up to 6 h.
        mean_start_error_1h_to_6h_s: Mean error of these forecasts, s.
        mean_abs_start_error_1h_to_6h_s: Mean absolute error of these forecasts, s.
        start_forecasts_6h_to_24h: Number of forecasts with a lead time above 6 h and up to 24 h.
        mean_start_error_6h_to_24h_s: Mean error of these forecasts, s.
        mean_abs_start_error_6h_to_24h_s: Mean absolute error of these forecasts, s.
        start_forecasts_over_24h: Number of forecasts with a lead time above 24 h.
        mean_start_error_over_24h_s: Mean error of these forecasts, s.
        mean_abs_start_error_over_24h_s: Mean absolute error of these forecasts, s.
    """
    said = record.recording.explanations
    expected_s = np.array(said.expected_start_s)
    if np.isnan(expected_s).all():
        return {}
    start_s = np.array(record.recording.start_s)[np.array(said.row)]
    counted = ~np.isnan(expected_s) & ~np.isnan(start_s)
    lead_s = expected_s - np.array(said.time_s)
    return errors_by_lead((start_s - expected_s)[counted], lead_s[counted])


def errors_by_lead(error_s: Floats, lead_s: Floats) -> dict[str, int | float]:
    """Return the metrics of `start_forecasts` for forecasts.

    Args:
        error_s: float64[forecasts], start - expected start, s.
        lead_s: float64[forecasts], expected start - time of the forecast, s.
    """
    found = _errors(error_s)
    for name, (above_s, to_s) in LEAD_CLASSES_S.items():
        found |= _errors(error_s[(lead_s > above_s) & (lead_s <= to_s)], name)
    return found


def _errors(error_s: Floats, lead: str = "") -> dict[str, int | float]:
    """Return number, mean and mean absolute value of errors, with the lead time in the names.

    Without errors there are no metrics: an error of 0 is that of a perfect forecast.
    """
    if not len(error_s):
        return {}
    of = f"_{lead}" if lead else ""
    return {
        f"start_forecasts{of}": len(error_s),
        f"mean_start_error{of}_s": float(error_s.mean()),
        f"mean_abs_start_error{of}_s": float(np.abs(error_s).mean()),
    }
