"""Components in shared libraries, by the C interface of Batsim 5.

`python -m hpcosim_batsim.edc.library INTERFACE PATH` is the child process that loads the library.
Its first frame is the initialization data, and its first answer the flags and the hello.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from hpcosim_batsim.errors import ComponentError, InputError
from hpcosim_client.library_process import MAX_BYTES, LibraryProcess, serve_frames

Interface = Literal["hello", "flags"]
"""The version of the C interface: `batsim_edc_init` returns a hello and flags, or it gets flags."""

FORMAT_BINARY, FORMAT_JSON = 1, 2
"""Flags of the form of messages."""

FLAGS = struct.Struct("=I")


class Library:
    """A component in a child process, whose crash is an error of this run.

    Args:
        path: the library.
        interface: version of its C interface.

    Raises:
        InputError: there is no such file.
    """

    def __init__(self, path: Path, interface: Interface) -> None:
        if not path.is_file():
            raise InputError(str(path), "", "no such file; expected a shared library")
        self._process = LibraryProcess(
            "hpcosim_batsim.edc.library",
            [interface, os.path.abspath(path)],
            lambda what: ComponentError(f"{path}: {what}"),
        )

    def begin(self, init: bytes) -> tuple[int, bytes]:
        """Initialize the component, and return its flags and its hello."""
        data = self._process.call(init)
        return FLAGS.unpack_from(data)[0], data[FLAGS.size :]

    def decide(self, message: bytes) -> bytes:
        """Return its reply to a message."""
        return self._process.call(message)

    def end(self) -> None:
        """Let the component free what it has, and end the child. Further calls do nothing."""
        self._process.end()


class _Loaded:
    """The library in the child process."""

    def __init__(self, path: str) -> None:
        try:
            library = ctypes.CDLL(path)
            self._init, self._decide, self._deinit = (
                getattr(library, f"batsim_edc_{name}")
                for name in ("init", "take_decisions", "deinit")
            )
        except (OSError, AttributeError) as error:
            what = str(error).removeprefix(f"{path}: ")
            raise ComponentError(
                f"{what}; expected a shared library with the functions of batsim_edc.h"
            ) from None
        for function in (self._init, self._decide, self._deinit):
            function.restype = ctypes.c_uint8
        self._init_data = b""

    def init(self, data: bytes, interface: Interface) -> bytes:
        """Initialize the component, and return its flags and its hello."""
        self._init_data = data  # the component may keep a pointer to it
        size = ctypes.c_uint32(len(data))
        if interface == "flags":
            self._check(self._init(data, size, ctypes.c_uint32(FORMAT_JSON)), "batsim_edc_init")
            return FLAGS.pack(FORMAT_JSON)
        flags = ctypes.c_uint32()
        reply = self._reply(
            lambda at, size_at: self._init(data, size, ctypes.byref(flags), at, size_at),
            "batsim_edc_init",
        )
        return FLAGS.pack(flags.value) + reply

    def decide(self, message: bytes) -> bytes:
        """Return the reply to a message."""
        size = ctypes.c_uint32(len(message))
        return self._reply(
            lambda at, size_at: self._decide(message, size, at, size_at),
            "batsim_edc_take_decisions",
        )

    def deinit(self) -> None:
        """Let the component free what it has."""
        self._deinit()

    def _reply(self, call: Callable[..., int], name: str) -> bytes:
        data, size = ctypes.c_void_p(), ctypes.c_uint32()
        self._check(call(ctypes.byref(data), ctypes.byref(size)), name)
        if size.value > MAX_BYTES:
            raise ComponentError(f"{name} returned {size.value} bytes; expected up to {MAX_BYTES}")
        return ctypes.string_at(data.value, size.value) if data.value else b""

    def _check(self, status: int, name: str) -> None:
        if status:
            raise ComponentError(f"{name} returned {status}; expected 0")


def main(interface: Interface, path: str) -> None:
    """Be the child process of a library."""
    library: _Loaded | None = None

    def answer(message: bytes) -> bytes:
        nonlocal library
        if library is None:
            loaded = _Loaded(path)
            reply = loaded.init(message, interface)
            library = loaded
            return reply
        return library.decide(message)

    serve_frames(answer, ComponentError)
    if library is not None:
        library.deinit()


if __name__ == "__main__":
    main("flags" if sys.argv[1] == "flags" else "hello", sys.argv[2])
