"""The configuration of a Slurm cluster as a scenario.

statements  lines of slurm.conf, gres.conf and topology.conf
values      values of a scenario from texts of the configuration
nodes       node groups
partitions  partitions
power_saving  settings of the power manager, and power states of the nodes
reservations  nodes reserved in `scontrol show reservation`
scheduling  settings of the scheduler: priorities, main and backfill scheduler, preemption
accounts    accounts and users of `sacctmgr dump`, and QOS of `sacctmgr show qos`
failures    nodes that are down or drained
qos_names   QOS that accounts and partitions name
other       settings without effect on a simulation
convert     all of it to one file
"""
