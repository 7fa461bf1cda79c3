"""Runs commands of Slurm: without a shell, with a timeout, with bounded output.

The programs are those of `PATH`; `SLURM_CONF` names the cluster.

Without the program, commands raise `SlurmError`; if it fails, `CommandError`; if the controller
does not answer, `UnreachableError`.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from hpcosim_slurm.errors import CommandError, SlurmError, UnreachableError

TIMEOUT_S = 10.0
MAX_OUTPUT = 1 << 28  # bytes: about 500,000 jobs
MAX_WORDS = 400  # characters of an error
_CHUNK = 1 << 16
_OF_USERS = ("SQUEUE_", "SINFO_", "SCONTROL_", "SACCTMGR_")  # they change formats
_UNREACHABLE = (
    "Unable to contact slurm controller",
    "Unable to establish controller",
    "Socket timed out",
    "Zero Bytes were transmitted",
    "Slurm backup controller in standby mode",
    "this machine has no slurm.conf",
)
_NO_CONFIGURATION = "Could not establish a configuration source"


def environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of commands whose output is read.

    Times are Unix times, lists of array tasks are complete, and nothing of the user's settings
    changes a format.

    Args:
        given: the environment to start from; None: that of this process.
    """
    start = os.environ if given is None else given
    kept = {name: value for name, value in start.items() if not name.startswith(_OF_USERS)}
    kept.pop("SLURM_CLUSTERS", None)
    return kept | {"SLURM_TIME_FORMAT": "%s", "SLURM_BITSTR_LEN": "0", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Tools:
    """The commands of a cluster.

    Attributes:
        max_output: longest output of a command, bytes.
        allows: whether a command may be run; None: all.
    """

    environment: Mapping[str, str] = field(default_factory=environment)
    timeout_s: float = TIMEOUT_S
    max_output: int = MAX_OUTPUT
    allows: Callable[[Sequence[str]], bool] | None = None

    def find(self, program: str) -> None:
        """Check that a program exists, and the file that `SLURM_CONF` names."""
        configuration = self.environment.get("SLURM_CONF")
        if configuration and not os.path.isfile(configuration):
            raise SlurmError(
                f"SLURM_CONF={configuration}: no such file; expected the slurm.conf of the cluster"
            )
        if shutil.which(program, path=self.environment.get("PATH")) is None:
            raise SlurmError(
                f"no Slurm: {program} not found on PATH; run this on a login node of the cluster, "
                "or install Slurm's client commands"
            )

    def output(self, *command: str, text: str = "") -> str:
        """Run a command, and return its standard output."""
        return self.outputs(command, text=text)[0]

    def outputs(self, *commands: Sequence[str], text: str = "") -> list[str]:
        """Run commands at the same time, and return their standard outputs."""
        runs = self._ended(commands, text)
        for error in map(_error, runs):
            if error is not None:
                raise error
        return [run.output.decode(errors="replace") for run in runs]

    def attempts(self, commands: Sequence[Sequence[str]]) -> list[CommandError | None]:
        """Run commands at the same time, and return the error of each; None: it has succeeded."""
        return [_error(run) for run in self._ended(commands, "")]

    def _ended(self, commands: Sequence[Sequence[str]], text: str) -> list[_Run]:
        """Run commands at the same time until all have ended."""
        with ExitStack() as stack:
            runs = [stack.enter_context(self._started(command, text)) for command in commands]
            self._read(runs)
            for run in runs:
                run.process.wait()
            return runs

    @contextmanager
    def _started(self, command: Sequence[str], text: str) -> Iterator[_Run]:
        if self.allows is not None and not self.allows(command):
            raise SlurmError(f"{' '.join(command)[:80]}: expected a command that only reads")
        self.find(command[0])
        with subprocess.Popen(  # noqa: S603 (no shell)
            command,
            env=dict(self.environment),
            stdin=subprocess.PIPE if text else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                yield _Run(command, process, memoryview(text.encode()))
            finally:
                process.kill()

    def _read(self, runs: Sequence[_Run]) -> None:
        """Write the inputs and read the outputs of processes until all have ended."""
        until_s = time.monotonic() + self.timeout_s
        with selectors.DefaultSelector() as selector:
            for run in runs:
                run.register(selector)
            while selector.get_map():
                left_s = until_s - time.monotonic()
                ready = selector.select(left_s) if left_s > 0 else []
                if not ready:
                    command = next(iter(selector.get_map().values())).data.command
                    raise UnreachableError(command, f"no answer within {self.timeout_s:g} s")
                for key, _ in ready:
                    if not key.data.proceed(key.fd):
                        selector.unregister(key.fileobj)
                        key.data.close(key.fd)
                    if len(key.data.output) > self.max_output:
                        why = f"its output has more than {self.max_output} bytes"
                        raise CommandError(key.data.command, why)


class _Run:
    """A command that runs."""

    def __init__(
        self, command: Sequence[str], process: subprocess.Popen[bytes], text: memoryview
    ) -> None:
        self.command, self.process, self.output = command, process, bytearray()
        self.errors, self._text = bytearray(), text

    def register(self, selector: selectors.BaseSelector) -> None:
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, self)
        if self.process.stdin is not None:
            os.set_blocking(self.process.stdin.fileno(), False)
            selector.register(self.process.stdin, selectors.EVENT_WRITE, self)

    def proceed(self, fd: int) -> bool:
        """Read or write what is possible; return whether there may be more."""
        stdin, stdout = self.process.stdin, self.process.stdout
        if stdin is not None and not stdin.closed and fd == stdin.fileno():
            try:
                self._text = self._text[os.write(fd, self._text[:_CHUNK]) :]
            except BrokenPipeError:
                self._text = self._text[:0]
            return bool(self._text)
        chunk = os.read(fd, _CHUNK)
        assert stdout is not None
        target = self.output if fd == stdout.fileno() else self.errors
        if target is self.output or len(self.errors) < _CHUNK:
            target += chunk
        return bool(chunk)

    def close(self, fd: int) -> None:
        """Close standard input, if this is it: the command waits for its end."""
        stdin = self.process.stdin
        if stdin is not None and not stdin.closed and fd == stdin.fileno():
            stdin.close()


def _error(run: _Run) -> CommandError | None:
    """Return the error of a command that has ended; None: it has succeeded."""
    status = run.process.returncode
    if status == 0:
        return None
    said = words(run.errors.decode(errors="replace") or run.output.decode(errors="replace"))
    if _NO_CONFIGURATION in said:  # after many words about files and names that Slurm has tried
        said = "this machine has no slurm.conf; set SLURM_CONF to that of the cluster"
    kind = UnreachableError if any(each in said for each in _UNREACHABLE) else CommandError
    return kind(run.command, said or "no message", status)


def words(text: str) -> str:
    """Return the message of a command as one line without control characters, shortened."""
    lines = [line.strip() for line in text.splitlines()]
    one = "; ".join("".join(c if c.isprintable() else "?" for c in line) for line in lines if line)
    return one if len(one) <= MAX_WORDS else one[: MAX_WORDS - 3] + "..."
