"""The state of the compiled policy `slurm`: arrays of records, which its functions share.

A *candidate* is a job in one of its partitions, and a *choice* is a set of nodes that jobs of one
kind may use there, of which each node offers the same number of cores to all of them.
"""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from hpcosim_compiled.state import Ints, Records
from hpcosim_schedulers.slurm.limits import AmountKind

NEVER = 1 << 62
"""A time that does not come, or a number of ended jobs that is not reached."""

WORD = 64
"""Nodes of a word of a set."""

NONE, ONE, ALL = np.uint64(0), np.uint64(1), np.uint64(2**64 - 1)

NO_MEMORY, OF_CORES, OF_NODE, ALL_MEMORY = range(4)
"""What decides the memory that a job holds on a node: nothing, its cores, the job, the node."""

GLOBAL = np.dtype(
    [
        ("origin_s", "f8"),  # of the clock, see `timers.SiteClock`
        ("loop_s", "f8"),
        ("tick_s", "f8"),
        ("begin", "i8"),
        ("period", "i8"),  # of the main scheduler, see `timers.MainTimer`
        ("delay", "i8"),
        ("last", "i8"),
        ("requested_s", "f8"),  # infinity: no pass is requested
        ("full_done", "i8"),
        ("immediate_s", "f8"),
        ("depth", "i8"),
        ("part_depth", "i8"),
        ("most_starts", "i8"),
        ("ends_at_first", "?"),
        ("one_each", "?"),  # whether each job has one candidate, of the same number
        ("backfills", "?"),  # the backfill scheduler, see `timers.BackfillTimer`
        ("interval_s", "f8"),
        ("job_cost_s", "f8"),
        ("check_s", "f8"),
        ("bf_last", "i8"),
        ("changed", "i8"),
        ("pings_s", "f8"),  # next answers of nodes, see `timers.NodePings`
        ("ping_period", "i8"),
        ("window", "i8"),
        ("resolution", "i8"),
        ("most_tests", "i8"),
        ("most_bf_starts", "i8"),
        ("most_reserved", "i8"),  # `bf_job_part_count_reserve`
        ("one_plan", "?"),  # `bf_one_resv_per_job`
        ("kill_wait", "i8"),
        ("over", "i8"),  # `over_time_limit_s`
        ("first_s", "f8"),  # calculations of priorities
        ("calculation_s", "f8"),
        ("calculations", "i8"),
        ("noted", "i8"),
        ("multifactor", "?"),
        ("only_up", "?"),  # `incr_only`
        ("weight_age", "f8"),
        ("max_age_s", "f8"),
        ("stale", "?"),  # what the policy remembers
        ("unplanned", "?"),
        ("waiting", "i8"),
        ("changes", "i8"),  # entries of `State.changes` that it has seen
        ("submitted", "i8"),  # jobs that it has seen
        ("arrivals", "i8"),  # entries of `Eligibility.arrivals` that it has seen
        ("ended", "i8"),  # entries of `State.ended_idle` that it has seen
        ("accrues", "?"),  # whether jobs age before they are eligible, `accrue_always`
        ("never", "i8"),  # waiting jobs that can never start
        ("queued", "i8"),  # entries of the list `ORDER`
        ("ordered", "i8"),  # entries of `BEFORE`
        ("running", "i8"),  # entries of `ENDS`
        ("adopted", "i8"),  # entries of `STARTED` that are to be noted at the next call
        ("free_cores", "i8"),
        ("largest", "i8"),  # cores of the largest node
        ("records", "i8"),  # entries of `Plan.times`
        ("chosen", "i8"),  # entries of `Places.nodes`
        ("choice", "i8"),  # from which they are
        ("cores", "i8"),  # what further nodes must have while they are chosen
        ("nodes", "i8"),
        ("most", "i8"),
        ("epoch", "i8"),  # changes of what is free
        ("memory", "i8"),  # slot of the memory of node 0; -1: jobs hold no memory
        ("weights", "i8"),  # number of different weights of nodes
        ("leaves", "i8"),  # number of leaf switches; 0: the topology has no effect
        ("has_tree", "?"),  # whether the switches above them have
        ("unused", "i8"),  # first unused entry of `Places.held`; -1: none
        ("pass_", "i8"),  # number of passes of the backfill scheduler
        ("limits", "i8", 4),  # jobs that the backfill scheduler tests at most, `bf_max_job_...`
        ("max_tres", "?"),  # from here on: see `Rules`
        ("weight_share", "f8"),
        ("decay_per_s", "f8"),
        ("last_s", "f8"),  # last calculation of usage
        ("charged", "i8"),  # jobs
        ("fresh", "i8"),  # entries of `FRESH`
        ("known", "i8"),  # associations
        ("has_shares", "?"),  # whether fair-share factors are those of the last calculation
        ("by_usage", "?"),  # whether a limit concerns usage
    ],
    align=True,
)

