"""The modules beside a policy file that it imports."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from pathlib import Path


def modules_beside(path: Path) -> dict[str, Path]:
    """Return the modules in a policy file's folder that the file imports, by name.

    Imports of imports are included. The `import` statements are read and not executed, so that the
    result does not depend on what the process has loaded. Modules imported by other means, such as
    `importlib.import_module`, are not found.

    Args:
        path: the policy file.
    """
    found: dict[str, Path] = {}
    unread = [("", path)]
    while unread:
        package, file = unread.pop()
        for name in _imported(file, package):
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                module, stem = ".".join(parts[:end]), path.parent.joinpath(*parts[:end])
                for source, parent in (
                    (stem / "__init__.py", module),
                    (Path(f"{stem}.py"), module.rpartition(".")[0]),
                ):
                    if module not in found and source.is_file():
                        found[module] = source
                        unread.append((parent, source))
    return dict(sorted(found.items()))


def _imported(file: Path, package: str) -> Iterator[str]:
    """Yield the absolute names that a file of a package imports, and possibly names in modules."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return  # executing the file reports the error
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            try:
                base = importlib.util.resolve_name(name, package)
            except ImportError:  # relative to no package
                continue
            yield from (f"{base}.{alias.name}" for alias in node.names)
