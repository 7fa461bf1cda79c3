"""`python -m benchmarks [--smoke]`: run all, print the figures."""

from __future__ import annotations

import argparse

from benchmarks import (
    batsim,
    deep_eas,
    heterogeneous,
    in_process,
    memory,
    pairing,
    power,
    scaling,
    start,
    wire,
)
from hpcosim_cli.report import number

BENCHMARKS = {
    "start": start.run,
    "in process": in_process.run,
    "wire": wire.run,
    "scaling": scaling.run,
    "heterogeneous": heterogeneous.run,
    "power": power.run,
    "pairing": pairing.run,
    "deep-eas": deep_eas.run,
    "batsim": batsim.run,
    "memory": memory.run,
}


def main() -> None:
    """Run the benchmarks named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], default=[])
    parser.add_argument("--smoke", action="store_true", help="small: only shows that they run")
    arguments = parser.parse_args()
    for name in arguments.names or BENCHMARKS:
        print(name)
        for figure, value in BENCHMARKS[name](arguments.smoke).items():
            print(f"  {figure:56} {number(value):>14}", flush=True)


if __name__ == "__main__":
    main()
