"""Properties of all synthetic workloads: seeds, numbers and columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from hpcosim_workloads.synthetic.bernoulli import bernoulli
from hpcosim_workloads.synthetic.imitation import sampled, seasonal
from hpcosim_workloads.synthetic.lublin import lublin, poisson
from hpcosim_workloads.table import COLUMNS, JobTable

Draw = Callable[[np.random.Generator], JobTable]


def draw_poisson(rng: np.random.Generator) -> JobTable:
    """Draw 500 jobs in about two and a half weeks."""
    how = {"mean_interarrival_s": 3000.0, "overestimate": 4.0}
    return poisson(rng, jobs=500, cores=(1, 64), run_s=(60.0, 36_000.0), **how)


def draw_bernoulli(rng: np.random.Generator) -> JobTable:
    """Draw nine sequences."""
    return bernoulli(
        rng,
        arrival_probability=0.7,
        short_probability=0.5,
        short_run_s=(1, 3),
        long_run_s=(10, 15),
        cores=(1, 10),
        accuracy=4.0,
        slowdown=1.0,
        steps=60,
        sequences=9,
        apart_s=2000.0,
    )


LOG = draw_poisson(np.random.default_rng(1))
DRAWS: dict[str, Draw] = {
    "poisson": draw_poisson,
    "bernoulli": draw_bernoulli,
    "lublin": lambda rng: lublin(rng, jobs=500, processors=128),
    "sampled": lambda rng: sampled(rng, LOG, jobs=100),
    "seasonal": lambda rng: seasonal(rng, LOG, days=20),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_a_seed_draws_one_table(draw: Draw) -> None:
    """Equal seeds give equal tables; another seed changes every drawn column."""
    one, again, other = (
        {name: getattr(table, name).tobytes() for name in COLUMNS}
        for table in (draw(np.random.default_rng(seed)) for seed in (7, 7, 8))
    )
    assert one == again
    assert all(one[name] != other[name] for name in ("submit_s", "run_s", "requested_s", "cores"))


@pytest.mark.parametrize("draw", DRAWS.values(), ids=list(DRAWS))
def test_jobs_are_numbered_from_one_in_order_of_submission(draw: Draw) -> None:
    """Columns have the types of a job table; times are whole seconds and never decrease."""
    table = draw(np.random.default_rng(3))
    assert table.job_id.tolist() == list(range(1, len(table) + 1))
    assert (np.diff(table.submit_s) >= 0).all()
    assert (table.submit_s % 1 == 0).all()
    for name, (kind, _) in COLUMNS.items():
        column = getattr(table, name)
        assert (column.dtype, column.shape) == (np.dtype(kind), (len(table),)), name
