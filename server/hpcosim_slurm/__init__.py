"""A live Slurm cluster behind the hpcosim protocol: the schedulers of simulations drive it.

* `state`: a cluster at an instant.
* `tools`: runs Slurm's commands. `reading`, `config`: their output. `texts`: values in it.
* `commands`: actions on the cluster. `hooks`: Slurm's programs tell of changes.
* `checks`: what a mode needs; only one bridge acts on a partition.
* `worlds`: what a scheduler sees, and what its decisions do: a shadow, or the cluster itself.
* `journal`: what happened. `bridge`: the server's side of the protocol.
* `report`: what the scheduler would have done beside what Slurm did.
* `files`: files of workload managers as scenarios. `starts`: forecasts of starts.
"""
