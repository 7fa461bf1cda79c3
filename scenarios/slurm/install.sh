#!/usr/bin/env bash
# Installs Debian's packages slurm-wlm and munge if they are missing, only as root on Debian.
set -euo pipefail

has() { command -v "$1" >/dev/null; }
fail() {
  echo "a cluster of this host needs root, and slurm-wlm and munge: $1" >&2
  exit 1
}

[ "$(id -u)" = 0 ] || fail 'expected root, slurmd starts jobs as their users'
PATH=$PATH:/usr/sbin
has sbatch && has slurmctld && has slurmd && has munged && exit
has apt-get || fail 'they are missing, and can be installed only on Debian'
apt-get update -qq >/dev/null || fail 'apt-get update failed'
# The packages must not start daemons of their own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  slurm-wlm munge >/dev/null || fail 'apt-get install failed'
