#!/usr/bin/env bash
# Runs a command on a Slurm cluster of this host:
#
#     .ci/slurm.sh .venv/bin/python -m pytest tests/experiments/executors
#
# Debian's packages slurm-wlm and munge are installed if they are missing, only as root on Debian.
# scenarios/slurm/cluster.py starts the cluster, of one node with the CPUs of this host.
set -euo pipefail

[ $# != 0 ] || {
  echo 'slurm.sh: expected a command, such as: .ci/slurm.sh sinfo' >&2
  exit 1
}
slurm=$(dirname "$0")/../scenarios/slurm
"$slurm/install.sh"
exec python3 "$slurm/cluster.py" --nodes 1 --cpus "$(env -u OMP_NUM_THREADS nproc)" -- "$@"
