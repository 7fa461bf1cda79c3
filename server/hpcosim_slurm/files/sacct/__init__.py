"""Job records of Slurm's accounting, as `sacct -P` prints them.

records      one record: a job, a step, or one run of a requeued job
history      the records of each job
submit_line  options of `sbatch` that the accounting does not store
job_lines    a job as a line of hpcosim's workload format
convert      a file of records to a file of jobs and a file of recorded runs
"""
