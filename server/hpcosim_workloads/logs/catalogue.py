"""Catalogue of job logs by name, and the search for local copies."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hpcosim_workloads.errors import WorkloadError

ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
TRACES_VARIABLE = "HPCOSIM_TRACES"


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """A job log of the Parallel Workloads Archive, or a part of one. hpcosim does not ship it.

    Attributes:
        file: file name of the uncompressed log in the archive; the suffix is the format.
        folder: its folder in the archive; None: its address is unknown.
        jobs: number of jobs in the log, before the reader's rules.
        processors: number of processors of the machine, from the log's header.
        span_days: time from the first to the last submission, days.
        sha256: SHA-256 of the uncompressed log, hexadecimal.
    """

    name: str
    file: str
    folder: str | None
    jobs: int
    processors: int
    span_days: float
    provider: str
    sha256: str

    @property
    def format(self) -> Literal["swf", "cqsim"]:
        """Format of the log: Standard Workload Format or results of CQSim."""
        return "cqsim" if self.file.endswith(".csv") else "swf"


# The numbers of every entry were checked against the log.
KNOWN: dict[str, KnownTrace] = {
    trace.name: trace
    for trace in (
        KnownTrace(
            name="nasa-ipsc",
            file="NASA-iPSC-1993-3.1-cln.swf",
            folder="l_nasa_ipsc",
            jobs=18_239,
            processors=128,
            span_days=92.0,
            provider="Bill Nitzberg",
            sha256="9d997a2c20a7f7b0b6d81638d756ce8b2c524c4f2e9ec78da36001743ca33d76",
        ),
        KnownTrace(
            name="lublin-256",
            file="lublin_256.swf",
            folder=None,  # a sample of a model; the archive has no folder for it
            jobs=10_000,
            processors=256,
            span_days=89.2,
            provider="Uri Lublin, Hebrew University",
            sha256="a394ab3d81179ebcf645a1cbd593a60b6dff7f11a510e1e6285c45f43310c962",
        ),
        KnownTrace(
            name="sdsc-sp2",
            file="SDSC-SP2-1998-4.2-cln.swf",
            folder="l_sdsc_sp2",
            jobs=59_715,
            processors=128,
            span_days=729.4,
            provider="Victor Hazlewood",
            sha256="2bb635f4b5793f52bd49ccb8fd913d95f9c5be6346925162cadcaf0117e28cf2",
        ),
        KnownTrace(
            name="ctc-sp2",
            file="CTC-SP2-1996-3.1-cln.swf",
            folder="l_ctc_sp2",
            jobs=77_222,
            processors=338,
            span_days=339.1,
            provider="Dan Dwyer and Steve Hotovy",
            sha256="8e33a9b597e1ddda2d2164347bac08c9444e1a2620a7947df52f0a1622ec4cde",
        ),
        KnownTrace(
            name="ricc",
            file="RICC-2010-2.swf",
            folder="l_ricc",
            jobs=447_794,
            processors=8192,
            span_days=153.0,
            provider="Motoyoshi Kurokawa, RIKEN",
            sha256="986a2a12df85adc3c2a2eb80a31b4ff9a056b92637526ee53fb70637b1bf0518",
        ),
        KnownTrace(
            name="llnl-thunder",
            file="LLNL-Thunder-2007-1.1-cln.swf",
            folder="l_llnl_thunder",
            jobs=121_039,
            processors=4008,
            span_days=150.2,
            provider="Moe Jette, LLNL",
            sha256="aad5a3120a6adf0342d46fb4830e022121cdfbd3de9ecdd9cf10145b8864b6a5",
        ),
        KnownTrace(
            name="kit-fh2-25326",
            file="KIT-FH2-2016-1.first25326.csv",
            folder=None,  # a part of a log, in CQSim's format; the archive has the whole log
            jobs=25_326,
            processors=24_048,
            span_days=283.5,
            provider="Mehmet Soysal",
            sha256="b2d52f36a7c8f548c0b3f39effcc4a6c9da3bc1d1853e3005304149bec6809f3",
        ),
    )
}


def known_trace(name: str) -> KnownTrace:
    """Return a log by name.

    Raises:
        WorkloadError: there is no such log; the message has the nearest names.
    """
    if name in KNOWN:
        return KNOWN[name]
    # A low cutoff, because a wrong suggestion does no harm.
    near = difflib.get_close_matches(name.lower().replace("_", "-"), KNOWN, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(KNOWN)}"
    raise WorkloadError(f"there is no job log {name!r} in the catalogue; {advice}")


def user_folder() -> Path | None:
    """Return the folder of the user's own logs, $HPCOSIM_TRACES; None: it is not set."""
    value = os.environ.get(TRACES_VARIABLE, "")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Return the folder of downloaded logs in the user's cache; it may not exist yet."""
    import platformdirs  # only here, as it takes 2 ms to import

    return platformdirs.user_cache_path("hpcosim") / "traces"


def locate(trace: KnownTrace) -> Path | None:
    """Return the path of a local copy of a log, in $HPCOSIM_TRACES or in the cache.

    Args:
        trace: the log; a copy has its file name, with or without the suffix ".gz".

    Returns:
        The copy, or None. Its checksum is not verified here: `download` verifies the logs in the
        cache, and the logs in $HPCOSIM_TRACES are the user's own.
    """
    own = user_folder()
    for folder in (own, cache_folder()) if own else (cache_folder(),):
        for name in (f"{trace.file}.gz", trace.file):
            if (folder / name).is_file():
                return folder / name
    return None


def find_trace(name: str) -> Path:
    """Return the path of the local copy of a log of the catalogue.

    Returns:
        The log in the format `KnownTrace.format`, plain or gzipped.

    Raises:
        WorkloadError: there is no such log, or no local copy; the message names the folders and
            how to get a copy.
    """
    trace = known_trace(name)
    if (path := locate(trace)) is not None:
        return path
    looked_in = f"${TRACES_VARIABLE} ({user_folder() or 'not set'}) and {cache_folder()}"
    advice = f"download it with: hpcosim traces get {name}"
    if trace.folder is None:
        advice = "it has no download address: copy the file to one of these folders"
    raise WorkloadError(
        f"this machine has no {trace.file}.gz or {trace.file} in {looked_in}; {advice}"
    )
