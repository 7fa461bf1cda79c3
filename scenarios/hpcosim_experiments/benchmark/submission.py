"""The file of a submission: a zip archive with `submission.json` and a journal of each instance.

The archive has no metrics: they are computed from the journals. What it states about the scheduler
and about decision times is not verified.
"""

from __future__ import annotations

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta, Struct

from hpcosim_experiments.benchmark.journal import MAX_BYTES, Recorded, check
from hpcosim_experiments.benchmark.suite import (
    BenchmarkError,
    Digest,
    InstanceFile,
    InstanceName,
    Suite,
    VerificationError,
    load_instance,
)
from hpcosim_experiments.whole_files import draft_of
from hpcosim_protocol.files import open_regular
from hpcosim_scenarios.running.library import LoadedScenario, open_loaded
from hpcosim_sim.record.metrics import Metrics
from hpcosim_sim.record.results import metrics_of
from hpcosim_sim.record.versions import hpcosim_version

ABOUT = "submission.json"
ABOUT_BYTES = 2**20
ARCHIVE_BYTES = 2**27
"""Maximum size of a submission, bytes."""
ALL_BYTES = 2**28
"""Maximum size of all journals of a submission together, bytes."""
MOST_EXPANSION = 200
"""Maximum size of a file of the archive beyond `FREE_BYTES`, in compressed bytes."""
FREE_BYTES = 2**20
DATE = (2026, 1, 1, 0, 0, 0)
"""Date of all files in an archive: equal submissions have equal bytes but for decision times."""

UNREADABLE = (
    *(OSError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError),
    *(zlib.error, lzma.LZMAError),
)
"""What reading a file that is no archive, or a damaged one, raises."""

Information = Literal["requested", "run-times", "clairvoyant"]
"""What a scheduler knows: `requested`: what the protocol tells it; `run-times`: also the true run
times of submitted jobs; `clairvoyant`: also the jobs to come."""

Transport = Literal["inproc", "wire", "schedule"]
"""How a scheduler decided: in the process of the simulator; in its own, so that decision times
include the transport; or elsewhere, and its schedule was replayed, so that they are unknown."""

Text = Annotated[str, Meta(max_length=200)]
Time = Annotated[float, Meta(ge=0.0, le=1e9)]


class Author(NamedTuple):
    """What a submission says about a scheduler."""

    name: str
    author: str
    source: str
    information: Information


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An instance of a submission.

    Attributes:
        sha256: SHA-256 of the instance, as the suite states it.
        journal_sha256: SHA-256 of the journal.
        requests: number of requests of the scheduler.
        decision_s: wall-clock time of all decisions together, s.
        longest_s: wall-clock time of the longest decision, s.
    """

    sha256: Digest
    journal_sha256: Digest
    requests: Annotated[int, Meta(gt=0)]
    decision_s: Time
    longest_s: Time


class About(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of `submission.json`.

    Attributes:
        format: version of the format.
        suite: name of the suite, with its version.
        name, author, source, information: see `Author`.
        transport: see `Transport`.
        policy: settings of a scheduler of hpcosim, to repeat the run.
        hpcosim: version of hpcosim.
        instances: the instances, by name.
    """

    format: Literal[1] = 1
    suite: Text
    name: Annotated[str, Meta(min_length=1, max_length=100)]
    author: Text
    source: Text
    information: Information
    transport: Transport
    policy: dict[str, Any] = {}
    hpcosim: Text
    instances: dict[InstanceName, Entry]


class Submission(NamedTuple):
    """A submission that was read, not verified."""

    path: Path
    about: About
    journals: Mapping[str, bytes]


def write_submission(
    path: Path,
    suite: Suite,
    author: Author,
    runs: Mapping[str, Recorded],
    *,
    transport: Transport,
    policy: Mapping[str, Any],
) -> None:
    """Write a submission.

    Args:
        path: the file; an existing one is replaced.
        author: what to say about the scheduler.
        runs: the runs by instance.
        transport: how the scheduler was connected.
        policy: settings of a scheduler of hpcosim; empty: unknown.

    Raises:
        StoreError: the file cannot be written.
    """
    about = About(
        suite=suite.file.name,
        **author._asdict(),
        transport=transport,
        policy=dict(policy),
        hpcosim=hpcosim_version(),
        instances={name: _entry(suite, name, run) for name, run in runs.items()},
    )
    text = msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n"
    files = {ABOUT: text, **{_journal(name): run.journal for name, run in runs.items()}}
    with draft_of(path) as draft, zipfile.ZipFile(draft, "w", zipfile.ZIP_BZIP2) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, DATE), content, zipfile.ZIP_BZIP2)


