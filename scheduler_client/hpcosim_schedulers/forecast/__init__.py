"""Forecasts of submissions, run times and releases, learned online.

All models are causal: they are told of events in the order in which a scheduler learns of them, and
asked about the future. They are deterministic; samples come from a generator that the caller
passes. Times are seconds on the caller's clock and never decrease. They need no data in advance:
without history they answer with wide distributions.

* `Arrivals`: `submitted(now_s, user, size, requested_s)` for each submission, and `ended(now_s,
  user, run_s)` for each job that ends, which makes submissions of its user likely;
  `expected(now_s, horizons_s)` returns the expected number and size of the submissions up to each
  horizon; `scenarios(now_s, horizon_s, samples, generator)` returns samples of submissions with
  time, size, requested time and user. Both take the ends of the running jobs as
  `RunningJobs`. A program that knows no ends leaves them out.
* `RunTimes`: `ended(user, group, requested_s, size, run_s)` for each job that ends;
  `distribution(user, group, requested_s, size)` returns a `TimeDistribution`, whose `after`,
  `quantiles`, `mean_s`, `probability` and `drawn_s` answer for waiting and running jobs.
* `Releases`: `started(job_id, start_s, size, run_time)` and `ended(job_id)`; `expected(now_s,
  at_s)` returns the expected size that running jobs release until each time, `drawn_released`
  samples of it, `drawn_ends_s` samples of the end of each job.
* `ViewForecast`: the three of them, fed from the `View` of a policy by `update(view)`;
  `drawn_ends(now_s, samples, generator)` returns samples of `RunningJobs`.

A size is a number of cores or of nodes, whichever the caller counts.

A power manager that keeps nodes on for the expected demand of the next half hour:

    forecast = ViewForecast()

    def manage(view):
        forecast.update(view)
        demand = forecast.arrivals.expected(view.now_s, [1800.0]).size[0]
        released = forecast.releases.expected(view.now_s, np.array([view.now_s + 1800.0]))[0]
        ...
"""

from __future__ import annotations

from hpcosim_schedulers.forecast.arrivals import Arrivals as Arrivals
from hpcosim_schedulers.forecast.arrivals import ArrivalScenarios as ArrivalScenarios
from hpcosim_schedulers.forecast.arrivals import ExpectedArrivals as ExpectedArrivals
from hpcosim_schedulers.forecast.arrivals import RunningJobs as RunningJobs
from hpcosim_schedulers.forecast.releases import Releases as Releases
from hpcosim_schedulers.forecast.releases import ViewForecast as ViewForecast
from hpcosim_schedulers.forecast.run_times import RunTimes as RunTimes
from hpcosim_schedulers.forecast.run_times import TimeDistribution as TimeDistribution

__all__ = [
    "ArrivalScenarios",
    "Arrivals",
    "ExpectedArrivals",
    "Releases",
    "RunTimes",
    "RunningJobs",
    "TimeDistribution",
    "ViewForecast",
]
