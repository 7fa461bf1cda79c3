"""Laws of submissions of the benchmark `known_law`: the samples given the past."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from hpcosim_workloads.table import JobTable, job_table
from papers.power.predictive.workload_laws import SESSION_S, SeasonalLaw, SessionLaw, Submissions

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
SAMPLES = 20_000
SIGMAS = 4.0

Hits = NDArray[np.bool_]
Row = tuple[float, int, int, float]


def jobs(*rows: Row) -> JobTable:
    """Return jobs of time of submission, user, size and run time."""
    submit_s, user, cores, run_s = zip(*sorted(rows), strict=True)
    numbers = np.arange(len(rows))
    return job_table(job_id=numbers, submit_s=submit_s, user=user, cores=cores, run_s=run_s)


def sessions() -> list[Row]:
    """Return three weeks of two users who submit in sessions; user 1 waits for the jobs."""
    generator, rows = np.random.default_rng(7), []
    for day in range(21):
        for user, hour in ((1, 9), (2, 9 + day % 3), (1, 15)):
            at_s = (24 * day + hour + generator.random()) * HOUR_S
            cores = 1 + day % 2
            for _ in range(generator.integers(1, 1 + 4 * cores)):
                run_s = float(generator.choice([300.0, 3000.0]))
                rows.append((at_s, user, cores, run_s))
                at_s += (run_s if user == 1 else 0.0) + generator.exponential(800.0)
    return rows


def hits(drawn: Submissions, begin_s: float, end_s: float, samples: int = SAMPLES) -> Hits:
    """Return whether each sample has a submission after a time, up to another."""
    within = (drawn.at_s > begin_s) & (drawn.at_s <= end_s)
    return np.bincount(drawn.sample[within], minlength=samples) > 0


def check_same(drawn: Hits, share: float, known_from: float = np.inf) -> None:
    """Check the share of samples against a known one, or one of `known_from` other samples."""
    error = np.sqrt(max(share * (1.0 - share), 1e-4) * (1.0 / len(drawn) + 1.0 / known_from))
    assert abs(drawn.mean() - share) < SIGMAS * error


@pytest.mark.parametrize("user", [1, 2])
@pytest.mark.parametrize("cores", [1, 2])
def test_a_session_goes_on_as_after_jobs_of_the_size_in_the_log(user: int, cores: int) -> None:
    """In the evening no session begins; 20 min of silence leave the jobs with later successors."""
    log, evening_s, run_s, quiet_s = jobs(*sessions()), 20 * HOUR_S, 900.0, 1200.0
    past, now_s = jobs((evening_s, user, cores, run_s)), evening_s + quiet_s
    later = over = 0
    own = [job for job in sorted(sessions()) if job[1] == user]
    for job, successor in pairwise([*own, (np.inf, 0, 0, 0.0)]):
        gap_s = successor[0] - job[0]
        if job[2] == cores:
            over += gap_s > SESSION_S
            if gap_s <= SESSION_S:
                later += (gap_s - job[3] + run_s if gap_s >= job[3] else gap_s) > quiet_s
    law = SessionLaw(log, 0.0)
    drawn = law.continued(past, now_s, 4 * HOUR_S, SAMPLES, np.random.default_rng(1))
    drawn = Submissions(*(each[log.user[drawn.row] == user] for each in drawn))
    check_same(hits(drawn, now_s, np.inf), later / (later + over))


def test_silence_leaves_the_futures_without_a_submission() -> None:
    """Samples from 25 min ago in which user 1 was silent have the next hour of those of now."""
    log, then_s, now_s = jobs(*sessions()), 9.2 * HOUR_S, 9.2 * HOUR_S + 1500.0
    law, past = SessionLaw(log, 0.0), jobs((then_s, 1, 1, 300.0))
    generator, of_user = np.random.default_rng(1), []
    for from_s, horizon_s in ((then_s, 5100.0), (now_s, 3600.0)):
        drawn = law.continued(past, from_s, horizon_s, SAMPLES, generator)
        of_user.append(Submissions(*(each[log.user[drawn.row] == 1] for each in drawn)))
    silent = ~hits(of_user[0], then_s, now_s)
    expected = hits(of_user[0], now_s, now_s + 3600.0)[silent]
    check_same(hits(of_user[1], now_s, now_s + 3600.0), float(expected.mean()), len(expected))


@pytest.mark.parametrize(("before", "came"), [(1, 0), (1, 1), (0, 1)])
def test_a_seasonal_day_goes_on_as_the_days_that_began_alike(before: int, came: int) -> None:
    """Samples equal those generated Mondays that had as many jobs until 9:00 and until 9:40."""
    # 3.4 jobs on a Monday; 0.98 from 8 to 9, and 1.45, so that there are 1 or 2, from 9 to 10
    rows = [
        ((24 * day + hour) * HOUR_S, 1, 1, 60.0)
        for day in range(35)
        for hour in ((8, 9, 10), (8, 9, 9, 10))[day % 2]
    ]
    law = SeasonalLaw(jobs(*rows), 0.0)
    generator, weeks, now_s = np.random.default_rng(1), 10_000, 9 * HOUR_S + 2400.0
    many = law.generated(7 * weeks, generator)
    week, at_s = np.divmod(many.submit_s, WEEK_S)
    days = Submissions(week.astype(np.int64), at_s, np.zeros(len(many), dtype=np.int64))
    edges_s = ((0.0, 9 * HOUR_S - 1.0, before), (9 * HOUR_S - 1.0, now_s, came))
    alike = np.ones(weeks, dtype=np.bool_)
    for begin_s, end_s, count in edges_s:
        within = (at_s > begin_s) & (at_s <= end_s)
        alike &= np.bincount(days.sample[within], minlength=weeks) == count
    past_s = [8.5 * HOUR_S] * before + [9.1 * HOUR_S] * came
    past = jobs(*[(each, 1, 1, 60.0) for each in past_s])
    drawn = law.continued(past, now_s, 2 * HOUR_S, SAMPLES, generator)
    for end_s in (10 * HOUR_S - 1.0, 10.5 * HOUR_S):
        expected = hits(days, now_s, end_s, weeks)[alike]
        check_same(hits(drawn, now_s, end_s), float(expected.mean()), len(expected))


def test_a_law_goes_on_after_the_last_day() -> None:
    """The plan does not know when the jobs end, although a day without jobs is impossible."""
    law = SeasonalLaw(jobs(*[(3600.0 * hour, 1, 1, 60.0) for hour in range(8 * 24)]), 0.0)
    generator = np.random.default_rng(1)
    past, now_s = law.generated(3, generator), 3 * DAY_S + 12 * HOUR_S
    drawn = law.continued(past, now_s, HOUR_S, 100, generator)
    assert hits(drawn, now_s, now_s + HOUR_S, 100).all()