def read_submission(path: Path) -> Submission:
    """Read a submission; its size is bounded.

    Raises:
        VerificationError: the file is no submission, or a journal is missing or was changed.
    """
    journals: dict[str, bytes] = {}
    try:
        with open_regular(path, ARCHIVE_BYTES) as file, zipfile.ZipFile(file) as archive:
            about = _about(path, _content(path, archive, ABOUT, ABOUT_BYTES))
            left = ALL_BYTES
            for name in about.instances:
                journals[name] = _content(path, archive, _journal(name), min(MAX_BYTES, left))
                left -= len(journals[name])
    except UNREADABLE as error:
        if isinstance(error, OSError) and error.filename:
            raise VerificationError(path, error.strerror or str(error)) from None
        raise VerificationError(path, f"expected a zip archive: {error}") from None
    for name, entry in about.instances.items():
        if hashlib.sha256(journals[name]).hexdigest() != entry.journal_sha256:
            raise VerificationError(
                path, f"{name}: the journal was changed: its SHA-256 is not the stated one"
            )
    return Submission(path, about, journals)


def _entry(suite: Suite, name: str, run: Recorded) -> Entry:
    return Entry(
        suite.seals[name].sha256,
        hashlib.sha256(run.journal).hexdigest(),
        run.requests,
        round(run.decision_s, 6),
        round(run.longest_s, 6),
    )


def _journal(instance: str) -> str:
    return f"{instance}.jsonl"


def _about(path: Path, text: bytes) -> About:
    try:
        return msgspec.json.decode(text, type=About)
    except (msgspec.DecodeError, RecursionError) as error:
        raise VerificationError(path, f"{ABOUT}: {error}") from None


def _content(path: Path, archive: zipfile.ZipFile, name: str, most: int) -> bytes:
    """Return the content of a file in an archive."""
    try:
        file = archive.open(name)
    except KeyError:
        raise VerificationError(path, f"the file {name} is missing in the archive") from None
    packed = archive.getinfo(name).compress_size
    with file:
        content = file.read(min(most, expanded := FREE_BYTES + MOST_EXPANSION * packed) + 1)
    if len(content) > expanded:
        raise VerificationError(
            path, f"{name}: {packed} compressed bytes expand to more than {expanded} bytes"
        )
    if len(content) > most:
        raise VerificationError(path, f"{name}: expected at most {most} bytes")
    return content


class Verified(NamedTuple):
    """A verified submission.

    Attributes:
        suite: its suite.
        about: what it states. The scheduler's name and decision times are not verified.
        metrics: the metrics of each instance, from its journal.
    """

    suite: Suite
    about: About
    metrics: Mapping[str, Metrics]

    @property
    def scores(self) -> dict[str, float]:
        """The score of each instance."""
        return {name: self.suite.file.score_of(each) for name, each in self.metrics.items()}


class Verifier:
    """Verifies submissions of one suite. Each instance is loaded once."""

    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._loaded: dict[str, LoadedScenario] = {}

    def __call__(self, submission: Submission) -> Verified:
        """Verify a submission that was read."""
        path, about, suite = submission.path, submission.about, self._suite
        if about.suite != suite.file.name:
            raise VerificationError(
                path, f"it is of the suite {about.suite!r}; expected {suite.file.name!r}"
            )
        _check_instances(path, suite, about)
        metrics = {
            each.name: _metrics(submission, suite, each.name, self.load(each))
            for each in suite.file.instances
        }
        return Verified(suite, about, metrics)

    def load(self, instance: InstanceFile) -> LoadedScenario:
        """Return an instance of the suite.

        Raises:
            BenchmarkError, ScenarioError, WorkloadError: as `load_instance`.
        """
        if instance.name not in self._loaded:
            self._loaded[instance.name] = load_instance(self._suite, instance)
        return self._loaded[instance.name]


def _check_instances(path: Path, suite: Suite, about: About) -> None:
    for name, seal in suite.seals.items():
        if name not in about.instances:
            raise VerificationError(path, f"the instance {name} is missing")
        if about.instances[name].sha256 != seal.sha256:
            raise VerificationError(
                path,
                f"{name}: it is of another instance: expected the SHA-256 {seal.sha256}, got "
                f"{about.instances[name].sha256}",
            )
    if more := next((name for name in about.instances if name not in suite.seals), None):
        raise VerificationError(path, f"the suite has no instance {more}")


def _metrics(submission: Submission, suite: Suite, name: str, loaded: LoadedScenario) -> Metrics:
    """Return the metrics of an instance from its journal."""
    opened = open_loaded(loaded, submission.about.name)
    try:
        check(opened, submission.journals[name], suite.file.decisions)
    except BenchmarkError as error:
        raise VerificationError(submission.path, f"{name}: {error}") from None
    metrics = metrics_of(opened.simulation.record(), opened.run)
    if metrics["jobs_completed"] != metrics["jobs"]:
        raise VerificationError(
            submission.path,
            f"{name}: {metrics['jobs_completed']} of {metrics['jobs']} jobs are completed; "
            "expected all",
        )
    return metrics
