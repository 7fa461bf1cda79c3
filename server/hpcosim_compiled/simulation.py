"""A compiled simulation, as the caller of a run sees it."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpcosim_compiled.compiler import load_part
from hpcosim_compiled.job_kinds import kinds_of
from hpcosim_compiled.loop import ADVANCE, FINISHED, FULL, GOES_ON, settle
from hpcosim_compiled.policies import (
    ALWAYS_ON,
    NO_SETTINGS,
    draws,
    effective_awareness,
    family_of,
    manager_code,
    names_nodes,
    node_keys,
    part_of,
    policy_code,
    puts_on_first,
    ranks,
)
from hpcosim_compiled.slurm.tables import SiteTables, initial_site
from hpcosim_compiled.state import (
    ALLOCATED,
    CANCELLED,
    REASONS,
    REJECTED,
    WAITING,
    Ints,
    State,
    initial_state,
    with_room,
)
from hpcosim_protocol import Platform
from hpcosim_schedulers.power.settings import Awareness
from hpcosim_schedulers.power.settings import Power as PowerSettings
from hpcosim_schedulers.slurm.settings import parse_site
from hpcosim_sim.engine.engine import Rules
from hpcosim_sim.engine.simulation import WAKEUPS_WHILE_DUE
from hpcosim_sim.errors import SimulationStuck
from hpcosim_sim.physics.allocation import infeasibility
from hpcosim_sim.physics.cluster import Cluster
from hpcosim_sim.physics.power import NODE_STATES
from hpcosim_sim.record.economics import UNKNOWN, Rates
from hpcosim_sim.record.periods import PERIOD_CODES
from hpcosim_sim.record.recording import POWER_STATES, STATES, Owner, Recording
from hpcosim_sim.record.run_record import RunRecord
from hpcosim_workloads.table import JobTable

INSTANTS = 1000
"""Most instants of a call of compiled code; that takes about a millisecond."""

CALL_S = 0.1
"""Longest call of compiled code, which cannot be interrupted; with a long queue it has fewer
instants."""

MOST_CODES = 1 << 62
"""Greatest number of combinations of names that have codes of 64 bits."""

_ENDS = np.array([PERIOD_CODES.get(state, 0) for state in STATES], np.int8)  # type: ignore[call-overload]
"""Why the period of a job ended, by its state."""


class CompiledSimulation:
    """A simulation of a workload with a compiled policy.

    Args:
        platform: the cluster.
        jobs: the workload, in submission order.
        rules: options of the simulation.
        scheduler: the scheduler; `policies.unsupported` is empty for it.
        rates: price and carbon intensity of the energy.
        power: settings of the power manager; `policies.unsupported_power` is empty for it.
        awareness: awareness of the scheduler of power states.
        chance: generator of the times of switching; None: one with seed 0.
        of_policy: the scheduler's generator, of NumPy's default kind; None: one with seed 0.
        settings: settings of the scheduler.
        explains: whether the scheduler explains why jobs wait.
    """

    def __init__(
        self,
        platform: Platform,
        jobs: JobTable,
        rules: Rules,
        scheduler: str,
        rates: Rates = UNKNOWN,
        power: PowerSettings = ALWAYS_ON,
        awareness: Awareness = "unaware",
        chance: np.random.Generator | None = None,
        of_policy: np.random.Generator | None = None,
        settings: Mapping[str, object] = NO_SETTINGS,
        *,
        explains: bool = False,
    ) -> None:
        self.platform, self.jobs, self.rates = platform, jobs, rates
        self.start_s = float(jobs.submit_s[0])
        awareness = effective_awareness(power, awareness)
        policy = policy_code(scheduler, awareness)
        assert policy is not None
        self._instants = INSTANTS
        self._reasons = infeasible(platform, jobs)
        feasible = np.ones(len(jobs), np.bool_)
        feasible[list(self._reasons)] = False
        self._site: SiteTables | None = None
        if scheduler == "slurm":
            from hpcosim_compiled.slurm.policy import advance_slurm

            self._site = initial_site(platform, jobs, parse_site(settings), feasible)
            self._advance: Callable[..., int] = partial(advance_slurm, policy=self._site.site)
        else:
            self._advance = partial(ADVANCE[family_of(scheduler, awareness)], policy=policy)
        self._part = part_of(
            platform, jobs, scheduler, power, awareness, settings, explains=explains
        )
        self._stuck_after = rules.stuck_after_wakeups
        self._progress, self._in_vain = (0, 0, 0), 0
        self._chance = chance or np.random.default_rng(0)
        self._of_policy = of_policy or np.random.default_rng(0)
        self._state = initial_state(
            platform,
            jobs,
            feasible,
            ranks(scheduler, jobs),
            kill_at_walltime=rules.kill_at_walltime,
            reference_ghz=rules.reference_ghz,
            node_keys=node_keys(platform, scheduler),
            names_nodes=names_nodes(platform, jobs, scheduler, awareness, explains=explains),
            explains=explains,
            manager=manager_code(power),
            on_first=puts_on_first(scheduler, awareness),
            draws=draws(scheduler),
        )

    def prepare(self) -> None:
        """Compile the engine or load its code.

        Raises:
            Exception: Numba cannot compile it on this machine.
        """
        load_part(self._part, self._compile)

    def _compile(self) -> None:
        self._advance(self._state, instants=0)
        settle(self._state)

    @property
    def now_s(self) -> float:
        """Simulated time, s."""
        return float(self._state.g.now_s[0])

    @property
    def over(self) -> int:
        """Number of jobs that are over."""
        return int(self._state.g.over[0])

    def advance(self) -> bool:
        """Advance by at most about `CALL_S`; return whether the simulation goes on.

        Raises:
            SimulationStuck: the policy only wakes, see `Rules.stuck_after_wakeups`; instants are
                counted by calls, so that this is noticed a little later than by the reference.
        """
        began_s = time.perf_counter()
        result = self._advance(self._state, instants=self._instants)
        took_s = time.perf_counter() - began_s
        if result == FULL:
            self._state = with_room(self._state, self._chance, self._of_policy)
        self._check_progress(self._instants if result == GOES_ON else 0)
        if took_s > CALL_S:
            self._instants = max(self._instants // 2, 1)
        elif took_s < CALL_S / 4:
            self._instants = min(self._instants * 2, INSTANTS)
        return bool(result != FINISHED)

    def _check_progress(self, instants: int) -> None:
        g = self._state.g[0]
        progress = (int(g.submitted), int(g.changes), int(g.over))
        self._in_vain = self._in_vain + instants if progress == self._progress else 0
        self._progress = progress
        is_due = g.running > 0 or g.submitted < g.jobs
        allowed = self._stuck_after * (WAKEUPS_WHILE_DUE if is_due else 1)
        if self._in_vain > allowed and g.queued > 0:
            rows = np.flatnonzero(self._state.jobs.state[: g.submitted] == WAITING)
            raise SimulationStuck(
                self.now_s,
                self.jobs.job_id[rows].tolist(),
                float(self.jobs.submit_s[rows[0]]),
                f"the scheduler was woken more than {allowed} times in a row, but no job was "
                f"submitted, started or ended; stuck_after_wakeups is {self._stuck_after}",
            )

    def record(self) -> RunRecord:
        """Return the run up to now; later changes of the simulation do not change it."""
        state = settled(self._state)
        return RunRecord(
            platform=self.platform,
            recording=self._recording(),
            start_s=self.start_s,
            end_s=self.now_s,
            metered_j=metered_by_state(state, ["computing_j", "idle_j"], "energy_j"),
            metered_node_s=metered_by_state(state, ["computing_node_s", "idle_node_s"], "node_s"),
            peak_power_w=float(state.g.peak_w[0]),
            rates=self.rates,
        )

    def _recording(self) -> Recording:
        state, g, table, recording = self._state, self._state.g[0], self.jobs, Recording()
        rows = slice(0, int(g.submitted))
        jobs, periods = state.jobs[rows], state.periods[: g.periods]
        places = state.places[: g.places]
        columns: dict[str, NDArray[Any]] = {
            **{name: jobs[name] for name in ("submit_s", "start_s", "end_s")},
            "state": np.where(jobs.state == ALLOCATED, WAITING, jobs.state),
            **{name: jobs[name] for name in ("requested_s", "cores", "placement")},
            "job_id": table.job_id[rows],
            "deadline_s": table.deadline_s[rows],
            "last_period": jobs.period,
            "changes": state.changes[: g.changes],
            "ended_idle": state.ended_idle[: g.ended_idle],
        }
        if state.power is not None:
            changes = state.power.changes[: int(state.power.g.changes[0])]
            columns |= {"power_at": changes.at, "power_s": changes.at_s}
            columns |= {"power_node": changes.node, "power_state": changes.state}
        _fill(recording, columns)
        recording.owners.extend(*_owners(table, rows))
        recording.over = self.over
        if state.said is not None:
            for row, at_s, expected_s, reason in state.said.each[: g.said].tolist():
                recording.explanations.add(row, at_s, REASONS[reason], expected_s)
        recording.reasons = {
            row: reason for row, reason in self._reasons.items() if row < g.submitted
        }
        if self._site is not None:
            refused = self._site.site.jobs.refused
            ended = (jobs.state == REJECTED) | (jobs.state == CANCELLED)
            for row in np.flatnonzero(ended).tolist():
                if row not in recording.reasons:
                    recording.reasons[row] = self._site.reasons[refused[row]]
                    if jobs.state[row] == REJECTED:
                        recording.declined.add(row)
        names = [request.name for request in table.requests]
        if any(names):
            of_row = np.array([*map(bool, names), False])[table.request[rows]]
            recording.names = {
                row: names[table.request[row]] for row in np.flatnonzero(of_row).tolist()
            }
        _fill(
            recording.periods,
            {
                "row": periods.row,
                "run": np.ones(len(periods), np.int32),
                "start_s": jobs.start_s[periods.row],
                "end_s": jobs.end_s[periods.row],
                "why": _ENDS[jobs.state[periods.row]],
                "first_place": periods.first_place,
                "places": periods.places,
                "nodes": places.node,
                "tasks": places.tasks,
            },
        )
        return recording


def settled(state: State) -> State:
    """Return a copy of what the energy of a state is in, integrated up to now."""
    state = state._replace(g=state.g.copy(), kinds=state.kinds.copy())
    if state.power is not None:
        state = state._replace(power=state.power._replace(kinds=state.power.kinds.copy()))
    settle(state)
    return state


def metered_by_state(state: State, on: list[str], off: str) -> tuple[tuple[float, ...], ...]:
    """Return a quantity by node group and `NODE_STATES`, from its columns."""
    beyond = np.zeros((len(state.kinds), len(NODE_STATES) - len(on)))
    if state.power is not None:
        each = state.power.kinds[off].reshape(len(state.kinds), -1)
        for place, name in enumerate(NODE_STATES[len(on) :]):
            if name in POWER_STATES[: each.shape[1]]:
                beyond[:, place] = each[:, POWER_STATES.index(name)]
    return tuple(
        (*one, *other) for one, other in zip(state.kinds[on].tolist(), beyond.tolist(), strict=True)
    )


def _fill(columns: object, values: dict[str, NDArray[Any]]) -> None:
    """Replace columns, which are arrays of Python, by values of the same meaning."""
    for name, column in values.items():
        replaced = array(getattr(columns, name).typecode)
        replaced.frombytes(np.ascontiguousarray(column, replaced.typecode).view(np.uint8).data)
        setattr(columns, name, replaced)


def infeasible(platform: Platform, jobs: JobTable) -> dict[int, str]:
    """Return why jobs can never run, by row."""
    cluster = Cluster(platform, 0.0)
    first, which = kinds_of(jobs, ("cores", "placement", "memory_mb", "partition", "request"))
    reasons = [infeasibility(cluster, spec) for spec in jobs.take(first).rows()]
    wrong = np.flatnonzero(np.array([bool(reason) for reason in reasons])[which])
    return {row: reasons[which[row]] for row in wrong.tolist()}


def _owners(jobs: JobTable, rows: slice) -> tuple[Ints, list[Owner]]:
    """Return the owner of each job, and the different owners in order of their first jobs."""
    whose, most = np.zeros(len(jobs.job_id[rows]), np.int64), 1
    for name in Owner._fields:
        names = len(jobs.names[name])
        if most * names > MOST_CODES:
            found, whose = np.unique(whose, return_inverse=True)
            most = len(found)
        whose, most = whose * names + getattr(jobs, name)[rows], most * names
    _, first, whose = np.unique(whose, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    owners = [
        Owner(*(jobs.names[name][getattr(jobs, name)[row]] for name in Owner._fields))
        for row in first[order].tolist()
    ]
    return place[whose], owners
