"""What the jobs of a group hold: of an association, a QOS, or a user or account within a QOS."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from hpcosim_schedulers.slurm.accounts import Tres

GroupKey = tuple[str | int, ...]


@dataclass(slots=True)
class Group:
    """The jobs of a group.

    Attributes:
        waiting: numbers of its waiting jobs.
        ends_s: for each running job, its end by its requested time, simulated seconds.
        tres: TRES of all running jobs.
        held: TRES of each running job.
    """

    waiting: set[int] = field(default_factory=set)
    ends_s: dict[int, float] = field(default_factory=dict)
    tres: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    held: dict[int, Tres] = field(default_factory=dict)

    @property
    def submitted(self) -> int:
        """Number of waiting and running jobs."""
        return len(self.waiting) + len(self.ends_s)

    def amount(self, tres: str) -> float:
        """Return the amount of a TRES that all running jobs have."""
        return self.tres.get(tres, 0.0)

    def run_minutes(self, tres: str, now_s: float) -> float:
        """Return the TRES-minutes that the running jobs may still use by their requested times."""
        left = (
            self.held[job].get(tres, 0.0) * max(end_s - now_s, 0.0)
            for job, end_s in self.ends_s.items()
        )
        return sum(left) / 60.0


class Groups:
    """Groups of jobs by key; only those that have limits are counted."""

    def __init__(self) -> None:
        self._groups: defaultdict[GroupKey, Group] = defaultdict(Group)
        self._keys_of: dict[int, tuple[GroupKey, ...]] = {}

    def __getitem__(self, key: GroupKey) -> Group:
        return self._groups[key]

    @property
    def jobs(self) -> set[int]:
        """Numbers of all jobs that are counted."""
        return set(self._keys_of)

    def submit(self, job_id: int, keys: Iterable[GroupKey]) -> None:
        """Count a waiting job."""
        self._keys_of[job_id] = tuple(keys)
        for key in self._keys_of[job_id]:
            self._groups[key].waiting.add(job_id)

    def start(self, job_id: int, tres: Tres, end_s: float) -> None:
        """Count a job as running, once.

        Args:
            job_id: its number.
            tres: what it holds.
            end_s: its end by its requested time, simulated seconds.
        """
        for key in self._keys_of.get(job_id, ()):
            group = self._groups[key]
            if job_id not in group.ends_s:
                group.waiting.discard(job_id)
                group.ends_s[job_id], group.held[job_id] = end_s, tres
                for name, amount in tres.items():
                    group.tres[name] += amount

    def stop(self, job_id: int) -> None:
        """Count a running job as waiting again."""
        for key in self._keys_of.get(job_id, ()):
            group = self._groups[key]
            if group.ends_s.pop(job_id, None) is not None:
                for name, amount in group.held.pop(job_id).items():
                    group.tres[name] -= amount
                group.waiting.add(job_id)

    def leave(self, job_id: int) -> None:
        """Count a job no more."""
        self.stop(job_id)
        for key in self._keys_of.pop(job_id, ()):
            self._groups[key].waiting.discard(job_id)
