#!/bin/sh
# ResumeProgram: starts the daemons of the nodes $1, such as node[0-3]. slurmctld blocks SIGTERM in
# its programs. Without -b Slurm takes the node for one that has not booted. Without -D the daemon
# has no log, and launches no job. Slurm counts in whole seconds: a daemon that starts in the second
# of the order may seem to have booted before it, and Slurm then still waits for its boot.
SLURM_CONF=@folder/slurm.conf
export SLURM_CONF
sleep 1
for node in $(@scontrol show hostnames "$1"); do
  setsid env --default-signal @slurmd -D -b -N "$node" </dev/null >>"@folder/log/slurmd.out" 2>&1 &
done
@notify resume "$1"
