"""Reads a cluster from the output of Slurm's commands.

* `state`: jobs, nodes, partitions and reservations at an instant. `jobs`, `nodes`, `reservations`:
  their readers; `arrays`: tasks of job arrays; `records`: the records of scontrol; `values`:
  numbers, times and lists.
* `config`: the configuration. `rights`: what the user may do.
"""

from hpcosim_slurm.reading.config import ClusterConfig, read_config
from hpcosim_slurm.reading.rights import Mode, Rights, check_rights, read_rights
from hpcosim_slurm.reading.state import read_state

__all__ = [
    "ClusterConfig",
    "Mode",
    "Rights",
    "check_rights",
    "read_config",
    "read_rights",
    "read_state",
]
