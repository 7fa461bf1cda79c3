"""The page of a report: its template, its script, its style and the encoded runs in one text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from string import Template

from hpcosim_sim.record.versions import hpcosim_version
from hpcosim_view.report.bundle import bundle, web_file
from hpcosim_view.run.frame import Frame, encode_frame

MARK = '<meta name="generator" content="hpcosim '
"""Text at the begin of each page, by which it is recognized."""
LEVEL = 7
"""Compression of the runs."""


def page_of(runs: Sequence[tuple[str, Frame]], notices: Sequence[str] = ()) -> str:
    """Return the page that shows runs.

    Args:
        runs: name and whole run of each.
        notices: what a reader must know about all runs, sentences.
    """
    script = bundle("report_main.js")
    style = web_file("report.css")
    title = ", ".join(dict.fromkeys(str(run.about.get("scenario", "")) for _, run in runs))
    return Template(web_file("report.html")).substitute(
        policy=_policy(script, style),
        version=escape(hpcosim_version()),
        title=escape(title or "run"),
        notices="\n".join(
            f'<p class="notice strong" dir="auto">{escape(notice)}</p>' for notice in notices
        ),
        style=style,
        script=script,
        frames="\n".join(_embedded(name, run) for name, run in runs),
    )


def _policy(script: str, style: str) -> str:
    """Return a Content-Security-Policy that allows this script and this style only."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _embedded(name: str, run: Frame) -> str:
    data = base64.b64encode(encode_frame(run, LEVEL)).decode()
    kind = "application/octet-stream"
    return f'<script type="{kind}" data-run="{escape(name)}">{data}</script>'
