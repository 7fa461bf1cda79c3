"""Files of the repository as pages of the site, with links that work there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
MARKER = re.compile(r"<!-- included: (\S+) -->")
FILE = re.compile(r"<!-- file: (\S+) -->")
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
IMAGES = "repository"
"""Folder of the site that contains the images of included files, at their repository paths."""


def included_files(docs: Path) -> dict[str, str]:
    """Return the page of each included file: repository path to path below `docs`."""
    return {
        found[1]: page.relative_to(docs).as_posix()
        for page in sorted(docs.rglob("*.md"))
        if (found := MARKER.search(page.read_text(encoding="utf-8")))
    }


def page_of(file: str, page: str, pages: Mapping[str, str]) -> str:
    """Return an included file with its links adapted to the site.

    A link to an included file or to a page of the site leads to that page. An image is copied to
    the site. Any other link into the repository becomes the text and the path.

    Args:
        file: path of the included file in the repository.
        page: path below `docs` of the page that includes it.
        pages: the result of `included_files`.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    return LINK.sub(lambda match: _link(match, file, page, pages), text)


def code_of(file: str) -> str:
    """Return a source file of the repository as a code block with the file's name."""
    path = ROOT / file
    language = {".py": "python", ".yaml": "yaml"}[path.suffix]
    return f'```{language} title="{path.name}"\n{path.read_text(encoding="utf-8").rstrip()}\n```'


def images_of(file: str) -> Iterator[str]:
    """Yield the repository path of each image in an included file."""
    for match in LINK.finditer((ROOT / file).read_text(encoding="utf-8")):
        if match["image"] and not _outside(match["target"]):
            yield _path(file, match["target"])


def _link(match: re.Match[str], file: str, page: str, pages: Mapping[str, str]) -> str:
    target, _, fragment = match["target"].partition("#")
    if _outside(match["target"]):
        return match[0]
    path = _path(file, target)
    if match["image"]:
        return f"![{match['text']}]({_relative(f'{IMAGES}/{path}', page)})"
    on_site = pages.get(path) or pages.get(f"{path}/README.md")
    if on_site is None and path.startswith("docs/"):
        on_site = path.removeprefix("docs/")
    if on_site is not None:
        anchor = f"#{fragment}" if fragment else ""
        return f"[{match['text']}]({_relative(on_site, page)}{anchor})"
    plain = match["text"].strip("`/")
    return f"`{path}`" if path.endswith(plain) else f"{match['text']} (`{path}`)"


def _outside(target: str) -> bool:
    return target.startswith(("#", "http:", "https:", "mailto:"))


def _path(file: str, target: str) -> str:
    """Return the repository path that a link of a file leads to."""
    return os.path.normpath(PurePosixPath(file).parent / target)


def _relative(target: str, page: str) -> str:
    return os.path.relpath(target, PurePosixPath(page).parent)
