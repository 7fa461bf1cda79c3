#!/bin/sh
# SuspendProgram: ends the daemons of the nodes $1, such as node[0-3].
SLURM_CONF=@folder/slurm.conf
export SLURM_CONF
for node in $(@scontrol show hostnames "$1"); do
  kill "$(cat "@folder/slurmd-$node.pid")"
done
@notify suspend "$1"
