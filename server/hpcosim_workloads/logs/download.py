"""Download of job logs of the catalogue, with verification."""

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
# The largest known log has 50 MB; the limit keeps a decompression bomb from filling the disk.
LIMIT_BYTES = 4 * 1024**3
GZIP_WBITS = 16 + zlib.MAX_WBITS


def download(
    trace: KnownTrace,
    into: Path,
    *,
    base_url: str = ARCHIVE,
    report: Callable[[int, int | None], None] = lambda _received, _total: None,
) -> Path:
    """Download a log and verify its checksum.

    An existing file is replaced only after the verification.

    Args:
        into: target folder; it is created if it does not exist.
        base_url: the archive, or a mirror with the same folders.
        report: called after each chunk with the compressed bytes received and the total of
            compressed bytes; None: the server does not state it.

    Returns:
        Path of the gzipped log.

    Raises:
        DownloadError: the download failed; names the cause.
    """
    url = address(trace, base_url)
    target = into / f"{trace.file}.gz"
    try:
        with _opened(url) as response, _complete_file(target) as part:
            checksum = hashlib.sha256()
            for piece in _unpacked(_written(_chunks(response, url, report), part), url):
                checksum.update(piece)
            if (found := checksum.hexdigest()) != trace.sha256:
                what = f"{trace.file}: expected sha256 {trace.sha256}, got {found}"
                raise DownloadError("content", what, url)
    except OSError as error:  # errors of the network are DownloadError already
        what = f"{target.name} cannot be written: {error}"
        raise DownloadError("disk", what, str(into)) from error
    return target


def address(trace: KnownTrace, base_url: str = ARCHIVE) -> str:
    """Return the address of a log.

    Raises:
        DownloadError: the log has no known address, or `base_url` is not a web address.
    """
    if trace.folder is None:
        raise DownloadError(
            "address",
            f"{trace.name} has no download address; get {trace.file} from its provider and put it "
            "in $HPCOSIM_TRACES",
            base_url,
        )
    # Plain http is allowed for mirrors, because the checksum is verified.
    if not re.match("https?://[^/]", base_url):
        raise DownloadError("address", "expected https://HOST or http://HOST", base_url)
    return f"{base_url.rstrip('/')}/{trace.folder}/{trace.file}.gz"


def _opened(url: str) -> http.client.HTTPResponse:
    """Request an address and return the open response, whose status is OK."""
    try:
        # S310 warns of file: addresses; `address` returns none.
        request = urllib.request.Request(url, headers={"User-Agent": "hpcosim"})  # noqa: S310
        response: http.client.HTTPResponse = urllib.request.urlopen(  # noqa: S310
            request, timeout=SILENCE_LIMIT_S
        )
    except urllib.error.HTTPError as error:
        error.close()
        raise DownloadError(
            "server", f"expected status 200 OK, got {error.code} {error.reason}", url
        ) from error
    except urllib.error.URLError as error:
        raise DownloadError("network", f"no connection: {error.reason}", url) from error
    except (ValueError, http.client.InvalidURL) as error:  # for example an invalid port
        raise DownloadError("address", str(error), url) from error
    except (OSError, http.client.HTTPException) as error:
        raise DownloadError("network", f"no response: {_text_of(error)}", url) from error
    return response


def _chunks(
    response: http.client.HTTPResponse, url: str, report: Callable[[int, int | None], None]
) -> Iterator[bytes]:
    """Yield the body in chunks, and check that it is complete."""
    total_bytes = response.length
    received_bytes = 0
    while True:
        try:
            chunk = response.read(CHUNK_BYTES)
        except (OSError, http.client.HTTPException) as error:
            what = f"connection lost after {received_bytes} bytes: {_text_of(error)}"
            raise DownloadError("network", what, url) from error
        if not chunk:
            break
        received_bytes += len(chunk)
        # Empty gzip members unpack to nothing, so the compressed size needs a limit, too.
        if received_bytes > LIMIT_BYTES:
            what = f"expected at most {LIMIT_BYTES} bytes, got more"
            raise DownloadError("content", what, url)
        report(received_bytes, total_bytes)
        yield chunk
    # http.client does not report an early end of the connection when it reads in chunks.
    if total_bytes is not None and received_bytes < total_bytes:
        what = f"expected {total_bytes} bytes, got {received_bytes}"
        raise DownloadError("network", what, url)


def _written(chunks: Iterable[bytes], part: BinaryIO) -> Iterator[bytes]:
    """Write chunks to a file and yield them."""
    for chunk in chunks:
        part.write(chunk)
        yield chunk


def _unpacked(chunks: Iterable[bytes], url: str) -> Iterator[bytes]:
    """Decompress gzip data of one or more members, in pieces of bounded size."""
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
                what = f"expected gzip data: {error}"
                raise DownloadError("content", what, url) from error
            unpacked_bytes += len(piece)
            if unpacked_bytes > LIMIT_BYTES:
                what = f"expected at most {LIMIT_BYTES} uncompressed bytes, got more"
                raise DownloadError("content", what, url)
            yield piece
            rest = member.unconsumed_tail or member.unused_data
    if not member.eof:
        what = f"the gzip data is incomplete after {unpacked_bytes} uncompressed bytes"
        raise DownloadError("content", what, url)


@contextmanager
def _complete_file(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that becomes `target` at the end, or is removed after any exception."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, because a rename is atomic only within one file system.
    descriptor, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    try:
        with os.fdopen(descriptor, "wb") as part:
            yield part
            part.flush()
            os.fsync(part.fileno())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _text_of(error: Exception) -> str:
    """Return the message of an exception, or its type if it has none."""
    return str(error) or type(error).__name__
