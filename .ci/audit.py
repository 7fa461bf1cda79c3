"""Look the locked packages up in OSV's database of known vulnerabilities.

    python .ci/audit.py [--service URL] [--ignore ID]... FILE...

The exit status is 1 if a package has one that is not ignored. Where no advisory service can be
reached, the output says so, and the status is 0: a change must not fail for it.

Source of the interface: https://google.github.io/osv.dev/post-v1-querybatch/.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

SERVICE = "https://api.osv.dev"
TIMEOUT_S = 20.0
MOST_QUERIES = 1000  # of one request
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE)
KNOWN = ("jinja2", "2.4.1")
"""A package with advisories. A service that does not know them, such as a proxy, is none."""

Pinned = tuple[str, str]


class NoServiceError(Exception):
    """There is no advisory service."""


def pinned(paths: list[Path]) -> list[Pinned]:
    """Return the names and versions in lock files, each once."""
    return sorted({found for path in paths for found in PINNED.findall(path.read_text())})


def advisories(packages: list[Pinned], service: str) -> dict[Pinned, list[str]]:
    """Return the identifiers of the advisories of each package that has some.

    Raises:
        NoServiceError: the service does not answer, or not as OSV does.
    """
    asked = [KNOWN, *packages]
    found: dict[Pinned, list[str]] = {}
    for start in range(0, len(asked), MOST_QUERIES):
        part = asked[start : start + MOST_QUERIES]
        for package, result in zip(part, _query(part, service), strict=True):
            if ids := [each["id"] for each in result.get("vulns", [])]:
                found[package] = ids
    if KNOWN not in found:
        raise NoServiceError(f"{service} does not know the advisories of {'=='.join(KNOWN)}")
    if KNOWN not in packages:
        del found[KNOWN]
    return found


def _query(packages: list[Pinned], service: str) -> list[dict[str, Any]]:
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        for name, version in packages
    ]
    request = urllib.request.Request(  # noqa: S310 - the address is ours, or that of the caller
        f"{service}/v1/querybatch",
        data=json.dumps({"queries": queries}).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as reply:  # noqa: S310
            results = json.load(reply)["results"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise NoServiceError(f"{service}: {error}") from None
    if not isinstance(results, list) or len(results) != len(packages):
        raise NoServiceError(f"{service}: expected {len(packages)} results")
    return results


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main(arguments: list[str] | None = None) -> int:
    """Audit lock files; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="lock file")
    parser.add_argument("--service", default=SERVICE, metavar="URL", help="service, as of OSV")
    parser.add_argument("--ignore", action="append", default=[], metavar="ID", help="advisory")
    options = parser.parse_args(arguments)
    packages = pinned(options.files)
    try:
        found = advisories(packages, options.service)
    except NoServiceError as error:
        _say(f"not audited: no advisory service ({error})")
        return 0
    open_ones = {
        package: left
        for package, ids in found.items()
        if (left := [each for each in ids if each not in options.ignore])
    }
    for (name, version), ids in open_ones.items():
        _say(f"{name} {version}: {', '.join(ids)}")
    _say(f"audited: {len(packages)} packages, {len(open_ones)} with known vulnerabilities")
    return int(bool(open_ones))


if __name__ == "__main__":
    sys.exit(main())