JOB = np.dtype(
    [
        ("job_id", "i8"),
        ("limit", "i8"),  # whole seconds
        ("constant", "f8"),  # factors of the priority that do not change
        ("fixed", "f8"),  # priority that an administrator set; NaN: none
        ("value", "f8"),  # priority before it is rounded
        ("since_s", "f8"),  # when it began to age; NaN: it has never been in the queue
        ("left", "i8"),  # calculations before it left the queue without a start
        ("admitted", "?"),  # whether it was not rejected at its submission
        ("tier", "i8"),  # rank of the greatest of its partitions
        ("end", "i8"),  # by its limit, seconds of the clock
        ("look_s", "f8"),  # when a check may end it; infinity: it does not run, or was ended
        ("look_end", "i8"),
        ("first", "i8"),  # its first candidate
        ("candidates", "i8"),
        ("whole", "?"),  # whether it holds whole nodes
        ("task_cores", "i8"),
        ("memory", "i8"),  # `NO_MEMORY` and so on
        ("core_mb", "f8"),
        ("node_parts", "i8"),
        ("first_device", "i8"),  # its entries of `Places.devices`
        ("devices", "i8"),
        ("held", "i8"),  # its first entry of `Places.held`; -1: none
        ("refused", "i8"),  # reason to reject it at its submission; -1: none
        ("late", "i8"),  # the same, unless a limit on the number of jobs is another reason
        ("never", "i8"),  # reason why it can never start; -1: it may
        ("in_pass", "i8"),  # last pass of the backfill scheduler in which it was planned
    ],
    align=True,
)

CANDIDATE = np.dtype(
    [
        ("row", "i8"),
        ("partition", "i8"),
        ("tier", "i8"),
        ("more", "f8"),  # what the partition adds to the priority of the job
        ("first", "i8"),  # its choices
        ("choices", "i8"),
        ("suitable", "i8"),  # row of `Places.masks`
        ("cores", "i8"),
        ("limit", "i8"),
        ("least", "i8"),  # least number of nodes
        ("wanted", "i8"),  # nodes that it takes if it can
        ("most", "i8"),  # greatest number of nodes
        ("has_most", "?"),  # whether the job states it
        ("counts_only", "?"),  # see `future.Candidate`
        ("alone", "?"),
        ("closed", "?"),  # whether its partition starts no jobs
        ("held", "?"),  # whether its partition holds it
        ("fits", "?"),  # whether it fits if nothing runs
        ("first_check", "i8"),  # its limits, entries of `Rules.checks`
        ("checks", "i8"),
        ("counters", "i8", 4),  # of `bf_max_job_...`; -1: no limit
        ("shape", "i8"),  # entry of `Plan.shapes`
    ],
    align=True,
)

SHAPE_FIELDS = ["first", "choices", "suitable", "cores", "least", "alone"]
"""What candidates of one shape have in common, beside their limit."""

CHOICE = np.dtype(
    [
        ("mask", "i8"),  # row of `Places.masks`
        ("partition_mask", "i8"),
        ("plain", "?"),  # whether every node offers all its free cores
        ("whole", "?"),
        ("least", "i8"),  # cores; nodes with fewer offer none
        ("most", "i8"),  # cores of a node; 0: no limit
        ("task_cores", "i8"),
        ("memory", "i8"),
        ("core_parts", "f8"),  # memory of a core
        ("node_parts", "i8"),
        ("first_device", "i8"),  # its entries of `Places.devices`
        ("devices", "i8"),
    ],
    align=True,
)

DEVICES = np.dtype(
    [
        ("table", "i8"),  # index into `Places.tables`
        ("part", "i8"),  # thousandths
        ("parts", "i8"),  # on each node, or for each task
        ("of_task", "?"),
    ],
    align=True,
)
"""Devices that a job requires."""

HELD = np.dtype([("slot", "i8"), ("amount", "i8"), ("after", "i8")])
"""A device of a running job, and the next one; -1: none."""

OFFER = np.dtype([("choice", "i8"), ("epoch", "i8"), ("gains", "i8")])
"""An entry of `Offers`: its choice, when it was made, and its number of gains."""

