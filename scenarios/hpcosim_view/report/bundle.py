"""Joins the modules of the web page into one.

The modules use two forms of module syntax only, each on lines of their own:
`import { a, b } from "./file.js";`, which may go over several lines, and `export` before a
declaration at the begin of a line. All names at the top level are unique over all modules, so the
modules need no scopes of their own.
"""

from __future__ import annotations

import re
from importlib.resources import files

from hpcosim_view.errors import BundleError

IMPORT = re.compile(r'^import \{([\w\s,]+)\} from "\./([\w.]+\.js)";\n', re.MULTILINE)
KIND = r"(?:async )?(?:function\*? |class |const |let |var )"
EXPORT = re.compile(rf"^export (?={KIND}(\w+))", re.MULTILINE)
DECLARED = re.compile(rf"^{KIND}(\w+)", re.MULTILINE)
LEFT = re.compile(r"^\s*(?:import|export)\b.*", re.MULTILINE)


def web_file(name: str) -> str:
    """Return the text of a file of the folder `web`.

    Raises:
        BundleError: there is no such file.
    """
    try:
        return files("hpcosim_view").joinpath("web", name).read_text(encoding="utf-8")
    except OSError:
        raise BundleError(f"web/{name}: no such file in the package hpcosim_view") from None


def bundle(entry: str) -> str:
    """Return a module and all that it imports, directly or not, as one module.

    Args:
        entry: name of the file, such as `report_main.js`.

    Raises:
        BundleError: a module uses other module syntax, imports a name that is not exported, or
            declares a name that another one declares.
    """
    parts: dict[str, str] = {}
    exports: dict[str, set[str]] = {}
    _collect(entry, parts, exports, ())
    owners: dict[str, str] = {}
    for module, text in parts.items():
        for name in DECLARED.findall(text):
            if (owner := owners.setdefault(name, module)) != module:
                raise BundleError(f"web/{module}: {name} is also declared in web/{owner}")
    return "".join(parts.values())


def _collect(
    module: str, parts: dict[str, str], exports: dict[str, set[str]], importers: tuple[str, ...]
) -> None:
    """Add a module after those that it imports."""
    if module in importers:
        raise BundleError(f"web/{module}: modules import each other: {', '.join(importers)}")
    if module in parts:
        return
    text = web_file(module)
    for names, other in IMPORT.findall(text):
        _collect(other, parts, exports, (*importers, module))
        wanted = {name.strip() for name in names.split(",")} - {""}
        if missing := wanted - exports[other]:
            raise BundleError(f"web/{module}: web/{other} exports no {', '.join(sorted(missing))}")
    exports[module] = set(EXPORT.findall(text))
    text = EXPORT.sub("", IMPORT.sub("", text))
    if left := LEFT.search(text):
        raise BundleError(f"web/{module}: unknown module syntax: {left[0].strip()}")
    parts[module] = text if text.endswith("\n") else text + "\n"
