"""Register the environments with Gymnasium. Importing this module does not import the simulator.

| id | decision |
|---|---|
| `hpcosim/BatchScheduling-v1` | choose the next job |
| `hpcosim/JobNodePairing-v1` | assign queued jobs to nodes |
| `hpcosim/NodePower-v1` | switch nodes on and off |
| `hpcosim/StepBinding-v1` | bind jobs to machines in whole steps |

An entry point of the group `hpcosim.environments` has the id without `hpcosim/` and the class of an
environment, one of `hpcosim.vector_environments` that of its vector environment.

Import this module before `gymnasium.make`:

    import gymnasium
    import hpcosim_gym.gymnasium_envs

    gymnasium.register_envs(hpcosim_gym.gymnasium_envs)  # only for linters
    env = gymnasium.make("hpcosim/JobNodePairing-v1", scenario="scenarios/papers/ineps/exp1.yaml")

or let Gymnasium import it. This form also works in spawned processes:

    env = gymnasium.make("hpcosim_gym.gymnasium_envs:hpcosim/JobNodePairing-v1", ...)
    envs = gymnasium.make_vec(
        "hpcosim_gym.gymnasium_envs:hpcosim/JobNodePairing-v1", 4, "async", scenario=...
    )

`hpcosim/StepBinding-v1` has its own vector environment, which steps all runs as arrays;
`hpcosim/BatchScheduling-v1`, `hpcosim/JobNodePairing-v1` and `hpcosim/NodePower-v1` have one on
the compiled engine:

    envs = gymnasium.make_vec("hpcosim/StepBinding-v1", 256, "vector_entry_point", scenario=...)

Gymnasium loads no plugins since 1.0, so one of the two imports is required. The extra `rl`
installs all dependencies.
"""

from __future__ import annotations

from importlib.metadata import entry_points

import gymnasium

BATCH_SCHEDULING = "hpcosim/BatchScheduling-v1"
JOB_NODE_PAIRING = "hpcosim/JobNodePairing-v1"
NODE_POWER = "hpcosim/NodePower-v1"
STEP_BINDING = "hpcosim/StepBinding-v1"


def _register() -> None:
    """Register the environments of all installed packages, by their entry points."""
    vectors = {
        point.name: point.value for point in entry_points(group="hpcosim.vector_environments")
    }
    for point in entry_points(group="hpcosim.environments"):
        vector = vectors.get(point.name)
        gymnasium.register(f"hpcosim/{point.name}", point.value, vector_entry_point=vector)


_register()
