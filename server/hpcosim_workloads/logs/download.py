"""Download a known job log, so that a cut or altered one leaves nothing behind."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hpcosim_workloads.errors import DownloadError
from hpcosim_workloads.logs.catalogue import ARCHIVE, KnownTrace

SILENCE_LIMIT_S = 30.0
CHUNK_BYTES = 64 * 1024
PIECE_BYTES = 1024 * 1024
# The largest known log unpacks to some 50 MB; this only keeps a bomb from filling the disk.
LIMIT_BYTES = 4 * 1024**3
GZIP_WBITS = 16 + zlib.MAX_WBITS


def download(
    trace: KnownTrace,
    into: Path,
    *,
    base_url: str = ARCHIVE,
    report: Callable[[int, int | None], None] = lambda _received, _total: None,
) -> Path:
    """Download a log, check it, and only then give it its name.

    A file that was there before is replaced by a good download and left alone by a bad one.

    Args:
        trace: the log.
        into: the folder it goes to; made where it does not exist.
        base_url: the archive, or a mirror laid out as it is.
        report: told after each chunk the bytes received and, where the server said so, the
            bytes to come in all; both compressed.

    Returns:
        The log, as the archive compressed it.

    Raises:
        DownloadError: it was not downloaded; says who is at fault.
    """
    url = address(trace, base_url)
    target = into / f"{trace.file}.gz"
    try:
        with _opened(url) as response, _made_whole(target) as part:
            checksum = hashlib.sha256()
            for piece in _unpacked(_kept(_chunks(response, url, report), part), url):
                checksum.update(piece)
            if (came := checksum.hexdigest()) != trace.sha256:
                what = f"sha256 {trace.sha256} was expected of {trace.file}, {came} came"
                raise DownloadError("content", what, url)
    except OSError as error:  # those of the network have become DownloadError by now
        what = f"{target.name} cannot be written: {error}"
        raise DownloadError("disk", what, str(into)) from error
    return target


def address(trace: KnownTrace, base_url: str = ARCHIVE) -> str:
    """Say where a log is to be had.

    Raises:
        DownloadError: no address of the log is known, or `base_url` is no web address.
    """
    if trace.folder is None:
        raise DownloadError(
            "address",
            f"none is known of {trace.name}: get {trace.file} by hand, "
            "and put it in $HPCOSIM_TRACES",
            base_url,
        )
    # Plain http is let through for mirrors: the checksum guards what comes.
    if not re.match("https?://[^/]", base_url):
        raise DownloadError("address", "https://HOST or http://HOST was expected", base_url)
    return f"{base_url.rstrip('/')}/{trace.folder}/{trace.file}.gz"


def _opened(url: str) -> http.client.HTTPResponse:
    """Ask for an address; the answer is open, and its status is a good one."""
    try:
        # Bandit fears file: addresses here; `address` lets none through.
        request = urllib.request.Request(url, headers={"User-Agent": "hpcosim"})  # noqa: S310
        response: http.client.HTTPResponse = urllib.request.urlopen(  # noqa: S310
            request, timeout=SILENCE_LIMIT_S
        )
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(
            "server", f"it answered {error.code} {error.reason}, 200 OK was expected", url
        ) from error
    except urllib.error.URLError as error:
        raise DownloadError("network", f"no connection: {error.reason}", url) from error
    except (ValueError, http.client.InvalidURL) as error:  # a port that is no number, say
        raise DownloadError("address", str(error), url) from error
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError("network", f"no answer: {_in_words(error)}", url) from error
    return response


def _chunks(
    response: http.client.HTTPResponse, url: str, report: Callable[[int, int | None], None]
) -> Iterator[bytes]:
    """Yield the body as it comes, and make sure that all of it came."""
    total_bytes = response.length
    received_bytes = 0
    while True:
        try:
            chunk = response.read(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            what = f"cut after {received_bytes} bytes: {_in_words(error)}"
            raise DownloadError("network", what, url) from error
        if not chunk:
            break
        received_bytes += len(chunk)
        # Empty gzip members unpack to nothing for ever, so that this must be bounded as well.
        if received_bytes > LIMIT_BYTES:
            raise DownloadError("content", f"more than {LIMIT_BYTES} bytes came", url)
        report(received_bytes, total_bytes)
        yield chunk
    # http.client takes an early end for the end, when it reads by the chunk.
    if total_bytes is not None and received_bytes < total_bytes:
        raise DownloadError(
            "network", f"cut after {received_bytes} bytes of {total_bytes} expected", url
        )


def _kept(chunks: Iterable[bytes], part: BinaryIO) -> Iterator[bytes]:
    """Pass chunks on, and write each to a file on its way."""
    for chunk in chunks:
        part.write(chunk)
        yield chunk


def _unpacked(chunks: Iterable[bytes], url: str) -> Iterator[bytes]:
    """Unpack gzip, of one member or of many, in pieces of bounded size.

    Raises:
        DownloadError: it is not gzip, it ends within a member, or it unpacks to too much.
    """
    member = zlib.decompressobj(GZIP_WBITS)
    unpacked_bytes = 0
    for chunk in chunks:
        rest = chunk
        while rest:
            if member.eof:
                member = zlib.decompressobj(GZIP_WBITS)
            try:
                piece = member.decompress(rest, PIECE_BYTES)
            except zlib.error as error:
                raise DownloadError("content", f"gzip was expected: {error}", url) from error
            unpacked_bytes += len(piece)
            if unpacked_bytes > LIMIT_BYTES:
                raise DownloadError("content", f"it unpacks to more than {LIMIT_BYTES} bytes", url)
            yield piece
            rest = member.unconsumed_tail or member.unused_data
    if not member.eof:
        raise DownloadError("content", f"gzip ends early, {unpacked_bytes} bytes unpacked", url)


@contextmanager
def _made_whole(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that takes a name only when all went well, and is else removed.

    The block may end by any exception, KeyboardInterrupt among them.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, for a rename is atomic only within one file system.
    descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    try:
        with os.fdopen(descriptor, "wb") as part:
            yield part
            part.flush()
            os.fsync(part.fileno())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _in_words(error: Exception) -> str:
    """Repeat what an exception says, or else name its kind: some say nothing."""
    return str(error) or type(error).__name__
