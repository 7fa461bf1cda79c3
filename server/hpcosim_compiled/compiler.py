"""Numba, with compiled code kept in the user's cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import numba
import platformdirs

from hpcosim_compiled.linking import InnerCompiler
from hpcosim_protocol import platform
from hpcosim_schedulers.agents.batch import scene
from hpcosim_schedulers.heuristics import list_scheduling, look_ahead
from hpcosim_schedulers.power import timeout
from hpcosim_sim.record import metrics, recording
from hpcosim_workloads import table

Function = TypeVar("Function", bound=Callable[..., Any])

KEPT_S = 30 * 86_400.0
"""Time for which compiled code of another version is kept after its last use, s."""

# Without reference counts of arrays, which would take half of the time: compiled functions create
# and return none. Inlined, because the arrays of a state would be copied for each call.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}
# Python calls entry points only, so the others need no wrappers, which take long to compile.
_INNER = {
    **_OPTIONS,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": InnerCompiler,
}


@cache
def cache_folder(uses: tuple[ModuleType, ...] = ()) -> Path | None:
    """Return the folder of compiled code of this version of the package; None: there is none.

    Numba notices a change of the file of an entry point, not of the functions and constants that
    it uses, so the folder is named by the content of all their files. Only its owner may write to
    it, because its code is executed. Folders of other versions are removed if they were not used
    for `KEPT_S`.

    Args:
        uses: modules of other packages whose functions and constants are compiled too.
    """
    content = hashlib.sha256(numba.__version__.encode())
    modules = (list_scheduling, look_ahead, metrics, platform, recording, scene, table, timeout)
    others = [Path(module.__file__ or "") for module in (*modules, *uses)]
    others += sorted((Path(list_scheduling.__file__).parents[1] / "slurm").glob("*.py"))
    for file in (*sorted(Path(__file__).parent.rglob("*.py")), *others):
        content.update(file.read_bytes())
    folder = platformdirs.user_cache_path("hpcosim") / "compiled" / content.hexdigest()[:16]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError:
        return None
    is_own = found.st_uid == os.getuid() and not found.st_mode & 0o022
    if not (is_own and os.access(folder, os.W_OK)):
        return None
    folder.touch()
    for other in folder.parent.iterdir():
        with suppress(FileNotFoundError):  # another process has removed it
            if other.stat().st_mtime < folder.stat().st_mtime - KEPT_S:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def compiled(function: Function) -> Function:
    """Compile a function that compiled functions call."""
    result: Function = numba.njit(function, forceinline=True, **_INNER)
    return result


def compiled_apart(function: Function) -> Function:
    """Compile a function that compiled functions call, without inlining it."""
    result: Function = numba.njit(function, **_INNER)
    return result


def entry(function: Function) -> Function:
    """Compile a function that Python calls, and keep its code in the cache folder."""
    return entry_with()(function)


def entry_with(*uses: ModuleType) -> Callable[[Function], Function]:
    """Return `entry` for functions that use other packages; see `cache_folder`."""

    def compile_entry(function: Function) -> Function:
        folder = cache_folder(uses)
        numba.config.CACHE_DIR = str(folder or "")  # type: ignore[attr-defined]
        result: Function = numba.njit(function, cache=folder is not None, nogil=True, **_OPTIONS)
        return result

    return compile_entry


def is_warm(what: str) -> bool:
    """Return whether the cache folder has the code of a part of the engine, see `note_warm`."""
    folder = cache_folder()
    return folder is not None and (folder / _marker(what)).exists()


def note_warm(what: str) -> None:
    """Note that the cache folder has the code of a part of the engine, for this Python."""
    folder = cache_folder()
    if folder is not None:
        (folder / _marker(what)).touch()


def _marker(what: str) -> str:
    """Return the name of a file; Numba keeps code by Python version and path of the package."""
    path = hashlib.sha256(str(Path(__file__)).encode()).hexdigest()[:8]
    return f"{what}.{sys.implementation.cache_tag}.{path}"


def loaded(function: Function, *arguments: Any) -> Function:
    """Return the code of an entry for arguments of the same types as these.

    A call of an entry looks at the types of its arguments, which takes 30 to 50 us for the arrays
    of many states; a call of what this returns does not.
    """
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    types = tuple(map(numba.typeof, arguments))
    result: Function = function.compile(types)  # type: ignore[attr-defined]
    return result


def load_part(what: str, work: Callable[[], object], *uses: ModuleType) -> None:
    """Do work that loads a part of the engine, compiles it if needed, and note that it is warm.

    A process that finds another compiling the part waits for it. If the work fails, it is done once
    more without the cache folder's code: Numba raises what the unpickling of a damaged file raises.

    Args:
        what: the part.
        work: the work.
        uses: see `cache_folder`.
    """
    with _compiling_alone(what):
        try:
            work()
        except Exception:
            clear_cache(*uses)
            work()
        note_warm(what)


@contextmanager
def _compiling_alone(what: str) -> Iterator[None]:
    """Hold the lock of a part that is not warm, if its folder can be locked."""
    folder = cache_folder()
    if folder is None or is_warm(what):
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context((folder / f"{_marker(what)}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
        yield


def clear_cache(*uses: ModuleType) -> None:
    """Remove compiled code that cannot be read; see `cache_folder`."""
    folder = cache_folder(uses)
    if folder is not None:
        for each in folder.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
