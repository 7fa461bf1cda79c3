"""Register the environments with Gymnasium. Importing this module does not import the simulator.

| id | decision | documentation |
|---|---|---|
| `hpcosim/BatchScheduling-v1` | choose the next job | `environments.batch_scheduling` |
| `hpcosim/JobNodePairing-v1` | assign queued jobs to nodes | `environments.job_node_pairing` |
| `hpcosim/NodePower-v1` | switch nodes on and off | `environments.node_power` |
| `hpcosim/StepBinding-v1` | bind jobs to machines in whole steps | `environments.step_binding` |

Import this module before `gymnasium.make`:

    import gymnasium
    import hpcosim_training.gymnasium_envs

    gymnasium.register_envs(hpcosim_training.gymnasium_envs)  # only for linters
    env = gymnasium.make("hpcosim/JobNodePairing-v1", scenario="scenarios/papers/ineps/exp1.yaml")

or let Gymnasium import it. This form also works in spawned processes:

    env = gymnasium.make("hpcosim_training.gymnasium_envs:hpcosim/JobNodePairing-v1", ...)
    envs = gymnasium.make_vec(
        "hpcosim_training.gymnasium_envs:hpcosim/JobNodePairing-v1", 4, "async", scenario=...
    )

`hpcosim/StepBinding-v1` has its own vector environment, which steps all runs as arrays, and
`hpcosim/BatchScheduling-v1` one that copies less than those of Gymnasium:

    envs = gymnasium.make_vec("hpcosim/StepBinding-v1", 256, "vector_entry_point", scenario=...)

Gymnasium loads no plugins since 1.0, so one of the two imports is required. The extra `rl`
installs all dependencies.
"""

from __future__ import annotations

import gymnasium

BATCH_SCHEDULING = "hpcosim/BatchScheduling-v1"
JOB_NODE_PAIRING = "hpcosim/JobNodePairing-v1"
NODE_POWER = "hpcosim/NodePower-v1"
STEP_BINDING = "hpcosim/StepBinding-v1"

_HERE = "hpcosim_training.environments"

gymnasium.register(
    BATCH_SCHEDULING,
    f"{_HERE}.batch_scheduling:BatchSchedulingEnv",
    vector_entry_point=f"{_HERE}.batch_vector:BatchSchedulingVectorEnv",
)
gymnasium.register(JOB_NODE_PAIRING, f"{_HERE}.job_node_pairing:JobNodePairingEnv")
gymnasium.register(NODE_POWER, f"{_HERE}.node_power:NodePowerEnv")
gymnasium.register(
    STEP_BINDING,
    f"{_HERE}.step_binding:StepBindingEnv",
    vector_entry_point=f"{_HERE}.step_binding:StepBindingVectorEnv",
)
