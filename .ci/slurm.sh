#!/usr/bin/env bash
# Runs a command on a Slurm cluster of this host, without accounting:
#
#     .ci/slurm.sh .venv/bin/python -m pytest tests/executors
#
# Debian's packages slurm-wlm and munge are installed if they are missing, only as root on Debian.
# Configuration, state and logs are in a temporary folder; the daemons stop with the command. If the
# cluster cannot start, the script fails and shows why. Needs root: slurmd starts jobs as their user.
set -euo pipefail
STARTED_S=30

has() { command -v "$1" >/dev/null; }
fail() {
  echo "slurm.sh: $1" >&2
  exit 1
}

[ $# != 0 ] || fail 'expected a command, such as: .ci/slurm.sh sinfo'
[ "$(id -u)" = 0 ] || fail 'slurmd needs root'
PATH=$PATH:/usr/sbin
if ! { has sbatch && has slurmctld && has slurmd && has munged; }; then
  has apt-get || fail 'missing slurm-wlm and munge; only on Debian can they be installed'
  apt-get update -qq >/dev/null
  # The packages must not start daemons of their own.
  RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurm-wlm munge >/dev/null
fi

folder=$(mktemp -d /tmp/slurm-XXXXXX)
chmod 755 "$folder"
daemons=()
stop() {
  for ((at = ${#daemons[@]} - 1; at >= 0; at--)); do
    kill "${daemons[at]}" 2>/dev/null && wait "${daemons[at]}" 2>/dev/null || true
  done
  rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

free_port() {
  python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

host=$(hostname -s)
export SLURM_CONF=$folder/slurm.conf
mkdir -m 700 "$folder/state" "$folder/spool" "$folder/key"
cat >"$SLURM_CONF" <<CONF
ClusterName=hpcosim
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
# Containers have no cgroups to write to.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=0
ReturnToService=2
KillWait=2
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
head -c 1024 /dev/urandom >"$folder/key/munge.key"
chmod 400 "$folder/key/munge.key"

munged --foreground --force --key-file "$folder/key/munge.key" --socket "$folder/munge.socket" \
  --pid-file "$folder/key/munged.pid" --log-file "$folder/munged.log" \
  --seed-file "$folder/key/munged.seed" >"$folder/munged.out" 2>&1 &
daemons+=($!)
slurmctld -D -L "$folder/slurmctld.log" >"$folder/slurmctld.out" 2>&1 &
daemons+=($!)
slurmd -D -N "$host" -L "$folder/slurmd.log" >"$folder/slurmd.out" 2>&1 &
daemons+=($!)

SECONDS=0
until [ "$(sinfo --noheader --format=%T 2>/dev/null)" = idle ]; do
  if [ "$SECONDS" -gt "$STARTED_S" ]; then
    tail -n 5 "$folder"/*.log "$folder"/*.out >&2
    fail "the cluster is not ready after $STARTED_S s"
  fi
  sleep 0.2
done
"$@"
