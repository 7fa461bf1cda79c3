"""The settings of a server: its limits, journals, live page and pace, from a file and `--set`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec import Meta, Struct

from hpcosim.cli.options import PLATFORM, head_of, scenario_file
from hpcosim_scenarios.errors import ScenarioError, ScenariosError
from hpcosim_scenarios.model.messages import nearest, scenario_error
from hpcosim_scenarios.model.overrides import Overrides, apply, blame_override
from hpcosim_scenarios.model.scenario import Scenario
from hpcosim_scenarios.model.yaml_tree import line_of, read_text, read_tree
from hpcosim_scenarios.running.serving import JournalFolder
from hpcosim_scenarios.shipped import find_scenario
from hpcosim_server.service.limits import Limits

MIB = 2**20
WHAT = "configuration of a server"

AtLeast0 = Annotated[int, Meta(ge=0)]
AtLeast1 = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0.1)]


class LimitSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits for the clients of a server; see `Limits`.

    Attributes:
        idle_timeout_s: close a session after this silence, s.
        first_request_timeout_s: close a session without a first request after this time, s.
        results_retry_s: while the disk is full, repeat the attempt to write results for this
            time, s.
        max_message_bytes: size of a message, bytes.
        max_decisions: decisions in a message.
        max_sessions: sessions that are open together.
        max_jobs: jobs of a session.
        max_total_jobs: jobs of all open sessions together.
        max_elapsed_s: `elapsed_s` of a request, simulated s.
        max_simulated_s: simulated time of a session, s. Null: no limit.
        max_events_per_s: events that a session gets per second; replies wait. Null: no limit.
        max_memory_mb: memory of all processes with sessions together, MiB, with which the server
            refuses new sessions. 0: no limit.
        min_free_mb: available memory of the machine, MiB, that a new session needs.
        max_kept_mb: size of the last replies that are kept of closed sessions, MiB.
        max_partial_results: results folders of sessions that end early.
        allow_override: patterns of the paths of a scenario that clients may change, such as
            `scheduler.*`. An empty list: nothing but the seed. Null: all but files of the server.
    """

    idle_timeout_s: Seconds = 600.0
    first_request_timeout_s: Seconds = 60.0
    results_retry_s: Annotated[float, Meta(ge=0)] = 600.0
    max_message_bytes: Annotated[int, Meta(ge=1024)] = 16 * MIB
    max_decisions: AtLeast1 = 100_000
    max_sessions: AtLeast1 = 64
    max_jobs: AtLeast1 = 2_000_000
    max_total_jobs: AtLeast1 = 8_000_000
    max_elapsed_s: Annotated[float, Meta(ge=0)] = 1e6
    max_simulated_s: Annotated[float, Meta(ge=0)] | None = None
    max_events_per_s: Annotated[float, Meta(ge=0.001)] | None = None
    max_memory_mb: AtLeast0 = 0
    min_free_mb: AtLeast0 = 128
    max_kept_mb: AtLeast0 = 64
    max_partial_results: AtLeast0 = 1000
    allow_override: tuple[str, ...] | None = None

    def limits(self) -> Limits:
        """Return the limits in the units of the service."""
        return Limits(
            message_bytes=self.max_message_bytes,
            decisions=self.max_decisions,
            sessions=self.max_sessions,
            jobs=self.max_jobs,
            total_jobs=self.max_total_jobs,
            idle_s=self.idle_timeout_s,
            results_retry_s=self.results_retry_s,
            first_request_s=self.first_request_timeout_s,
            elapsed_s=self.max_elapsed_s,
            simulated_s=math.inf if self.max_simulated_s is None else self.max_simulated_s,
            events_per_s=math.inf if self.max_events_per_s is None else self.max_events_per_s,
            memory_bytes=self.max_memory_mb * MIB,
            free_bytes=self.min_free_mb * MIB,
            kept_bytes=self.max_kept_mb * MIB,
            partial_results=self.max_partial_results,
        )


class JournalSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The journals of a server.

    Attributes:
        keep: whether the server keeps journals.
        folder: folder of the journals. Null: `.journal` in `--out`, or no journals without `--out`
            or with `--once`.
        sync: when a record is on the disk, in case the machine fails: before its reply is sent,
            about every second, or when the operating system writes it.
    """

    keep: bool = True
    folder: str | None = None
    sync: Literal["always", "interval", "never"] = "interval"


class LiveSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The live page of a server with `--http`.

    Attributes:
        token: token that each HTTP request needs, also on 127.0.0.1. Null: that of the environment
            variable `HPCOSIM_HTTP_TOKEN`; otherwise none on 127.0.0.1, and a random one on other
            addresses, which the log shows once.
    """

    token: Annotated[str, Meta(min_length=1)] | None = None


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a server that its options do not have.

    Attributes:
        scenarios: scenario files, relative to the folder of the file, or names of shipped ones.
        realtime: simulated seconds per second of sessions in real time. Null: no real time.
        drain_s: time after a stop in which requests end and results are written, s.
        status_fd: open file descriptor to which progress and failures are written as JSON lines.
        limits: limits for clients.
        journal: the journals of the sessions.
        live: the live page.
    """

    scenarios: tuple[str, ...] = ()
    realtime: Annotated[float, Meta(ge=1e-6, le=1e12)] | None = None
    drain_s: Seconds = 300.0
    status_fd: AtLeast0 | None = None
    limits: LimitSettings = LimitSettings()
    journal: JournalSettings = JournalSettings()
    live: LiveSettings = LiveSettings()

    def journal_folder(
        self, out: Path | None, resume: Path | None, *, once: bool
    ) -> JournalFolder | None:
        """Return the folder of journals; None: none are kept."""
        journal = self.journal
        if resume is not None and (journal.folder or not journal.keep):
            raise ScenariosError("expected either --resume or journal.folder and journal.keep")
        if not journal.keep:
            return None
        if resume is None and journal.folder is None and (out is None or once):
            return None
        folder = resume or Path(journal.folder or out / ".journal")  # type: ignore[operator]
        return JournalFolder(folder, journal.sync, resume is not None)


KINDS = (ServerSettings, LimitSettings, JournalSettings, LiveSettings)
KEYS = frozenset(ServerSettings.__struct_fields__)
_SERVER = re.compile(rb"^(%b)[ \t]*:" % "|".join(sorted(KEYS)).encode(), re.M)


def is_server_file(path: Path) -> bool:
    """Return whether a file has a key of `ServerSettings` and none of a scenario."""
    head = head_of(path) if path.is_file() else b""
    return bool(_SERVER.search(head)) and not PLATFORM.search(head)


def served_files(paths: list[Path]) -> list[Path]:
    """Return the files of scenarios, and that of the server's settings."""
    paths = [path if is_server_file(path) else scenario_file(path) for path in paths]
    if sum(map(is_server_file, paths)) > 1:
        raise typer.BadParameter(f"expected at most one {WHAT}")
    return paths


def split_changes(overrides: Overrides) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split the values of `--set` into those of the server and those of the scenarios.

    A misspelt key belongs to where the most similar key is.
    """
    known = KEYS | set(Scenario.__struct_fields__)
    of_server = {
        path
        for path in overrides
        if path.partition(".")[0] in KEYS or nearest(path.partition(".")[0], known) in KEYS
    }
    return (
        {path: value for path, value in overrides.items() if path in of_server},
        {path: value for path, value in overrides.items() if path not in of_server},
    )


def read_settings(paths: Sequence[Path], changes: Overrides) -> tuple[ServerSettings, list[Path]]:
    """Return the settings of a server, and the files of its scenarios."""
    file = next((path for path in paths if is_server_file(path)), None)
    tree = {} if file is None else read_tree(file, WHAT)
    apply(tree, changes)
    try:
        settings = _settings(tree)
        named = [_scenario(name, number, file) for number, name in enumerate(settings.scenarios)]
    except ScenarioError as error:
        if overridden := blame_override(error, changes):
            raise overridden from None
        if file is None:
            raise
        line = line_of(read_text(file, WHAT), error.field, error.key or None)
        raise ScenarioError(error.what, file, line, error.field, error.key) from None
    scenarios = [*named, *(path for path in paths if path != file)]
    if not scenarios:
        raise ScenarioError("expected scenarios: name them here or as arguments", file)
    return settings, scenarios


def _settings(tree: Any) -> ServerSettings:
    try:
        return msgspec.convert(tree, ServerSettings)
    except msgspec.ValidationError as error:
        raise scenario_error(error, tree, KINDS) from None


def _scenario(name: str, number: int, file: Path | None) -> Path:
    beside = name if file is None else file.parent / name
    found = Path(beside) if Path(beside).is_file() else find_scenario(name)
    if not found.is_file():
        what = f"{name}: no such file or shipped scenario"
        raise ScenarioError(what, field=f"$.scenarios[{number}]")
    return found
