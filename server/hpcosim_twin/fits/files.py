"""Files of a calibration: slurm.conf and accounting to a calibration and its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hpcosim_experiments.report.write import template
from hpcosim_slurm.files.output import InputError, check_outputs
from hpcosim_slurm.files.report import ImportReport
from hpcosim_slurm.files.slurm.convert import SlurmOptions
from hpcosim_slurm.texts import moments_of, zone_of
from hpcosim_twin.cluster.observer import configured_site
from hpcosim_twin.cluster.recorded import read_accounting
from hpcosim_twin.fits.cluster import (
    CalibrationSettings,
    ClusterCalibration,
    calibrated,
    write_calibration,
)
from hpcosim_twin.fits.page import TEMPLATE, time_text, write_page
from hpcosim_workloads.logs.quantities import FieldError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationFiles:
    """The files that a calibration reads and writes.

    Attributes:
        conf: slurm.conf.
        sacct: output of `sacct -P`.
        sacctmgr: output of `sacctmgr dump`; None: there are no accounts.
        until: time up to which the accounting counts; empty: all of it.
        out: the calibration.
        page: the page; None: none is written.
        force: replace files that exist.
    """

    conf: Path
    sacct: Path
    out: Path
    sacctmgr: Path | None = None
    until: str = ""
    page: Path | None = None
    force: bool = False


def calibrate_files(
    files: CalibrationFiles,
    settings: CalibrationSettings,
    tell: Callable[[str], object] = lambda _: None,
) -> ClusterCalibration:
    """Write the calibration of a cluster, and a page of it.

    Args:
        tell: gets the progress.

    Raises:
        InputError: a file cannot be read or written, or has another content.
        ForecastError: there are too few jobs.
        ExperimentError: Jinja is missing for the page.
    """
    outputs = [files.out] if files.page is None else [files.out, files.page]
    inputs = [files.conf, files.sacct, *([files.sacctmgr] if files.sacctmgr else [])]
    check_outputs(outputs, inputs, None)
    for path in outputs:
        if path.exists() and not files.force:
            raise InputError("the file exists; name another one, or add --force", path)
    if files.page is not None:
        template(TEMPLATE)  # reports a missing package before the simulations
    read = ImportReport()
    site = configured_site(files.conf, SlurmOptions(sacctmgr=files.sacctmgr))
    accounting = read_accounting(files.sacct, site, read, settings.time_zone)
    if files.until:
        accounting = accounting.until(_until_s(files.until, settings.time_zone))
        if not accounting.jobs:
            raise InputError(f"no job was submitted before --until {files.until}", files.sacct)
    found = calibrated(accounting, settings, list(_warnings(read)), tell)
    write_calibration(found, files.out, force=files.force)
    if files.page is not None:
        write_page(found, files.page, force=files.force)
    return found


def _until_s(text: str, time_zone: str) -> float:
    try:
        return moments_of(text, zone_of(time_zone))[0]
    except (FieldError, IndexError):
        raise InputError(
            f"--until: expected a time such as 2026-11-22, got {shown(text)}"
        ) from None


def _warnings(read: ImportReport) -> Iterator[str]:
    for kind in ("dropped", "guessed"):
        for what, entry in read.entries.get(kind, {}).items():
            yield f"{entry.count:,} {what}"


def summary(found: ClusterCalibration) -> Iterator[str]:
    """Yield lines about the part kept apart and what could not be fitted."""
    for each in found.kept:
        held = ", ".join(
            f"{float(name):.0%} range holds {share:.0%}" for name, share in each.coverage.items()
        )
        error = time_text(each.error_s)
        yield f"{each.group}: {each.jobs} jobs, median absolute error {error}, {held}"
    for finding in found.findings:
        if finding.reason:
            yield f"not fitted: {finding.name}: {finding.reason}"
