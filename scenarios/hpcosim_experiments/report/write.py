"""Write the report of an experiment."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpcosim_experiments.errors import ExperimentError
from hpcosim_experiments.report.analysis import Results, analysis_of
from hpcosim_experiments.report.cells import Cell, Table
from hpcosim_experiments.report.content import Content, content_of
from hpcosim_experiments.report.figures import ENDINGS, DrawnFigure, draw_figures
from hpcosim_experiments.report.markup import document, escape, latex, table
from hpcosim_experiments.report.settings import ReportSettings
from hpcosim_experiments.whole_files import write_whole

# The report as a page in HTML that needs no other file.

REPORT = Path(__file__).with_name("report.html.jinja")
METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
SVG_ID = re.compile(r'(\bid="|href="#|url\(#)')


def html(content: Content, figures: Sequence[str]) -> str:
    """Return a report as a page.

    Raises:
        ExperimentError: Jinja is missing.
    """
    names = [figure.name for figure in content.figures]
    drawn = [inline(name, svg) for name, svg in zip(names, figures, strict=True)]
    return str(template().render(content=content, drawn=drawn))


def template(path: Path = REPORT) -> Any:
    """Return the template of a page.

    Raises:
        ExperimentError: Jinja is missing.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise ExperimentError("reports need Jinja: pip install 'hpcosim[experiment]'") from None
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(path.name)


def inline(name: str, svg: str) -> str:
    """Return the element of an SVG file, whose ids are unique in a page of several figures."""
    element = METADATA.sub("", svg[svg.index("<svg") :])
    return SVG_ID.sub(rf"\g<1>{name}-", element)


def write_report(folder: Path, results: Results, settings: ReportSettings) -> list[Path]:
    """Write the report of an experiment; existing files of the same names are replaced.

    The same results give the same bytes with the same versions of matplotlib and Jinja.

    Args:
        folder: existing output folder. It receives `report.html`, `report.md`, `tables/*.tex` and
            `figures/*.svg` and `*.pdf`.
        settings: the section `report` of the experiment file, which `check` has accepted.

    Returns:
        The files.

    Raises:
        ExperimentError: Jinja is missing.
        FigureError: matplotlib is missing.
        StoreError: a file cannot be written; it is as it was before.
    """
    template()  # reports a missing package before the statistics
    figures, tables = folder / "figures", folder / "tables"
    analysis = analysis_of(results, settings)
    content = content_of(analysis, draw_figures(figures, analysis))
    drawn = [(figures / f"{one.name}.svg").read_text("utf-8") for one in content.figures]
    texts = {
        folder / "report.html": html(content, drawn),
        folder / "report.md": markdown(content),
        **{tables / f"{one.name}.tex": latex(one) for one in (*content.overview, *content.tables)},
    }
    for path, text in texts.items():
        write_whole(path, text.encode())
    return [
        *texts,
        *(figures / (one.name + ending) for one in content.figures for ending in ENDINGS),
    ]


def markdown(content: Content) -> str:
    """Return a report in Markdown, with links to the SVG files of its figures."""
    facts = [f"- {name}: {escape(text)}" for name, text in content.facts]
    return document(
        [f"# {escape(content.title)}"],
        facts,
        *(part for one in content.overview for part in _section(one)),
        *(part for figure in content.figures for part in _figure(figure)),
        *(part for one in content.tables for part in _section(one)),
    )


def _section(one: Table) -> list[list[str]]:
    head = [escape(title) for title in one.head]
    rules = ["---"] * one.labels + ["---:"] * (len(head) - one.labels)
    drawn = table(head, [[_cell(cell) for cell in row] for row in one.rows], rules)
    return [[f"## {escape(one.title)}"], drawn, [escape(one.caption)]]


def _figure(figure: DrawnFigure) -> list[list[str]]:
    title = escape(figure.title)
    picture = f"![{title}](figures/{figure.name}.svg)"
    return [[f"## {title}"], [picture], [escape(figure.caption)]]


def _cell(cell: Cell) -> str:
    text = f"**{escape(cell.text)}**" if cell.strong else escape(cell.text)
    return f"{text} {cell.interval}" if cell.interval else text
