"""What CI and the image install: locked packages, and their audit."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from support.paths import ROOT

LOCK = ROOT / ".ci" / "lock"
if not LOCK.is_dir():
    pytest.skip("no lock files: this is not a checkout", allow_module_level=True)

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ADVISORIES = {("jinja2", "2.4.1"): ["PYSEC-1"], ("bad", "1.0"): ["PYSEC-2", "GHSA-3"]}


def versions(name: str) -> dict[str, str]:
    """Return the versions in a lock file by package."""
    text = (LOCK / f"{name}.txt").read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==([^ ;]+)", text, re.MULTILINE))


def requirements(*extras: str) -> Iterator[Requirement]:
    """Yield what the project needs with some extras, and with those that these name."""
    optional: Mapping[str, list[str]] = PROJECT["optional-dependencies"]
    yield from map(Requirement, [] if extras else PROJECT["dependencies"])
    for extra in extras:
        for text in optional[extra]:
            requirement = Requirement(text)
            if requirement.name == "hpcosim":
                yield from requirements(*requirement.extras)
            else:
                yield requirement


@pytest.mark.parametrize(("name", "extras"), [("image", ()), ("dev", ()), ("dev", ("dev",))])
def test_locked_versions_are_those_that_the_project_admits(
    name: str, extras: tuple[str, ...]
) -> None:
    """Each dependency is locked within its range; torch depends on the machine."""
    locked = versions(name)
    for requirement in requirements(*extras):
        if requirement.name != "torch":
            assert requirement.specifier.contains(locked[requirement.name]), requirement


def test_the_build_is_locked() -> None:
    """The image is built by a locked version of the build backend."""
    assert "hatchling" in versions("build")


@pytest.mark.parametrize("name", ["image", "dev", "build"])
def test_each_locked_package_has_a_hash(name: str) -> None:
    """No line of a lock file admits any content."""
    entries = re.split(r"^(?=[a-z0-9])", (LOCK / f"{name}.txt").read_text(), flags=re.MULTILINE)
    for entry in entries[1:]:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry


def test_the_image_installs_locked_packages_only() -> None:
    """Each pip of the Dockerfile checks hashes, or installs the project alone."""
    text = (ROOT / "Dockerfile").read_text()
    installs = re.findall(r"pip install .*", text)
    assert len(installs) == 3
    for install in installs:
        assert "--require-hashes" in install or "--no-deps --no-build-isolation" in install


class FakeOsv(BaseHTTPRequestHandler):
    """OSV's batch query, with two packages that have advisories."""

    def do_POST(self) -> None:
        """Return a result for each query."""
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        asked = [(query["package"]["name"], query["version"]) for query in queries]
        results = [
            {"vulns": [{"id": each} for each in ADVISORIES[package]]}
            if package in ADVISORIES
            else {}
            for package in asked
        ]
        self._reply(json.dumps({"results": results}).encode())

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class Proxy(FakeOsv):
    """A proxy that replies to everything with a page."""

    def do_POST(self) -> None:
        """Return a page."""
        self._reply(b"<html>sign in</html>")


class Empty(FakeOsv):
    """A service of the same form that has no advisories."""

    def do_POST(self) -> None:
        """Return an empty result for each query."""
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self._reply(json.dumps({"results": [{} for _ in queries]}).encode())


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a local service."""
    with ThreadingHTTPServer(("127.0.0.1", 0), request.param) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def audit() -> ModuleType:
    """The script `.ci/audit.py`."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / ".ci" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write(path: Path, *packages: str) -> str:
    """Write a lock file; return its path."""
    lines = "".join(f"{package} \\\n    --hash=sha256:{'0' * 64}\n" for package in packages)
    path.write_text(lines)
    return str(path)


@pytest.mark.parametrize("service", [FakeOsv], indirect=True)
@pytest.mark.parametrize(
    ("packages", "ignored", "status", "said"),
    [
        (["good==2.0 ; sys_platform == 'linux'"], [], 0, "audited: 1 packages, 0 with"),
        (["good==2.0", "bad==1.0"], [], 1, "bad 1.0: PYSEC-2, GHSA-3"),
        (["bad==1.0"], ["PYSEC-2"], 1, "bad 1.0: GHSA-3"),
        (["bad==1.0"], ["PYSEC-2", "GHSA-3"], 0, "audited: 1 packages, 0 with"),
        (["jinja2==2.4.1"], [], 1, "jinja2 2.4.1: PYSEC-1"),
    ],
)
def test_a_known_vulnerability_fails_the_audit(
    packages: list[str],
    ignored: list[str],
    status: int,
    said: str,
    service: str,
    audit: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The package and the advisories are named, unless they are ignored."""
    options = [word for each in ignored for word in ("--ignore", each)]
    path = write(tmp_path / "lock.txt", *packages)
    assert audit.main(["--service", service, *options, path]) == status
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("service", [Proxy, Empty], indirect=True)
def test_a_service_without_advisories_audits_nothing(
    service: str, audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output says that nothing was audited, and the change does not fail."""
    path = write(tmp_path / "lock.txt", "bad==1.0")
    assert audit.main(["--service", service, path]) == 0
    assert capsys.readouterr().out.startswith("not audited: no advisory service (")


def test_no_service_audits_nothing(
    audit: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the service cannot be reached, the output says so."""
    path = write(tmp_path / "lock.txt", "bad==1.0")
    assert audit.main(["--service", "http://127.0.0.1:9", path]) == 0
    assert capsys.readouterr().out.startswith("not audited: no advisory service (")
