"""Scores forecasts of starts on a real Slurm of this host.

`PYTHONPATH=tests python -m benchmarks.slurm_forecasts_live` prints the second table of
scenarios/papers/power/forecasts.md. It needs root and Slurm, and takes three minutes.
"""

from __future__ import annotations

from hpcosim_twin.answers.calibration import score_of
from support.live_forecasts import (
    forecast,
    forecasted,
    planning_cluster,
    submit_jobs,
    wait_for_ends,
)

BATCHES = 4
ENDED = (0, 2, 4, 6)
"""Numbers of ended jobs of a batch after which a forecast is made."""


def main() -> None:
    """Print the table."""
    print("| batch of jobs | forecasts | median error | of `squeue --start` | 10-90 % covers |")
    print("|---|---|---|---|---|")
    with planning_cluster() as cluster:
        for batch in range(1, BATCHES + 1):
            jobs = submit_jobs(cluster)
            made = []
            for count in ENDED:
                wait_for_ends(cluster, jobs, count)
                made.append(forecast(cluster))
            wait_for_ends(cluster, jobs, len(jobs))
            score = score_of(row for each in made for row in forecasted(cluster, each))
            print(
                f"| {batch} | {score.forecasts} | {score.compared_error_s:.1f} s | "
                f"{score.slurm_error_s:.1f} s | {score.coverage:.0%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
