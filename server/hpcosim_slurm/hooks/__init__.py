"""Programs of Slurm tell the bridge that something has changed.

* `notify.sh`: the program that PrologSlurmctld, jobcomp/script, SuspendProgram and ResumeProgram
  run. It writes a line to a FIFO and never waits.
* `bell`: the bridge's end of the FIFO.
* `heard`: adds what the lines say to the state of the cluster.

A line says that the bridge should look now, and whether a run ended because a node failed. Polling
finds what lost lines would have said, except this cause.
"""

from hpcosim_slurm.hooks.bell import NOTIFY, Bell, Ring

__all__ = ["NOTIFY", "Bell", "Ring"]
