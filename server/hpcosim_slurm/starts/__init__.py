"""When will a waiting job start? The state of a cluster, simulated forward with drawn run times.

* `observation`: a live cluster at an instant with all that a forecast needs, as a file.
* `watching`: the observation of a live Slurm; `commands`: what its commands say.
* `adopting`: an observation as a state; `state`: the jobs that wait and run at an instant.
* `run_times`: run times drawn from what users' jobs did before.
* `submissions`: jobs that will be submitted, drawn from what was submitted before.
* `phases`: the site's scheduler in the middle of its periodic work.
* `forward`: one simulation from that instant on.
* `forecast`: many of them, and the range of each job's start.
* `calibration`: ranges that are as wide as earlier forecasts should have been.
* `score`: how good forecasts were.
"""
