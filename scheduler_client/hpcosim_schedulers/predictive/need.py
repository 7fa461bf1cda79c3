"""How many nodes beyond those in use a sampled future needs, and which waits it would cause."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hpcosim_client.arrays import Floats, Ints
from hpcosim_schedulers.predictive.futures import Futures


class Need(NamedTuple):
    """The need of each submission of a future, and its records.

    A record is a submission that needs more nodes than all before it in its sample.

    Attributes:
        samples: number of samples.
        after_s: float64[n], time of each submission after now, s.
        nodes: int64[n], nodes beyond those that are in use now that must be on for it to start at
            once; 0: none.
        caller: int64[n], the first submission of its sample that needs as many: the one for which
            they are switched on.
        record_s: float64[r], time of each record, s.
        above: int64[r], need of the record before it in its sample; 0: none.
        upto: int64[r], its need.
    """

    samples: int
    after_s: Floats
    nodes: Ints
    caller: Ints
    record_s: Floats
    above: Ints
    upto: Ints


def need_of(future: Futures, most: int, slack: float = 0.0) -> Need:
    """Return the need of a future in which each job starts at its submission.

    Args:
        future: the samples.
        most: upper bound of a need: the number of nodes without a job.
        slack: nodes that are free on nodes with jobs, as a sum of shares of nodes.
    """
    base = future.sample * (most + 1)
    nodes = np.clip(np.ceil(_held(future) - slack), 0, most).astype(np.int64)
    key = base + nodes  # ascends from sample to sample
    highest = np.maximum.accumulate(np.maximum(key, base)) if len(key) else key
    caller = np.searchsorted(highest, key)
    before = np.concatenate([[0], highest[:-1]])
    before = np.maximum(before, base)[: len(key)]
    is_record = highest > before
    return Need(
        future.samples,
        future.after_s,
        nodes,
        caller,
        future.after_s[is_record],
        (before - base)[is_record],
        (highest - base)[is_record],
    )


def _held(future: Futures) -> Floats:
    """Return the nodes held after each submission, less those held now, float64[n]."""
    count, (samples, jobs) = len(future.nodes), future.ends_s.shape
    sample = np.concatenate([future.sample, future.sample, np.repeat(np.arange(samples), jobs)])
    at_s = np.concatenate([future.after_s, future.after_s + future.run_s, future.ends_s.ravel()])
    change = np.concatenate([future.nodes, -future.nodes, -np.tile(future.held, samples)])
    order = np.lexsort((at_s, sample))
    held = np.empty(len(order))
    held[order] = change[order].cumsum()
    whole = np.bincount(sample, weights=change, minlength=samples)
    before: Floats = whole.cumsum() - whole
    return held[:count] - before[future.sample]
