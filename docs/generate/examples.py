"""An extension of griffe: read `Example:` in docstrings as `Examples:`, a section with code."""

from __future__ import annotations

import re
from typing import Any

import griffe


class SingularExample(griffe.Extension):
    """Renames the section, which griffe knows in the plural only."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rename the section of a docstring, when the object has been loaded."""
        if obj.docstring is not None:
            text = obj.docstring.value
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", text, flags=re.MULTILINE)
