"""Training agents, each kind in a package of its own. All but environments need the extra `rl`."""
