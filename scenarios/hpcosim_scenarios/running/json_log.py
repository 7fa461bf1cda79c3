"""The log of a server: one JSON object per line on standard error."""

from __future__ import annotations

import sys

import structlog


def log_as_json() -> None:
    """Configure structlog for this process."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
