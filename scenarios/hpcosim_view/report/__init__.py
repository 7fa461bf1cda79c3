"""The report of one to four runs: a web page in one file."""

from hpcosim_view.report.write import MAX_RUNS, report_page, write_report

__all__ = ["MAX_RUNS", "report_page", "write_report"]
