"""The catalogue of job logs, and downloads from a test server."""

from __future__ import annotations

import gzip
import hashlib
import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pytest
from typer.testing import CliRunner

from hpcosim.cli.catalogue import app
from hpcosim_workloads.errors import DownloadError, WorkloadError
from hpcosim_workloads.logs import download as download_module
from hpcosim_workloads.logs.catalogue import KNOWN, KnownTrace, find_trace, locate
from hpcosim_workloads.logs.download import address, download
from support.paths import SHARED

REAL_TRACES = SHARED / "traces"
LOG = b"; MaxProcs: 4\n" + b"".join(b"%d %d -1 60 1\n" % (i, 10 * i) for i in range(1, 5000))
PACKED = gzip.compress(LOG, mtime=0)
TINY = KnownTrace(
    name="tiny-log",
    file="Tiny-1.swf",
    folder="l_tiny",
    jobs=4999,
    processors=4,
    span_days=0.6,
    provider="Nobody",
    sha256=hashlib.sha256(LOG).hexdigest(),
)
PATH = "/l_tiny/Tiny-1.swf.gz"

Answer = Callable[[BaseHTTPRequestHandler], None]


class Archive(ThreadingHTTPServer):
    """A server that replies as a test sets, and records its requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer: Answer = body(PACKED)
        self.asked: list[str] = []
        self.over = threading.Event()

    @property
    def url(self) -> str:
        """The address of the test server."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Passes each request to the current reply."""

    server: Archive

    def do_GET(self) -> None:
        """Reply."""
        self.server.asked.append(self.path)
        self.server.answer(self)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base
        """Print no log."""


def body(content: bytes, *, length: int | None = -1) -> Answer:
    """Reply 200 with a body; `length` is the Content-Length, -1: the true one, None: none."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        if length is not None:
            handler.send_header("Content-Length", str(len(content) if length == -1 else length))
        handler.end_headers()
        handler.wfile.write(content)

    return answer


@pytest.fixture
def archive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    """Serve on 127.0.0.1 during the test, without proxies."""
    monkeypatch.setenv("no_proxy", "*")
    with Archive() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Create the user's own folder of logs and the cache."""
    own, cache = tmp_path / "own", tmp_path / "cache" / "traces"
    own.mkdir()
    cache.mkdir(parents=True)
    monkeypatch.setenv("HPCOSIM_TRACES", str(own))
    monkeypatch.setattr(platformdirs, "user_cache_path", lambda _: tmp_path / "cache")
    return own, cache


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> KnownTrace:
    """Add a small log to the catalogue."""
    monkeypatch.setitem(KNOWN, TINY.name, TINY)
    return TINY


def failure(archive_url: str, into: Path) -> DownloadError:
    """Download the small log, check that no file remains, and return the error."""
    before = sorted(into.iterdir())
    with pytest.raises(DownloadError) as caught:
        download(TINY, into, base_url=archive_url)
    assert sorted(into.iterdir()) == before
    return caught.value


# --- the download ---------------------------------------------------------------------------


def test_good_download(archive: Archive, tmp_path: Path) -> None:
    """A download is stored unchanged, alone in a new folder."""
    into = tmp_path / "a" / "b"
    path = download(TINY, into, base_url=archive.url + "/")
    assert archive.asked == [PATH]
    assert list(into.iterdir()) == [path]
    assert path == into / "Tiny-1.swf.gz"
    assert path.read_bytes() == PACKED


@pytest.mark.parametrize(("length", "total"), [(-1, len(PACKED)), (None, None)])
def test_progress(archive: Archive, tmp_path: Path, length: int | None, total: int | None) -> None:
    """Progress grows to the compressed size, with the total if the server states it."""
    archive.answer = body(PACKED, length=length)
    told: list[tuple[int, int | None]] = []
    download(TINY, tmp_path, base_url=archive.url, report=lambda *bytes_: told.append(bytes_))
    assert told == sorted(told)
    assert told[-1] == (len(PACKED), total)


