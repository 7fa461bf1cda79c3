"""Batsim's formats and protocol: its inputs read, its outputs written, its schedulers served.

* `inputs`: platforms of SimGrid, workloads and external events.
* `bridge`: the simulation as a scheduler of Batsim sees it, message by message.
* `outputs`: the files that Batsim writes of a run.
* `run`: all of it together, `run_batsim`; `install`: an executable of the name `batsim`.
"""
