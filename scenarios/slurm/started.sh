#!/bin/sh
# PrologSlurmctld. Slurm would requeue the job if it failed.
@notify started "$SLURM_JOB_ID"
# A job whose nodes boot starts as soon as its prolog ends after the boot. If the prolog ends before,
# Slurm looks again only every 30 s.
SLURM_CONF=@folder/slurm.conf
export SLURM_CONF
tries=0
while [ $tries -lt 100 ] &&
  @scontrol --oneliner show node "$SLURM_JOB_NODELIST" | grep -Eq 'State=[^ ]*(POWERED_DOWN|POWERING_UP|POWER_UP)'; do
  sleep 0.2
  tries=$((tries + 1))
done
exit 0