def test_small_chunks(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes of chunks and pieces do not matter."""
    monkeypatch.setattr(download_module, "CHUNK_BYTES", 7)
    monkeypatch.setattr(download_module, "PIECE_BYTES", 11)
    assert download(TINY, tmp_path, base_url=archive.url).read_bytes() == PACKED


@pytest.mark.parametrize("chunk_bytes", [1, 64 * 1024])
def test_many_members(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int
) -> None:
    """A log of several gzip members is one log."""
    monkeypatch.setattr(download_module, "CHUNK_BYTES", chunk_bytes)
    packed = gzip.compress(LOG[:100]) + gzip.compress(b"") + gzip.compress(LOG[100:])
    archive.answer = body(packed)
    assert download(TINY, tmp_path, base_url=archive.url).read_bytes() == packed


def test_short_body(archive: Archive, tmp_path: Path) -> None:
    """A body shorter than its Content-Length is a network error and leaves no file."""
    archive.answer = body(PACKED[:-20], length=len(PACKED))
    error = failure(archive.url, tmp_path)
    assert error.fault == "network"
    assert f"expected {len(PACKED)} bytes, got {len(PACKED) - 20}" in str(error)


def test_gzip_ends_early(archive: Archive, tmp_path: Path) -> None:
    """An incomplete gzip file without Content-Length leaves no file."""
    archive.answer = body(PACKED[:-20], length=None)
    error = failure(archive.url, tmp_path)
    assert error.fault == "content"
    assert "is incomplete" in str(error)


def test_nothing_came(archive: Archive, tmp_path: Path) -> None:
    """An empty body is no log and leaves nothing."""
    archive.answer = body(b"")
    assert failure(archive.url, tmp_path).fault == "content"


def test_altered_log(archive: Archive, tmp_path: Path) -> None:
    """A sound gzip of another log is refused, with both checksums in the message."""
    other = LOG.replace(b"60", b"61")
    archive.answer = body(gzip.compress(other))
    error = failure(archive.url, tmp_path)
    assert error.fault == "content"
    assert TINY.sha256 in str(error)
    assert hashlib.sha256(other).hexdigest() in str(error)


def test_altered_bytes(archive: Archive, tmp_path: Path) -> None:
    """A byte that changed on the way is noticed and leaves nothing."""
    middle = len(PACKED) // 2
    archive.answer = body(PACKED[:middle] + bytes([PACKED[middle] ^ 1]) + PACKED[middle + 1 :])
    assert failure(archive.url, tmp_path).fault == "content"


@pytest.mark.parametrize(
    "content",
    [b"<html>Please log in</html>", LOG, PACKED + b"more"],
    ids=["page", "unpacked", "more behind"],
)
def test_not_gzip(archive: Archive, tmp_path: Path, content: bytes) -> None:
    """What is not gzip from end to end is refused and leaves nothing."""
    archive.answer = body(content)
    error = failure(archive.url, tmp_path)
    assert error.fault == "content"
    assert "expected gzip data" in str(error)


def test_bomb(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that unpacks to more than the limit is refused before it is unpacked whole."""
    monkeypatch.setattr(download_module, "LIMIT_BYTES", len(LOG) - 1)
    error = failure(archive.url, tmp_path)
    assert error.fault == "content"
    assert f"at most {len(LOG) - 1} uncompressed bytes" in str(error)


def test_too_much_comes(archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty gzip members without end, which unpack to nothing, are cut off as well."""
    monkeypatch.setattr(download_module, "LIMIT_BYTES", 1000)
    archive.answer = body(gzip.compress(b"") * 100)
    error = failure(archive.url, tmp_path)
    assert error.fault == "content"
    assert "at most 1000 bytes" in str(error)


def test_not_found(archive: Archive, tmp_path: Path) -> None:
    """An error status is the server's fault, named with its number and the address."""
    archive.answer = lambda handler: handler.send_error(404)
    error = failure(archive.url, tmp_path)
    assert error.fault == "server"
    assert "404 Not Found" in str(error)
    assert archive.url + PATH in str(error)


def free_address(monkeypatch: pytest.MonkeyPatch) -> str:
    """An address of this machine without a listener."""
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that cannot be reached is the network's fault and leaves nothing."""
    assert failure(free_address(monkeypatch), tmp_path).fault == "network"


@pytest.mark.parametrize("sent", [b"", PACKED[:50]], ids=["before", "within"])
def test_silence(
    archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A server that falls silent, before its body or in it, is not waited for without end."""

    def stall(handler: BaseHTTPRequestHandler) -> None:
        if sent:
            body(sent, length=len(PACKED))(handler)
        archive.over.wait(20)

    monkeypatch.setattr(download_module, "SILENCE_LIMIT_S", 0.2)
    archive.answer = stall
    error = failure(archive.url, tmp_path)
    archive.over.set()
    assert error.fault == "network"
    assert "timed out" in str(error)


def test_interrupt(archive: Archive, tmp_path: Path) -> None:
    """Ctrl-C in the middle of a download leaves nothing."""

    def interrupt(received_bytes: int, total_bytes: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(TINY, tmp_path, base_url=archive.url, report=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_file_stays(archive: Archive, tmp_path: Path) -> None:
    """A failed download leaves a file that was there before as it was."""
    old = tmp_path / "Tiny-1.swf.gz"
    old.write_bytes(b"old")
    archive.answer = body(PACKED[:-20], length=len(PACKED))
    failure(archive.url, tmp_path)
    assert old.read_bytes() == b"old"


def test_file_replaced(archive: Archive, tmp_path: Path) -> None:
    """A download replaces an earlier file."""
    old = tmp_path / "Tiny-1.swf.gz"
    old.write_bytes(b"old")
    download(TINY, tmp_path, base_url=archive.url)
    assert old.read_bytes() == PACKED


def test_folder_is_a_file(archive: Archive, tmp_path: Path) -> None:
    """A folder that cannot be written to is a disk error that names it."""
    into = tmp_path / "into"
    into.write_bytes(b"")
    with pytest.raises(DownloadError, match=re.escape(str(into))) as caught:
        download(TINY, into, base_url=archive.url)
    assert caught.value.fault == "disk"


@pytest.mark.parametrize(
    "url", ["file:///etc", "ftp://127.0.0.1", "nonsense", "", "http://", "http://127.0.0.1:port"]
)
def test_no_web_address(tmp_path: Path, url: str) -> None:
    """Only http and https addresses are requested."""
    assert failure(url, tmp_path).fault == "address"


def test_address_of_the_archive() -> None:
    """The address of a log is its folder in the archive, over https."""
    assert address(KNOWN["nasa-ipsc"]) == (
        "https://www.cs.huji.ac.il/labs/parallel/workload/l_nasa_ipsc/NASA-iPSC-1993-3.1-cln.swf.gz"
    )


# --- the catalogue --------------------------------------------------------------------------


def test_lookup_order(folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """The user's own folder has priority over the cache, and gzipped logs over plain ones."""
    places = [folder / name for folder in folders for name in ("Tiny-1.swf.gz", "Tiny-1.swf")]
    for place in reversed(places):
        place.write_bytes(b"")
        assert find_trace("tiny-log") == place
    assert len(places) == 4


def test_variable_not_set(
    folders: tuple[Path, Path], tiny: KnownTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unset or empty $HPCOSIM_TRACES is no folder, also not the working folder."""
    own, cache = folders
    (own / "Tiny-1.swf").write_bytes(b"")
    monkeypatch.chdir(own)
    monkeypatch.setenv("HPCOSIM_TRACES", "")
    assert locate(tiny) is None
    monkeypatch.delenv("HPCOSIM_TRACES")
    assert locate(tiny) is None
    (cache / "Tiny-1.swf.gz").write_bytes(b"")
    assert find_trace("tiny-log") == cache / "Tiny-1.swf.gz"


def test_folder_is_no_log(folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """A folder with the name of a log is not a copy of the log."""
    (folders[0] / "Tiny-1.swf.gz").mkdir()
    assert locate(tiny) is None


def test_missing_log(folders: tuple[Path, Path]) -> None:
    """The error of a missing log names both folders and the download command."""
    with pytest.raises(WorkloadError) as caught:
        find_trace("nasa-ipsc")
    for part in (*map(str, folders), "hpcosim traces get nasa-ipsc", "NASA-iPSC-1993-3.1-cln.swf"):
        assert part in str(caught.value)


def test_missing_log_without_address(folders: tuple[Path, Path]) -> None:
    """The error of a log without address does not offer a download."""
    with pytest.raises(WorkloadError, match="no download address") as caught:
        find_trace("lublin-256")
    assert "traces get" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("nasa", "nasa-ipsc"), ("NASA_iPSC", "nasa-ipsc"), ("ctcsp2", "ctc-sp2"), ("zzzz", "known: ")],
)
def test_unknown_name(wrong: str, right: str) -> None:
    """The error of an unknown name has the nearest names, or all names."""
    with pytest.raises(WorkloadError) as caught:
        find_trace(wrong)
    assert repr(wrong) in str(caught.value)
    assert right in str(caught.value)


def test_format_is_told_by_the_name() -> None:
    """The suffix of the file name is the format."""
    assert [trace.name for trace in KNOWN.values() if trace.format != "swf"] == ["kit-fh2-25326"]
    assert KNOWN["kit-fh2-25326"].format == "cqsim"


def test_catalogue_names() -> None:
    """Names, files and checksums are unique."""
    assert all(name == trace.name for name, trace in KNOWN.items())
    assert len({trace.file for trace in KNOWN.values()}) == len(KNOWN)
    assert len({trace.sha256 for trace in KNOWN.values()}) == len(KNOWN)


@pytest.mark.trace
def test_catalogue_checksums() -> None:
    """The checksums are those published with the logs."""
    sums = REAL_TRACES / "SHA256SUMS.uncompressed"
    if not sums.exists():
        pytest.skip(f"{sums} is missing")
    expected = {file: sha256 for sha256, file in map(str.split, sums.read_text().splitlines())}
    logs = [trace for trace in KNOWN.values() if trace.format == "swf"]
    assert {trace.file: trace.sha256 for trace in logs}.items() <= expected.items()


@pytest.mark.trace
@pytest.mark.parametrize("name", KNOWN)
def test_catalogue_numbers(name: str) -> None:
    """Jobs, days, processors, provider and checksum are those of the log."""
    trace = KNOWN[name]
    path = REAL_TRACES / f"{trace.file}.gz"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    log = gzip.decompress(path.read_bytes())
    assert hashlib.sha256(log).hexdigest() == trace.sha256
    lines = log.decode("latin-1").splitlines()
    jobs = [line for line in lines if line[:1] not in (";", "#", "")]
    swf = trace.format == "swf"
    submits_s = [float(line.split()[1] if swf else line.split(";")[6]) for line in jobs]
    assert len(submits_s) == trace.jobs
    assert trace.span_days == pytest.approx((max(submits_s) - min(submits_s)) / 86400, abs=0.05)
    if not swf:  # it has no header; a file beside it has the values
        about = (REAL_TRACES / "README.md").read_text()
        row = next(line for line in about.splitlines() if trace.file in line)
        assert f"/ {trace.processors} | {trace.provider} |" in row
        return
    # The model's sample has no MaxProcs, and one processor in each node.
    header = "\n".join(line for line in lines[:100] if line.startswith(";"))
    processors = re.search(r"MaxProcs: (\d+)", header) or re.search(r"MaxNodes: (\d+)", header)
    assert processors is not None
    assert int(processors[1]) == trace.processors
    assert trace.provider.split(",")[0] in header


# --- the command ----------------------------------------------------------------------------


def test_list(folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """The list has each log with its numbers, and the archive's conditions of use."""
    result = CliRunner().invoke(app, [], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    rows = {line.split()[1]: line for line in result.stdout.splitlines() if line.startswith("│")}
    assert set(KNOWN) <= set(rows)
    for part in ("4,999", " 4 ", "0.6", "Nobody"):
        assert part in rows["tiny-log"]
    for part in ("Parallel Workloads Archive", "Feitelson", "Tsafrir", "Krakov", "2014"):
        assert part in result.stdout


def test_list_says_where(folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """The list has the folder of each local copy, and the paths of the folders."""
    own, cache = folders

    def tiny_row() -> str:
        result = CliRunner().invoke(app, [], env={"COLUMNS": "80"})
        assert f"$HPCOSIM_TRACES: {own}" in result.stdout
        assert f"cache: {cache}" in result.stdout
        return next(line for line in result.stdout.splitlines() if "tiny-log" in line)

    assert "no" in tiny_row().split()
    (cache / "Tiny-1.swf.gz").write_bytes(b"")
    assert "cache" in tiny_row().split()
    (own / "Tiny-1.swf.gz").write_bytes(b"")
    assert "$HPCOSIM_TRACES" in tiny_row().split()


def test_get(archive: Archive, folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """`get` stores the log where scenarios find it, and prints path and provider."""
    result = CliRunner().invoke(app, ["get", "tiny-log", "--base-url", archive.url])
    assert (result.exit_code, result.stderr) == (0, "")
    assert str(find_trace("tiny-log")) in result.stdout
    assert find_trace("tiny-log") == folders[1] / "Tiny-1.swf.gz"
    assert "Provider: Nobody" in result.stdout


def test_get_again(archive: Archive, folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """`get` of a local log prints its path and sends no request."""
    (folders[0] / "Tiny-1.swf").write_bytes(LOG)
    result = CliRunner().invoke(app, ["get", "tiny-log", "--base-url", archive.url])
    assert result.exit_code == 0
    assert str(folders[0] / "Tiny-1.swf") in result.stdout
    assert archive.asked == []


def test_get_bar(
    archive: Archive,
    folders: tuple[Path, Path],
    tiny: KnownTrace,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a terminal, `get` shows a progress bar on standard error."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = CliRunner().invoke(app, ["get", "tiny-log", "--base-url", archive.url])
    assert result.exit_code == 0
    assert "tiny-log" in result.stderr
    assert "\x1b" not in result.stdout


def assert_one_line(stderr: str, part: str) -> None:
    """Check that standard error is one error line that contains a text."""
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert part in stderr


def test_get_fails(archive: Archive, folders: tuple[Path, Path], tiny: KnownTrace) -> None:
    """A failed download exits with 1, prints the cause in one line and leaves no file."""
    archive.answer = body(PACKED[:-20], length=len(PACKED))
    result = CliRunner().invoke(app, ["get", "tiny-log", "--base-url", archive.url])
    assert result.exit_code == 1
    assert_one_line(result.stderr, "download failed (network)")
    assert list(folders[1].iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["nasa"], "did you mean nasa-ipsc"),
        (["lublin-256"], "lublin-256 has no download address"),
        (["nasa-ipsc", "--base-url", "file:///etc"], "file:///etc"),
    ],
)
def test_get_bad_input(folders: tuple[Path, Path], arguments: list[str], part: str) -> None:
    """Invalid input exits with 2 and one line."""
    result = CliRunner().invoke(app, ["get", *arguments])
    assert result.exit_code == 2
    assert_one_line(result.stderr, part)
