"""Accounting of workload managers, as records of jobs.

* `record`: a job, or one run of a job, as every manager's accounting states it.
* `pbs`, `lsf`, `grid_engine`, `oar`: readers. Each takes the lines of files and yields records;
  what it drops, guesses or does not translate goes into a `Report`.

Slurm's accounting is read by `hpcosim_slurm.files.sacct_records`, which yields the same records;
`hpcosim_slurm.files.record_jobs` makes jobs of them.
"""
