"""Names of messages, decisions and events in the protocol."""

from __future__ import annotations

import re


def snake_case(class_name: str) -> str:
    """Return the protocol name of a message class: `job_started` for `JobStarted`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", class_name).lower()
