"""Pages of the Python API: a `mkdocstrings` directive for each public name of a package."""

from __future__ import annotations

from importlib import import_module


def public_names(package: str) -> list[str]:
    """Return the public names of a package, in the order of its `__all__`."""
    return list(import_module(package).__all__)


def reference(package: str) -> str:
    """Return a directive for each public name of a package."""
    return "\n\n".join(f"::: {package}.{name}" for name in public_names(package))
