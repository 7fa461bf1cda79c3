"""Batsim compatibility: input formats, scheduler protocol and output files of Batsim 4.2.1.

* `inputs`: readers of SimGrid platforms, workloads and external events.
* `bridge`: the simulation behind Batsim's protocol, message by message.
* `outputs`: writers of Batsim's output files.
* `run`: a whole run, `run_batsim`; `install`: writes an executable named `batsim`.
"""
