"""A Slurm cluster in memory, with a first-come, first-served scheduler of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hpcosim_slurm.state import ClusterState, LiveJob, LiveNode, LivePartition

EPOCH_S = 1_800_000_000.0
BOOTED_S = EPOCH_S - 86_400.0


@dataclass
class Hidden:
    """What nobody knows of a job before it is over."""

    run_s: float
    fails: bool = False
    left_s: float = 0.0


@dataclass
class FakeCluster:
    """Nodes with CPUs, and jobs that Slurm's side starts in order of submission."""

    nodes: int = 4
    cpus: int = 1
    now_s: float = EPOCH_S
    partition: str = "main"
    jobs: dict[int, LiveJob] = field(default_factory=dict)
    hidden: dict[int, Hidden] = field(default_factory=dict)
    down: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)
    booted_s: dict[str, float] = field(default_factory=dict)
    starts: bool = True
    next_id: int = 1

    @property
    def names(self) -> list[str]:
        """The names of the nodes."""
        return [f"node{at}" for at in range(self.nodes)]

    def submit(
        self, cpus: int = 1, run_s: float = 10.0, limit_s: float = 60.0, **more: object
    ) -> int:
        """Submit a job and return its number."""
        job_id, self.next_id = self.next_id, self.next_id + 1
        fails = bool(more.pop("fails", False))
        held = bool(more.get("is_held"))
        self.jobs[job_id] = LiveJob(
            id=job_id, name=f"job{job_id}", user="ann", partition=self.partition, state="pending",
            slurm_state="PENDING", submitted_s=self.now_s, cpus=cpus, nodes_min=1, nodes_max=0,
            eligible_s=None if held else self.now_s, time_limit_s=limit_s, **more,  # type: ignore[arg-type]
        )  # fmt: skip
        self.hidden[job_id] = Hidden(run_s, fails)
        self._schedule()
        return job_id

    def cancel(self, job_id: int) -> None:
        """Cancel a job."""
        self._end(job_id, "CANCELLED")

    def hold(self, job_id: int) -> None:
        """Hold a waiting job."""
        self._change(job_id, is_held=True, eligible_s=None)

    def release(self, job_id: int) -> None:
        """Release a held job."""
        self._change(job_id, is_held=False, eligible_s=self.now_s)
        self._schedule()

    def limit(self, job_id: int, limit_s: float) -> None:
        """Change the time limit of a job."""
        self._change(job_id, time_limit_s=limit_s)

    def suspend(self, job_id: int) -> None:
        """Suspend a running job."""
        job, hidden = self.jobs[job_id], self.hidden[job_id]
        hidden.left_s = max(self._end_s(job) - self.now_s, 0.0)
        self._change(job_id, state="suspended", slurm_state="SUSPENDED")

    def resume(self, job_id: int) -> None:
        """Resume a suspended job."""
        self.hidden[job_id].run_s = (
            self.now_s - (self.jobs[job_id].started_s or 0.0) + self.hidden[job_id].left_s
        )
        self._change(job_id, state="running", slurm_state="RUNNING")

    def requeue(self, job_id: int) -> None:
        """Let a job wait again."""
        self._change(
            job_id, state="pending", slurm_state="PENDING", started_s=None, nodes=(),
            submitted_s=self.now_s, eligible_s=self.now_s,
        )  # fmt: skip
        self._schedule()

    def fail(self, node: str) -> None:
        """Let a node fail; its jobs are requeued."""
        self.down[node] = "DOWN*"
        for job in list(self.jobs.values()):
            if node in job.nodes and job.state in ("running", "suspended"):
                self.requeue(job.id)

    def drain(self, node: str) -> None:
        """Drain a node."""
        self.down[node] = "IDLE+DRAIN"

    def repair(self, node: str) -> None:
        """Make a node available again."""
        self.down.pop(node, None)
        self._schedule()

    def forget(self) -> None:
        """Forget the jobs that are over."""
        self.jobs = {job.id: job for job in self.jobs.values() if job.state != "over"}

    def advance(self, until_s: float) -> None:
        """Let jobs end and start up to a time."""
        while True:
            running = [job for job in self.jobs.values() if job.state == "running"]
            first = min(running, key=lambda job: (self._end_s(job), job.id), default=None)
            if first is None or self._end_s(first) > until_s:
                break
            self.now_s = self._end_s(first)
            hidden, limit_s = self.hidden[first.id], first.time_limit_s or float("inf")
            late = hidden.run_s > limit_s
            self._end(first.id, "TIMEOUT" if late else "FAILED" if hidden.fails else "COMPLETED")
        self.now_s = max(self.now_s, until_s)

    def state(self) -> ClusterState:
        """Return the cluster as its commands show it."""
        names = self.names
        used = self._used()
        nodes = {
            name: LiveNode(
                name, self.cpus, 1000, name not in self.down, True,
                "off" if name in self.off else "on",
                self.down.get(name, "IDLE"), cpus_allocated=used[name],
                partitions=(self.partition,), booted_s=self.booted_s.get(name, BOOTED_S),
            )
            for name in names
        }  # fmt: skip
        partition = LivePartition(self.partition, tuple(names), is_up=True, is_default=True)
        return ClusterState(self.now_s, dict(self.jobs), nodes, {self.partition: partition})

    def _end_s(self, job: LiveJob) -> float:
        run_s = min(self.hidden[job.id].run_s, job.time_limit_s or float("inf"))
        return (job.started_s or 0.0) + run_s

    def _end(self, job_id: int, word: str) -> None:
        self._change(job_id, state="over", slurm_state=word, ended_s=self.now_s)
        self._schedule()

    def _change(self, job_id: int, **changes: object) -> None:
        self.jobs[job_id] = replace(self.jobs[job_id], **changes)  # type: ignore[arg-type]

    def _used(self) -> dict[str, int]:
        used = dict.fromkeys(self.names, 0)
        for job in self.jobs.values():
            if job.state == "running":
                for at in range(job.cpus):
                    name = job.nodes[at % len(job.nodes)]
                    used[name] = used.get(name, 0) + 1
        return used

    def _schedule(self) -> None:
        for job in sorted(self.jobs.values(), key=lambda job: job.id):
            if not self.starts or job.state != "pending" or job.is_held:
                continue
            used = self._used()
            free = [n for n in self.names if used[n] < self.cpus and n not in self.down]
            wanted = -(-job.cpus // self.cpus)
            idle = [n for n in free if not used[n]] if job.cpus > 1 else free
            if len(idle) < wanted:
                return
            self._change(
                job.id, state="running", slurm_state="RUNNING", started_s=self.now_s,
                nodes=tuple(idle[:wanted]),
            )  # fmt: skip
