"""Programs of Slurm tell the bridge that something has changed.

* `notify.sh`: the program that PrologSlurmctld, jobcomp/script, SuspendProgram and ResumeProgram
  run. It writes a line to a FIFO and never waits.
* `bell`: the bridge's end of the FIFO.

A line says only that the bridge should look now. Polling finds what lost lines would have said.
"""

from hpcosim_slurm.hooks.bell import NOTIFY, Bell, Ring

__all__ = ["NOTIFY", "Bell", "Ring"]
