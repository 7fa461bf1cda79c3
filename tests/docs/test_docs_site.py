"""The documentation site builds, is complete and needs no network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hpcosim_client
from support.paths import ROOT

pytest.importorskip("mkdocs")
pytest.importorskip("griffe")
from docs.generate.included import images_of, included_files, page_of

PAGES = {"protocol/README.md": "reference/protocol.md"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """No page loads a script, a style, a font or an image from another host."""
    loads = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?://[^\"> ]+)")
    pages = [path.read_text(encoding="utf-8") for path in site.rglob("*.html")]
    assert pages
    assert not [url for page in pages for url in loads.findall(page)]


@pytest.mark.slow
def test_no_marker_is_left(site: Path) -> None:
    """Every generated or included text is in its page."""
    left = [
        path
        for path in site.rglob("*.html")
        if "<!-- generated" in (text := path.read_text()) or "<!-- included" in text
    ]
    assert not left


@pytest.mark.slow
def test_each_public_name_of_the_client_is_documented(site: Path) -> None:
    """The Python reference has an entry for each name that `hpcosim_client` exports."""
    page = (site / "reference" / "python-client.html").read_text(encoding="utf-8")
    missing = [name for name in hpcosim_client.__all__ if f'id="hpcosim_client.{name}"' not in page]
    assert not missing


@pytest.mark.parametrize(
    ("link", "text"),
    [
        ("[spec](README.md#frames)", "[spec](../reference/protocol.md#frames)"),
        ("[the schema](schema/)", "the schema (`protocol/schema`)"),
        ("[`schema/`](schema/)", "`protocol/schema`"),
        ("[web](https://example.org/a)", "[web](https://example.org/a)"),
        ("![picture](a.png)", "![picture](../repository/protocol/a.png)"),
        ("[page](../docs/install.md)", "[page](../install.md)"),
    ],
)
def test_link_of_an_included_file(
    link: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link leads to a page or an image of the site; any other repository path is named."""
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol" / "NEW.md").write_text(link)
    monkeypatch.setattr("docs.generate.included.ROOT", tmp_path)
    assert page_of("protocol/NEW.md", "tutorials/new.md", PAGES) == text


def test_images_of_included_files_exist() -> None:
    """Every image that an included file shows is in the repository."""
    files = included_files(ROOT / "docs")
    assert "protocol/hpcosim_protocol/specification.md" in files
    assert all((ROOT / image).is_file() for file in files for image in images_of(file))
