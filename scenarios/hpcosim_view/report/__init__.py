"""The report of one to four runs: a web page in one file."""

from hpcosim_view.report.settings import settings_warnings
from hpcosim_view.report.write import MAX_RUNS, report_page, write_report

__all__ = ["MAX_RUNS", "report_page", "settings_warnings", "write_report"]
