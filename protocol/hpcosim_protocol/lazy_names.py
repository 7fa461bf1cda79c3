"""Public names of a package that are imported at their first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(
    package: str, names: Mapping[str, str]
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """Return `__all__`, `__getattr__` and `__dir__` of a package, whose import loads no module.

    Args:
        names: the public names of each module of the package, separated by spaces.

    Example:
        >>> names = {"codec": "encode decode_client_message"}
        >>> public, _, _ = lazy_names("hpcosim_protocol", names)
        >>> public
        ['decode_client_message', 'encode']
    """
    modules = {name: module for module, some in names.items() for name in some.split()}
    public = sorted(modules)

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(f"{package}.{modules[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return public, get, lambda: public
