"""The compiled policy `slurm`.

`tables` makes its `state` with the reference policy, and `policy` has its call: when something is
due (`timers`), passes of the main and the backfill scheduler (`passes`), the choice of nodes
(`places`), usage and fair-share (`charges`), and limits (`limits`).
"""
