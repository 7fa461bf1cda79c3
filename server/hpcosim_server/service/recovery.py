"""Which sessions a process of a server restores from their journals, and when."""

from __future__ import annotations

from hpcosim_server import log
from hpcosim_server.errors import JournalError
from hpcosim_server.journal.reader import JournalReader
from hpcosim_server.journal.store import Journals
from hpcosim_server.service.rerun import opened_record
from hpcosim_server.service.restore import restore
from hpcosim_server.service.service import Service
from hpcosim_server.service.sessions import FIRST_WORKER, worker_of


class Recovery:
    """Restores sessions: those of an earlier server, and those of a worker that was killed.

    Args:
        journals: the journals; None: none are kept.
        resume: whether the sessions of an earlier server go on.
    """

    def __init__(self, journals: Journals | None, *, resume: bool) -> None:
        self._journals = journals
        self._resume = resume
        self._foreign = frozenset[str]()
        if journals is not None and not resume and (names := journals.open_names()):
            self._foreign = frozenset(names)
            log.warning(
                "sessions_not_restored",
                journals=len(names),
                folder=str(journals.folder),
                hint="an earlier server left open sessions here; restore them with --resume",
            )

    @property
    def keeps_journals(self) -> bool:
        """Whether sessions survive their process."""
        return self._journals is not None

    def workers(self) -> set[int]:
        """Return the numbers of the workers that sessions of an earlier server need."""
        found = set[int]()
        if self._journals is None or not self._resume:
            return found
        for name in self._journals.open_names():
            try:
                file = self._journals.read(name)
            except JournalError:
                continue  # `restore` reports it
            try:
                reader = JournalReader(file)
                record = opened_record(iter(reader), reader)
            except JournalError:
                continue
            finally:
                file.close()
            if record is not None:
                found.add(worker_of(record.session))
        return found

    def recover(self, service: Service, worker: int | None = None, *, again: bool = False) -> None:
        """Restore the sessions of a process, before its first message.

        Args:
            service: the service of the process.
            worker: number of the worker; None: the server is one process.
            again: whether the worker was started before.
        """
        if self._journals is None or not (again or self._resume):
            return
        workers = (worker, 0) if worker == FIRST_WORKER else (worker,)
        for one in workers:  # the first worker has the sessions of a server of one process, too
            restore(service, self._journals, of_worker=one, skip=self._foreign, counted=again)
