"""The configuration of a Slurm cluster as a scenario.

statements    lines of slurm.conf, gres.conf and topology.conf, and the values in them
nodes         node groups, partitions and switches
power_saving  settings of the power manager, and power states of the nodes
reservations  nodes reserved in `scontrol show reservation`
scheduling    settings of the scheduler: priorities, main and backfill scheduler, preemption
accounts      accounts and users of `sacctmgr dump`, and QOS of `sacctmgr show qos`
convert       all of it to one file
"""
