"""SciPy's solvers, imported on first use."""

from __future__ import annotations

from typing import Any

from hpcosim_scenarios.errors import OracleError


def scipy_for(what: str) -> tuple[Any, Any]:
    """Return the modules `scipy.optimize` and `scipy.sparse`.

    Args:
        what: the feature that needs them, for the message.

    Raises:
        OracleError: SciPy is not installed.
    """
    try:
        from scipy import optimize, sparse
    except ImportError:
        raise OracleError(f"{what} needs SciPy: pip install 'hpcosim[oracle]'") from None
    return optimize, sparse
