"""Reports of experiments: tables and figures in HTML, Markdown, LaTeX, SVG and PDF."""

from hpcosim_experiments.report.analysis import Results, identical_repeats, repeats
from hpcosim_experiments.report.settings import ReportSettings
from hpcosim_experiments.report.settings_checks import check
from hpcosim_experiments.report.write import write_report

__all__ = ["ReportSettings", "Results", "check", "identical_repeats", "repeats", "write_report"]
