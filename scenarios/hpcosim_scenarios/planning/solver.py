"""SciPy's solvers, imported only when they are asked for."""

from __future__ import annotations

from typing import Any

from hpcosim_scenarios.errors import OracleError


def scipy_for(what: str) -> tuple[Any, Any]:
    """Return SciPy's optimizers and sparse matrices.

    Args:
        what: who needs them.

    Raises:
        OracleError: it is not installed.
    """
    try:
        from scipy import optimize, sparse
    except ImportError:
        raise OracleError(f"{what} needs SciPy: pip install 'hpcosim[oracle]'") from None
    return optimize, sparse