GAIN = np.dtype([("ended", "i4"), ("node", "i4"), ("cores", "i4"), ("begins", "i4")])
"""How many jobs must end until a node offers more, and whether it offered nothing before."""


class Offers(NamedTuple):
    """What nodes offer to some choices now, and as running jobs end; see `future.Offers`.

    Attributes:
        each: an `OFFER` for each entry; a choice has one entry.
        now: int64[entries, nodes], cores.
        idle: uint64[entries, words], nodes that offer some now.
        gains: `GAIN`[entries, gains], in the order of the ends.
    """

    each: Records
    now: Ints
    idle: NDArray[np.uint64]
    gains: Records


CAPACITY, FREE, AHEAD = range(3)
"""Rows of `Places.amounts`: all there is, what is free, and that after some running jobs ended."""

TRIED, AVAILABLE, IN_USE, FIRST_MASK = range(4)
"""Rows of `Places.masks`: nodes to try, those for which no other job waits, those that are not
drained, and fixed sets."""

IS_TRIED, OFFERED, LEFT, WEIGHTS, LEAF, CHOSEN, RUN, RUN_NODES, RUN_CORES, RESPONSE = range(10)
"""Rows of `Places.nodes`: whether to try a node; the cores that it offers to the job, and without
those that are left out; the rank of its weight; its leaf switch or -1; the nodes that a job gets in
the order in which it fills them; first node, number and cores of runs of consecutive nodes; the
second of the clock in which it last responded."""

LEFT_THERE, TAKEN, ABOVE, BELOW, DISTANCE = range(5)
"""Rows of `Places.leaves`: nodes that are left there, those of the job, the switch above, nodes
below, and the first of the distances from each leaf switch."""


class Places(NamedTuple):
    """What nodes have, and where jobs go.

    Attributes:
        amounts: int64[3, slots], see `hpcosim_client.demand.Slots`.
        masks: uint64[sets, words], sets of nodes.
        nodes: int64[10, nodes].
        leaves: int64[4 + leaf switches, switches], see `select.SwitchTree`; without a tree, only
            the first two rows and the leaf switches have a meaning.
        tables: int64[tables, nodes, devices], slots of the devices that meet a request.
        devices: a `DEVICES` for each request of each kind of jobs.
        held: a `HELD` for each part of a device.
    """

    amounts: Ints
    masks: NDArray[np.uint64]
    nodes: Ints
    leaves: Ints
    tables: Ints
    devices: Records
    held: Records


BEGIN, SLOT, CORES = range(3)
"""Rows of `Plan.times`: when a record begins; its row of `sets` and `free`; the sum of the cores of
the row of `free` on the nodes of its set."""

BLOCKED, TESTED = range(2)
"""Rows of `Plan.partitions`: whether the main scheduler starts no further jobs; jobs that it
tested, or for which the backfill scheduler reserved nodes."""


SHAPE = np.dtype([("pass_", "i8"), ("floor", "i8")])
"""Candidates that have the same earliest start: the last pass that tested one, and a time before
which none of them can start in it; `NEVER`: none can in the window of the pass."""


class Plan(NamedTuple):
    """A pass of a scheduler.

    Attributes:
        queue: the candidates by priority.
        times: int64[3, times].
        sets: uint64[times, words], the nodes that planned jobs leave free.
        free: int32[times, 64 * words], the cores of each node that running jobs leave free at the
            end of the record, or of the window if that is earlier. No choice offers more before.
        ends: int64[running jobs], their ends, in the order of `ENDS`.
        held: uint64[running jobs, words], their nodes.
        shapes: a `SHAPE` for each.
        partitions: int64[2, partitions].
        counters: jobs that the backfill scheduler tested.
    """

    queue: Ints
    times: Ints
    sets: NDArray[np.uint64]
    free: NDArray[np.int32]
    ends: Ints
    held: NDArray[np.uint64]
    shapes: Records
    partitions: Ints
    counters: Ints


AMOUNTS = get_args(AmountKind)
"""Kinds of amounts; see `limits.Amount`."""

CHECK = np.dtype(
    [
        ("what", "i8"),  # index into `AMOUNTS`
        ("group", "i8"),
        ("tres", "i8"),  # index into the TRES; of usage: its column
        ("column", "i8"),
        ("number", "i8"),  # row of the usage, or association
        ("own", "f8"),
        ("limit", "f8"),
        ("most", "f8"),
        ("reason", "i8"),
    ]
)
"""A limit; see `limits.Check`."""

