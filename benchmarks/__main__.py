"""Run the benchmarks and print their figures."""

from __future__ import annotations

import argparse

from benchmarks import (
    batch,
    batsim,
    compiled,
    deep_eas,
    executors,
    experiments,
    forecast,
    forecast_ranges,
    forms,
    futures,
    heterogeneous,
    in_process,
    journal,
    library,
    live,
    memory,
    pairing,
    power,
    results,
    scaling,
    service,
    snf_icon,
    start,
    viewer,
    wire,
)
from hpcosim.cli.printing import number

BENCHMARKS = {
    "start": start.run,
    "in process": in_process.run,
    "compiled": compiled.run,
    "library": library.run,
    "forms": forms.run,
    "wire": wire.run,
    "journal": journal.run,
    "service": service.run,
    "scaling": scaling.run,
    "heterogeneous": heterogeneous.run,
    "power": power.run,
    "snf-icon": snf_icon.run,
    "pairing": pairing.run,
    "batch": batch.run,
    "deep-eas": deep_eas.run,
    "batsim": batsim.run,
    "memory": memory.run,
    "results": results.run,
    "executors": executors.run,
    "experiments": experiments.run,
    "forecast": forecast.run,
    "futures": futures.run,
    "forecast ranges": forecast_ranges.run,
    "viewer": viewer.run,
    "live": live.run,
}


def main() -> None:
    """Run the benchmarks of the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        choices=[[], *BENCHMARKS],
        default=[],
        help=f"benchmark to run, one of {', '.join(map(repr, BENCHMARKS))}; default: all",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="run small cases, as a test that the benchmarks work"
    )
    arguments = parser.parse_args()
    for name in arguments.names or BENCHMARKS:
        print(name)
        for figure, value in BENCHMARKS[name](arguments.smoke).items():
            print(f"  {figure:56} {number(value):>14}", flush=True)


if __name__ == "__main__":
    main()
