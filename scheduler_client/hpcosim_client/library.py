"""Schedulers in shared libraries of any language, by the C interface `hpcosim_scheduler.h`.

A library gets the messages of the protocol by function calls. It is loaded in a child process, so
that its crash ends one run and nothing else, or in this process, where a call costs microseconds.

`python -m hpcosim_client.library PATH` is the child, see `library_process`.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

import msgspec

from hpcosim_client.errors import PolicyError
from hpcosim_client.library_process import MAX_BYTES, LibraryProcess, serve_frames, shown
from hpcosim_protocol import (
    PROTOCOL_VERSION,
    Decisions,
    Event,
    Events,
    Hello,
    Options,
    Platform,
    SimulationEnded,
    Welcome,
)

IN_PROCESS = "in-process:"
"""Prefix of the name of a library that is loaded in this process."""
_NAME = re.compile(rf"({IN_PROCESS})?(.+?\.(?:so|dylib|dll))(:.*)?", re.DOTALL)
_OK = 0


def is_library(name: str) -> bool:
    """Return whether the name of a scheduler is a library: `[in-process:]PATH.so[:OPTIONS]`."""
    return bool(path_in(name))


def path_in(name: str) -> str:
    """Return the path of the library in the name of a scheduler; empty: it has none."""
    found = _NAME.fullmatch(name)
    return found[2] if found else ""


def with_path(name: str, path: str) -> str:
    """Return the name of the same library at another path."""
    found = _NAME.fullmatch(name)
    assert found is not None
    return f"{found[1] or ''}{path}{found[3] or ''}"


class Library(Protocol):
    """A scheduler of a library. Errors of the library are `PolicyError`s."""

    def begin(self, options: bytes) -> bytes:
        """Make the scheduler, and return its hello."""

    def decide(self, message: bytes) -> bytes:
        """Return its request after a message of the server."""

    def end(self) -> None:
        """Free the scheduler. Further calls do nothing."""


class LibraryScheduler:
    """A scheduler of a shared library, in the place of a policy: `play` lets it decide.

    Args:
        name: `[in-process:]PATH.so[:OPTIONS]`.

    Raises:
        PolicyError: there is no such file.
    """

    def __init__(self, name: str) -> None:
        found = _NAME.fullmatch(name)
        assert found is not None
        self._is_in_process, self._path = bool(found[1]), found[2]
        self._options = (found[3] or "")[1:].encode()
        self.__name__ = Path(self._path).stem
        check_library(self._path)
        self._library: Library | None = None
        self._is_json = False

    @cached_property
    def hello(self) -> Hello:
        """The hello of the library, which is loaded now.

        Raises:
            PolicyError: it cannot be loaded, refuses to begin, or its hello is invalid.
        """
        library = self._library = (
            InProcess(self._path) if self._is_in_process else Child(self._path)
        )
        try:
            data = library.begin(self._options)
        except PolicyError:
            library.end()
            raise
        self._is_json = data[:1] == b"{"
        decode = msgspec.json.decode if self._is_json else msgspec.msgpack.decode
        try:
            hello = decode(data, type=Hello)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._error(f"its hello is invalid: {error}") from None
        if PROTOCOL_VERSION not in hello.versions:
            raise self._error(
                f"it speaks the versions {hello.versions} of the protocol; expected "
                f"{PROTOCOL_VERSION}"
            )
        return hello

    def __call__(self, view: object) -> None:
        """Refuse to decide for a view: what wraps a policy cannot wrap a library."""
        raise PolicyError(
            f"{self._path}: a scheduler of a library cannot be combined with a power manager or "
            "another policy; it decides about nodes itself"
        )

    def play(
        self,
        platform: Platform,
        send: Callable[..., object],
        snapshot: tuple[float, Sequence[Event]],
        seed: int,
        *,
        wake_on_allocation: bool,
        explains: bool,
    ) -> object:
        """Let the library decide until the simulation is over; see `hpcosim_client.play`."""
        options = Options(
            wake_on_allocation=wake_on_allocation,
            explain=explains,
            workload_manager=self.hello.workload_manager,
            max_message_bytes=MAX_BYTES,
            max_decisions=MAX_BYTES,  # each has a byte or more
        )
        message: Welcome | Events | SimulationEnded = Welcome(
            version=PROTOCOL_VERSION,
            session="library",
            scenario="",
            seed=seed,
            platform=platform,
            options=options,
            now_s=snapshot[0],
            snapshot=list(snapshot[1]),
        )
        library = self._library
        assert library is not None  # `hello` has loaded it
        decide, seq = library.decide, 0
        encode: Callable[[object], bytes] = (
            msgspec.json.encode if self._is_json else msgspec.msgpack.encode
        )
        decode = (msgspec.json if self._is_json else msgspec.msgpack).Decoder(Decisions).decode
        try:
            while True:
                data = decide(encode(message))
                try:
                    request = decode(data)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    raise self._error(f"its request is invalid: {error}") from None
                seq += 1
                if request.seq != seq:
                    raise self._error(f"the seq of its request is {request.seq}; expected {seq}")
                reply = send(request.decisions, request.wake_on, request.elapsed_s)
                if reply.ended:  # type: ignore[attr-defined]
                    metrics = dict(getattr(reply, "metrics", {}))
                    now_s = reply.now_s  # type: ignore[attr-defined]
                    decide(encode(SimulationEnded(seq=seq, now_s=now_s, metrics=metrics)))
                    return reply
                message = Events(seq=seq, now_s=reply.now_s, events=reply.events)  # type: ignore[attr-defined]
        finally:
            library.end()

    def _error(self, what: str) -> PolicyError:
        assert self._library is not None
        self._library.end()
        return PolicyError(f"{self._path}: {what}")


def check_library(path: str) -> None:
    """Check that there is a file.

    Raises:
        PolicyError: there is none.
    """
    try:
        is_file = Path(path).is_file()
    except OSError as error:
        raise PolicyError(f"{path}: {error.strerror}") from None
    if not is_file:
        raise PolicyError(f"{path}: no such file; expected a shared library")


class _Bytes(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class InProcess:
    """A library in this process: its crash ends the process.

    Raises:
        PolicyError: the file is no library, or lacks a function of the interface.
    """

    def __init__(self, path: str) -> None:
        check_library(path)
        self._path = path
        try:
            library = ctypes.CDLL(os.path.abspath(path))  # without a slash, the search path is used
            begin, decide, end = (
                getattr(library, f"hpcosim_scheduler_{name}") for name in ("begin", "decide", "end")
            )
        except (OSError, AttributeError) as error:
            what = str(error).removeprefix(f"{os.path.abspath(path)}: ")
            raise PolicyError(
                f"{path}: {what}; expected a shared library with hpcosim_scheduler.h's functions"
            ) from None
        self._scheduler, self._out = ctypes.c_void_p(), _Bytes()
        self._at = ctypes.byref(self._out)
        begin.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
        decide.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
        end.argtypes, end.restype = (ctypes.c_void_p,), None
        self._begin, self._decide, self._end = begin, decide, end

    def begin(self, options: bytes) -> bytes:
        """Make the scheduler, and return its hello."""
        status = self._begin(options, len(options), ctypes.byref(self._scheduler), self._at)
        return self._answer(status)

    def decide(self, message: bytes) -> bytes:
        """Return its request after a message of the server."""
        return self._answer(self._decide(self._scheduler, message, len(message), self._at))

    def end(self) -> None:
        """Free the scheduler. Further calls do nothing."""
        scheduler, self._scheduler = self._scheduler, ctypes.c_void_p()
        if scheduler:
            self._end(scheduler)

    def _answer(self, status: int) -> bytes:
        size = self._out.size
        if size > MAX_BYTES:
            raise PolicyError(
                f"{self._path}: a message of {size} bytes; expected up to {MAX_BYTES}"
            )
        data = ctypes.string_at(self._out.data, size) if size else b""
        if status != _OK:
            raise PolicyError(f"{self._path}: {shown(data) or f'status {status}'}")
        return data


class Child:
    """A library in a child process, whose crash is an error of this run.

    Raises:
        PolicyError: as `InProcess`.
    """

    def __init__(self, path: str) -> None:
        check_library(path)
        self._process = LibraryProcess(
            "hpcosim_client.library",
            [os.path.abspath(path)],
            lambda what: PolicyError(f"{path}: {what}"),
        )

    def begin(self, options: bytes) -> bytes:
        """Make the scheduler, and return its hello."""
        return self.decide(options)

    def decide(self, message: bytes) -> bytes:
        """Return its request after a message of the server."""
        return self._process.call(message)

    def end(self) -> None:
        """End the child. Further calls do nothing."""
        self._process.end()


def main(path: str) -> None:
    """Be the child process of a library."""
    library: InProcess | None = None

    def answer(message: bytes) -> bytes:
        nonlocal library
        try:
            if library is None:
                library = InProcess(path)
                return library.begin(message)
            return library.decide(message)
        except PolicyError as error:
            raise PolicyError(str(error).removeprefix(f"{path}: ")) from None

    serve_frames(answer, PolicyError)
    if library is not None:
        library.end()


if __name__ == "__main__":
    main(sys.argv[1])
