"""Batsim compatibility: input formats, scheduler protocol and output files of Batsim 4.2.1.

* `inputs`: readers of SimGrid platforms, workloads and external events.
* `network`, `fair_bottleneck`: routes between hosts, and the rates of tasks that share them.
* `bridge`: the simulation behind Batsim's protocol, message by message.
* `results`, `csv_files`: the result of a run, and Batsim's output files.
* `run`: a whole run, `run_batsim`; `install`: writes an executable named `batsim`.
"""