GROUP = np.dtype([("waiting", "i8"), ("running", "i8")])

TERM = np.dtype([("tres", "i8"), ("amount", "f8"), ("of", "i8"), ("factor", "f8")])
"""A part of a TRES: an amount for each of what `OF_...` says."""

BY_FACTOR, BY_NODES, BY_CORES, BY_MEMORY = range(4)

WEIGHT = np.dtype([("tres", "i8"), ("weight", "f8"), ("of_node", "?")], align=True)
"""A weight of a TRES in the billing."""

OWNER = np.dtype(
    [
        ("job_id", "i8"),
        ("association", "i8"),  # -1: none
        ("known", "i8"),  # associations once it has been submitted
        ("first_row", "i8"),  # its entries of `Rules.rows`
        ("rows", "i8"),
        ("factor", "f8"),  # of its usage
        ("first_group", "i8"),  # its entries of `Rules.groups_of`
        ("groups", "i8"),
        ("first_submit", "i8"),  # limits at its submission, entries of `Rules.checks`
        ("submits", "i8"),
        ("first_term", "i8"),  # its entries of `Rules.terms`
        ("terms", "i8"),
        ("first_weight", "i8"),  # its entries of `Rules.weights`
        ("weights", "i8"),
        ("since_s", "f8"),  # start
        ("is_fresh", "?"),  # whether it started after the last calculation
    ],
    align=True,
)
"""What the rules of a site know of a job."""

ASSOCIATION = np.dtype(
    [
        ("row", "i8"),  # of its usage
        ("parent", "i8"),  # at whose level it competes; -1: none
        ("competes", "?"),
        ("is_user", "?"),
        ("shares", "f8"),
        ("of_level", "f8"),  # sum of the shares of those that it competes with
        ("total", "f8"),  # usage at the last calculation
        ("level", "f8"),  # level fair-share
        ("share", "f8"),  # fair-share factor
        ("child", "i8"),  # first of those that compete below it; -1: none
        ("sibling", "i8"),  # next that competes at its level; -1: none
        ("walk", "i8"),  # space to rank users: associations, and parts of them
        ("begin", "i8"),
        ("end", "i8"),
        ("tied", "i8"),
    ],
    align=True,
)


TRES = np.dtype([("amount", "f8"), ("of_column", "i8")])
"""An amount of a TRES, and the TRES of a column of the usage; see `charges.Usage`."""

USAGE, RATES, DECAYS = range(3)
"""Parts of `Rules.usage`: decayed usage, its growth in a second, and 1 for rows that decay."""


class Rules(NamedTuple):
    """Usage, fair-share and limits.

    Attributes:
        owners: an `OWNER` for each job.
        associations: an `ASSOCIATION` for each.
        usage: float64[3, rows, columns].
        tres: a `TRES` for each TRES of a job; the first three are billing, cores and nodes.
        numbers: rows of usage and groups of jobs.
        groups: a `GROUP` for each.
        tres_of: float64[groups, TRES], of the running jobs.
        terms, weights: parts of TRES and of billing.
        checks: a `CHECK` for each limit of each kind of jobs.
        node_mb: float64[nodes], memory.
    """

    owners: Records
    associations: Records
    usage: NDArray[np.float64]
    tres: Records
    numbers: Ints
    groups: Records
    tres_of: NDArray[np.float64]
    terms: Records
    weights: Records
    checks: Records
    node_mb: NDArray[np.float64]


ORDER, KEYS, RISING, RISING_KEYS, BEFORE, ENDS, FRESH, STARTED = range(8)
"""Rows of `Site.lists`: the waiting jobs by priority and number, and their keys; those that rise in
a calculation of priorities, and their keys; the order at the last calculation; the running jobs by
their ends and starts; the jobs that started after the last calculation by number; the running jobs
by their starts."""

PRIORITIES = 1 << 33
"""More than the greatest priority. A key of a waiting job is its priority plus this for each tier
below its own."""


class Site(NamedTuple):
    """The state of the policy.

    Attributes:
        s: one record `GLOBAL`.
        jobs: a `JOB` for each job.
        candidates: a `CANDIDATE` for each job in each of its partitions.
        choices: a `CHOICE` for each.
        lists: int64[8, jobs], rows of jobs, and keys.
        places, offers, plan: see there.
        rules: None: the site has no accounts and limits that count.
    """

    s: Records
    jobs: Records
    candidates: Records
    choices: Records
    lists: Ints
    places: Places
    offers: Offers
    plan: Plan
    rules: Rules | None
