"""The environments as Gymnasium knows them: one import registers all, and imports no simulator.

| id | who is trained | see |
|---|---|---|
| `hpcosim/JobNodePairing-v1` | who pairs jobs with nodes | `training.pairing.gymnasium_env` |
| `hpcosim/NodePower-v1` | who switches nodes on and off | `training.power.gymnasium_env` |

Either import this module first,

    import gymnasium
    import hpcosim_training.gymnasium_envs

    gymnasium.register_envs(hpcosim_training.gymnasium_envs)  # only for linters
    env = gymnasium.make("hpcosim/JobNodePairing-v1", scenario="scenarios/papers/ineps/exp1.yaml")

or have Gymnasium import it, which also works in a process that was not forked:

    env = gymnasium.make("hpcosim_training.gymnasium_envs:hpcosim/JobNodePairing-v1", ...)
    many = gymnasium.make_vec(
        "hpcosim_training.gymnasium_envs:hpcosim/JobNodePairing-v1", 4, "async", scenario=...
    )

Gymnasium loads no plugins by itself since 1.0, so one of the two is needed. The extra `rl` has
what this takes.
"""

from __future__ import annotations

import gymnasium

JOB_NODE_PAIRING = "hpcosim/JobNodePairing-v1"
NODE_POWER = "hpcosim/NodePower-v1"

_TRAINING = "hpcosim_training"

gymnasium.register(JOB_NODE_PAIRING, f"{_TRAINING}.pairing.gymnasium_env:JobNodePairingEnv")
gymnasium.register(NODE_POWER, f"{_TRAINING}.power.gymnasium_env:NodePowerEnv")
