"""The job logs that are known by name, and where a copy of one is looked for."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from hpcosim_workloads.errors import WorkloadError

ARCHIVE = "https://www.cs.huji.ac.il/labs/parallel/workload"
TRACES_VARIABLE = "HPCOSIM_TRACES"


@dataclass(frozen=True, slots=True)
class KnownTrace:
    """One job log of the Parallel Workloads Archive, or a part of one; itself never bundled.

    Attributes:
        name: what a scenario calls it.
        file: the name of the log, uncompressed, as the archive has it; its end tells the format.
        folder: its folder in the archive; None where no sure address is known.
        jobs: how many jobs the log has, before any rule leaves some out.
        processors: the processors of the machine, as the log's header has them.
        span_days: from the first submission to the last, in days.
        provider: whom the archive asks to thank.
        sha256: of the uncompressed log, in hexadecimal.
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
        """Standard Workload Format, or results of the CQSim simulator."""
        return "cqsim" if self.file.endswith(".csv") else "swf"


# Only logs whose every number was checked against the log itself stand here.
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
            folder=None,  # a sample of a model; the archive's models have no l_ folder
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
            folder=None,  # the archive has the whole log, not this part, from another simulator
            jobs=25_326,
            processors=24_048,
            span_days=283.5,
            provider="Mehmet Soysal",
            sha256="b2d52f36a7c8f548c0b3f39effcc4a6c9da3bc1d1853e3005304149bec6809f3",
        ),
    )
}


def known_trace(name: str) -> KnownTrace:
    """Look a log up by its name.

    Args:
        name: as in `KNOWN`, such as "nasa-ipsc".

    Raises:
        WorkloadError: no log has that name; the nearest names are in the message.
    """
    if name in KNOWN:
        return KNOWN[name]
    # Half of the letters right is little, but a needless suggestion costs the reader nothing.
    near = difflib.get_close_matches(name.lower().replace("_", "-"), KNOWN, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(KNOWN)}"
    raise WorkloadError(f"no job log is known as {name!r}; {advice}")


def user_folder() -> Path | None:
    """Name the folder of the user's own logs, $HPCOSIM_TRACES; None where it is not set."""
    value = os.environ.get(TRACES_VARIABLE, "")
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """Name the folder downloaded logs go to, in the user's cache; it need not exist."""
    return platformdirs.user_cache_path("hpcosim") / "traces"


def locate(trace: KnownTrace) -> Path | None:
    """Find a copy of a log on this machine, the user's own before the downloaded one.

    Args:
        trace: the log; a copy is its file, or its file with ".gz" behind.

    Returns:
        The copy, unchecked: one in the cache was verified when it was downloaded, and one in
        $HPCOSIM_TRACES is the user's own. None where there is no copy.
    """
    own = user_folder()
    for folder in (own, cache_folder()) if own else (cache_folder(),):
        for name in (f"{trace.file}.gz", trace.file):
            if (folder / name).is_file():
                return folder / name
    return None


def find_trace(name: str) -> Path:
    """Find the copy on this machine of a log that is known by name.

    Args:
        name: as in `KNOWN`, such as "nasa-ipsc".

    Returns:
        The log, in the format that `KnownTrace.format` tells, compressed with gzip or not.

    Raises:
        WorkloadError: no log has that name, or this machine has no copy of it; the message
            says where it was looked for and how to get one.
    """
    trace = known_trace(name)
    if (path := locate(trace)) is not None:
        return path
    looked_in = f"${TRACES_VARIABLE} ({user_folder() or 'not set'}) and {cache_folder()}"
    advice = f"to download it: hpcosim traces get {name}"
    if trace.folder is None:
        advice = "it has no known address to download it from: put a copy in either folder"
    raise WorkloadError(
        f"this machine has no {trace.file}.gz and no {trace.file} in {looked_in}; {advice}"
    )
