"""Train agents: environments, learning algorithms, and a learner for each problem.

Everything except `environments` and `gymnasium_envs` needs torch, the extra `rl`.
"""
