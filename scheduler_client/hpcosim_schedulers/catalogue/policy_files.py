"""Policies of the user's own, by file and function: `mine.py:easy_sjbf`.

The function takes the view, as every policy does. The file is executed anew for each simulation, so
its module-level variables are the state of one simulation. Modules beside the file can be imported
while it is executed; they are loaded anew, too, unless they have the name of a module that was
loaded before the first policy file. Any callable of the module will do, also one that was made
there:

    slow_and_steady = managed(easy_sjbf, timeout(900.0))
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from hpcosim_client.errors import ClientError, PolicyError
from hpcosim_client.library import is_library, path_in, with_path
from hpcosim_protocol.files import read_regular

if TYPE_CHECKING:
    from hpcosim_client.view import Policy, View


SUFFIX = ".py"
MOST_SOURCE_BYTES = 2**24

_executions = itertools.count()
_loaded_by_policies: set[str] = set()  # names of modules beside policy files


def is_policy_file(name: str) -> bool:
    """Return whether a name has the form `PATH.py:FUNCTION`, or lacks only the function."""
    return name.partition(":")[0].endswith(SUFFIX) or name.rpartition(":")[0].endswith(SUFFIX)


def split_name(name: str) -> tuple[Path, str]:
    """Return the path and the function of a name `PATH.py:FUNCTION`; the file is not opened."""
    path, _, function = name.rpartition(":")
    if not path.endswith(SUFFIX) or not function.isidentifier():
        file = path if path.endswith(SUFFIX) else name
        raise PolicyError(
            f"scheduler {name!r}: expected the name of a function after the file, {file}:FUNCTION"
        )
    return Path(path), function


def from_folder(name: str, folder: Path) -> str:
    """Return a scheduler's name whose path, if relative, starts at a folder."""
    if is_library(name):
        return with_path(name, str(folder / path_in(name)))
    return str(folder / name) if is_policy_file(name) else name


def make_from_file(name: str) -> Policy:
    """Execute a file and return the policy in it.

    Args:
        name: `PATH.py:FUNCTION`; a relative path starts at the current folder.

    Raises:
        PolicyError: there is no such file or function, the file raises an exception, or the
            function does not take a view. The policy raises it, too, for every exception of the
            function, with the line.
    """
    path, function = split_name(name)
    module = _execute(path)
    try:
        policy: Policy = getattr(module, function)
    except AttributeError:
        raise PolicyError(f"{path}: {_no_such(function, module)}") from None
    _check_takes_view(policy, f"{path}: {function}")

    def decide(view: View) -> None:
        with _located(path):
            policy(view)

    decide.__name__ = function
    return decide


def _execute(path: Path) -> ModuleType:
    try:
        source = read_regular(path, MOST_SOURCE_BYTES)
    except OSError as error:
        where = "" if path.is_absolute() else f" (in {Path.cwd()})"
        raise PolicyError(f"{path}: cannot be read: {error.strerror}{where}") from None
    beside = modules_beside(path).keys()
    _loaded_by_policies.update(beside - sys.modules.keys())
    for name in beside & _loaded_by_policies:  # another folder's of that name, or before an edit
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    module = ModuleType(f"hpcosim_policy_file_{next(_executions)}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for it
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with _located(path):
            exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - the user's own
    finally:
        sys.path.pop(0)
    return module


def _no_such(function: str, module: ModuleType) -> str:
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == module.__name__
    ]
    near = difflib.get_close_matches(function, own, n=1)
    advice = f"did you mean {near[0]}?" if near else f"it defines {', '.join(own) or 'none'}"
    return f"there is no function {function!r}; {advice}"


def _check_takes_view(policy: object, who: str) -> None:
    expected = "expected a function of one argument, the view"
    if isinstance(policy, type):
        raise PolicyError(f"{who} is a class; {expected}, or an instance with __call__")
    if not callable(policy):
        raise PolicyError(f"{who} is of type {type(policy).__name__}; {expected}")
    try:
        inspect.signature(policy).bind(None)
    except TypeError:
        raise PolicyError(f"{who}{inspect.signature(policy)}: {expected}") from None


@contextmanager
def _located(path: Path) -> Iterator[None]:
    """Turn an exception of a file's code into one line with file and line number."""
    try:
        yield
    except ClientError:
        raise
    except (Exception, SystemExit) as error:
        line = _line(error, str(path))
        where = f"{path}:{line}" if line else f"{path}"
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise PolicyError(f"{where}: {type(error).__name__}: {text}") from error


def _line(error: BaseException, file: str) -> int | None:
    """Return the number of the innermost line of a file that an exception passed through."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    line, frame = None, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            line = frame.tb_lineno
        frame = frame.tb_next
    return line


def modules_beside(path: Path) -> dict[str, Path]:
    """Return the modules in a policy file's folder that the file imports, by name.

    Imports of imports are included. The `import` statements are read and not executed, so that the
    result does not depend on what the process has loaded. Modules imported by other means, such as
    `importlib.import_module`, are not found.
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
