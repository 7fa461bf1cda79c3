"""Usage, fair-share and priorities against the recorded runs of a real Slurm 22.05."""

import pytest

from support.golden_priority import GOLDEN, RecordedRun

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not GOLDEN.is_dir(), reason="needs ../shared/golden/slurm"),
]


@pytest.mark.parametrize("run", ["run1", "run2"])
def test_fair_tree_ranks_users_as_sshare_shows(run: str) -> None:
    """Every fair-share factor of every call of sshare is ours."""
    recorded = RecordedRun(run)
    calls = [(at_s, rows) for at_s, rows in recorded.shares() if at_s >= 0]
    compared = 0
    states = recorded.play([at_s for at_s, _ in calls])
    for (_, _, priorities), (_, rows) in zip(states, calls, strict=True):
        nodes = priorities.charges.associations.nodes
        for node, factor in zip(nodes, priorities.charges.fair_share(), strict=True):
            if node.user is not None:
                assert float(rows[node.user][5]) == pytest.approx(float(factor), abs=1e-6)
                compared += 1
    assert compared == 7 * {"run1": 49, "run2": 11}[run]


@pytest.mark.parametrize("run", ["run1", "run2"])
def test_decayed_usage_is_that_of_sshare(run: str) -> None:
    """The raw usage of users and accounts differs by at most one second of the largest job."""
    recorded = RecordedRun(run)
    calls = [(at_s, rows) for at_s, rows in recorded.shares() if at_s >= 0]
    differences = []
    states = recorded.play([at_s for at_s, _ in calls])
    for (_, _, priorities), (_, rows) in zip(states, calls, strict=True):
        charges = priorities.charges
        for node, row in zip(charges.associations.nodes, charges.rows, strict=True):
            if node.account != "root":
                name = node.user or node.account
                ours = int(charges.usage.amounts[row, 0])
                differences.append(abs(ours - int(rows[name][2])))
    equal = sum(difference == 0 for difference in differences)
    assert equal >= 0.65 * len(differences)
    assert sorted(differences)[int(0.97 * len(differences))] <= 96


@pytest.mark.parametrize("run", ["run1", "run2"])
def test_priorities_are_those_of_sprio(run: str) -> None:
    """Priority, age, fair-share and job size agree to the integer in 99.9 % of sprio's rows."""
    recorded = RecordedRun(run)
    calls = [(at_s, rows) for at_s, rows in recorded.priorities() if at_s >= 0][::3]
    compared = equal = 0
    states = recorded.play([at_s for at_s, _ in calls])
    for (_, view, priorities), (_, rows) in zip(states, calls, strict=True):
        calculated_s = priorities.charges.usage.last_s
        for job_id in rows.keys() & set(view.queue):
            job = view.queue[job_id]
            factors = priorities.factors(job, calculated_s)
            shown = (factors.age, factors.fair_share, factors.job_size)
            compared += 1
            equal += (priorities.priority(job), *map(round, shown)) == rows[job_id]
    assert compared > 13_000
    assert equal >= 0.999 * compared
