"""Colours of figures, and matplotlib."""

from __future__ import annotations

from typing import Any

from hpcosim_view.errors import FigureError

# Colours of Okabe and Ito, distinguishable with colour vision deficiency.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")


def drawing() -> tuple[Any, Any]:
    """Return `matplotlib` and `matplotlib.pyplot`, configured to draw into files.

    Raises:
        FigureError: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise FigureError("figures need matplotlib: pip install 'hpcosim[plot]'") from None
    return mpl, pyplot
