"""The report as a page in HTML that needs no other file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.report.content import Content

TEMPLATE = "report.html.jinja"
METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
SVG_ID = re.compile(r'(\bid="|href="#|url\(#)')


def html(content: Content, figures: Sequence[str]) -> str:
    """Return a report as a page.

    Args:
        content: the report.
        figures: the text of the SVG file of each figure.

    Raises:
        ExperimentError: Jinja is missing.
    """
    names = [figure.name for figure in content.figures]
    drawn = [_inline(name, svg) for name, svg in zip(names, figures, strict=True)]
    return str(template().render(content=content, drawn=drawn))


def template() -> Any:
    """Return the template of the page.

    Raises:
        ExperimentError: Jinja is missing.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ExperimentError("reports need Jinja: pip install 'hpcosim[experiment]'") from None
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(TEMPLATE)


def _inline(name: str, svg: str) -> str:
    """Return the element of an SVG file, whose ids are unique in a page of several figures."""
    element = METADATA.sub("", svg[svg.index("<svg") :])
    return SVG_ID.sub(rf"\g<1>{name}-", element)
