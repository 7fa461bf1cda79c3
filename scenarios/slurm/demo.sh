#!/usr/bin/env bash
# Lets EASY backfilling watch, then drive a Slurm cluster of this host: 20 jobs of seconds, twice.
#
#     scenarios/slurm/demo.sh PYTHON FOLDER
set -euo pipefail

python=$1 out=$2
here=$(dirname "$0")
"$here/install.sh"
for mode in shadow place; do
  python3 "$here/cluster.py" --for "$mode" -- \
    "$python" "$here/run_jobs.py" --mode "$mode" --out "$out/$mode"
done
"$python" "$here/against_reality.py" "$out/place/journal.jsonl" --out "$out/place"
