"""When will a waiting job start? The state of a cluster, simulated forward with drawn run times.

* `observation`: a live cluster at an instant with all that a forecast needs, as a file.
* `observer`: makes the observation of a live Slurm.
* `queue_state`: the jobs that wait and run at an instant, and the site's scheduler in its work.
* `forecast`: many simulations from that instant on, and the range of each job's start.
* `calibration`: ranges that are as wide as earlier forecasts should have been, and their score.
* `table`: forecasts as a table and as JSON.
"""
