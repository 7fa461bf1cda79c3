"""The state of a compiled simulation: arrays of records, which compiled functions share.

Jobs are numbered by their row in the workload, nodes and node kinds as in the platform.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from hpcosim_protocol import Platform
from hpcosim_sim.record.recording import POWER_STATES, STATES
from hpcosim_workloads.table import PLACEMENTS, JobTable

Ints = NDArray[np.int64]

WAITING, RUNNING = STATES.index("waiting"), STATES.index("running")
COMPLETED, TIMEOUT = STATES.index("completed"), STATES.index("timeout")
REJECTED, FAILED = STATES.index("rejected"), STATES.index("failed")
CANCELLED = STATES.index("cancelled")
CORES, ONE_NODE = PLACEMENTS.index("cores"), PLACEMENTS.index("one_node")
WHOLE_NODES = PLACEMENTS.index("whole_nodes")
ALLOCATED = len(STATES)
"""State of a job whose nodes boot; it is recorded as `waiting`."""
ON, SWITCHING_OFF = POWER_STATES.index("on"), POWER_STATES.index("switching_off")
SLEEPING, SWITCHING_ON = POWER_STATES.index("sleeping"), POWER_STATES.index("switching_on")
PER_KIND = len((ON, SWITCHING_OFF, SLEEPING, SWITCHING_ON))
"""Power states of a node group in `Power.kinds`; each is followed by the next, the last by `on`."""

PLACES_PER_CORE, CHANGES_PER_NODE = 2, 3
"""Most entries of `State.places` and of `Power.changes` at an instant."""

LEAVE, BEGIN = -2, -1
"""Actions of agents that leave a simulation as it is, and that simulate to the first choice."""

DRAWS = 1000
"""Times of switching, or raw values, that are drawn together."""

SPARE_DRAWS = 64
"""Raw values for draws that must be repeated, of which one is rare."""

Records = Any
"""A `numpy.recarray`: its elements have attributes, also for Numba, but not for type checkers."""

JOB = np.dtype(
    [
        ("submit_s", "f8"),
        ("requested_s", "f8"),
        ("limit_s", "f8"),  # time after its start at which it is killed; infinity: never
        ("run_s", "f8"),  # run time where `ops` is 0
        ("ops", "f8"),
        ("start_s", "f8"),  # NaN before
        ("end_s", "f8"),  # NaN before
        ("reserved_s", "f8"),  # begin of its reservation; NaN: it has none
        ("last_s", "f8"),  # the same at the last call of the policy; infinity: it had none
        ("rank", "i8"),  # place in the order of the policy, if that does not depend on the time
        ("cores", "i8"),
        ("period", "i8"),  # its computing period; -1: it has not started
        ("place", "i8"),  # in `State.queue`
        ("held", "i8"),  # first `HELD` of its reservation; -1: it has none
        ("placement", "i1"),  # index into `PLACEMENTS`
        ("final", "i1"),  # state at its end if it is not killed
        ("state", "i1"),  # index into `STATES`, or `ALLOCATED`
        ("moves", "?"),  # whether its reservation waits for the end of a late job or boot
        ("feasible", "?"),  # whether it can run on the empty cluster
        ("watched", "?"),  # whether its start is of interest, see `GLOBAL`
    ],
    align=True,
)

NODE = np.dtype([("capacity", "i8"), ("busy", "i8"), ("kind", "i8")])
"""Cores, cores with a task, and node group of a node."""

KIND = np.dtype(
    [
        ("ops_per_s", "f8"),  # of a core
        ("idle_w", "f8"),  # power of an idle node
        ("static_w", "f8"),  # power of a node that computes, without its cores
        ("dynamic_w", "f8"),  # power of each core that computes
        ("computing", "i8"),  # nodes
        ("idle", "i8"),  # nodes
        ("tasks", "i8"),
        ("computing_w", "f8"),  # power of the computing nodes
        ("power_w", "f8"),  # power of all nodes
        ("settled_s", "f8"),  # time up to which its energy is integrated
        ("computing_j", "f8"),
        ("idle_j", "f8"),
        ("computing_node_s", "f8"),
        ("idle_node_s", "f8"),
    ]
)

SLOT = np.dtype(
    [
        ("cores", "i8"),
        ("ops_per_s", "f8"),
        ("idle_w", "f8"),
        ("static_w", "f8"),
        ("dynamic_w", "f8"),
        ("active", "i8"),  # processors with a task
        ("tasks", "i8"),
        ("contends", "i8"),  # whether it has the constants below; see `Contention`
        ("c_mbps", "f8"),
        ("b_per_mbps", "f8"),
        ("da", "f8"),
        ("db_mbps", "f8"),
        ("dc_mbps", "f8"),
        ("dd_mbps", "f8"),
    ]
)
"""The processors of one place in the nodes of a group."""

PROCESSOR = np.dtype(
    [
        ("slot", "i8"),
        ("kind", "i8"),  # node group
        ("tasks", "i8"),
        ("first_share", "i8"),
        ("shares", "i8"),
        ("next_end_s", "f8"),  # next end of a share; infinity: none
        ("touched", "i8"),  # space for processors
    ]
)

SHARE = np.dtype(
    [
        ("period", "i8"),
        ("tasks", "i8"),
        ("mbps", "f8"),
        ("since_s", "f8"),
        ("left_s", "f8"),
        ("speed", "f8"),
        ("end_s", "f8"),
    ]
)
"""The tasks of a period on a processor; see `hpcosim_sim.physics.execution.ProcessorShare`."""

WORK = np.dtype([("shares_left", "i8"), ("ends_late", "?"), ("over", "i8")], align=True)
"""Shares of a period with work left, whether its next end is at its limit; space for periods."""

OWNER = np.dtype([("first", "i8"), ("key", "f8"), ("memory_mb", "f8"), ("mbps", "f8")])
"""First processor of a node, key of the policy, and what the jobs there require: memory, and
bandwidth (as `job_node.high_mem_bw` has counted it)."""

NEED = np.dtype(
    [("memory_mb", "f8"), ("memory_volume_mb", "f8"), ("mbps", "f8"), ("counted", "i8")]
)
"""What each task of a job requires: memory, data that it moves, and bandwidth; and, in the first
entries, the jobs whose bandwidth is counted."""

TIMER = np.dtype([("place", "i8"), ("subject", "i8"), ("at_s", "f8"), ("number", "i8")])
"""Place in the heap, subject at this place, time (infinity: not set), order of equal times."""

PERIOD = np.dtype([("row", "i8"), ("first_place", "i8"), ("places", "i8")])
"""Job of a computing period, and its entries of `State.places`."""

PLACE = np.dtype([("node", "i4"), ("tasks", "i4")])

MANY_PLACES = 1 << 24
"""Most entries of the first `State.places`, bytes of which are used when they are written."""

TIMED = np.dtype([("at_s", "f8"), ("number", "i8")])
"""A time, and a period, a row or a number of free cores."""

MANAGER = np.dtype(
    [
        ("kind", "i8"),  # index into `policies.MANAGERS`, or `NO_MANAGER`
        ("timeout_s", "f8"),
        ("warm", "i8"),  # nodes
        ("origin_s", "f8"),  # second of the week at time 0
        ("alarm_s", "f8"),  # next time at which it is called; infinity: none
        ("on_first", "i8"),  # whether a list scheduler prefers nodes that are on
        ("idle_since_s", "f8"),  # of the node that is idle for the longest time; infinity: none
        ("planned", "i8"),  # nodes that are planned
        ("nodes_off", "i8"),  # nodes that are not on
        ("has_changed", "?"),  # whether a node was switched since the last call of the policy
        ("drawn", "i8"),  # entries of `Power.draws`
        ("changes", "i8"),  # entries of `Power.changes`
        ("booting", "i8"),  # entries of `Power.booting`
        ("timers", "i8"),  # as in `GLOBAL`
        ("timers_set", "i8"),
    ],
    align=True,
)
"""The power manager, and counts of records in `Power`."""

POWER_NODE = np.dtype(
    [
        ("state", "i8"),  # index into `POWER_STATES`
        ("idle_since_s", "f8"),  # as the power manager knows; NaN: it is not idle
        ("can_sleep", "i8"),  # whether it can be switched off
        ("is_planned", "i8"),  # whether the policy has reserved it; then it stays on
        ("from_s", "f8"),  # if it is switched on at t, it is on at max(t, from_s) + boot_s, about
        ("boot_s", "f8"),
        ("seen_from_s", "f8"),  # the same at the begin of the call of the policy
        ("seen_boot_s", "f8"),
    ]
)

POWER_KIND = np.dtype(
    [
        ("power_w", "f8"),  # power of a node
        ("lasts_s", "f8"),  # mean time of switching; infinity: until a decision
        ("lasts_sd_s", "f8"),  # its standard deviation; 0: it is constant
        ("nodes", "i8"),
        ("energy_j", "f8"),
        ("node_s", "f8"),
    ]
)
"""The nodes of a node group in a power state."""

POWER_JOB = np.dtype(
    [
        ("ready_s", "f8"),  # expected start of an allocated job
        ("nodes_off", "i8"),  # nodes of an allocated job that are not on
        ("boot_s", "f8"),  # boot of the nodes of its reservation
    ]
)

POWER_CHANGE = np.dtype([("at", "i8"), ("at_s", "f8"), ("node", "i8"), ("state", "i8")])
"""As in `Recording`: number of changes of jobs before it, time, node and new state."""

BOOTING = np.dtype([("row", "i8"), ("node", "i4"), ("tasks", "i4")])
"""A node of an allocated job, and the tasks of the job there."""

GLOBAL = np.dtype(
    [
        ("now_s", "f8"),
        ("changed_s", "f8"),  # last change of the power of any node
        ("peak_w", "f8"),
        ("alarm_s", "f8"),  # next time at which the policy wants to be called; infinity: none
        ("reference_ops_per_s", "f8"),  # speed of a core on which `run_s` holds; 0: on every core
        ("jobs", "i8"),
        ("cores", "i8"),
        ("free_cores", "i8"),
        ("lowest", "i8"),  # node; those before it have no free cores
        ("submitted", "i8"),  # jobs
        ("over", "i8"),  # jobs
        ("first", "i8"),  # place of the first waiting job
        ("last", "i8"),  # place behind that of the last
        ("queued", "i8"),  # waiting jobs
        ("running", "i8"),  # jobs that hold cores, also those whose nodes boot
        ("ends", "i8"),  # entries of `State.ends`
        ("keyed", "i8"),  # entries of `State.keyed`
        ("steps", "i8"),  # entries of `State.profile`
        ("lows", "i8"),  # entries of `State.lows`
        ("periods", "i8"),
        ("noted", "i8"),  # periods, and entries of `NEED.counted`, of `job_node`
        ("counted", "i8"),
        ("draws", "?"),  # whether the policy draws random numbers, see `chance`
        ("drawn", "i8"),  # used entries of `Processors.drawn`
        ("half", "u8"),  # half of the last one
        ("has_half", "?"),  # whether it is unused
        ("places", "i8"),
        ("changes", "i8"),
        ("ended_idle", "i8"),
        ("largest_node", "i8"),  # cores
        ("timers", "i8"),  # entries of `State.heap`
        ("timers_set", "i8"),  # up to now
        ("shares", "?"),  # whether `State.processors` simulate
        ("names_nodes", "?"),  # whether reservations may name nodes, in `State.ahead`
        ("explains", "?"),  # whether the policy explains why jobs wait, in `State.said`
        ("placements", "i8"),  # of the jobs so far: the sum of 1 << index into `PLACEMENTS`
        ("alike", "?"),  # whether all nodes have the same number of cores
        ("said", "i8"),  # entries of `Said.each`
        ("explained", "i8"),  # submitted jobs that have been explained
        ("head", "i8"),  # job that was explained last as the head of the queue; -1: none
        ("wakes", "i8"),  # sum of the events that wake the policy
        ("ended_early", "i8"),  # whether a job ended at another time than requested
        ("held", "i8"),  # used entries of `NodesAhead.held`
        ("unused", "i8"),  # first of those that are free again; -1: none
        ("is_woken", "?"),  # whether the policy is still to decide at this instant
        ("watched", "i8"),  # jobs whose starts the simulation is for, before they start; -1: all
        ("least_s", "f8"),  # time before which it does not end
        ("until_s", "f8"),  # time after which it ends in any case
        ("idle_s", "f8"),  # time without running jobs after which it ends
        ("busy_s", "f8"),  # when jobs ran last, as far as the policy was woken
    ],
    align=True,
)


HELD = np.dtype([("node", "i8"), ("cores", "i8"), ("after", "i8")])
"""Cores of a node in a reservation, and the next entry of the reservation; -1: none."""


ELIGIBLE = np.dtype(
    [
        ("has_begun", "?"),  # whether the jobs that are present at the begin are noted
        ("wakes", "?"),  # whether a waiting job changed or ended since the last call of the policy
        ("has_left", "?"),  # whether one left the queue without a start since the policy looked
        ("next_s", "f8"),  # first entry of `Eligibility.timers`; infinity: there is none
        ("timers", "i8"),  # entries of `Eligibility.timers`
        ("timers_set", "i8"),  # up to now
        ("changes", "i8"),  # entries of `State.changes` that are noted
        ("ended", "i8"),  # entries of `State.ended_idle` that are noted
        ("impossible", "i8"),  # entries of `Eligibility.impossible`
        ("settled", "i8"),  # those that are cancelled
        ("arrivals", "i8"),  # entries of `Eligibility.arrivals`
        ("blocked", "i8"),  # entries of `Eligibility.blocked`
        ("given_up", "i8"),  # waiting jobs that the policy has given up
    ],
    align=True,
)

GATE = np.dtype(
    [
        ("blocked", "i8"),  # sum of the causes, see `hpcosim_sim.engine.jobs`; 0: it is eligible
        ("begin_s", "f8"),  # -infinity: none
        ("array", "i8"),  # entry of `Eligibility.arrays`; -1: none
        ("first", "i8"),  # its entries of `Eligibility.conditions`
        ("conditions", "i8"),
        ("first_link", "i8"),  # first entry of `Eligibility.links` that names it; -1: none
        ("any", "?"),  # whether one met condition suffices
        ("held", "?"),  # whether somebody holds it
        ("waits", "?"),  # whether it ages only from when it is eligible
        ("timed", "?"),  # whether the passing of time may make it eligible
        ("undecided", "?"),  # whether its dependencies are not met
        ("entered", "?"),  # whether it was submitted and not rejected
        ("over", "?"),  # whether its end is noted
        ("given_up", "?"),
        ("arrives", "?"),  # whether it joined the queue since the policy looked
    ],
    align=True,
)
"""Why a job is not eligible."""

CONDITION = np.dtype(
    [
        ("row", "i8"),
        ("kind", "i8"),  # index into the kinds of dependencies
        ("delay_s", "f8"),
        ("first_link", "i8"),  # its entries of `Eligibility.links`
        ("links", "i8"),
        ("unmet", "i8"),
        ("met_s", "f8"),
    ]
)
"""A dependency; see `hpcosim_sim.engine.eligibility.PendingDependency`."""

LINK = np.dtype([("condition", "i8"), ("other", "i8"), ("after", "i8"), ("unmet", "i8")])
"""A job that a dependency names (-1: unknown), the next link that names it, and whether it may
still meet the condition."""

TASKS = np.dtype([("limit", "i8"), ("first", "i8"), ("last", "i8")])
"""Maximum number of running tasks of an array, and its entries of `Eligibility.tasks`."""

ELIGIBLE_AT = np.dtype([("at_s", "f8"), ("number", "i8"), ("row", "i8"), ("begins", "i8")])
"""A begin time or the end of a delay, and the order of equal times."""


class Eligibility(NamedTuple):
    """Which waiting jobs may start, for `eligibility`.

    Attributes:
        g: one record `ELIGIBLE`.
        jobs: a `GATE` for each job.
        conditions, links: the dependencies.
        arrays, tasks: limited arrays, and the rows of their tasks by index; those before the first
            of an array are over.
        timers: the `ELIGIBLE_AT` that are set, in no order.
        arrivals: rows of the jobs that joined the queue.
        blocked: rows in the order in which they became ineligible; some are eligible again.
        impossible: rows of the jobs whose dependencies can never be met.
        present: rows of the jobs that are present at the begin, in submission order.
    """

    g: Records
    jobs: Records
    conditions: Records
    links: Records
    arrays: Records
    tasks: Ints
    timers: Records
    arrivals: Ints
    blocked: Ints
    impossible: Ints
    present: Ints


class NodesAhead(NamedTuple):
    """The free cores of every node in future, for `node_profile`.

    Attributes:
        free: int64[lines, nodes].
        lines: int64[lines], line of `free` of each step of `State.profile`.
        held: a `HELD` for each node of each reservation.
        least, before, order: space for nodes.
        delay_s: float64[nodes], by which nodes are ordered first: 0, or see `power_aware`.
    """

    free: Ints
    lines: Ints
    held: Records
    least: Ints
    before: Ints
    order: Ints
    delay_s: NDArray[np.float64]


NOTHING, PRIORITY, RESOURCES = range(3)
REASONS = ("", "Priority", "Resources")
"""Why jobs wait."""

LAST_SAID = np.dtype([("expected_s", "f8"), ("reason", "i8")])
SAID = np.dtype([("row", "i8"), ("at_s", "f8"), ("expected_s", "f8"), ("reason", "i8")])
"""An explanation: index into `REASONS`, and expected start; NaN: unknown."""

SUBMISSIONS, ENDS, EVERY_EVENT = 1, 2, 7
"""Events that wake a policy; the end of all submissions is only one of every event."""


class Said(NamedTuple):
    """What the policy has explained; see `explanations`.

    Attributes:
        last: a `LAST_SAID` for each job.
        each: a `SAID` for each explanation; replaced by a longer array when it is full.
    """

    last: Records
    each: Records


class Processors(NamedTuple):
    """The processors of a simulation, for `contention`, `timers` and `job_node`.

    Attributes:
        slots: a `SLOT` for each processor of a node of each node group.
        first_slot: int64[node groups + 1], first slot of each node group.
        each: a `PROCESSOR` for each processor.
        nodes: an `OWNER` for each node, and one more.
        shares: room for as many `SHARE` as each processor has cores.
        periods: a `WORK` for each start of a job.
        needs: a `NEED` for each job.
        timers: a `TIMER` for each processor and for each period.
        drawn: uint64[draws], raw random numbers of the policy.
    """

    slots: Records
    first_slot: Ints
    each: Records
    nodes: Records
    shares: Records
    periods: Records
    needs: Records
    timers: Records
    drawn: NDArray[np.uint64]


class Power(NamedTuple):
    """The power states of a simulation, for `node_power` and `power_managers`.

    Attributes:
        g: one record `MANAGER`.
        nodes: a `POWER_NODE` for each node.
        kinds: a `POWER_KIND` for each power state of each node group; that of `on` is not used.
        jobs: a `POWER_JOB` for each job.
        booting: the `BOOTING` of all allocated jobs, in the order of their allocation.
        timers: a `TIMER` for each node: the end of switching.
        changes: a `POWER_CHANGE` for each change; replaced by a longer array when it is full.
        draws: samples of the standard normal distribution for times of switching; replaced by
            further ones when few are left.
        windows: int64[windows, 2]; see `ManagerCode`.
    """

    g: Records
    nodes: Records
    kinds: Records
    jobs: Records
    booting: Records
    timers: Records
    changes: Records
    draws: NDArray[np.float64]
    windows: Ints


class State(NamedTuple):
    """A simulation; only its records change.

    Attributes:
        g: one record `GLOBAL`.
        jobs: a `JOB` for each job.
        nodes: a `NODE` for each node.
        free: free cores of each node.
        kinds: a `KIND` for each node group.
        ends: a binary heap of the ends of running jobs: time, period.
        due: expected ends of the running jobs by requested times, ascending: time, row.
        queue, sizes: the waiting jobs; see `waiting`.
        keyed: waiting jobs in an order of the policy: a binary heap by rank, or by reservation.
        periods: a `PERIOD` for each start of a job.
        places: a `PLACE` for each node of each period; replaced by a longer array when it is full.
        changes: begins and ends of periods, as in `Recording`.
        ended_idle: rows of jobs that were rejected at their submission.
        profile, lows: see `profile`.
        rows: space of policies for rows.
        keys: space of policies for keys.
        ahead: the free cores of every node in future.
        said: explanations of the policy.
        processors: the processors of nodes.
        power: the power states of nodes.
        eligibility: which waiting jobs may start; None: all may.

    The last five are None where a simulation needs none of them. Numba compiles the engine for
    that without all that concerns them, so that they cost nothing. For that, `is None` is asked of
    an argument of a function.
    """

    g: Records
    jobs: Records
    nodes: Records
    free: Ints
    kinds: Records
    ends: Records
    due: Records
    queue: Ints
    sizes: Ints
    keyed: Ints
    periods: Records
    places: Records
    changes: Ints
    ended_idle: Ints
    profile: Records
    lows: Records
    rows: Ints
    keys: NDArray[np.float64]
    ahead: NodesAhead | None
    said: Said | None
    processors: Processors | None
    power: Power | None
    eligibility: Eligibility | None


OPTIONAL = ("ahead", "said", "processors", "power", "eligibility")
"""Attributes of a state that may be None."""


def records(kind: np.dtype[np.void], count: int) -> Records:
    """Return records of zeros."""
    return np.zeros(count, kind).view(np.recarray)


class ManagerCode(NamedTuple):
    """A compiled power manager.

    Attributes:
        kind: index into `policies.MANAGERS`.
        timeout_s: idle time after which a node is switched off, s.
        warm: number of idle nodes that stay on.
        windows: begin and end of the times in which idle nodes are off; see `timeout.at_clock`.
        origin_s: second of the week at which the simulation starts.
    """

    kind: int
    timeout_s: float = 0.0
    warm: int = 0
    windows: tuple[tuple[int, int], ...] = ()
    origin_s: float = 0.0


NO_MANAGER = -1
"""Kind of the power manager where all nodes are always on."""


def initial_state(
    platform: Platform,
    table: JobTable,
    feasible: NDArray[np.bool_],
    rank: Ints,
    *,
    kill_at_walltime: bool,
    reference_ghz: float | None,
    node_keys: NDArray[np.float64] | None = None,
    names_nodes: bool = False,
    explains: bool = False,
    manager: ManagerCode | None = None,
    on_first: bool = False,
    draws: bool = False,
) -> State:
    """Return the state before the first submission: all nodes are on and idle.

    Args:
        platform: the cluster.
        table: the workload; at least one job.
        feasible: see `JOB`.
        rank: see `JOB`.
        kill_at_walltime: see `hpcosim_sim.engine.engine.Rules`.
        reference_ghz: see `hpcosim_sim.engine.engine.Rules`.
        node_keys: see `policies.node_keys`.
        names_nodes: see `policies.names_nodes`.
        explains: whether the policy explains why jobs wait.
        manager: the power manager; None: all nodes are always on.
        on_first: whether a list scheduler prefers nodes that are on.
        draws: whether the policy draws random numbers.
    """
    count, start_s = len(table), float(table.submit_s[0])
    jobs = records(JOB, count)
    for name in ("submit_s", "requested_s", "run_s", "ops", "cores", "placement"):
        jobs[name] = getattr(table, name)
    jobs.limit_s = table.requested_s if kill_at_walltime else np.inf
    jobs.rank, jobs.feasible = rank, feasible
    jobs.final = np.where(table.fails, FAILED, COMPLETED)
    jobs.start_s = jobs.end_s = jobs.reserved_s = np.nan
    jobs.period = jobs.held = -1

    kinds = records(KIND, len(platform.nodes))
    for kind, group in zip(kinds, platform.nodes, strict=True):
        processor = group.processors[0]
        kind.ops_per_s = processor.ops_per_s
        kind.idle_w = group.idle_w
        kind.static_w, kind.dynamic_w = processor.static_w, processor.dynamic_w
        kind.idle, kind.settled_s = group.count, start_s
        kind.power_w = kind.idle_w * group.count
    nodes = records(NODE, platform.node_count)
    capacity: Ints = np.array(platform.cores_by_node())
    nodes.capacity = capacity
    nodes.kind = np.repeat(np.arange(len(kinds)), [group.count for group in platform.nodes])

    g = records(GLOBAL, 1)
    g.largest_node, g.alike = capacity.max(), capacity.min() == capacity.max()
    g.unused = g.head = -1
    g.wakes = EVERY_EVENT
    g.shares = node_keys is not None or shares_processors(platform)
    g.names_nodes, g.explains, g.draws = names_nodes, explains, draws
    needs_all = bool(g.shares[0] or names_nodes or explains or manager is not None)
    g.now_s = g.changed_s = start_s
    g.alarm_s = g.until_s = g.idle_s = np.inf
    g.least_s = -np.inf
    g.watched = -1
    g.reference_ops_per_s = 0.0 if reference_ghz is None else reference_ghz * 1e9
    g.jobs, g.cores = count, capacity.sum()
    g.free_cores = g.cores
    most_places = np.minimum(table.cores, len(nodes)).sum()
    switched = 0 if manager is None else len(nodes)  # nodes that are off come back in the profile
    plain = State(
        g=g,
        jobs=jobs,
        nodes=nodes,
        free=capacity,
        kinds=kinds,
        ends=records(TIMED, count),
        due=records(TIMED, count),
        queue=np.zeros(count, np.int64),
        sizes=np.zeros(count, np.int64),
        keyed=np.zeros(count, np.int64),
        periods=records(PERIOD, count),
        places=records(PLACE, int(min(most_places + PLACES_PER_CORE * g.cores[0], MANY_PLACES))),
        changes=np.zeros(2 * count, np.int64),
        ended_idle=np.zeros(count, np.int64),
        profile=records(TIMED, 8 * count + 8 + switched),
        lows=records(TIMED, 8 * count + 8 + switched),
        rows=np.zeros(count, np.int64),
        keys=np.zeros(count),
        **dict.fromkeys(OPTIONAL),
    )
    if not needs_all:
        return plain
    return plain._replace(
        ahead=_nodes_ahead(table, len(nodes)),
        said=Said(records(LAST_SAID, count), records(SAID, 0)),
        processors=_processors(platform, table, node_keys),
        power=_power(platform, count, manager or ManagerCode(NO_MANAGER), on_first=on_first),
    )


def _nodes_ahead(table: JobTable, nodes: int) -> NodesAhead:
    held = records(HELD, int(np.minimum(table.cores, nodes).sum()) + 2 * nodes)
    free, lines = np.zeros((0, nodes), np.int64), np.zeros(0, np.int64)
    least, before, order = (np.zeros(nodes, np.int64) for _ in range(3))
    return NodesAhead(free, lines, held, least, before, order, np.zeros(nodes))


def shares_processors(platform: Platform) -> bool:
    """Return whether nodes have several processors, or jobs contend for memory bandwidth."""
    return any(
        len(group.processors) > 1 or group.processors[0].contention is not None
        for group in platform.nodes
    )


def _processors(
    platform: Platform, table: JobTable, node_keys: NDArray[np.float64] | None
) -> Processors:
    of_slots = [processor for group in platform.nodes for processor in group.processors]
    slots = records(SLOT, len(of_slots))
    for slot, processor in zip(slots, of_slots, strict=True):
        slot.cores, slot.ops_per_s = processor.cores, processor.ops_per_s
        slot.static_w, slot.dynamic_w = processor.static_w, processor.dynamic_w
        slot.idle_w = processor.static_w * processor.idle_fraction
        if processor.contention is not None:
            slot.contends = 1
            for name, constant in asdict(processor.contention).items():
                slot[name] = constant
    groups = np.repeat(np.arange(len(platform.nodes)), [group.count for group in platform.nodes])
    first_slot = np.append(0, np.cumsum([len(group.processors) for group in platform.nodes]))
    per_node = np.diff(first_slot)[groups]
    nodes = records(OWNER, len(groups) + 1)
    nodes.first[1:] = np.cumsum(per_node)
    if node_keys is not None:
        nodes.key[:-1] = node_keys
    each = records(PROCESSOR, int(per_node.sum()))
    each.kind = np.repeat(groups, per_node)
    within = np.arange(len(each)) - np.repeat(nodes.first[:-1], per_node)
    each.slot = first_slot[each.kind] + within
    cores = slots.cores[each.slot]
    each.first_share = np.cumsum(cores) - cores
    each.next_end_s = np.inf
    needs = records(NEED, len(table))
    needs.memory_mb, needs.memory_volume_mb = table.memory_mb, table.memory_volume_mb
    has_request = table.requested_s > 0.0
    np.divide(table.memory_volume_mb, table.requested_s, out=needs.mbps, where=has_request)
    timers = records(TIMER, len(each) + len(table))
    timers.at_s = np.inf
    shares, periods = records(SHARE, int(cores.sum()) + 1), records(WORK, len(table))
    drawn = np.zeros(0, np.uint64)
    return Processors(slots, first_slot, each, nodes, shares, periods, needs, timers, drawn)


def _power(platform: Platform, jobs: int, manager: ManagerCode, *, on_first: bool) -> Power:
    """Return the power states with all nodes on; there are no changes and draws yet."""
    g = records(MANAGER, 1)
    g.kind, g.timeout_s, g.warm = manager.kind, manager.timeout_s, manager.warm
    g.origin_s, g.on_first = manager.origin_s, on_first
    g.alarm_s = np.inf
    nodes = records(POWER_NODE, platform.node_count)
    can_sleep = [group.power_states is not None for group in platform.nodes]
    nodes.can_sleep = np.repeat(can_sleep, [group.count for group in platform.nodes])
    nodes.from_s, nodes.idle_since_s = -np.inf, np.nan
    kinds = records(POWER_KIND, len(platform.nodes) * PER_KIND)
    kinds.lasts_s = np.inf
    for number, states in enumerate(group.power_states for group in platform.nodes):
        if states is None:
            continue
        own = kinds[number * PER_KIND :]
        own.power_w[SLEEPING] = states.sleep_w
        own.power_w[SWITCHING_ON], own.lasts_s[SWITCHING_ON] = (
            states.switch_on_w,
            states.switch_on_s,
        )
        own.power_w[SWITCHING_OFF] = states.switch_off_w
        own.lasts_s[SWITCHING_OFF] = states.switch_off_s
        own.lasts_sd_s[SWITCHING_ON] = states.switch_on_sd_s
        own.lasts_sd_s[SWITCHING_OFF] = states.switch_off_sd_s
    timers = records(TIMER, len(nodes))
    timers.at_s = np.inf
    return Power(
        g=g,
        nodes=nodes,
        kinds=kinds,
        jobs=records(POWER_JOB, jobs),
        booting=records(BOOTING, platform.core_count),
        timers=timers,
        changes=records(POWER_CHANGE, 0),
        draws=np.zeros(0),
        windows=np.array(manager.windows, np.int64).reshape(-1, 2),
    )


def with_room(state: State, rng: np.random.Generator, of_policy: np.random.Generator) -> State:
    """Return a state with room for another instant in the arrays that `advance` found too short.

    Args:
        state: the state.
        rng: generator of the times of switching, of which each sample is taken once.
        of_policy: generator of the policy, of which each raw value is taken once.
    """
    power, nodes, ahead = state.power, len(state.nodes), state.ahead
    nodes_off = 0 if power is None else int(power.g.nodes_off[0])
    room = int(state.g.cores[0]) * PLACES_PER_CORE
    if len(state.places) - int(state.g.places[0]) < room:
        state = state._replace(places=_longer(state.places, room))
    lines, said = lines_needed(state.g[0], nodes_off), said_needed(state.g[0])
    if ahead is not None and len(ahead.lines) < lines:
        longer = {name: _longer(getattr(ahead, name), lines) for name in ("free", "lines")}
        state = state._replace(ahead=ahead._replace(**longer))
    if state.said is not None and len(state.said.each) < said:
        state = state._replace(said=state.said._replace(each=_longer(state.said.each, said)))
    own, drawn = state.processors, int(state.g.drawn[0])
    if own is not None and len(own.drawn) - drawn < (draws := draws_needed(state.g[0], nodes)):
        raw = of_policy.bit_generator.random_raw(max(draws, DRAWS))
        state = state._replace(processors=own._replace(drawn=np.append(own.drawn[drawn:], raw)))
        state.g.drawn = 0
    if power is not None:
        if len(power.changes) - int(power.g.changes[0]) < CHANGES_PER_NODE * nodes:
            power = power._replace(changes=_longer(power.changes, CHANGES_PER_NODE * nodes))
        if len(power.draws) - int(power.g.drawn[0]) < nodes:
            more = rng.standard_normal(max(nodes, DRAWS))
            power = power._replace(draws=np.append(power.draws[int(power.g.drawn[0]) :], more))
            power.g.drawn = 0
        state = state._replace(power=power)
    return state


def lines_needed(g: Any, nodes_off: int) -> int:
    """Return the most steps of a profile: each waiting job makes two, and two more if it moves."""
    return g.running + 4 * g.queued + nodes_off + 4 if g.names_nodes else 0


def said_needed(g: Any) -> int:
    """Return the entries of `Said.each` after a decision that explains every waiting job anew."""
    return g.said + g.queued + 2 if g.explains else 0


def draws_needed(g: Any, nodes: int) -> int:
    """Return the most raw values that a decision uses: of each job that may start, and some.

    A value below a limit needs a further one once in 2**32 / limit times.
    """
    return (min(g.queued, g.free_cores) + 2) * (nodes + 1) + SPARE_DRAWS if g.draws else 0


def _longer(column: Any, room: int) -> Any:
    longer = np.zeros_like(column, shape=(len(column) + max(len(column), room), *column.shape[1:]))
    longer[: len(column)] = column
    return longer
